"""The metadata that the server sets or checks: identity, times, versions.

The functions change documents in place and do no I/O. The rules follow k8s.io/apiserver (rest.BeforeCreate,
rest.BeforeUpdate, ValidateObjectMetaUpdate). `muster.api.validation.metadata` validates the format of names and labels.
"""

import math
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from muster.api.kinds import Kind
from muster.api.status import INVALID, ApiError, FieldError, bad_request, conflict, invalid
from muster.cluster.apiserver.decode import Document

SUFFIX_LENGTH = 5  # the random characters of a generated name
MAX_PREFIX_LENGTH = 63 - SUFFIX_LENGTH  # the most characters of generateName that a generated name keeps

# The fields that only a deletion sets and no write removes.
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")
# The fields that clients may change.
_CHANGEABLE = ("labels", "annotations", "ownerReferences", "finalizers")


def format_timestamp(moment: datetime) -> str:
    """Return a time in the format of the API: whole seconds, UTC."""
    return _format_seconds(math.floor(moment.timestamp()))


@lru_cache(maxsize=64)  # many objects are written within a second
def _format_seconds(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat(timespec="seconds")[:19] + "Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def meta_of(document: Document) -> dict[str, Any]:
    """Return the metadata of an object. If the object has none, add empty metadata."""
    meta: dict[str, Any] = document.setdefault("metadata", {})
    return meta


def check_name(document: Document, name: str, namespace: str) -> None:
    """Check that a written object has the name and namespace of the URL; set the namespace if it is missing.

    Raises `ApiError` (400) if the name is missing, or if the name or namespace differs from the URL.
    """
    meta = meta_of(document)
    own = meta.get("name")
    if not own:
        raise bad_request(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if own != name:
        raise bad_request(f"the name of the object ({own}) does not match the name on the URL ({name})")
    set_namespace(meta, namespace)


def check_uid(document: Document, stored: Document, kind: Kind[Any]) -> None:
    """Raise `ApiError` (422) if a patched object has another UID: the patch was made for another object."""
    uid, old = meta_of(document).get("uid"), meta_of(stored)
    if uid and uid != old["uid"]:
        error = FieldError("metadata.uid", INVALID, uid[:100], "field is immutable")
        raise invalid(kind.kind, kind.group, old["name"], [error])


def set_namespace(meta: dict[str, Any], namespace: str) -> None:
    """Set the namespace of the URL in the metadata, or remove the namespace of a cluster-scoped object.

    Raises `ApiError` (400) if the object names another namespace.

    namespace: "" for a cluster-scoped object.
    """
    own = meta.get("namespace")
    if not namespace:
        meta.pop("namespace", None)
    elif own and own != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    else:
        meta["namespace"] = namespace


def reset_metadata(document: Document, *, name: str, uid: str, now: datetime, generation: bool) -> None:
    """Replace the metadata of a new object by fresh metadata, in place.

    Of the client's metadata, only generateName, the namespace and the fields that clients may change stay.

    name: the name of the object, which may be generated.
    generation: whether to set the generation, to 1.
    """
    given = meta_of(document)
    meta: dict[str, Any] = {"name": name}
    for field in ("generateName", "namespace"):
        if given.get(field):
            meta[field] = given[field]
    meta["uid"] = uid
    meta["resourceVersion"] = ""  # reserves the position of the field; the write sets the value
    if generation:
        meta["generation"] = 1
    meta["creationTimestamp"] = format_timestamp(now)
    for field in _CHANGEABLE:
        if given.get(field):
            meta[field] = given[field]
    document["metadata"] = meta


def check_unversioned(document: Document) -> None:
    """Raise `ApiError` (400) if an object to create has a resource version other than "0"."""
    if meta_of(document).get("resourceVersion") not in (None, "", "0"):
        raise bad_request("resourceVersion should not be set on objects to be created")


def check_version(document: Document, stored: Document, resource: str, *, unconditional: bool) -> None:
    """Check that an object has the UID and resource version of the stored object that it replaces.

    Raises `ApiError`: 409 for another UID or version, 422 for an invalid version, or for none unless `unconditional`.

    resource: the name of the resource in messages, such as `jobs.batch`.
    unconditional: whether the resource version may be missing or "0".
    """
    meta, old = meta_of(document), meta_of(stored)
    name = old["name"]
    if meta.get("uid") and meta["uid"] != old["uid"]:
        message = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old['uid']}"
        raise conflict(resource, name, message)
    version = meta.get("resourceVersion") or ""
    if version in ("", "0"):
        if not unconditional:
            raise _make_unversioned_error(resource, name)
    elif not (version.isascii() and version.isdigit()):
        raise _make_unparsed_version_error(resource, name, version)
    elif version != old["resourceVersion"]:
        raise conflict(resource, name)


def _make_unversioned_error(resource: str, name: str) -> ApiError:
    return _make_version_error(resource, name, FieldError("metadata.resourceVersion", INVALID, 0, _MUST_BE_SPECIFIED))


_MUST_BE_SPECIFIED = "must be specified for an update"


def _make_unparsed_version_error(resource: str, name: str, version: str) -> ApiError:
    detail = f'strconv.ParseUint: parsing "{version[:100]}": invalid syntax'
    return _make_version_error(resource, name, FieldError("metadata.resourceVersion", INVALID, version[:100], detail))


def _make_version_error(resource: str, name: str, error: FieldError) -> ApiError:
    plural, _, group = resource.partition(".")
    return invalid(plural, group, name, [error])


def carry_over(document: Document, stored: Document) -> None:
    """Copy the metadata that no update may change from the stored object to the changed one, in place.

    The deletion fields that a client sends keep the client's value, so that validation can refuse a change.
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
