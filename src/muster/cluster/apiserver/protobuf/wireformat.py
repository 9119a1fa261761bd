"""Decode protobuf's wire format.

`read_fields` takes the bytes of a message and returns its fields by number; the `as_...` functions read their values.
`messages` knows the meaning of each field. Malformed bytes of any kind raise `ProtobufError` and nothing else.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 253402300799  # the last second of the year 9999

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

Value: TypeAlias = int | bytes


class ProtobufError(ValueError):
    """Bytes that are no protobuf message, or no message of a known kind."""


def read_fields(data: bytes) -> Iterator[tuple[int, int, Value]]:
    """Yield the number, the wire type and the value of each field of a message.

    A repeated field is yielded for each of its values. The value of a VARINT field is an unsigned number, and the value
    of any other field is bytes. Raises `ProtobufError` if the bytes are no message.
    """
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, position = _read_varint(data, position)
            yield number, wire, value
            continue
        if wire == BYTES:
            length, position = _read_varint(data, position)
        elif wire in (FIXED64, FIXED32):
            length = 8 if wire == FIXED64 else 4
        else:
            raise ProtobufError(f"field {number} has a form that no field has ({wire})")
        if length > end - position:
            raise ProtobufError(f"field {number} goes on after the end")
        yield number, wire, data[position : position + length]
        position += length


def read_numbers(data: bytes) -> Iterator[int]:
    """Yield the unsigned numbers of a packed field. Raises `ProtobufError` if a number is incomplete."""
    position = 0
    while position < len(data):
        value, position = _read_varint(data, position)
        yield value


def to_signed(value: int) -> int:
    """Return the signed number that an unsigned number of 64 bits encodes."""
    return value - (1 << 64) if value >> 63 else value


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return a number of up to 64 bits, and the position after it. Raises `ProtobufError` if it is incomplete."""
    value = shift = 0
    for place in range(position, min(position + 10, len(data))):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, place + 1
        shift += 7
    raise ProtobufError("a number does not end")


def as_bytes(value: Value) -> bytes:
    """Return the bytes of a text or a message. Raises `ProtobufError` if the value is a number."""
    if isinstance(value, int):
        raise ProtobufError("a number stands where there should be text or an object")
    return value


def as_text(value: Value) -> str:
    """Return a value as text. Raises `ProtobufError` if the value is a number or no UTF-8."""
    try:
        return as_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"a text is not UTF-8: {error}") from None


def as_integer(value: Value) -> int:
    """Return a value as a signed number. Raises `ProtobufError` if the value is not a VARINT."""
    if not isinstance(value, int):
        raise ProtobufError("something else stands where there should be a number")
    return to_signed(value)


def as_time(value: Value, *, microseconds: bool = False) -> str | None:
    """Return a point in time as RFC 3339, cut to microseconds; None for an empty message, the zero of Go's times.

    Raises `ProtobufError` if the message is malformed, or if the time is before 1970 or after 9999.

    microseconds: whether the text has a fraction even if the fraction is zero.
    """
    parts = {number: as_integer(part) for number, _, part in read_fields(as_bytes(value))}
    if not parts:
        return None
    seconds, nanoseconds = parts.get(1, 0), parts.get(2, 0)
    if not (0 <= seconds <= _MAX_SECONDS and 0 <= nanoseconds < 10**9):
        raise ProtobufError(f"{seconds} seconds is no time")
    text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{nanoseconds // 1000:06}Z" if nanoseconds or microseconds else "Z")
