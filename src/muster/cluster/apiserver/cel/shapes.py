"""The shape of values: the fields and CEL types that a structural schema declares.

`shape_of` takes a schema and returns a `Shape`. Expressions read the original JSON object, which nothing copies or
converts before. If the schema declares a field as a time, a duration, bytes or a double, the shape contains the
function that converts the JSON value. The compiler applies that function where an expression reads the field.
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

# How many elements the estimate of cost assumes for a list or map without a limit: a request of 3 MiB holds about as
# many elements of 30 bytes.
_MOST = 100_000

# Field names that are no CEL identifiers, and how expressions escape them (kubernetes KEP-2876, "escaping").
_RESERVED = frozenset((
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
    "loop", "package", "namespace", "return", "var", "void", "while",
))  # fmt: skip
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[.\-/]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Shape(Struct, frozen=True):
    """The shape of a value: the fields and types that its schema declares.

    type: the CEL type, as declarations spell it; `dyn` if the schema does not fix one.
    schema_type: the OpenAPI type, for messages.
    names: for an object, the JSON names of its fields by the names that expressions use.
    fields: for an object, the shapes of its fields by JSON name.
    element: the shape of the elements of a list or the values of a map.
    open: whether an object may have undeclared fields.
    adapt: converts the JSON value to the CEL value; None if they are the same.
    keys: for a list-map, the fields that identify an item.
    is_set: whether the list is a set, so that its order has no meaning.
    most: the most elements that a list or map may have, by its schema or else as assumed; 0 for other values.
    typed: whether no place in the value can be both a bool and a number, so that Python's equality is CEL's.
    unordered: whether the value is or contains a set or a list-map.
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
        """Return the shape of a field of an object, or of a value of a map."""
        return self.fields.get(name) or self.element or ANYTHING

    @property
    def is_object(self) -> bool:
        """Whether the value is an object with declared fields rather than a map."""
        return self.schema_type == "object" and self.element is None


ANYTHING = Shape()


def shape_of(schema: Schema, *, root: bool = False) -> Shape:
    """Return the shape of the values of a structural schema.

    root: whether the values are whole objects, with `apiVersion`, `kind` and `metadata`.
    """
    if schema.get(INT_OR_STRING):
        return Shape(typed=True)
    type_ = type_of(schema)
    match type_:
        case "object":
            return _make_object_shape(schema, root=root or bool(schema.get(EMBEDDED)))
        case "array":
            return _make_list_shape(schema)
        case _ if schema.get("nullable"):
            adapt = _find_scalar(schema, type_)[1]
            return Shape(schema_type=type_, adapt=adapt and _make_null_safe(adapt), typed=bool(type_))
        case _:
            cel_type, adapt = _find_scalar(schema, type_)
            return Shape(type=cel_type, schema_type=type_, adapt=adapt, open=not type_, typed=bool(type_))


def escape_field(name: str) -> str | None:
    """Return the name of a field as expressions spell it; None if no escape makes it an identifier."""
    if name in _RESERVED:
        return f"__{name}__"
    result = _ESCAPED.sub(lambda match: _ESCAPES[match.group()], name)
    return result if _IDENTIFIER.fullmatch(result) else None


def _make_object_shape(schema: Schema, *, root: bool) -> Shape:
    """Return the shape of a map if the schema declares only `additionalProperties`, otherwise of an object.

    root: whether the schema describes a whole object, which has `metadata` and the like.
    """
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
    names = {spelled: name for name in fields if (spelled := escape_field(name)) is not None}
    is_open = schema.get(PRESERVE) is True or others is True or not fields
    return Shape(
        schema_type="object",
        names=names,
        fields=fields,
        open=is_open,
        typed=not is_open and all(each.typed for each in fields.values()),
        unordered=any(each.unordered for each in fields.values()),
    )


def _make_list_shape(schema: Schema) -> Shape:
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


def _find_scalar(schema: Schema, type_: str) -> tuple[str, Callable[[Any], Any] | None]:
    match type_, schema.get("format"):
        case "string", "byte":
            return "bytes", _decode_bytes
        case "string", "date-time" | "micro-time" | "datetime" | "date":
            return "timestamp", parse_timestamp
        case "string", "duration":
            return "duration", parse_duration
        case "string", _:
            return "string", None
        case "integer", _:
            return "int", _convert_int
        case "number", _:
            return "double", float
        case "boolean", _:
            return "bool", None
        case _:
            return "dyn", None


def _convert_int(value: Any) -> Any:
    return value if type(value) is int else int(value)


def _make_null_safe(adapt: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else adapt(value)


def _decode_bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (ValueError, binascii.Error) as error:
        raise CelError(f"invalid base64: {error}") from None


def parse_timestamp(text: str) -> Timestamp:
    """Return the timestamp for an RFC 3339 time, or for the first instant of a date.

    Raises `CelError` if the text is neither a time nor a date.
    """
    whole, dot, rest = text.partition(".")
    digits = re.match(r"\d*", rest)
    fraction = digits.group() if dot and digits else ""
    try:
        moment = datetime.fromisoformat(whole + rest[len(fraction) :])
    except ValueError:
        raise CelError(f"invalid timestamp: {text}") from None
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    return Timestamp((since.days * 86400 + since.seconds) * 10**9 + int(fraction[:9].ljust(9, "0")))


def parse_duration(text: str) -> Duration:
    """Parse a duration in Go's notation. Raises `CelError` if the text is no duration."""
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
# The fields of the root that rules may read even if the schema does not declare them.
_TYPE_META: Mapping[str, Shape] = {"apiVersion": _STRING, "kind": _STRING, "metadata": _METADATA}
