"""What goes into the store and what comes out: plain values, shared by readers and never changed.

Entries, changes and headers hold no reference to anything that could refer back to them, so they are kept out of
the garbage collector's sight: 100,000 of them do not slow the rest of the process.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import msgspec

LONGEST_KEPT = 64 * 1024  # bytes of a watch's line: of a longer one, a copy for each watcher is quick as well
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(NamedTuple):
    """Where an object lives. Keys of one resource sort by namespace, then by name."""

    resource: str  # "pods", "jobs.batch"
    namespace: str  # "" if cluster-wide
    name: str


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of an object that is read without decoding its body.

    uid: unique in time and space.
    labels: what label selectors match.
    owners: the uids of the objects that this one belongs to.
    fields: what field selectors match, by path (`spec.nodeName`).
    deleting: whether deletion was asked for (`metadata.deletionTimestamp` is set).
    """

    uid: str = ""
    labels: dict[str, str] = {}
    owners: tuple[str, ...] = ()
    fields: Mapping[str, str] = {}
    deleting: bool = False


HeaderOf = Callable[[str, bytes], Header]  # (resource, body) -> header


class Entry(msgspec.Struct, frozen=True, gc=False, eq=False):
    """One object at one revision. Two entries are the same only if they are one."""

    key: Key
    revision: int
    body: bytes  # JSON exactly as sent to clients, with metadata.resourceVersion in it
    header: Header


class Change(msgspec.Struct, gc=False, eq=False):
    """One step in the life of an object. Immutable, but for the line that it remembers."""

    type: ChangeType
    entry: Entry  # of a deletion: the last state, with the revision of the deletion
    previous: Entry | None  # what it replaced; None if added
    _line: bytes | None = None

    @property
    def revision(self) -> int:
        """The revision that this change made."""
        return self.entry.revision

    @property
    def line(self) -> bytes:
        """The change as one line of a watch, encoded once for all watchers unless it is too long to be kept."""
        line = self._line
        if line is None:
            line = b'{"type":"%b","object":%b}\n' % (self.type.encode(), self.entry.body)
            if len(line) <= LONGEST_KEPT:
                self._line = line
        return line

    def forget_line(self) -> None:
        """Free the memory of the line; it is made again if it is asked for again."""
        self._line = None


class Put(NamedTuple):
    """Create or replace. `encode` gets the new revision and returns the body that carries it."""

    key: Key
    encode: Callable[[int], bytes]


class Delete(NamedTuple):
    """Remove. `encode` gets the revision of the deletion and returns the last state that carries it."""

    key: Key
    encode: Callable[[int], bytes]


class Snapshot(NamedTuple):
    """What the store held at one revision; later writes do not touch it."""

    revision: int
    entries: tuple[Entry, ...]  # of a list, sorted by (namespace, name)
