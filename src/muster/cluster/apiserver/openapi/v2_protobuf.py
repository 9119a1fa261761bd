"""Encode the OpenAPI v2 document in protobuf, the only encoding in which kubectl reads v2.

kubectl 1.28 requests the document before v3, and fails without it. Later releases request it only if v3 is missing.
The messages and the numbers of their fields follow gnostic's OpenAPIv2. The encoder covers the parts of OpenAPI
that Muster's documents use.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# The Content-Type of a response may not contain an `@`.
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def encode_document(info: Mapping[str, str], path_parts: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """Encode gnostic's `Document` from the results of `encode_paths` and `encode_definition`.

    info: the title and version of the API.
    """
    return _join_parts(
        _encode_field(1, "2.0"),
        _encode_field(2, _join_parts(_encode_field(1, info["title"]), _encode_field(2, info["version"]))),
        _encode_field(8, b"".join(path_parts)),
        _encode_field(9, b"".join(definitions)),
    )


def encode_paths(items: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Encode path items of OpenAPI v2, given by path, for `encode_document`."""
    return b"".join(_encode_named(2, path, _encode_path_item(item)) for path, item in items.items())


def encode_definition(name: str, schema: Mapping[str, Any]) -> bytes:
    """Encode a definition of OpenAPI v2, for `encode_document`."""
    return _encode_named(1, name, _encode_schema(schema))


def _encode_path_item(item: Mapping[str, Any]) -> bytes:
    operations = [
        _encode_field(number, _encode_operation(item[method])) for method, number in _METHODS.items() if method in item
    ]
    return _join_parts(*operations, _encode_each(9, item["parameters"], _encode_parameter))


def _encode_operation(operation: Mapping[str, Any]) -> bytes:
    """Encode an operation. The numbers are those of the fields of `Operation` in gnostic's OpenAPIv2.proto."""
    responses = [
        _encode_named(
            1,
            code,
            _encode_field(
                1,
                _join_parts(
                    _encode_field(1, response["description"]),
                    _encode_field(2, _encode_field(1, _encode_schema(response["schema"]))),
                ),
            ),
        )
        for code, response in operation["responses"].items()
    ]
    return _join_parts(
        _encode_each(1, operation["tags"], str.encode),
        _encode_field(3, operation["description"]),
        _encode_field(5, operation["operationId"]),
        _encode_each(6, operation["produces"], str.encode),
        _encode_each(7, operation["consumes"], str.encode),
        _encode_each(8, operation["parameters"], _encode_parameter),
        _encode_field(9, b"".join(responses)),
        _encode_each(10, operation["schemes"], str.encode),
        _encode_extensions(13, operation),
    )


def _encode_parameter(parameter: Mapping[str, Any]) -> bytes:
    required, name = parameter.get("required", False), parameter["name"]
    if parameter["in"] == "body":
        body = _join_parts(
            _encode_field(2, name),
            _encode_field(3, "body"),
            _encode_field(4, required),
            _encode_field(5, _encode_schema(parameter["schema"])),
        )
        return _encode_field(1, _encode_field(1, body))
    described = _join_parts(
        _encode_field(1, required),
        _encode_field(2, parameter["in"]),
        _encode_field(3, parameter["description"]),
        _encode_field(4, name),
    )
    if parameter["in"] == "query":
        other = _encode_field(
            3, _join_parts(described, _encode_field(6, parameter["type"]), _encode_field(20, parameter["uniqueItems"]))
        )
    else:
        other = _encode_field(
            4, _join_parts(described, _encode_field(5, parameter["type"]), _encode_field(19, parameter["uniqueItems"]))
        )
    return _encode_field(1, _encode_field(2, other))


def _encode_schema(schema: Mapping[str, Any]) -> bytes:
    properties = [
        _encode_named(1, name, _encode_schema(member)) for name, member in schema.get("properties", {}).items()
    ]
    others = schema.get("additionalProperties")
    return _join_parts(
        _encode_field(1, schema.get("$ref", "")),
        _encode_field(2, schema.get("format", "")),
        _encode_field(4, schema.get("description", "")),
        _encode_field(5, _encode_any(schema["default"])) if "default" in schema else b"",
        _encode_each(19, schema.get("required", ()), str.encode),
        _encode_each(20, schema.get("enum", ()), _encode_any),
        _encode_field(21, _encode_field(1, _encode_schema(others))) if isinstance(others, dict) else b"",
        _encode_field(22, _encode_field(1, schema["type"])) if "type" in schema else b"",
        _encode_field(23, _encode_field(1, _encode_schema(schema["items"]))) if "items" in schema else b"",
        _encode_field(25, b"".join(properties)) if properties else b"",
        _encode_extensions(31, schema),
    )


def _encode_extensions(number: int, node: Mapping[str, Any]) -> bytes:
    return b"".join(
        _encode_named(number, name, _encode_any(value)) for name, value in node.items() if name.startswith("x-")
    )


def _encode_any(value: Any) -> bytes:
    # The message holds YAML, and JSON is YAML.
    return _encode_field(2, msgspec.json.encode(value))


def _encode_named(number: int, name: str, value: bytes) -> bytes:
    return _encode_field(number, _join_parts(_encode_field(1, name), _encode_field(2, value)))


def _encode_each(number: int, items: Iterable[Any], encode_item: Callable[[Any], bytes]) -> bytes:
    return b"".join(_encode_field(number, encode_item(item)) for item in items)


def _join_parts(*parts: bytes) -> bytes:
    return b"".join(parts)


def _encode_field(number: int, value: str | bytes | bool) -> bytes:
    """Encode one field. As in protobuf 3, return b"" for an empty text or a false, but not for an empty message.

    value: a text, a boolean, or an encoded message.
    """
    if isinstance(value, bool):
        return _encode_varint(number << 3) + b"\x01" if value else b""
    if value == "":
        return b""
    data = value.encode() if isinstance(value, str) else value
    return _encode_varint(number << 3 | 2) + _encode_varint(len(data)) + data


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
