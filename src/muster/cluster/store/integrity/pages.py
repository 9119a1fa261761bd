"""Read rows from the pages of a database and its log without SQLite, even rows that SQLite would not find.

Pages and rows follow SQLite's file format. Invalid data are skipped, and the caller checks the rows.
"""

from collections import Counter
from collections.abc import Iterator

from msgspec import Struct

PAGE = 8192  # the page size of all of Muster's databases
_LOG_HEADER, _FRAME_HEADER = 32, 24
_INDEX_LEAF = 0x0A
_MAP_ENTRIES = PAGE // 5  # entries of one page that maps the pages after it
_FREE = 2  # in the map: the page is not in use

Value = int | bytes | str | None
Row = tuple[Value, ...]


class Pages(Struct, frozen=True):
    """The pages of a database.

    current: the newest image of each page, by its number.
    older: replaced images of pages.
    """

    current: dict[int, bytes]
    older: list[bytes]

    def rows(self) -> Iterator[Row]:
        """Yield the rows of tables with row IDs, from the pages that are in use."""
        for number, page in self.current.items():
            if not self._is_free(number):
                yield from self._list_rows(page)

    def older_rows(self) -> Iterator[Row]:
        """Yield the rows from older images of the pages, which later writes have replaced."""
        for page in self.older:
            yield from self._list_rows(page)

    def entries(self) -> Iterator[Row]:
        """Yield the rows of tables without row IDs, from the pages that are in use."""
        for number, page in self.current.items():
            if not self._is_free(number) and page[0] == _INDEX_LEAF:
                for at in _find_cells(page):
                    size, at = _read_varint(page, at)
                    yield from _read_record(page[at : at + size])

    def _is_free(self, number: int) -> bool:
        if number < 3:
            return False
        mapping = 2 + (number - 2) // (_MAP_ENTRIES + 1) * (_MAP_ENTRIES + 1)
        at = 5 * (number - mapping - 1)
        return number != mapping and self.current.get(mapping, b"")[at : at + 1] == bytes([_FREE])

    def _list_rows(self, page: bytes) -> Iterator[Row]:
        # The type of the page is ignored: it may be damaged, and a row is recognized by its checksum.
        for at in _find_cells(page):
            size, at = _read_varint(page, at)
            revision, at = _read_varint(page, at)
            for row in _read_record(self._read_payload(page, at, size)):
                yield (revision, *row[1:])

    def _read_payload(self, page: bytes, at: int, size: int) -> bytes:
        """Return the content of a cell, including its part on overflow pages."""
        most, least = PAGE - 35, (PAGE - 12) * 32 // 255 - 23
        if size <= most:
            return page[at : at + size]
        local = least + (size - least) % (PAGE - 4)
        local = local if local <= most else least
        parts, left = [page[at : at + local]], size - local
        number = int.from_bytes(page[at + local : at + local + 4], "big")
        while left > 0 and number in self.current:
            content = self.current[number]
            parts.append(content[4 : 4 + left])
            number, left = int.from_bytes(content[:4], "big"), left - (PAGE - 4)
        return b"".join(parts)


def pages_of(database: bytes, log: bytes) -> Pages:
    """Return all pages of a SQLite database, with its write-ahead log applied, even an incomplete last transaction.

    database, log: the contents of the two files.
    """
    current = {at // PAGE + 1: database[at : at + PAGE] for at in range(0, len(database) - PAGE + 1, PAGE)}
    older: list[bytes] = []
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for number, is_last, page in _list_frames(log):
        older += [image for image in (pending.get(number), committed.get(number)) if image is not None][:1]
        pending[number] = page
        if is_last:
            committed |= pending
            pending = {}
    older += [*pending.values(), *(current[number] for number in committed if number in current)]
    return Pages(current | committed, older)


def _list_frames(log: bytes) -> Iterator[tuple[int, bool, bytes]]:
    """Yield the frames since the last reset of the log.

    A frame has a page number, whether it is the last of a transaction, and the page's content.
    """
    size = _FRAME_HEADER + PAGE
    starts = range(_LOG_HEADER, len(log) - size + 1, size)
    # The frames contain the header's salt. Any of the three values that are compared may be damaged.
    salts = Counter(
        [*(log[at + 8 : at + 16] for at in starts[:1]), log[16:24], *(log[at + 8 : at + 16] for at in starts[1:2])]
    )
    [salt] = [salt for salt, _ in salts.most_common(1)]
    for at in starts:
        if log[at + 8 : at + 16] == salt:
            number = int.from_bytes(log[at : at + 4], "big")
            is_last = log[at + 4 : at + 8] != bytes(4)
            yield number, is_last, log[at + _FRAME_HEADER : at + size]


def _find_cells(page: bytes) -> list[int]:
    """Return the offsets of the cells in a leaf page."""
    count = int.from_bytes(page[3:5], "big")
    starts = [int.from_bytes(page[at : at + 2], "big") for at in range(8, min(8 + 2 * count, PAGE - 1), 2)]
    return [start for start in starts if 8 <= start < PAGE]


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of variable length at an offset, and the offset after it."""
    value = 0
    for more in range(8):
        byte = data[at + more] if at + more < len(data) else 0
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + more + 1
    return value << 8 | (data[at + 8] if at + 8 < len(data) else 0), at + 9


def _read_record(payload: bytes) -> Iterator[Row]:
    """Yield the row that a payload encodes, if it is valid."""
    end, at = _read_varint(payload, 0)
    kinds: list[int] = []
    values: list[Value] = []
    while at < min(end, len(payload)) and len(kinds) < 20:
        kind, at = _read_varint(payload, at)
        kinds.append(kind)
    try:
        for kind in kinds:
            value, at = _read_value(payload, at, kind)
            values.append(value)
    except ValueError:  # not valid text
        return
    yield tuple(values)


def _read_value(payload: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind >= 12:
        end = at + (kind - 12) // 2
        content = payload[at:end]
        return (content.decode() if kind % 2 else content), end
    if kind in (8, 9):
        return kind - 8, at
    size = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)[kind]
    return (int.from_bytes(payload[at : at + size], "big", signed=True) if size else None), at + size
