"""Read from any object the parts that the runtime needs: its metadata, its key and its revision.

A key is `namespace/name`, or `name` for cluster-wide objects. Caches are indexed by keys and queues contain them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, controller_of
from muster.runtime.control.lanes import Lane

if TYPE_CHECKING:
    from muster.api.core import ObjectReference

Revision: TypeAlias = tuple[int, str]
"""A resource version that can be compared with others of its resource: the greater is the newer."""
NO_REVISION: Revision = (0, "")

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def meta_of(obj: Any) -> ObjectMeta:
    """Return the metadata of a typed view or of a plain JSON object."""
    if isinstance(obj, dict):
        return msgspec.convert(obj.get("metadata") or {}, ObjectMeta)
    meta: ObjectMeta = obj.metadata
    return meta


def key_of(obj: Any) -> str:
    """Return `namespace/name`, or `name` for a cluster-wide object."""
    meta = meta_of(obj)
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


def owner_key(namespace: str, uid: str) -> str:
    """Return the key by which an index finds the objects that the owner with this UID owns.

    The namespace is part of the key, because any user may name a UID of another namespace as owner.
    """
    return f"{namespace}/{uid}"


def own_key(meta: ObjectMeta) -> str:
    """Return the key by which an index finds the objects whose owner is this object."""
    return owner_key(meta.namespace, meta.uid)


def is_same_but_status(old: Any, new: Any) -> bool:
    """Return whether two states of an object share the spec and the metadata that users write.

    Then only the status and the versions can differ. False for states that are equal without sharing these parts.
    """
    before, after = meta_of(old), meta_of(new)
    return (
        before.labels is after.labels
        and before.annotations is after.annotations
        and before.owner_references is after.owner_references
        and before.finalizers is after.finalizers
        and before.uid == after.uid
        and before.deletion_timestamp == after.deletion_timestamp
        and getattr(old, "spec", old) is getattr(new, "spec", new)
    )


def ignores_status(function: F) -> F:
    """Mark a function of an object that reads neither the status nor the versions.

    Its result is the same for two states for which `is_same_but_status` returns True.
    """
    function.ignores_status = True  # type: ignore[attr-defined]
    return function


def reads_status(function: Callable[..., Any]) -> bool:
    """Return whether a function may read the status, because `ignores_status` does not mark it."""
    return not getattr(function, "ignores_status", False)


# The name of an informers' index.
BY_NAMESPACE = "namespace"


@ignores_status
def by_namespace(obj: Any) -> tuple[str]:
    """Return the value of the index `BY_NAMESPACE` for an object."""
    return (meta_of(obj).namespace,)


def family_of(key: str, obj: Any) -> Lane:
    """Return the lane of an object in a work queue. Objects of one namespace and one owning controller share a lane.

    obj: the object with that key; None if it is not cached.
    """
    owner = controller_of(meta_of(obj)) if obj is not None else None
    return split_key(key)[0], owner.uid if owner is not None else ""


def split_key(key: str) -> tuple[str, str]:
    """Return the namespace ("" if cluster-wide) and the name that a key contains."""
    namespace, _, name = key.rpartition("/")
    return namespace, name


def revision_of(obj: Any) -> Revision:
    """Return a value that grows with each state of an object, and with each new object of the same resource."""
    return parse_revision(meta_of(obj).resource_version)


def parse_revision(resource_version: str) -> Revision:
    """Return a value that orders resource versions by age.

    Return `NO_REVISION` for a version that is no decimal number, because such a version has no age (kubernetes
    KEP-5504).
    """
    return (len(resource_version), resource_version) if resource_version.isdecimal() else NO_REVISION


def make_reference(kind: Kind[Any], obj: Any, field_path: str = "") -> "ObjectReference":
    """Return a reference to an object for Events, with its UID and version.

    field_path: a part of the object (`spec.containers{main}`); "" for the whole object.
    """
    from muster.api.core import ObjectReference  # a client that only reads needs none of these types

    meta = meta_of(obj)
    return ObjectReference(
        kind=kind.kind,
        api_version=kind.api_version,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        field_path=field_path,
    )


def merge_patch(new: msgspec.Struct, old: msgspec.Struct | None = None) -> dict[str, Any]:
    """Return the JSON merge patch that makes a part of an object equal to `new`. Fields that `new` lacks are removed.

    old: the current part; equal fields are left out of the patch. None for an unknown one.
    """
    patch: dict[str, Any] = {}
    written: dict[str, Any] = msgspec.to_builtins(new)
    for attribute, name in zip(new.__struct_fields__, new.__struct_encode_fields__, strict=True):
        value = getattr(new, attribute)
        before = getattr(old, attribute) if old is not None else None
        if old is not None and value == before:
            continue
        if name not in written:
            patch[name] = None
        elif isinstance(value, msgspec.Struct):
            patch[name] = merge_patch(value, before if type(before) is type(value) else None)
        elif isinstance(value, dict) and isinstance(before, dict):
            patch[name] = {key: None for key in before if key not in value} | written[name]
        else:
            patch[name] = written[name]
    return patch


def remove_managed_fields(obj: T, old: T | None = None) -> T:  # noqa: ARG001  (the signature of a transform)
    """Return the object without managedFields, which are a quarter of its size and which no controller reads.

    A dictionary is changed in place.
    """
    value: Any = obj
    if isinstance(value, dict):
        value.get("metadata", {}).pop("managedFields", None)
    elif value.metadata.managed_fields:
        metadata = msgspec.structs.replace(value.metadata, managed_fields=())
        value = msgspec.structs.replace(value, metadata=metadata)
    return value  # type: ignore[no-any-return]
