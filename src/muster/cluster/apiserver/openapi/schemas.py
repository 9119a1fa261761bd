"""The component schemas of a group version: its kinds, their lists, and the shared parts of requests and responses.

The schemas of built-in kinds come from Muster's types, and the schemas of custom kinds from their definitions. OpenAPI
v2 cannot express several types, alternatives and nulls. As in upstream, the v2 schemas omit them, so that clients check
too little rather than too much.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.api.kinds import Kind
from muster.api.meta import DeleteOptions, ListMeta, ObjectMeta
from muster.api.schema import TYPE_META, component_name, component_of_kind, kind_components, list_components
from muster.api.status import Status
from muster.cluster.apiserver.registry.resources import Resource

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


def schemas_of(resources: Sequence[Resource]) -> dict[str, Schema]:
    """Return the components of the resources, their subresources and lists, and all that these refer to, by name."""
    kinds: dict[str, Kind[Any]] = {}
    for resource in resources:
        for kind in (resource.kind, *(sub.kind for sub in resource.subresources)):
            if not _is_custom(kind):
                kinds.setdefault(component_of(kind), kind)
    schemas = kind_components(kinds.values()) | list_components([Status, DeleteOptions, ListMeta, ObjectMeta])
    for name in (STATUS, DELETE_OPTIONS):
        schemas[name]["properties"] = TYPE_META | schemas[name]["properties"]
    schemas = _SHARED | {name: _make_named_schema(schema) for name, schema in schemas.items()}
    for resource in resources:
        if _is_custom(resource.kind):
            schemas[component_of(resource.kind)] = _make_custom_schema(resource)
        if "list" in resource.verbs:
            schemas[list_name(resource)] = _make_list_schema(resource)
    return dict(sorted(schemas.items()))


def component_of(kind: Kind[Any]) -> str:
    """Return the name of the component that defines the objects of a kind.

    A custom kind has the name that Kubernetes gives it: its reversed group, its version and its kind.
    """
    if not _is_custom(kind):
        return component_of_kind(kind)
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def list_name(resource: Resource) -> str:
    """Return the name of the component of a resource's lists."""
    return f"{component_of(resource.kind).rpartition('.')[0]}.{resource.kind_of_lists}"


def _is_custom(kind: Kind[Any]) -> bool:
    return kind.type is dict


def make_reference(name: str) -> Schema:
    """Return a schema that refers to a component."""
    return {"$ref": _REFERENCE + name}


def _make_list_schema(resource: Resource) -> Schema:
    kind, list_kind = resource.kind, resource.kind_of_lists
    return {
        "type": "object",
        "description": f"{list_kind} is a list of {kind.plural}.",
        "required": ["items"],
        "properties": TYPE_META
        | {
            "metadata": {"allOf": [make_reference(component_name(ListMeta))], "default": {}},
            "items": {"type": "array", "items": make_reference(component_of(kind)), "description": "The objects."},
        },
        "x-kubernetes-group-version-kind": [{"group": kind.group, "kind": list_kind, "version": kind.version}],
    }


def _make_custom_schema(resource: Resource) -> Schema:
    """Return the schema of a custom kind from its definition, with the metadata of every object."""
    kind, schema = resource.kind, resource.schema or {"type": "object"}
    metadata = {"allOf": [make_reference(component_name(ObjectMeta))], "description": "What every object carries."}
    return {
        **schema,
        "properties": {**schema.get("properties", {}), **TYPE_META, "metadata": metadata},
        "x-kubernetes-group-version-kind": [kind.names],
    }


def _make_named_schema(schema: Schema) -> Schema:
    """Return the schema with references to the named types Quantity and IntOrString instead of their inline schemas.

    So clients can show a name for these types. The format `micro-time` becomes `date-time`.
    """
    if schema.get("format") == "micro-time":
        return schema | {"format": "date-time"}
    if "oneOf" in schema:
        return _make_referring_schema(schema, "oneOf", _QUANTITY)
    if schema.get("x-kubernetes-int-or-string"):
        return _make_referring_schema(schema, "x-kubernetes-int-or-string", _INT_OR_STRING)
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {name: _make_named_schema(member) for name, member in schema["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            result[inner] = _make_named_schema(schema[inner])
    return result


def _make_referring_schema(schema: Schema, keyword: str, name: str) -> Schema:
    around = {key: value for key, value in schema.items() if key != keyword}
    return around | {"allOf": [make_reference(name)]} if around else make_reference(name)


def convert_to_v2(schema: Mapping[str, Any]) -> Schema:
    """Convert a schema of a built-in kind to OpenAPI v2.

    `oneOf` becomes a string. A reference in `allOf` becomes a `$ref` without its default, which v2 does not allow.
    """
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
                result[key] = {name: convert_to_v2(member) for name, member in value.items()}
            case "items" | "additionalProperties":
                result[key] = convert_to_v2(value) if isinstance(value, dict) else value
            case _:
                result[key] = value
    return result


# The keywords that v2 lacks or defines differently.
_NOT_IN_V2 = frozenset({"oneOf", "anyOf", "allOf", "not", "nullable", "default", "example", "externalDocs"})
_OPEN = ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string", "nullable")
_SHAPE = frozenset({"type", "items", "properties", "required", "enum"})


def convert_custom_to_v2(schema: Mapping[str, Any]) -> Schema:
    """Convert the schema of a custom kind to OpenAPI v2. A value that may be null or of several types gets no type."""
    if "allOf" in schema and "$ref" in schema["allOf"][0]:
        return convert_to_v2(schema)  # the metadata, which have a built-in schema
    result = {key: value for key, value in schema.items() if key not in _NOT_IN_V2}
    if any(schema.get(key) for key in _OPEN) and "x-kubernetes-group-version-kind" not in schema:
        result = {key: value for key, value in result.items() if key not in _SHAPE}
    if "properties" in result:
        result["properties"] = {name: convert_custom_to_v2(member) for name, member in result["properties"].items()}
    for inner in ("items", "additionalProperties"):
        if isinstance(result.get(inner), Mapping):
            result[inner] = convert_custom_to_v2(result[inner])
    return result
