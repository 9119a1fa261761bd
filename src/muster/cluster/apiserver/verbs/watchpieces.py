"""Cut the events of watches into pieces of limited size, each made when the client can receive it.

A piece is made on request and not kept for its watch. While a slow client receives it, the server keeps only the
connection's copy, and fragments that the store holds in any case. Watches that send the same changes share the newest
pieces.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from muster.cluster.store import Change
from muster.runtime.transport import RawEvent

PIECE_BYTES = 64 * 1024  # the maximum of one piece: the connection of a slow client keeps one
BATCH = 64  # the most events of a batch: a follower in this process handles a batch before the next one is made
SHARED = 32  # pieces in the cache for other watches
_LINE_BYTES = 64  # the maximum of a line without its object


class Pieces:
    """Fragments of lines, cut and joined into pieces of limited size."""

    def __init__(self, fragments: Iterator[bytes]) -> None:
        self._fragments = fragments
        self._rest: bytes | memoryview = b""  # the rest of a fragment

    def are_left(self) -> bool:
        """Return whether there is another piece."""
        while not self._rest:
            if (fragment := next(self._fragments, None)) is None:
                return False
            self._rest = fragment
        return True

    def make(self) -> bytes:
        """Return the next piece, of at most `PIECE_BYTES`; b"" if nothing is left."""
        parts: list[bytes | memoryview] = []
        room = PIECE_BYTES
        while room and self.are_left():
            part, self._rest = self._rest, b""
            if len(part) > room:
                view = memoryview(part)
                part, self._rest = view[:room], view[room:]
            parts.append(part)
            room -= len(part)
        return b"".join(parts)


class Batches:
    """Events for a caller in this process, in batches."""

    def __init__(self, events: Iterator[RawEvent]) -> None:
        self._events = events
        self._batch: Sequence[RawEvent] = ()

    def are_left(self) -> bool:
        """Return whether there is another batch."""
        self._batch = self._batch or tuple(islice(self._events, BATCH))
        return bool(self._batch)

    def make(self) -> Sequence[RawEvent]:
        """Return the batch that `are_left` has read; () if there is none."""
        batch, self._batch = self._batch, ()
        return batch


class SharedPieces:
    """The newest pieces of stored changes, each made once for all watches that start a piece at the same change.

    A piece contains the whole lines of consecutive changes of one resource, in one namespace or in all.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int], tuple[bytes, int]] = {}  # by namespace and first revision; the oldest first

    def find(self, namespace: str, changes: Sequence[Change], at: int) -> tuple[bytes, int]:
        """Return the piece that starts with a change, and how many changes it contains.

        namespace: the namespace of the watch; "" for all namespaces.
        changes: consecutive changes in the namespace.
        at: the index of the first change in the piece. It must not be a long change (`is_long`).
        """
        key = namespace, changes[at].revision
        kept = self._kept.get(key)
        if kept is not None:
            piece, count = kept
            # A watch that is ahead has more changes, and many short pieces would cost more than another join.
            if at + count == len(changes) or (at + count < len(changes) and len(piece) > PIECE_BYTES // 2):
                return kept
            del self._kept[key]
        made = self._kept[key] = _join_lines(changes, at)
        if len(self._kept) > SHARED:
            del self._kept[next(iter(self._kept))]
        return made


def is_long(change: Change) -> bool:
    """Return whether the line of a change may be longer than a piece."""
    return change.entry.size + _LINE_BYTES > PIECE_BYTES


def _join_lines(changes: Sequence[Change], at: int) -> tuple[bytes, int]:
    """Return the joined lines of the changes from `at` on that fit into one piece, and how many fit."""
    parts: list[bytes] = []
    room = PIECE_BYTES
    for change in islice(changes, at, None):
        if is_long(change):
            break
        (line,) = change.line
        room -= len(line)
        if room < 0:
            break
        parts.append(line)
    return b"".join(parts), len(parts)


class PiecesOfChanges:
    """The pieces of one watch that sends stored changes: each piece contains the lines of several changes.

    Other watches that send the same changes get the same pieces from `shared`. A line that is longer than a piece is
    cut into pieces for this watch alone.
    """

    def __init__(self, shared: SharedPieces, namespace: str, changes: Sequence[Change]) -> None:
        self._shared = shared
        self._namespace = namespace
        self._changes = changes
        self._at = 0
        self._long = Pieces(iter(()))  # the long line that is being sent

    def are_left(self) -> bool:
        """Return whether there is another piece."""
        return self._at < len(self._changes) or self._long.are_left()

    def make(self) -> bytes:
        """Return the next piece, of at most `PIECE_BYTES`. Call it only if `are_left` is true."""
        if self._long.are_left():
            return self._long.make()
        if is_long(change := self._changes[self._at]):
            self._at += 1
            self._long = Pieces(iter(change.line))
            return self._long.make()
        piece, count = self._shared.find(self._namespace, self._changes, self._at)
        self._at += count
        return piece
