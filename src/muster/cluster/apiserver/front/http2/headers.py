"""Encode and decode header lists (HPACK, RFC 7541).

A received list may refer to a dynamic table that both sides keep. A written list never refers to one. That costs a few
bytes, and saves the state.
"""

from collections import deque
from collections.abc import Iterable

from muster.cluster.apiserver.front.http2 import huffman

Field = tuple[bytes, bytes]

TABLE_BYTES = 4096  # the limit of the dynamic table for received lists: the protocol's default
_FIELD_BYTES = 32  # the size of a field in addition to its text, by the protocol
_MAX_INTEGER_BYTES = 5  # enough for every length and index in our bounds

# The static table (RFC 7541, appendix A).
_STATIC: tuple[Field, ...] = (
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"), (b":path", b"/index.html"),
    (b":scheme", b"http"), (b":scheme", b"https"), (b":status", b"200"), (b":status", b"204"), (b":status", b"206"),
    (b":status", b"304"), (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"), (b"accept-language", b""), (b"accept-ranges", b""), (b"accept", b""),
    (b"access-control-allow-origin", b""), (b"age", b""), (b"allow", b""), (b"authorization", b""),
    (b"cache-control", b""), (b"content-disposition", b""), (b"content-encoding", b""), (b"content-language", b""),
    (b"content-length", b""), (b"content-location", b""), (b"content-range", b""), (b"content-type", b""),
    (b"cookie", b""), (b"date", b""), (b"etag", b""), (b"expect", b""), (b"expires", b""), (b"from", b""),
    (b"host", b""), (b"if-match", b""), (b"if-modified-since", b""), (b"if-none-match", b""), (b"if-range", b""),
    (b"if-unmodified-since", b""), (b"last-modified", b""), (b"link", b""), (b"location", b""), (b"max-forwards", b""),
    (b"proxy-authenticate", b""), (b"proxy-authorization", b""), (b"range", b""), (b"referer", b""),
    (b"refresh", b""), (b"retry-after", b""), (b"server", b""), (b"set-cookie", b""),
    (b"strict-transport-security", b""), (b"transfer-encoding", b""), (b"user-agent", b""), (b"vary", b""),
    (b"via", b""), (b"www-authenticate", b""),
)  # fmt: skip
_KNOWN = len(_STATIC)
_NUMBERS = {field: number for number, field in reversed([*enumerate(_STATIC, 1)])}
_NAMES = {name: number for number, (name, _) in reversed([*enumerate(_STATIC, 1)])}


class HeaderError(Exception):
    """A header block that cannot be decoded: the tables of the two sides differ from here on."""


class TooLongError(HeaderError):
    """A header list that exceeds the size limit."""


class Decoder:
    """The decoder of one connection, which must get every header block in order."""

    def __init__(self, most: int) -> None:
        """Make a decoder that accepts header lists of at most `most` bytes.

        Each field counts 32 bytes more than its text, as in HTTP/2.
        """
        self._most = most
        self._table: deque[Field] = deque()  # newest first
        self._size = 0
        self._room = TABLE_BYTES
        self.size = 0  # the size of the last list, counted like `most`

    def decode(self, block: bytes) -> list[Field]:
        """Return the header list of a block. Raises `HeaderError` for an invalid or too long block."""
        try:
            return self._decode(block)
        except IndexError:
            raise HeaderError("a header block ends too early") from None
        except huffman.HuffmanError as error:
            raise HeaderError(str(error)) from None

    def _decode(self, block: bytes) -> list[Field]:
        """Return the fields of a header block, and update the table of known fields (RFC 7541, section 6).

        Raises `HeaderError` for an invalid block, `TooLongError` if the fields exceed the limit.
        """
        fields: list[Field] = []
        at, size, end = 0, 0, len(block)
        while at < end:
            first = block[at]
            if first >= 0x80:
                number, at = (first & 0x7F, at + 1) if first != 0xFF else _decode_integer(block, at, 0x7F)
                field = self._get_known_field(number)
            elif first & 0xE0 == 0x20:
                if fields:
                    raise HeaderError("the size of the table changes behind a field")
                room, at = _decode_integer(block, at, 0x1F)
                self._resize(room)
                continue
            else:
                is_kept = first >= 0x40
                number, at = _decode_integer(block, at, 0x3F if is_kept else 0x0F)
                if number:
                    name = self._get_known_field(number)[0]
                else:
                    name, at = _decode_string(block, at)
                value, at = _decode_string(block, at)
                field = (name, value)
                if is_kept:
                    self._keep(field)
            size += len(field[0]) + len(field[1]) + _FIELD_BYTES
            if size > self._most:
                raise TooLongError("a header list is too long")
            fields.append(field)
        self.size = size
        return fields

    def _get_known_field(self, number: int) -> Field:
        if not 0 < number <= _KNOWN + len(self._table):
            raise HeaderError("a field is named that is not known")
        return _STATIC[number - 1] if number <= _KNOWN else self._table[number - _KNOWN - 1]

    def _keep(self, field: Field) -> None:
        self._table.appendleft(field)
        self._size += len(field[0]) + len(field[1]) + _FIELD_BYTES
        self._forget()

    def _resize(self, room: int) -> None:
        if room > TABLE_BYTES:
            raise HeaderError("the table is to be larger than was said")
        self._room = room
        self._forget()

    def _forget(self) -> None:
        while self._size > self._room:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + _FIELD_BYTES


def _decode_integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """Return the number that begins in the masked bits of a byte, and the offset after it.

    Raises `HeaderError` if the number is too long, `IndexError` if the block ends within it.
    """
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
    raise HeaderError("a number is too long")


def _decode_string(block: bytes, at: int) -> tuple[bytes, int]:
    is_coded = block[at] >= 0x80
    length, at = _decode_integer(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise HeaderError("a header block ends too early")
    text = block[at:end]
    return (huffman.decode(text) if is_coded else text), end


def encode(fields: Iterable[Field]) -> bytes:
    """Return a header block that does not depend on the peer's table."""
    block = bytearray()
    for field in fields:
        number = _NUMBERS.get(field)
        if number is not None:
            block.append(0x80 | number)
            continue
        name, value = field
        _write_integer(block, 0x0F, known := _NAMES.get(name, 0))
        if not known:
            _write_integer(block, 0x7F, len(name))
            block += name
        _write_integer(block, 0x7F, len(value))
        block += value
    return bytes(block)


def _write_integer(block: bytearray, mask: int, number: int) -> None:
    if number < mask:
        block.append(number)
        return
    block.append(mask)
    number -= mask
    while number >= 0x80:
        block.append(0x80 | (number & 0x7F))
        number >>= 7
    block.append(number)
