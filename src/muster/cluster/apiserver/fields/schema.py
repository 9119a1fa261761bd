"""The OpenAPI schema of a kind, compiled for field management.

A `FieldSchema` says which parts of a document managers own, and what identifies the items of a list:

- An object is granular: managers own each member. An object is atomic (owned as a whole) if `x-kubernetes-map-type`
  says so.
- A list is atomic unless `x-kubernetes-list-type` is `map` or `set`.
- A value without a schema follows the same defaults: objects are granular, and lists are atomic.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.schema import Schema, make_inlined_schema
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.blank import make_blank
from muster.cluster.apiserver.schema.members import LazyMembers

# - scalar: one value
# - atomic: an object or a list that a manager owns as a whole
# - map: an object whose members have owners of their own
# - items: a list of objects that keys identify
# - set: a list of distinct scalars
Shape: TypeAlias = Literal["scalar", "atomic", "map", "items", "set"]

_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
_ANY_SCALAR = (str, bool, int, float)
_SHORT = 64  # characters of a key whose path element is cached
_encode = msgspec.json.Encoder().encode


class FieldSchema(Struct, frozen=True, eq=False):
    """One node of the compiled schema.

    types: the Python types that the value may have.
    fields: the schemas of the members that the schema names; None for any other name.
    rest: the schema of all other members; None if the schema declares no others.
    open: whether undeclared members are allowed. Their schemas follow from their values.
    element: the schema of a list's items.
    keys: the fields that identify an item, in alphabetical order.
    defaults: the values of keys that an item omits.
    empty: the blank object of the kind, with which field management compares a new object.
    """

    shape: Shape
    types: tuple[type, ...]
    fields: "LazyMembers[FieldSchema]" = field(default_factory=lambda: _NO_MEMBERS)
    rest: "FieldSchema | None" = None
    open: bool = False
    element: "FieldSchema | None" = None
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    empty: Document = field(default_factory=dict)

    @staticmethod
    def of(schema: Schema, empty: Document | None = None) -> "FieldSchema":
        """Compile the OpenAPI v3 schema of a kind.

        schema: a schema without references. The members that all objects share, such as metadata, replace its members
        of the same name.
        empty: the blank object of the kind.
        """
        members = schema.get("properties") or {}
        root = _compile({**schema, "properties": {**members, **_make_common_members()}}, {})
        return FieldSchema("map", (dict,), root.fields, root.rest, root.open, empty=empty or {})

    @staticmethod
    def of_kind(kind: Kind[Any]) -> "FieldSchema":
        """Compile the schema of a kind that has a Python type."""
        return FieldSchema.of(make_inlined_schema(kind), make_blank(kind))

    def member(self, name: str) -> "FieldSchema":
        """Return the schema of a member; `DEDUCED`, which allows any value, for an undeclared member."""
        return self.fields[name] or self.rest or DEDUCED

    def items_of(self, items: list[Any]) -> dict[str, Any] | None:
        """Return the items of a list by path element; None if an item has no key.

        If several items have the same path element, the value is a tuple of them.
        """
        by_key: dict[str, Any] = {}
        repeated: dict[str, list[Any]] = {}
        for item in items:
            key = self.key_of(item)
            if key is None:
                return None
            if key in by_key:
                repeated.setdefault(key, [by_key[key]]).append(item)
            else:
                by_key[key] = item
        return by_key | {key: tuple(equal) for key, equal in repeated.items()} if repeated else by_key

    def key_of(self, item: Any) -> str | None:
        """Return the path element of a list's item; None if the item has no key."""
        if self.shape == "set":
            return None if item is None or type(item) in (dict, list) else f"v:{_encode(item).decode()}"
        if type(item) is not dict:
            return None
        if len(self.keys) == 1 and type(value := item.get(self.keys[0])) is str and len(value) <= _SHORT:
            return _make_text_key(self.keys[0], value)
        keys = {}
        for name in self.keys:
            if name in item:
                keys[name] = item[name]
            elif name in self.defaults:
                keys[name] = self.defaults[name]
        return f"k:{_encode(keys).decode()}" if keys else None


@lru_cache(maxsize=1024)  # the types of conditions and the names of containers repeat
def _make_text_key(name: str, value: str) -> str:
    return f"k:{_encode({name: value}).decode()}"


_NO_MEMBERS: LazyMembers[FieldSchema] = LazyMembers({}, lambda _: DEDUCED)
# The schema of an undeclared value: objects are granular, and lists are atomic.
DEDUCED: FieldSchema = FieldSchema("map", (*_ANY_SCALAR, dict, list), open=True)
_ATOMIC = FieldSchema("atomic", (*_ANY_SCALAR, dict, list))
_UNTYPED = FieldSchema("scalar", _ANY_SCALAR)


@cache
def _make_common_members() -> dict[str, Schema]:
    """Return the schemas of the members that all objects share."""
    return dict(make_inlined_schema(Kind("", "v1", "Object", "objects", Object))["properties"])


def _compile(schema: Schema, nodes: dict[int, FieldSchema]) -> FieldSchema:
    """Return the node of a schema.

    nodes: the nodes compiled so far, by the `id` of their schema, because a schema may occur in several places.
    """
    known = nodes.get(id(schema))
    if known is None:
        known = nodes[id(schema)] = _make_node(schema, nodes)
    return known


def _make_node(schema: Schema, nodes: dict[int, FieldSchema]) -> FieldSchema:
    match _find_type(schema):
        case "object":
            return _make_object_node(schema, nodes)
        case "array":
            return _make_list_node(schema, nodes)
        case "":
            return DEDUCED if schema.get("x-kubernetes-preserve-unknown-fields") else _make_untyped_node(schema)
        case type_:
            return FieldSchema("scalar", _SCALARS.get(type_, _ANY_SCALAR))


def _find_type(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    if "type" in schema:
        return str(schema["type"])
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema else ""


def _make_untyped_node(schema: Schema) -> FieldSchema:
    """Return the node of a schema without a type: a scalar if it lists alternatives (a quantity), else atomic."""
    return _UNTYPED if "oneOf" in schema or "anyOf" in schema else _ATOMIC


def _make_object_node(schema: Schema, nodes: dict[int, FieldSchema]) -> FieldSchema:
    if schema.get("x-kubernetes-map-type") == "atomic":
        return FieldSchema("atomic", (dict,))
    members = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    rest = _compile(others, nodes) if isinstance(others, dict) and others else None
    says_nothing = not members and others is None
    return FieldSchema(
        "map",
        (dict,),
        LazyMembers(members, lambda name: _compile(members[name], nodes)),
        rest,
        open=says_nothing or others in (True, {}) or bool(schema.get("x-kubernetes-preserve-unknown-fields")),
    )


def _make_list_node(schema: Schema, nodes: dict[int, FieldSchema]) -> FieldSchema:
    items = schema.get("items") or {}
    element = _compile(items, nodes) if items else DEDUCED
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return FieldSchema("set", (list,), element=element)
        case "map":
            keys = tuple(sorted(schema.get("x-kubernetes-list-map-keys") or ()))
            members = items.get("properties") or {}
            defaults = {key: members[key]["default"] for key in keys if "default" in members.get(key, {})}
            return FieldSchema("items", (list,), element=element, keys=keys, defaults=defaults)
        case _:
            return FieldSchema("atomic", (list,))
