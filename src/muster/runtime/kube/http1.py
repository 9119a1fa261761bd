"""Encode requests of HTTP/1.1 and parse the responses of Muster's own server. The caller moves the bytes.

`AnswerReader` takes bytes as they arrive, and returns the head of a response and then the pieces of its body. The body
has a length, comes in chunks, or ends with the connection. Trailers are dropped.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

# The longest head of an answer, and the longest line of a chunk's size.
_MAX_HEAD = 64 << 10
_END_OF_HEAD = b"\r\n\r\n"
_END_OF_LINE = b"\r\n"


class MalformedAnswerError(ValueError):
    """Bytes from the server that are no response of HTTP/1.1."""


class Head(Struct, frozen=True):
    """The status of a response, and its headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]


def write_request(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """Return the bytes of a request to the server of this machine.

    Raises `MalformedAnswerError` for a header that would end its line.
    """
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in headers)]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"Content-Length: {len(body)}")
    if any("\r" in line or "\n" in line for line in lines):
        raise MalformedAnswerError("a header holds the end of a line")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + body


class AnswerReader:
    """A parser of one response. Call `add` with each piece of bytes, and `end` when the connection closes."""

    def __init__(self) -> None:
        self.head: Head | None = None
        self.is_whole = False  # whether the body is complete
        self.may_go_on = False  # whether the connection serves another request afterwards
        self._rest = bytearray()
        self._left: int | None = None  # bytes of a body without chunks; None: until the connection ends
        self._in_chunks = False
        self._expected: Literal["size", "data", "line end", "trailer"] = "size"  # the next part of a chunked body
        self._chunk_left = 0

    def add(self, data: bytes) -> list[bytes]:
        """Add bytes, and return the pieces of the body in them. Raises `MalformedAnswerError`."""
        if self.head is None or self._in_chunks:
            self._rest += data
            if self.head is None and not self._read_head():
                return []
            if self._in_chunks:
                return self._read_chunks()
            data, self._rest = bytes(self._rest), bytearray()
        return self._read_plain(data)

    def end(self) -> bool:
        """Handle the end of the connection; return whether the response is complete."""
        if self.head is not None and not self._in_chunks and self._left is None:
            self.is_whole = True
        self.may_go_on = False
        return self.is_whole

    def _read_head(self) -> bool:
        at = self._rest.find(_END_OF_HEAD)
        if at < 0:
            if len(self._rest) > _MAX_HEAD:
                raise MalformedAnswerError("its head has no end")
            return False
        first, *lines = bytes(self._rest[:at]).decode("latin-1").split("\r\n")
        del self._rest[: at + len(_END_OF_HEAD)]
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise MalformedAnswerError("it is not HTTP")
        headers: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(":")
            key, value = name.strip().lower(), value.strip()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        self.head = Head(int(status[:3]), headers)
        self._begin_body(self.head)
        return True

    def _begin_body(self, head: Head) -> None:
        self.may_go_on = head.headers.get("connection", "").lower() != "close"
        length = head.headers.get("content-length", "")
        if head.status in (204, 304):
            self._left = 0
        elif "chunked" in head.headers.get("transfer-encoding", "").lower():
            self._in_chunks = True
        elif length:
            self._left = _to_size(length, 10)
        else:
            self.may_go_on = False

    def _read_plain(self, data: bytes) -> list[bytes]:
        piece = data[: self._left]  # the data themselves if they end before, without a copy
        self._rest += data[len(piece) :]
        if self._left is not None:
            self._left -= len(piece)
            self.is_whole = self._left == 0
        return [piece] if piece else []

    def _read_chunks(self) -> list[bytes]:
        pieces, at = [], 0
        while not self.is_whole:
            if self._expected == "data":
                if piece := bytes(self._rest[at : at + self._chunk_left]):
                    pieces.append(piece)
                at += len(piece)
                self._chunk_left -= len(piece)
                if self._chunk_left:
                    break
                self._expected = "line end"
            line_end = self._rest.find(_END_OF_LINE, at)
            if line_end < 0:
                if len(self._rest) - at > _MAX_HEAD:
                    raise MalformedAnswerError("the size of a chunk has no end")
                break
            self._read_line(bytes(self._rest[at:line_end]).decode("latin-1"))
            at = line_end + len(_END_OF_LINE)
        del self._rest[:at]
        return pieces

    def _read_line(self, line: str) -> None:
        """Handle a line between chunks: the size of a chunk, the end of a chunk, or a trailer."""
        if self._expected == "trailer":
            self.is_whole = not line
        elif self._expected == "size":
            self._chunk_left = _to_size(line.partition(";")[0].strip(), 16)
            self._expected = "data" if self._chunk_left else "trailer"
        elif line:
            raise MalformedAnswerError("a chunk is longer than its size")
        else:
            self._expected = "size"


def _to_size(text: str, base: int) -> int:
    try:
        size = int(text, base)
    except ValueError:
        size = -1
    if size < 0:
        raise MalformedAnswerError(f"it gives {text[:20]!r} as a size")
    return size
