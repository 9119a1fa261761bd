"""References from one object to another."""

from muster.api.markers import Required
from muster.api.meta import Struct


class LocalObjectReference(Struct):
    """A reference to an object of a known kind in the same namespace."""

    name: str = ""


class TypedLocalObjectReference(Struct):
    """A reference to an object of any kind in the same namespace."""

    api_group: str | None = None
    kind: Required[str] = ""
    name: Required[str] = ""


class TypedObjectReference(TypedLocalObjectReference):
    """A reference to an object of any kind in any namespace."""

    namespace: str | None = None


class ObjectReference(Struct):
    """A reference to any object, or to a part of one."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""
