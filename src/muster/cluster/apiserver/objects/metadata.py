"""The part of an object that is the server's: identity, times, versions. Pure; documents are changed in place.

The rules are those of k8s.io/apiserver (rest.BeforeCreate, rest.BeforeUpdate, ValidateObjectMetaUpdate).
"""

from datetime import UTC, datetime
from typing import Any

from muster.api.kinds import Kind
from muster.api.status import INVALID, ApiError, FieldError, bad_request, conflict, invalid
from muster.cluster.apiserver.decode import Document

SUFFIX_LENGTH = 5  # of a generated name
MAX_PREFIX_LENGTH = 63 - SUFFIX_LENGTH  # what is left of generateName

# What only deletion sets and no write takes away.
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
# What clients may change.
_CHANGEABLE = ("labels", "annotations", "ownerReferences", "finalizers")


def timestamp(moment: datetime) -> str:
    """A time as objects carry it: whole seconds, UTC."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")[:19] + "Z"


def meta_of(document: Document) -> dict[str, Any]:
    """The object's metadata, made if it has none."""
    meta: dict[str, Any] = document.setdefault("metadata", {})
    return meta


def check_name(document: Document, name: str, namespace: str) -> None:
    """Raise `ApiError` (400) unless a written object is the one that the URL names; sets what it leaves out."""
    meta = meta_of(document)
    own = meta.get("name")
    if not own:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
    set_namespace(meta, namespace)


def check_uid(document: Document, stored: Document, kind: Kind[Any]) -> None:
    """Raise `ApiError` (422) if a patch gives the object the uid of another one: it was made for that one."""
    uid, old = meta_of(document).get("uid"), meta_of(stored)
    if uid and uid != old["uid"]:
        error = FieldError("metadata.uid", INVALID, uid[:100], "field is immutable")
        raise invalid(kind.kind, kind.group, old["name"], [error])


def set_namespace(meta: dict[str, Any], namespace: str) -> None:
    """The object is in the namespace of the URL. Raises `ApiError` (400) if it says that it is in another."""
    own = meta.get("namespace")
    if not namespace:
        meta.pop("namespace", None)
    elif own and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta["namespace"] = namespace


def begin(document: Document, *, name: str, uid: str, now: datetime, generation: bool) -> None:
    """Make the metadata of a new object, in place; whatever of it the client has set is forgotten."""
    given = meta_of(document)
    meta: dict[str, Any] = {"name": name}
    for field in ("generateName", "namespace"):
        if given.get(field):
            meta[field] = given[field]
    meta["uid"] = uid
    meta["resourceVersion"] = ""  # keeps its place
    if generation:
        meta["generation"] = 1
    meta["creationTimestamp"] = timestamp(now)
    for field in _CHANGEABLE:
        if given.get(field):
            meta[field] = given[field]
    document["metadata"] = meta


def check_unversioned(document: Document) -> None:
    """Raise `ApiError` (400) if an object that is to be created has a version already."""
    if meta_of(document).get("resourceVersion") not in (None, "", "0"):
        raise bad_request("resourceVersion should not be set on objects to be created")


def check_version(document: Document, stored: Document, resource: str, *, unconditional: bool) -> None:
    """Raise `ApiError` unless the object may replace the stored one: 409 for another uid or version, 422 for none."""
    meta, old = meta_of(document), meta_of(stored)
    name = old["name"]
    if meta.get("uid") and meta["uid"] != old["uid"]:
        message = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}"
        raise conflict(resource, name, message)
    version = meta.get("resourceVersion") or ""
    if version in ("", "0"):
        if not unconditional:
            raise _unversioned(resource, name)
    elif not (version.isascii() and version.isdigit()):
        raise _bad_version(resource, name, version)
    elif version != old["resourceVersion"]:
        raise conflict(resource, name)


def _unversioned(resource: str, name: str) -> ApiError:
    return _invalid_version(resource, name, FieldError("metadata.resourceVersion", INVALID, 0, _MUST_BE_SPECIFIED))


_MUST_BE_SPECIFIED = "must be specified for an update"


def _bad_version(resource: str, name: str, version: str) -> ApiError:
    detail = f'strconv.ParseUint: parsing "{version[:100]}": invalid syntax'
    return _invalid_version(resource, name, FieldError("metadata.resourceVersion", INVALID, version[:100], detail))


def _invalid_version(resource: str, name: str, error: FieldError) -> ApiError:
    plural, _, group = resource.partition(".")
    return invalid(plural, group, name, [error])


def carry_over(document: Document, stored: Document) -> None:
    """Give a changed object what no change sets, in place. What deletion has set may be repeated, not changed;
    validation looks after that.
    """
    given, old = meta_of(document), meta_of(stored)
    meta = {field: value for field, value in old.items() if field not in _CHANGEABLE}
    for field in _DELETION:
        if field in given:
            meta[field] = given[field]
    for field in _CHANGEABLE:
        if given.get(field):
            meta[field] = given[field]
    document["metadata"] = meta
