"""The decoder of schemas in CustomResourceDefinitions, which knows the keywords and their types.

Schemas are recursive, so no `Struct` describes them. `read_schema` takes a schema as JSON and returns a copy without
unknown keywords and without nulls, which count as absent, as in Go. `definition` validates the schema.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from muster.cluster.apiserver.schema import DecodeError

Document: TypeAlias = dict[str, Any]
# Takes a value, its path and the list of unknown fields, and returns the decoded value.
_Read: TypeAlias = Callable[[Any, str, list[str]], Any]


def read_schema(value: Any, path: str, unknown: list[str]) -> Document:
    """Return the decoded schema, without unknown keywords.

    Raises `DecodeError` if a keyword has a value of a wrong type.

    unknown: receives the paths of the unknown keywords.
    """
    _require(value, dict, path, "v1.JSONSchemaProps")
    return _read_members(value, path, unknown, _KEYWORDS)


def _read_members(value: Document, path: str, unknown: list[str], known: dict[str, _Read]) -> Document:
    result: Document = {}
    for name, member in value.items():
        read = known.get(name)
        if read is None:
            unknown.append(f"{path}.{name}")
        elif member is not None or name == "default":
            result[name] = read(member, f"{path}.{name}", unknown)
    return result


def _require(value: Any, types: type | tuple[type, ...], path: str, go_type: str) -> None:
    wanted = types if isinstance(types, tuple) else (types,)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        actual = _GO_NAMES[type(value)]
        raise DecodeError(
            f"json: cannot unmarshal {actual} into Go struct field JSONSchemaProps.{path} of type {go_type}"
        )


_GO_NAMES: dict[type, str] = {
    bool: "bool", int: "number", float: "number", str: "string", list: "array", dict: "object", type(None): "null",
}  # fmt: skip


def _make_scalar_reader(types: type | tuple[type, ...], go_type: str) -> _Read:
    def read(value: Any, path: str, _unknown: list[str]) -> Any:
        _require(value, types, path, go_type)
        return value

    return read


def _read_anything(value: Any, _path: str, _unknown: list[str]) -> Any:
    return value


def _make_list_reader(read_item: _Read, go_type: str) -> _Read:
    def read(value: Any, path: str, unknown: list[str]) -> Any:
        _require(value, list, path, go_type)
        return [read_item(item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]

    return read


def _make_map_reader(read_item: _Read, go_type: str) -> _Read:
    def read(value: Any, path: str, unknown: list[str]) -> Any:
        _require(value, dict, path, go_type)
        return {name: read_item(item, f"{path}.{name}", unknown) for name, item in value.items()}

    return read


def _read_schema_or_bool(value: Any, path: str, unknown: list[str]) -> Any:
    return value if isinstance(value, bool) else read_schema(value, path, unknown)


def _read_schema_or_list(value: Any, path: str, unknown: list[str]) -> Any:
    return _SCHEMAS(value, path, unknown) if isinstance(value, list) else read_schema(value, path, unknown)


def _read_rule(value: Any, path: str, unknown: list[str]) -> Any:
    _require(value, dict, path, "v1.ValidationRule")
    return _read_members(value, path, unknown, _RULE)


def _read_docs(value: Any, path: str, unknown: list[str]) -> Any:
    _require(value, dict, path, "v1.ExternalDocumentation")
    return _read_members(value, path, unknown, dict.fromkeys(("description", "url"), _TEXT))


_TEXT = _make_scalar_reader(str, "string")
_FLAG = _make_scalar_reader(bool, "bool")
_WHOLE = _make_scalar_reader(int, "int64")
_NUMBER = _make_scalar_reader((int, float), "float64")
_TEXTS = _make_list_reader(_TEXT, "[]string")
_SCHEMAS = _make_list_reader(read_schema, "[]v1.JSONSchemaProps")
_NAMED_SCHEMAS = _make_map_reader(read_schema, "map[string]v1.JSONSchemaProps")

_RULE: dict[str, _Read] = dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), _TEXT) | {
    "optionalOldSelf": _FLAG
}
_KEYWORDS: dict[str, _Read] = {
    **dict.fromkeys(("id", "$schema", "$ref", "description", "type", "format", "title", "pattern"), _TEXT),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), _TEXT),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "nullable"), _FLAG),
    "x-kubernetes-preserve-unknown-fields": _FLAG,
    "x-kubernetes-embedded-resource": _FLAG,
    "x-kubernetes-int-or-string": _FLAG,
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"), _WHOLE),
    **dict.fromkeys(("default", "example"), _read_anything),
    "enum": _make_list_reader(_read_anything, "[]v1.JSON"),
    **dict.fromkeys(("required", "x-kubernetes-list-map-keys"), _TEXTS),
    "not": read_schema,
    **dict.fromkeys(("allOf", "anyOf", "oneOf"), _SCHEMAS),
    **dict.fromkeys(("properties", "patternProperties", "definitions"), _NAMED_SCHEMAS),
    **dict.fromkeys(("additionalProperties", "additionalItems"), _read_schema_or_bool),
    "items": _read_schema_or_list,
    "dependencies": _make_map_reader(_read_anything, "v1.JSONSchemaDependencies"),
    "externalDocs": _read_docs,
    "x-kubernetes-validations": _make_list_reader(_read_rule, "v1.ValidationRules"),
}
