"""How the parts of a kind's documents are told apart and merged: its OpenAPI schema, compiled for field management.

An object is granular (its members are owned one by one) unless `x-kubernetes-map-type` is `atomic`; a list is atomic
(owned as a whole) unless `x-kubernetes-list-type` is `map` or `set`. Where the schema says nothing, the value does:
objects are granular, lists atomic.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.schema import Schema, inlined
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.fields.blank import blank

# scalar: one value; atomic: an object or a list that is owned as a whole; map: an object whose members are owned one by
# one; items: a list of objects that are told apart by keys; set: a list of distinct scalars.
Shape: TypeAlias = Literal["scalar", "atomic", "map", "items", "set"]

_SCALARS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int, float),
    "number": (int, float),
}
_ANY_SCALAR = (str, bool, int, float)
_encode = msgspec.json.Encoder().encode


class FieldSchema(Struct, frozen=True, eq=False):
    """One node of the compiled schema.

    types: Python types that the value may have.
    fields: the members that the schema names.
    rest: the schema of all other members; None: unknown members are not declared, unless the object is `open`.
    open: members that no schema declares may be there; what they are is deduced from their values.
    element: the schema of a list's items.
    keys: what tells items apart, in the order of the alphabet.
    defaults: what stands for a key that an item leaves out.
    empty: the document of which a new object is seen as a change: parts that every object of the kind has.
    """

    shape: Shape
    types: tuple[type, ...]
    fields: Mapping[str, "FieldSchema"] = field(default_factory=dict)
    rest: "FieldSchema | None" = None
    open: bool = False
    element: "FieldSchema | None" = None
    keys: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    empty: Document = field(default_factory=dict)

    @staticmethod
    def of(schema: Schema, empty: Document | None = None) -> "FieldSchema":
        """The compiled form of a kind's OpenAPI v3 schema without references. Metadata are known by themselves."""
        members = schema.get("properties") or {}
        root = _compile({**schema, "properties": {**members, **_common_members()}}, {})
        return FieldSchema("map", (dict,), root.fields, root.rest, root.open, empty=empty or {})

    @staticmethod
    def of_kind(kind: Kind[Any]) -> "FieldSchema":
        """The compiled form of a kind that we have types of."""
        return FieldSchema.of(inlined(kind), blank(kind))

    def member(self, name: str) -> "FieldSchema":
        """The schema of a member; deduced from its value if nothing declares it."""
        return self.fields.get(name) or self.rest or DEDUCED

    def items_of(self, items: list[Any]) -> dict[str, Any] | None:
        """The items of a list by path element; several equal ones become one tuple. None if one of them has no key."""
        found: dict[str, Any] = {}
        repeated: dict[str, list[Any]] = {}
        for item in items:
            key = self.key_of(item)
            if key is None:
                return None
            if key in found:
                repeated.setdefault(key, [found[key]]).append(item)
            else:
                found[key] = item
        return found | {key: tuple(equal) for key, equal in repeated.items()} if repeated else found

    def key_of(self, item: Any) -> str | None:
        """The path element of a list's item; None if there is nothing to tell it by."""
        if self.shape == "set":
            return None if item is None or type(item) in (dict, list) else f"v:{_encode(item).decode()}"
        if type(item) is not dict:
            return None
        keys = {}
        for name in self.keys:
            if name in item:
                keys[name] = item[name]
            elif name in self.defaults:
                keys[name] = self.defaults[name]
        return f"k:{_encode(keys).decode()}" if keys else None


DEDUCED = FieldSchema("map", (*_ANY_SCALAR, dict, list), open=True)
_ATOMIC = FieldSchema("atomic", (*_ANY_SCALAR, dict, list))
_UNTYPED = FieldSchema("scalar", _ANY_SCALAR)


@cache
def _common_members() -> dict[str, Schema]:
    """What every object has, whatever its own schema says of it."""
    return dict(inlined(Kind("", "v1", "Object", "objects", Object))["properties"])


def _compile(schema: Schema, made: dict[int, FieldSchema]) -> FieldSchema:
    """The node of a schema; `made` holds those of sub-schemas that stand in several places."""
    known = made.get(id(schema))
    if known is None:
        known = made[id(schema)] = _node(schema, made)
    return known


def _node(schema: Schema, made: dict[int, FieldSchema]) -> FieldSchema:
    match _type_of(schema):
        case "object":
            return _object(schema, made)
        case "array":
            return _list(schema, made)
        case "":
            return DEDUCED if schema.get("x-kubernetes-preserve-unknown-fields") else _untyped(schema)
        case type_:
            return FieldSchema("scalar", _SCALARS.get(type_, _ANY_SCALAR))


def _type_of(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "int-or-string"
    if "type" in schema:
        return str(schema["type"])
    if "properties" in schema or "additionalProperties" in schema:
        return "object"
    return "array" if "items" in schema else ""


def _untyped(schema: Schema) -> FieldSchema:
    """A value of which only alternatives are described is a scalar (quantities); one of which nothing is, atomic."""
    return _UNTYPED if "oneOf" in schema or "anyOf" in schema else _ATOMIC


def _object(schema: Schema, made: dict[int, FieldSchema]) -> FieldSchema:
    if schema.get("x-kubernetes-map-type") == "atomic":
        return FieldSchema("atomic", (dict,))
    members = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    rest = _compile(others, made) if isinstance(others, dict) and others else None
    says_nothing = not members and others is None
    return FieldSchema(
        "map",
        (dict,),
        {name: _compile(member, made) for name, member in members.items()},
        rest,
        open=says_nothing or others in (True, {}) or bool(schema.get("x-kubernetes-preserve-unknown-fields")),
    )


def _list(schema: Schema, made: dict[int, FieldSchema]) -> FieldSchema:
    items = schema.get("items") or {}
    element = _compile(items, made) if items else DEDUCED
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
