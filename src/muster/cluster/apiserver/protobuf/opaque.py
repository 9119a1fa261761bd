"""Decode messages that the published schemas leave open.

The open parts are JSON inside a message, entries of managed fields, and schemas of custom resources.
`k8s.io/apimachinery` and `k8s.io/apiextensions-apiserver` publish the numbers of the fields. As in all messages of Go,
the zero of a field that is no pointer means that the field is not set. So the decoders omit it.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from muster.cluster.apiserver.protobuf import wireformat
from muster.cluster.apiserver.protobuf.wireformat import FIXED64, ProtobufError, Value, as_bytes, as_integer, as_text

_Decode: TypeAlias = Callable[[Value], Any]
# A field: its name, its decoder, and its shape. A shape is "" for one value, "!" for one value whose zero is kept, "*"
# for a list, or "=" for a map.
_Field: TypeAlias = tuple[str, _Decode, str]


def decode_raw_json(value: Value) -> Any:
    """Return the JSON value that the message contains as text; None for an empty text or for null.

    Raises `ProtobufError` if the message is malformed or the text is no JSON.
    """
    parts = {number: part for number, _, part in wireformat.read_fields(as_bytes(value))}
    text = as_bytes(parts.get(1, b""))
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtobufError(f"what should be JSON is none: {error}") from None


def decode_empty(_value: Value) -> dict[str, Any]:
    """Return an empty object, for a message without fields whose presence alone matters."""
    return {}


def decode_managed_fields(value: Value) -> dict[str, Any]:
    """Decode an entry of `metadata.managedFields`. Raises `ProtobufError` if the message is malformed."""
    return _decode_message(value, _MANAGED_FIELDS)


def decode_schema(value: Value) -> dict[str, Any]:
    """Decode the OpenAPI schema of a custom resource. Raises `ProtobufError` if the message is malformed."""
    return _decode_message(value, _SCHEMA)


def _decode_message(value: Value, fields: Mapping[int, _Field]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for number, wire, raw in wireformat.read_fields(as_bytes(value)):
        if number not in fields:
            continue
        name, decode, shape = fields[number]
        if decode is _decode_double and wire != FIXED64:
            raise ProtobufError(f"field {number} should be a number of 64 bits")
        if shape == "=":
            parts = {part: inner for part, _, inner in wireformat.read_fields(as_bytes(raw))}
            result.setdefault(name, {})[as_text(parts.get(1, b""))] = decode(parts.get(2, b""))
        elif shape == "*":
            result.setdefault(name, []).append(decode(raw))
        elif (decoded := decode(raw)) not in ("", False, None) or (shape == "!" and decoded is not None):
            result[name] = decoded
    return result


def _decode_flag(value: Value) -> bool:
    return as_integer(value) != 0


def _decode_double(value: Value) -> float | int:
    number: float = struct.unpack("<d", as_bytes(value))[0]
    if number != number or number in (float("inf"), float("-inf")):
        raise ProtobufError("a number is none")
    return int(number) if number.is_integer() else number


def _decode_schema_or_many(value: Value) -> Any:
    message = _decode_message(value, {1: ("one", decode_schema, "!"), 2: ("many", decode_schema, "*")})
    return message.get("one", message.get("many", []))


def _decode_schema_or_flag(value: Value) -> Any:
    message = _decode_message(value, {1: ("allows", _decode_flag, "!"), 2: ("schema", decode_schema, "!")})
    return message.get("schema", message.get("allows", False))


def _decode_schema_or_names(value: Value) -> Any:
    message = _decode_message(value, {1: ("schema", decode_schema, "!"), 2: ("names", as_text, "*")})
    return message.get("schema", message.get("names", []))


def _decode_docs(value: Value) -> Any:
    return _decode_message(value, {1: ("description", as_text, ""), 2: ("url", as_text, "")})


def _decode_rule(value: Value) -> Any:
    return _decode_message(value, _RULE)


def _decode_time(value: Value) -> Any:
    return wireformat.as_time(value)


_MANAGED_FIELDS: dict[int, _Field] = {
    1: ("manager", as_text, ""),
    2: ("operation", as_text, ""),
    3: ("apiVersion", as_text, ""),
    4: ("time", _decode_time, ""),
    6: ("fieldsType", as_text, ""),
    7: ("fieldsV1", decode_raw_json, "!"),
    8: ("subresource", as_text, ""),
}
_RULE: dict[int, _Field] = {
    1: ("rule", as_text, "!"),
    2: ("message", as_text, ""),
    3: ("messageExpression", as_text, ""),
    4: ("reason", as_text, "!"),
    5: ("fieldPath", as_text, ""),
    6: ("optionalOldSelf", _decode_flag, "!"),
}
_SCHEMA: dict[int, _Field] = {
    1: ("id", as_text, ""),
    2: ("$schema", as_text, ""),
    3: ("$ref", as_text, "!"),
    4: ("description", as_text, ""),
    5: ("type", as_text, ""),
    6: ("format", as_text, ""),
    7: ("title", as_text, ""),
    8: ("default", decode_raw_json, "!"),
    9: ("maximum", _decode_double, "!"),
    10: ("exclusiveMaximum", _decode_flag, ""),
    11: ("minimum", _decode_double, "!"),
    12: ("exclusiveMinimum", _decode_flag, ""),
    13: ("maxLength", as_integer, "!"),
    14: ("minLength", as_integer, "!"),
    15: ("pattern", as_text, ""),
    16: ("maxItems", as_integer, "!"),
    17: ("minItems", as_integer, "!"),
    18: ("uniqueItems", _decode_flag, ""),
    19: ("multipleOf", _decode_double, "!"),
    20: ("enum", decode_raw_json, "*"),
    21: ("maxProperties", as_integer, "!"),
    22: ("minProperties", as_integer, "!"),
    23: ("required", as_text, "*"),
    24: ("items", _decode_schema_or_many, "!"),
    25: ("allOf", decode_schema, "*"),
    26: ("oneOf", decode_schema, "*"),
    27: ("anyOf", decode_schema, "*"),
    28: ("not", decode_schema, "!"),
    29: ("properties", decode_schema, "="),
    30: ("additionalProperties", _decode_schema_or_flag, "!"),
    31: ("patternProperties", decode_schema, "="),
    32: ("dependencies", _decode_schema_or_names, "="),
    33: ("additionalItems", _decode_schema_or_flag, "!"),
    34: ("definitions", decode_schema, "="),
    35: ("externalDocs", _decode_docs, "!"),
    36: ("example", decode_raw_json, "!"),
    37: ("nullable", _decode_flag, ""),
    38: ("x-kubernetes-preserve-unknown-fields", _decode_flag, "!"),
    39: ("x-kubernetes-embedded-resource", _decode_flag, ""),
    40: ("x-kubernetes-int-or-string", _decode_flag, ""),
    41: ("x-kubernetes-list-map-keys", as_text, "*"),
    42: ("x-kubernetes-list-type", as_text, "!"),
    43: ("x-kubernetes-map-type", as_text, "!"),
    44: ("x-kubernetes-validations", _decode_rule, "*"),
}

# The decoders of the fields that the published schemas leave open, by message and field.
OPEN: dict[tuple[str, str], _Decode] = {
    ("ObjectMeta", "managedFields"): decode_managed_fields,
    ("CustomResourceValidation", "openAPIV3Schema"): decode_schema,
    ("CustomResourceSubresources", "status"): decode_empty,
}
