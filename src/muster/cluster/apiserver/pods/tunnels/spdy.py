"""Decode and encode frames of SPDY/3.1 for a server: take bytes and return events, without I/O.

kubectl forwards ports in such frames inside a WebSocket (kubernetes KEP-4006). The module supports the part that
kubectl uses: streams that the client opens, data, resets and pings. It has no flow-control windows, because no peer
respects them: each peer pauses the whole connection instead. Source: the SPDY/3.1 draft.
"""

import zlib
from enum import IntEnum
from typing import TypeAlias

from msgspec import Struct

_VERSION = 3
_FIN = 1
MAX_CONTROL_BYTES = 64 << 10  # the limit of a control frame; data frames are not collected, and have no limit
MAX_HEADER_BYTES = 64 << 10  # the limit of the decompressed headers of one frame
MAX_HEADERS = 100  # the limit for one frame

PROTOCOL_ERROR, REFUSED_STREAM = 1, 3


class _Kind(IntEnum):
    """The types of control frames that clients send; SPDY has more."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    PING = 6
    HEADERS = 8


_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_REST = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(
        len(word).to_bytes(4, "big") + word.replace("_", " ").encode() for word in _WORDS.split(" ")
    )
    + _REST.encode()
)  # fmt: skip


class SpdyError(ValueError):
    """A breach of the protocol by the peer. The connection cannot be used afterwards."""


class Opened(Struct, frozen=True):
    """The event that the client has opened a stream. last: whether the client will write nothing to the stream."""

    stream: int
    headers: dict[str, str]
    last: bool = False


class Data(Struct, frozen=True):
    """The event that the client has written to a stream.

    last: whether the client will write no more to the stream.
    """

    stream: int
    data: bytes
    last: bool = False


class Reset(Struct, frozen=True):
    """The event that the client has reset a stream."""

    stream: int


Event: TypeAlias = Opened | Data | Reset


class Spdy:
    """The server's side of one SPDY connection."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # The data frame that is being received: its stream, whether it is the stream's last, and its missing bytes.
        self._data_stream, self._last, self._left = 0, False, 0
        self._answers: list[bytes] = []
        self._newest = 0  # the highest stream that the client opened
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> list[Event]:
        """Return the events in the bytes received so far. Raises `SpdyError`.

        The data of an incomplete data frame is returned at once. `take_answers` returns the frames that must be sent
        for these bytes.
        """
        self._buffer += data
        events: list[Event] = []
        while True:
            if self._left:
                if not self._buffer:
                    return events
                events.append(self._read_data())
            elif len(self._buffer) < 8:
                return events
            elif not self._buffer[0] & 0x80:
                events += self._begin_data()
            else:
                end = 8 + int.from_bytes(self._buffer[5:8], "big")
                if end > MAX_CONTROL_BYTES:
                    raise SpdyError(f"a control frame is longer than {MAX_CONTROL_BYTES} bytes")
                if len(self._buffer) < end:
                    return events
                events += self._process_control_frame(self._consume(end))

    def take_answers(self) -> bytes:
        """Return the frames to send because of the received frames (echoes of pings), and forget them."""
        answers, self._answers = self._answers, []
        return b"".join(answers)

    def encode_reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream.

        These frames must be sent in the order of the calls, because one compressor encodes all their headers.
        """
        return _encode_control_frame(_Kind.SYN_REPLY, stream.to_bytes(4, "big") + self._compress_headers({}))

    def encode_data(self, stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Return the frame that carries data on a stream. last: whether the server will write no more to the stream."""
        head = stream.to_bytes(4, "big") + bytes((_FIN if last else 0,)) + len(data).to_bytes(3, "big")
        return head + data

    def encode_reset(self, stream: int, status: int = PROTOCOL_ERROR) -> bytes:
        """Return the frame that resets a stream. status: the reason, such as `PROTOCOL_ERROR`."""
        return _encode_control_frame(_Kind.RST_STREAM, stream.to_bytes(4, "big") + status.to_bytes(4, "big"))

    def _consume(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def _begin_data(self) -> list[Event]:
        """Read the head of a data frame; an empty frame is complete with its head."""
        head = self._consume(8)
        self._data_stream, self._last = int.from_bytes(head[:4], "big"), bool(head[4] & _FIN)
        self._left = int.from_bytes(head[5:], "big")
        return [] if self._left else [Data(self._data_stream, b"", self._last)]

    def _read_data(self) -> Data:
        data = self._consume(min(self._left, len(self._buffer)))
        self._left -= len(data)
        return Data(self._data_stream, data, self._last and not self._left)

    def _process_control_frame(self, frame: bytes) -> list[Event]:
        flags, body = frame[4], frame[8:]
        version, kind = int.from_bytes(frame[:2], "big") & 0x7FFF, int.from_bytes(frame[2:4], "big")
        if version != _VERSION:
            raise SpdyError(f"version {version} of SPDY is not spoken")
        match kind:
            case _Kind.SYN_STREAM:
                return [self._open_stream(flags, body)]
            case _Kind.RST_STREAM:
                return [Reset(_read_stream_number(body, 8))]
            case _Kind.PING:
                self._answers.append(frame)
                return []
            case _Kind.HEADERS:  # no client sends them, but decompressing them advances the shared compression state
                stream = _read_stream_number(body, 4)
                self._parse_headers(body[4:])
                return [Data(stream, b"", last=True)] if flags & _FIN else []
            case _:  # SETTINGS, GOAWAY, WINDOW_UPDATE and unknown frames are ignored
                return []

    def _open_stream(self, flags: int, body: bytes) -> Opened:
        stream = _read_stream_number(body, 10)
        if stream % 2 == 0 or stream <= self._newest:
            raise SpdyError(f"stream {stream} cannot be opened after stream {self._newest}")
        self._newest = stream
        return Opened(stream, self._parse_headers(body[10:]), bool(flags & _FIN))

    def _parse_headers(self, block: bytes) -> dict[str, str]:
        """Return the headers of a block, with names in lower case; of several values, the first counts.

        Raises `SpdyError`.
        """
        try:
            plain = self._inflate.decompress(block, MAX_HEADER_BYTES)
        except zlib.error as error:
            raise SpdyError(f"headers cannot be read: {error}") from None
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers are longer than {MAX_HEADER_BYTES} bytes")
        count, position = _decode_integer(plain, 0), 4
        if count > MAX_HEADERS:
            raise SpdyError(f"there are more than {MAX_HEADERS} headers")
        headers = {}
        for _ in range(count):
            name, position = _decode_text(plain, position)
            value, position = _decode_text(plain, position)
            headers[name.lower()] = value.partition("\0")[0]
        return headers

    def _compress_headers(self, headers: dict[str, str]) -> bytes:
        plain = len(headers).to_bytes(4, "big")
        for pair in headers.items():
            for text in pair:
                data = text.encode()
                plain += len(data).to_bytes(4, "big") + data
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)


def _encode_control_frame(kind: _Kind, body: bytes) -> bytes:
    head = (0x8000 | _VERSION).to_bytes(2, "big") + kind.to_bytes(2, "big") + b"\0"
    return head + len(body).to_bytes(3, "big") + body


def _read_stream_number(body: bytes, least: int) -> int:
    """Return the number of the stream in a frame. Raises `SpdyError` if the body is shorter than `least` bytes."""
    if len(body) < least:
        raise SpdyError("a frame is too short")
    return int.from_bytes(body[:4], "big") & 0x7FFFFFFF


def _decode_integer(data: bytes, position: int) -> int:
    if len(data) < position + 4:
        raise SpdyError("headers end too early")
    return int.from_bytes(data[position : position + 4], "big")


def _decode_text(data: bytes, position: int) -> tuple[str, int]:
    start = position + 4
    end = start + _decode_integer(data, position)
    if len(data) < end:
        raise SpdyError("headers end too early")
    return data[start:end].decode("latin-1"), end
