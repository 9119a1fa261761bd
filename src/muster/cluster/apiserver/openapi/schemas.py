"""The component schemas of a group version: its kinds, their lists, and what requests and answers are made of."""

from collections.abc import Iterable, Mapping
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import DeleteOptions, ListMeta
from muster.api.schema import TYPE_META, component_name, components, kind_components
from muster.api.status import Status

Schema = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
STATUS = component_name(Status)
DELETE_OPTIONS = component_name(DeleteOptions)
PATCH = f"{_META}.Patch"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_REFERENCE = "#/components/schemas/"

_SHARED: dict[str, Schema] = {
    PATCH: {"type": "object", "description": "What to change of an object."},
    _QUANTITY: {
        "description": "An amount of a resource, as a number with a unit: 500m, 2, 1.5Gi.",
        "oneOf": [{"type": "string"}, {"type": "number"}],
    },
    _INT_OR_STRING: {
        "description": "A number, or a name or a percentage.",
        "format": "int-or-string",
        "oneOf": [{"type": "integer"}, {"type": "string"}],
    },
}


def schemas_of(kinds: Iterable[Kind[Any]], listed: Iterable[Kind[Any]]) -> dict[str, Schema]:
    """The components of the kinds, of lists of those that are `listed`, and of what operations refer to."""
    found = kind_components(kinds)
    found |= components([Status, DeleteOptions, ListMeta])
    for name in (STATUS, DELETE_OPTIONS):
        found[name]["properties"] = TYPE_META | found[name]["properties"]
    for kind in listed:
        found[list_name(kind)] = _list_schema(kind)
    return dict(sorted((_SHARED | {name: _named(schema) for name, schema in found.items()}).items()))


def list_name(kind: Kind[Any]) -> str:
    """The component of a kind's lists."""
    return f"{component_name(kind.type)}List"


def reference(name: str) -> Schema:
    """A schema that is the named component's."""
    return {"$ref": _REFERENCE + name}


def _list_schema(kind: Kind[Any]) -> Schema:
    return {
        "type": "object",
        "description": f"{kind.kind}List is a list of {kind.plural}.",
        "required": ["items"],
        "properties": TYPE_META
        | {
            "metadata": {"allOf": [reference(component_name(ListMeta))], "default": {}},
            "items": {"type": "array", "items": reference(component_name(kind.type)), "description": "The objects."},
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "kind": f"{kind.kind}List", "version": kind.version}],
    }


def _named(schema: Schema) -> Schema:
    """The schema with the two kinds of values that are several types by reference: so that they have a name to show."""
    if "oneOf" in schema:
        return _referring(schema, "oneOf", _QUANTITY)
    if schema.get("x-kubernetes-int-or-string"):
        return _referring(schema, "x-kubernetes-int-or-string", _INT_OR_STRING)
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _named(member) for name, member in schema["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            result[inner] = _named(schema[inner])
    return result


def _referring(schema: Schema, spelled: str, name: str) -> Schema:
    around = {key: value for key, value in schema.items() if key != spelled}
    return around | {"allOf": [reference(name)]} if around else reference(name)


def as_v2(schema: Mapping[str, Any]) -> Schema:
    """The same schema in OpenAPI v2, which has neither `oneOf` nor types of several kinds, and other references."""
    result: Schema = {}
    for key, value in schema.items():
        match key:
            case "$ref":
                result[key] = value.replace(_REFERENCE, "#/definitions/")
            case "allOf":
                result["$ref"] = value[0]["$ref"].replace(_REFERENCE, "#/definitions/")
            case "oneOf":
                result["type"] = "string"
            case "default" if "allOf" in schema:
                continue
            case "properties":
                result[key] = {name: as_v2(member) for name, member in value.items()}
            case "items" | "additionalProperties":
                result[key] = as_v2(value) if isinstance(value, dict) else value
            case _:
                result[key] = value
    return result
