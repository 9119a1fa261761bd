"""Ways in which one object names another."""

from typing import Annotated

from muster.api.markers import Default, Required
from muster.api.meta import Struct


class LocalObjectReference(Struct):
    """Names an object of a known kind in the same namespace.

    name: name of the object.
    """

    name: Annotated[str, Default("")] = ""


class SecretReference(Struct):
    """Names a Secret in any namespace.

    name: name of the Secret.
    namespace: its namespace.
    """

    name: str = ""
    namespace: str = ""


class TypedLocalObjectReference(Struct):
    """Names an object of any kind in the same namespace.

    api_group: group of the object's kind; empty for the core group.
    kind: kind of the object.
    name: name of the object.
    """

    api_group: str | None = None
    kind: Required[str] = ""
    name: Required[str] = ""


class TypedObjectReference(TypedLocalObjectReference):
    """Names an object of any kind in any namespace.

    namespace: namespace of the object; the same if absent.
    """

    namespace: str | None = None


class ObjectReference(Struct):
    """Names any object, or a part of one.

    kind: kind of the object.
    namespace: namespace of the object.
    name: name of the object.
    uid: the very object, not just one of that name.
    api_version: version of the API in which the kind is meant.
    resource_version: the object as it was at that version.
    field_path: a part of the object, such as spec.containers{main}.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""
