"""Decode objects in Kubernetes' protobuf encoding: `decode` takes a body and returns a JSON document.

Go clients since 1.32 write built-in kinds in protobuf by default, and do not fall back to JSON, for example in
`kubectl create configmap`. These clients read JSON, so no encoder is needed. `muster.api.published` contains the type
and number of each field. `opaque` decodes parts without a schema, such as JSON inside a message. Fields without a
schema are ignored, like unknown fields of JSON.

Go writes the zero of every field that is no pointer. The decoder omits such a zero unless JSON always has the field. It
keeps the zero of an optional field, because the client set it.
"""

import base64
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from muster.api import meta, published
from muster.api.meta import DeleteOptions
from muster.api.schema import Schema, component_name, schema_of
from muster.cluster.apiserver.protobuf import wireformat
from muster.cluster.apiserver.protobuf.opaque import OPEN, decode_raw_json
from muster.cluster.apiserver.protobuf.wireformat import ProtobufError, Value, as_bytes, as_integer, as_text, as_time

_DELETE_OPTIONS = component_name(DeleteOptions)

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"


def decode(body: bytes) -> dict[str, Any]:
    """Decode the object in a body, with its apiVersion and kind.

    Raises `ProtobufError` if the body is malformed, or if the kind has no published schema, as custom resources.
    """
    if not body.startswith(_MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf does")
    envelope = {number: value for number, _, value in wireformat.read_fields(body[len(_MAGIC) :])}
    type_meta = {number: as_text(value) for number, _, value in wireformat.read_fields(as_bytes(envelope.get(1, b"")))}
    version, kind = type_meta.get(1, ""), type_meta.get(2, "")
    if envelope.get(3):
        raise ProtobufError("the object within the body is encoded once more")
    component = _DELETE_OPTIONS if kind == "DeleteOptions" else _find_component(version, kind)
    if not component:
        raise ProtobufError(f"no kind {kind[:100]!r} in version {version[:100]!r} is known in protobuf")
    document: dict[str, Any] = _make_message_decoder(component)(envelope.get(2, b""))
    return {"apiVersion": version, "kind": kind} | document


def _find_component(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return published.component_of_kind(group, version, kind)


_Decode: TypeAlias = Callable[[Value], Any]


class _Field(Struct, frozen=True):
    """A field of a message.

    name: the name in JSON; "" for an inline field.
    shape: whether the field has one value, a list or a map, or is a message whose fields join the outer object.
    keeps_zero: whether the decoder keeps a zero: "", 0 or false.
    """

    name: str
    decode: _Decode
    shape: Literal["single", "list", "map", "inline"]
    keeps_zero: bool


@cache
def _make_message_decoder(component: str) -> _Decode:
    """Return the decoder of a component's messages."""
    return _make_decoder(_make_fields(component, _find_schema(component)["properties"]))


def _find_schema(component: str) -> Schema:
    return published.schema_of(component) or schema_of(vars(meta)[component.rpartition(".")[2]])


def _make_fields(message: str, properties: Schema) -> dict[int, _Field]:
    """Return the fields of a message by number, without fields that have no decoder.

    properties: the schemas of the fields by name, including the fields of inline messages.
    """
    package, _, short_name = message.rpartition(".")
    fields: dict[int, _Field] = {}
    for number, name, is_optional, is_always_written in published.fields_of(message):
        if name.startswith("*"):
            inner = _make_decoder(_make_fields(f"{package}.{name[1:]}", properties))
            fields[number] = _Field("", inner, "inline", keeps_zero=True)
        elif name in properties:
            own = OPEN.get((short_name, name))
            if field := _make_field(name, properties[name], own, keeps_zero=is_optional or is_always_written):
                fields[number] = field
    return fields


def _make_field(name: str, schema: Schema, own: _Decode | None, *, keeps_zero: bool) -> _Field | None:
    """Return a field; None if no decoder fits its schema and `own` is None.

    own: the special decoder of this field; None if it needs none.
    """
    if schema.get("type") == "array":
        item = own or _make_value_decoder(schema["items"])
        return _Field(name, item, "list", keeps_zero=True) if item else None
    if "additionalProperties" in schema and not own:
        value = _make_value_decoder(schema["additionalProperties"])
        return _Field(name, _make_entry_decoder(value), "map", keeps_zero=True) if value else None
    value = own or _make_value_decoder(schema)
    return _Field(name, value, "single", keeps_zero=keeps_zero) if value else None


def _make_value_decoder(schema: Schema) -> _Decode | None:
    """Return the decoder of a value; None if the schema leaves its type open, or for a number with a fraction."""
    if "$ref" in schema or "allOf" in schema:
        reference = schema["$ref"] if "$ref" in schema else schema["allOf"][0]["$ref"]
        return _make_message_decoder(reference.rpartition("/")[2])
    if "oneOf" in schema:
        return _decode_quantity
    if schema.get("x-kubernetes-int-or-string"):
        return _decode_int_or_string
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return decode_raw_json
    return _SCALARS.get((schema.get("type"), schema.get("format") if schema.get("type") == "string" else None))


def _make_decoder(fields: dict[int, _Field]) -> _Decode:
    """Return the decoder of a message, which returns a JSON object. Unknown fields are dropped.

    fields: the fields by their numbers.
    """

    def decode_message(value: Value) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for number, wire, raw in wireformat.read_fields(as_bytes(value)):
            field = fields.get(number)
            if field is None:
                continue
            match field.shape:
                case "list":
                    items = (
                        wireformat.read_numbers(as_bytes(raw))
                        if wire == wireformat.BYTES and field.decode is as_integer
                        else [raw]
                    )
                    result.setdefault(field.name, []).extend(field.decode(item) for item in items)
                case "map":
                    result.setdefault(field.name, {}).update(field.decode(raw))
                case "inline":
                    result |= field.decode(raw)
                case _:
                    decoded = field.decode(raw)
                    if decoded is not None and (field.keeps_zero or decoded not in _ZEROES):
                        result[field.name] = decoded
        return result

    return decode_message


_ZEROES: tuple[Any, ...] = ("", 0, False)


def _make_entry_decoder(value: _Decode) -> _Decode:
    """Return the decoder of an entry of a map: a message with a key and a value, where a missing part is a zero."""

    def decode_entry(raw: Value) -> dict[str, Any]:
        parts = {number: part for number, _, part in wireformat.read_fields(as_bytes(raw))}
        return {as_text(parts.get(1, b"")): value(parts.get(2, b""))}

    return decode_entry


def _decode_quantity(value: Value) -> str:
    return next((as_text(part) for number, _, part in wireformat.read_fields(as_bytes(value)) if number == 1), "0")


def _decode_int_or_string(value: Value) -> int | str:
    parts = {number: part for number, _, part in wireformat.read_fields(as_bytes(value))}
    return as_text(parts.get(3, b"")) if parts.get(1) else as_integer(parts.get(2, 0))


_SCALARS: dict[Any, _Decode] = {
    ("string", None): as_text,
    ("integer", None): as_integer,
    ("boolean", None): lambda value: as_integer(value) != 0,
    ("string", "byte"): lambda value: base64.b64encode(as_bytes(value)).decode(),
    ("string", "date-time"): as_time,
    ("string", "micro-time"): partial(as_time, microseconds=True),
}
