"""The encoder of the OpenAPI v2 document in protobuf, the only encoding in which kubectl reads v2.

kubectl 1.28 requests the document before v3, and fails without it. Later releases request it only if v3 is missing.
The messages and the numbers of their fields are those of gnostic's OpenAPIv2. The encoder covers the parts of OpenAPI
that Muster's documents use.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
# The Content-Type of a response may not contain an `@`.
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def document(info: Mapping[str, str], path_parts: Iterable[bytes], definitions: Iterable[bytes]) -> bytes:
    """Encode gnostic's `Document` from parts that `paths` and `definition` encoded."""
    return _joined(
        _field(1, "2.0"),
        _field(2, _joined(_field(1, info["title"]), _field(2, info["version"]))),
        _field(8, b"".join(path_parts)),
        _field(9, b"".join(definitions)),
    )


def paths(items: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Encode paths and their operations."""
    return b"".join(_named(2, path, _path_item(item)) for path, item in items.items())


def definition(name: str, schema: Mapping[str, Any]) -> bytes:
    """Encode a definition."""
    return _named(1, name, _schema(schema))


def _path_item(item: Mapping[str, Any]) -> bytes:
    operations = [_field(number, _operation(item[method])) for method, number in _METHODS.items() if method in item]
    return _joined(*operations, _each(9, item["parameters"], _parameter))


def _operation(operation: Mapping[str, Any]) -> bytes:
    responses = [
        _named(
            1,
            code,
            _field(1, _joined(_field(1, response["description"]), _field(2, _field(1, _schema(response["schema"]))))),
        )
        for code, response in operation["responses"].items()
    ]
    return _joined(
        _each(1, operation["tags"], str.encode),
        _field(3, operation["description"]),
        _field(5, operation["operationId"]),
        _each(6, operation["produces"], str.encode),
        _each(7, operation["consumes"], str.encode),
        _each(8, operation["parameters"], _parameter),
        _field(9, b"".join(responses)),
        _each(10, operation["schemes"], str.encode),
        _extensions(13, operation),
    )


def _parameter(parameter: Mapping[str, Any]) -> bytes:
    required, name = parameter.get("required", False), parameter["name"]
    if parameter["in"] == "body":
        body = _joined(_field(2, name), _field(3, "body"), _field(4, required), _field(5, _schema(parameter["schema"])))
        return _field(1, _field(1, body))
    described = _joined(
        _field(1, required), _field(2, parameter["in"]), _field(3, parameter["description"]), _field(4, name)
    )
    if parameter["in"] == "query":
        other = _field(3, _joined(described, _field(6, parameter["type"]), _field(20, parameter["uniqueItems"])))
    else:
        other = _field(4, _joined(described, _field(5, parameter["type"]), _field(19, parameter["uniqueItems"])))
    return _field(1, _field(2, other))


def _schema(schema: Mapping[str, Any]) -> bytes:
    properties = [_named(1, name, _schema(member)) for name, member in schema.get("properties", {}).items()]
    others = schema.get("additionalProperties")
    return _joined(
        _field(1, schema.get("$ref", "")),
        _field(2, schema.get("format", "")),
        _field(4, schema.get("description", "")),
        _field(5, _any(schema["default"])) if "default" in schema else b"",
        _each(19, schema.get("required", ()), str.encode),
        _each(20, schema.get("enum", ()), _any),
        _field(21, _field(1, _schema(others))) if isinstance(others, dict) else b"",
        _field(22, _field(1, schema["type"])) if "type" in schema else b"",
        _field(23, _field(1, _schema(schema["items"]))) if "items" in schema else b"",
        _field(25, b"".join(properties)) if properties else b"",
        _extensions(31, schema),
    )


def _extensions(number: int, node: Mapping[str, Any]) -> bytes:
    return b"".join(_named(number, name, _any(value)) for name, value in node.items() if name.startswith("x-"))


def _any(value: Any) -> bytes:
    # JSON is YAML.
    return _field(2, msgspec.json.encode(value))


def _named(number: int, name: str, value: bytes) -> bytes:
    return _field(number, _joined(_field(1, name), _field(2, value)))


def _each(number: int, items: Iterable[Any], encode_item: Callable[[Any], bytes]) -> bytes:
    return b"".join(_field(number, encode_item(item)) for item in items)


def _joined(*parts: bytes) -> bytes:
    return b"".join(parts)


def _field(number: int, value: str | bytes | bool) -> bytes:
    """Encode one field. As in protobuf 3, the result omits an empty text and a false, but not an empty message."""
    if isinstance(value, bool):
        return _varint(number << 3) + b"\x01" if value else b""
    if value == "":
        return b""
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
