"""The field set of an applied configuration, and the check of the configuration against the schema."""

from typing import Any

import msgspec

from muster.api.status import bad_request
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.schema import FieldSchema
from muster.cluster.apiserver.fields.sets import SELF, FieldSet, path_step

_SHOWN = 100  # characters of a value in a message
_MAX_ERRORS = 20
_MAX_MESSAGE = 4096  # characters
_CONTAINERS: dict[type, str] = {dict: "map", list: "list"}
_GO_TYPES: dict[type, str] = {str: "string", bool: "bool", list: "[]interface {}"}


def find_applied_fields(config: Document, schema: FieldSchema) -> FieldSet:
    """Return the fields that a configuration sets. Raises `ApiError` (400) if it does not fit the schema.

    The set contains the path of each scalar, atomic value, list item and map entry. It contains the path of a granular
    object or list under a name in the schema only if the value is null or {}.
    """
    walk = _Walk()
    fields = walk.collect_members(config, schema, "")
    if walk.errors:
        errors = walk.errors[:_MAX_ERRORS]
        text = errors[0] if len(errors) == 1 else "\n  ".join(["errors:", *errors])
        raise bad_request(f"failed to create typed patch object ({_describe_config(config)}): {text}"[:_MAX_MESSAGE])
    return fields


class _Walk:
    """One walk through a configuration.

    errors: the messages about the values so far that do not fit the schema.
    """

    def __init__(self) -> None:
        self.errors: list[str] = []

    def collect_members(self, value: Document, schema: FieldSchema, path: str) -> FieldSet:
        node: FieldSet = {}
        for name, item in value.items():
            inner = f"{path}.{name}"
            named = schema.fields[name]
            if named is None and schema.rest is None and not schema.open:
                self.errors.append(f"{inner}: field not declared in schema")
                continue
            below = self.collect_value(item, schema.member(name), inner)
            if named is None:
                below = _add_self(below)
            elif item is None or item == {}:
                below = {}
            if below is not None:
                node["f:" + name] = below
        return node

    def collect_value(self, value: Any, schema: FieldSchema, path: str) -> FieldSet | None:
        """Return the field set of a value: {} for only the value's own path, None if no path belongs to the set."""
        if value is None:
            return {} if schema.shape in ("scalar", "atomic") else None
        if type(value) not in schema.types:
            self.errors.append(f"{path}: {_explain_mismatch(value, schema)}")
            return None
        if type(value) is dict and schema.shape == "map":
            return self.collect_members(value, schema, path) or None
        if type(value) is list and schema.element is not None:
            return self._collect_items(value, schema, schema.element, path) or None
        return {}

    def _collect_items(self, items: list[Any], schema: FieldSchema, element: FieldSchema, path: str) -> FieldSet:
        node: FieldSet = {}
        for index, item in enumerate(items):
            key = schema.key_of(item)
            if key is None:
                self.errors.append(f"{path}: element {index}: {_explain_missing_key(item, schema)}")
            elif key in node:
                self.errors.append(f"{path}: duplicate entries for key {path_step(key)}")
            else:
                node[key] = _add_self(self.collect_value(item, element, path + path_step(key)))
        return node


def _add_self(node: FieldSet | None) -> FieldSet:
    return {SELF: {}, **node} if node else {}


def _explain_mismatch(value: Any, schema: FieldSchema) -> str:
    """Return the message about a value of the wrong type, in upstream's words and Go's notation."""
    match schema.types:
        case (only,) if only is str:
            return f"expected string, got &value.valueUnstructured{{Value:{_format_value(value)}}}"
        case (only,):
            return f"expected {_CONTAINERS.get(only, 'boolean')}, got &{{{_format_value(value)}}}"
        case types if str not in types:
            return f"expected numeric (int or float), got {_GO_TYPES.get(type(value), 'map[string]interface {}')}"
        case _:
            return f"expected any scalar, got &{{{_format_value(value)}}}"


def _explain_missing_key(item: Any, schema: FieldSchema) -> str:
    """Return the message about a list's item that has no key, in upstream's words."""
    if schema.shape == "set":
        if type(item) is list:
            return "not supported: associative list with lists as elements"
        kind = "a map type" if type(item) is dict else "an explicit null"
        return f"associative list without keys has an element that's {kind}"
    if item is None:
        return "associative list with keys may not have a null element"
    if type(item) is not dict:
        return "associative list with keys may not have non-map elements"
    names = " ".join(f'"{key}"' for key in schema.keys)
    return (
        f"associative list with keys has an element that omits all key fields [{names}] "
        "(and doesn't have default values for any key fields)"
    )


def _format_value(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _describe_config(config: Document) -> str:
    metadata = config.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    group, _, version = str(config.get("apiVersion", "")).rpartition("/")
    return f"{names.get('namespace', '')}/{names.get('name', '')}; {group}/{version}, Kind={config.get('kind', '')}"
