"""What is known of a value from its structural schema: which fields it has, and what type JSON hides.

Objects enter expressions as they are; nothing is copied or converted beforehand. Where an expression reads a field
that the schema has as a time, a duration, bytes or a double, the shape says how to make that of the JSON value.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from muster.api.validation.server.structuralschema import EMBEDDED, INT_OR_STRING, LIST_KEYS, LIST_TYPE, PRESERVE
from muster.api.values import durations
from muster.cluster.apiserver.cel.values import CelError, Duration, Timestamp
from muster.cluster.apiserver.schema.walk import Schema, type_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# Elements that a list or map without a limit may have, if they are not tiny: what fits into a request of 3 MiB.
_MOST = 100_000

# Names that CEL could not read as fields, and what stands for them: KEP-2876, "escaping".
_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[.\-/]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Shape(Struct, frozen=True):
    """A value's shape.

    type: its CEL type, as declarations spell it; `dyn` where expressions may not rely on one.
    schema_type: its OpenAPI type, for messages.
    names: for an object, the JSON names of its fields by the names that expressions use.
    fields: for an object, the shapes of its fields by JSON name.
    element: what is in a list or a map.
    open: whether an object may have fields that are not named.
    adapt: makes the CEL value of the JSON value, where they are not the same.
    keys: for a list-map, the fields by which its items are told apart.
    is_set: the list's order means nothing.
    most: how many elements a list or map may have; 0 if that is not known.
    typed: each place in it has one type.
    unordered: there is a set or a list-map in it.
    """

    type: str = "dyn"
    schema_type: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, "Shape"] = field(default_factory=dict)
    element: "Shape | None" = None
    open: bool = True
    adapt: Callable[[Any], Any] | None = None
    keys: tuple[str, ...] = ()
    is_set: bool = False
    most: int = 0
    typed: bool = False
    unordered: bool = False

    def member(self, name: str) -> "Shape":
        """The shape of a field of an object, or of a value of a map."""
        return self.fields.get(name) or self.element or ANYTHING

    @property
    def is_object(self) -> bool:
        """Whether it is an object with fields, as against a map."""
        return self.schema_type == "object" and self.element is None


ANYTHING = Shape()


def shape_of(schema: Schema, *, root: bool = False) -> Shape:
    """The shape of a structural schema's values; at the `root`, of whole objects."""
    if schema.get(INT_OR_STRING):
        return Shape(typed=True)
    type_ = type_of(schema)
    match type_:
        case "object":
            return _object(schema, root=root or bool(schema.get(EMBEDDED)))
        case "array":
            return _list(schema)
        case _ if schema.get("nullable"):
            adapt = _scalar(schema, type_)[1]
            return Shape(schema_type=type_, adapt=adapt and _unless_null(adapt), typed=bool(type_))
        case _:
            cel_type, adapt = _scalar(schema, type_)
            return Shape(type=cel_type, schema_type=type_, adapt=adapt, open=not type_, typed=bool(type_))


def escaped(name: str) -> str | None:
    """The name as expressions spell it; None if they cannot."""
    if name in _RESERVED:
        return f"__{name}__"
    result = _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)
    return result if _IDENTIFIER.fullmatch(result) else None


def _object(schema: Schema, *, root: bool) -> Shape:
    others = schema.get("additionalProperties")
    properties: Mapping[str, Schema] = schema.get("properties") or {}
    if isinstance(others, Mapping) and not properties:
        element = shape_of(others)
        type_ = "dyn" if schema.get("nullable") else f"map<string, {element.type}>"
        return Shape(
            type=type_,
            schema_type="object",
            element=element,
            most=schema.get("maxProperties", _MOST),
            typed=element.typed,
            unordered=element.unordered,
        )
    fields = {name: shape_of(member) for name, member in properties.items()}
    if root:
        fields |= _TYPE_META
    names = {spelled: name for name in fields if (spelled := escaped(name)) is not None}
    is_open = schema.get(PRESERVE) is True or others is True or not fields
    return Shape(
        schema_type="object",
        names=names,
        fields=fields,
        open=is_open,
        typed=not is_open and all(each.typed for each in fields.values()),
        unordered=any(each.unordered for each in fields.values()),
    )


def _list(schema: Schema) -> Shape:
    items: Schema = schema.get("items") or {}
    element = shape_of(items)
    type_ = "dyn" if schema.get("nullable") else f"list<{element.type}>"
    kind = schema.get(LIST_TYPE)
    keys: Sequence[str] = schema.get(LIST_KEYS) or () if kind == "map" else ()
    return Shape(
        type=type_,
        schema_type="array",
        element=element,
        keys=tuple(keys),
        is_set=kind == "set",
        most=schema.get("maxItems", _MOST),
        typed=element.typed,
        unordered=kind in ("set", "map") or element.unordered,
    )


def _scalar(schema: Schema, type_: str) -> tuple[str, Callable[[Any], Any] | None]:
    match type_, schema.get("format"):
        case "string", "byte":
            return "bytes", _bytes
        case "string", "date-time" | "micro-time" | "datetime" | "date":
            return "timestamp", timestamp
        case "string", "duration":
            return "duration", duration
        case "string", _:
            return "string", None
        case "integer", _:
            return "int", _int
        case "number", _:
            return "double", float
        case "boolean", _:
            return "bool", None
        case _:
            return "dyn", None


def _int(value: Any) -> Any:
    return value if type(value) is int else int(value)


def _unless_null(adapt: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else adapt(value)


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error) as error:
        raise CelError(f"invalid base64: {error}") from None


def timestamp(text: str) -> Timestamp:
    """The time that an RFC 3339 text means, or the beginning of a date."""
    whole, dot, rest = text.partition(".")
    digits = re.match(r"\d*", rest)
    fraction = digits.group() if dot and digits else ""
    try:
        moment = datetime.fromisoformat(whole + rest[len(fraction) :])
    except ValueError:
        raise CelError(f"invalid timestamp: {text}") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return Timestamp((since.days * 86400 + since.seconds) * 10**9 + int(fraction[:9].ljust(9, "0")))


def duration(text: str) -> Duration:
    """The length of time that a text in Go's form means."""
    try:
        return Duration(durations.parse(text))
    except durations.DurationError as error:
        raise CelError(str(error)) from None


_STRING = Shape(type="string", schema_type="string", open=False, typed=True)
_METADATA = Shape(
    schema_type="object",
    names={"name": "name", "generateName": "generateName"},
    fields={"name": _STRING, "generateName": _STRING},
    open=False,
    typed=True,
)
# What rules may read of the metadata, whatever the schema says.
_TYPE_META: Mapping[str, Shape] = {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
