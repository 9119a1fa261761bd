"""Frames, the units of a connection of HTTP/2: their numbers, reading and writing (RFC 9113, sections 4 and 6)."""

import struct
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_BYTES = 16_384  # the largest payload in both directions: the protocol's default
MAX_WINDOW = (1 << 31) - 1
DEFAULT_WINDOW = 65_535

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

# Flags.
END_STREAM = ACK = 0x01
END_HEADERS = 0x04
PADDED = 0x08
HAS_PRIORITY = 0x20

# Settings.
ENABLE_PUSH = 2
MAX_CONCURRENT_STREAMS = 3
INITIAL_WINDOW_SIZE = 4
MAX_FRAME_SIZE = 5
MAX_HEADER_LIST_SIZE = 6

_HEAD = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_NUMBER = struct.Struct(">I")
_TWO_NUMBERS = struct.Struct(">II")
HEAD_BYTES = 9
PRIORITY_BYTES = 5


class Code(IntEnum):
    """The reason why a stream or a connection closes."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Frame(NamedTuple):
    """A received frame."""

    type: int
    flags: int
    stream: int
    payload: bytes


class BadConnection(Exception):  # noqa: N818  (the name states the fact)
    """A breach of the protocol for which the connection is closed."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_next_frame(buffer: bytes, at: int) -> tuple[Frame | None, int]:
    """Return the frame at an offset and the offset after it; None and the same offset if it is incomplete.

    Raises `BadConnection` if the frame is too long.
    """
    if len(buffer) - at < HEAD_BYTES:
        return None, at
    high, low, type_, flags, stream = _HEAD.unpack_from(buffer, at)
    length = high << 8 | low
    if length > MAX_FRAME_BYTES:
        raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame is longer than was allowed")
    begin = at + HEAD_BYTES
    end = begin + length
    if len(buffer) < end:
        return None, at
    return Frame(type_, flags, stream & MAX_WINDOW, buffer[begin:end]), end


def encode_head(length: int, type_: int, flags: int, stream: int) -> bytes:
    """Return the head of a frame whose payload has `length` bytes."""
    return _HEAD.pack(length >> 8, length & 0xFF, type_, flags, stream)


def encode_headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """Return the frames of an encoded header list: HEADERS, and CONTINUATION as needed.

    ends: whether the stream ends with these headers.
    """
    flags = END_STREAM if ends else 0
    if len(block) <= MAX_FRAME_BYTES:
        return encode_head(len(block), HEADERS, flags | END_HEADERS, stream) + block
    pieces = [block[first : first + MAX_FRAME_BYTES] for first in range(0, len(block), MAX_FRAME_BYTES)]
    written = [encode_head(len(pieces[0]), HEADERS, flags, stream), pieces[0]]
    for piece in pieces[1:]:
        written += [encode_head(len(piece), CONTINUATION, END_HEADERS if piece is pieces[-1] else 0, stream), piece]
    return b"".join(written)


def encode_settings(values: dict[int, int]) -> bytes:
    """Return a SETTINGS frame."""
    payload = b"".join(_SETTING.pack(*item) for item in values.items())
    return encode_head(len(payload), SETTINGS, 0, 0) + payload


def settings_of(payload: bytes) -> list[tuple[int, int]]:
    """Return the settings in a payload, in their order. Raises `BadConnection`."""
    if len(payload) % _SETTING.size:
        raise BadConnection(Code.FRAME_SIZE_ERROR, "settings of a wrong size")
    return [*_SETTING.iter_unpack(payload)]


def window_update(stream: int, size: int) -> bytes:
    """Return the frame that opens a window by `size` bytes; stream 0 is the connection."""
    return encode_head(4, WINDOW_UPDATE, 0, stream) + _NUMBER.pack(size)


def encode_reset(stream: int, code: Code) -> bytes:
    """Return the frame that closes a stream at once."""
    return encode_head(4, RST_STREAM, 0, stream) + _NUMBER.pack(code)


def go_away(last: int, code: Code, text: str = "") -> bytes:
    """Return the frame that announces that the server ignores every stream after `last`."""
    debug_data = text.encode()
    return encode_head(8 + len(debug_data), GOAWAY, 0, 0) + _TWO_NUMBERS.pack(last, code) + debug_data


def number_of(payload: bytes) -> int:
    """Return the number that is the whole payload of a frame. Raises `BadConnection` for a wrong size."""
    if len(payload) != _NUMBER.size:
        raise BadConnection(Code.FRAME_SIZE_ERROR, "a frame of a wrong size")
    (number,) = _NUMBER.unpack(payload)
    return int(number)


def remove_padding(frame: Frame) -> bytes:
    """Return the payload without padding. Raises `BadConnection` for invalid padding."""
    payload = frame.payload
    if not frame.flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise BadConnection(Code.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]
