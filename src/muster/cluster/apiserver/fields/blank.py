"""The blank object of a kind: the members that the Go types of the kind always write.

Field management compares a new object with its blank object. So the client that creates the object does not become
the manager of members such as `spec` themselves.
"""

from typing import Annotated, Any, get_origin

import msgspec

from muster.api import meta, published
from muster.api.kinds import Kind
from muster.api.markers import RequiredField
from muster.api.meta import Struct
from muster.cluster.apiserver.decode import Document


def make_blank(kind: Kind[Any]) -> Document:
    """Return an object of a kind as Go encodes it with no field set; {} for a custom resource, which has no Go type."""
    component = published.component_of_kind(kind.group, kind.version, kind.kind)
    return _make_blank_message(component) if component else _make_blank_struct(kind.type)


def _make_blank_message(component: str) -> Document:
    schema = published.schema_of(component)
    if schema is None:
        return _make_blank_struct(vars(meta)[component.rpartition(".")[2]])
    members: Document = {}
    for field in published.fields_of(component):
        member = schema["properties"].get(field.name, {})
        if "$ref" in member or "allOf" in member:
            if not field.is_optional:
                members[field.name] = _make_blank_message(_get_referenced_component(member))
        elif member.get("type") == "array" and field.is_always_written:
            members[field.name] = None
    return members


def _get_referenced_component(member: dict[str, Any]) -> str:
    reference: str = (member.get("allOf") or [member])[0]["$ref"]
    return reference.rpartition("/")[2]


def _make_blank_struct(type_: type) -> Document:
    if not issubclass(type_, Struct):
        return {}
    members: Document = {}
    for field in msgspec.structs.fields(type_):
        default = field.default
        if isinstance(default, Struct):
            members[field.encode_name] = _make_blank_struct(type(default))
        elif default == () and _is_required(field.type):
            members[field.encode_name] = None
    return members


def _is_required(hint: Any) -> bool:
    return get_origin(hint) is Annotated and any(isinstance(marker, RequiredField) for marker in hint.__metadata__)
