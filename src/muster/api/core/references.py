"""Ways in which one object names another."""

from muster.api.markers import Required
from muster.api.meta import Struct


class LocalObjectReference(Struct):
    """Names an object of a known kind in the same namespace."""

    name: str = ""


class SecretReference(Struct):
    """Names a Secret in any namespace."""

    name: str = ""
    namespace: str = ""


class TypedLocalObjectReference(Struct):
    """Names an object of any kind in the same namespace."""

    api_group: str | None = None
    kind: Required[str] = ""
    name: Required[str] = ""


class TypedObjectReference(TypedLocalObjectReference):
    """Names an object of any kind in any namespace."""

    namespace: str | None = None


class ObjectReference(Struct):
    """Names any object, or a part of one."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""
