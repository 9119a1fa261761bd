"""Define the values that go into the store and come out: plain, shared by readers and never changed.

Entries, changes and headers do not refer to containers that could refer back to them. So the garbage collector does not
track them, and 100,000 of them do not slow the rest of the process.
"""

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from muster.cluster.store.packing import Packed, Packing

LONG_BYTES = 64 * 1024  # a longer body is not copied into the lines of watches
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(NamedTuple):
    """The identity of an object. Keys of one resource sort by namespace, then by name."""

    resource: str  # "pods", "jobs.batch"
    namespace: str  # "" if cluster-wide
    name: str


class Header(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of an object that is read without decoding its body.

    uid: unique in time and space.
    labels: the labels that label selectors match.
    owners: the UIDs of the objects that own this object.
    fields: the values that field selectors match, by path (`spec.nodeName`).
    deleting: whether the object is being deleted (`metadata.deletionTimestamp` is set).
    """

    uid: str = ""
    labels: dict[str, str] = {}
    owners: tuple[str, ...] = ()
    fields: Mapping[str, str] = {}
    deleting: bool = False


Fragments: TypeAlias = tuple[bytes, ...]  # pieces of a body, which the reader joins
HeaderOf = Callable[[str, bytes], Header]  # (resource, body) -> header


class Entry(msgspec.Struct, gc=False, eq=False):
    """One object at one revision. Two entries are equal only if they are the same object in memory.

    Immutable, except for the form in which it keeps its body.
    """

    key: Key
    revision: int
    _body: bytes | Packed
    header: Header

    @property
    def body(self) -> bytes:
        """The object as JSON, exactly as sent to clients, with its metadata.resourceVersion."""
        body = self._body
        return body if isinstance(body, bytes) else b"".join(body.pieces)

    @property
    def is_packed(self) -> bool:
        """Whether the body is kept in pieces, which each read joins."""
        return not isinstance(self._body, bytes)

    @property
    def fragments(self) -> Fragments:
        """The body in pieces, for a caller that joins many bodies."""
        body = self._body
        return (body,) if isinstance(body, bytes) else body.pieces

    @property
    def size(self) -> int:
        """The number of bytes of the body."""
        body = self._body
        return len(body) if isinstance(body, bytes) else body.size

    def pack(self, packing: Packing) -> None:
        """Keep the body in pieces from now on, to save memory; each read joins them."""
        if isinstance(self._body, bytes):
            self._body = packing.pack(self._body)


def watch_line(type_: str, body: bytes) -> Fragments:
    """Return the line of a watch for an object: in one piece, or in three pieces around a long body."""
    head, tail = b'{"type":"%b","object":' % type_.encode(), b"}\n"
    return (head, body, tail) if len(body) > LONG_BYTES else (b"".join((head, body, tail)),)


class Change(msgspec.Struct, gc=False, eq=False):
    """One creation, update or deletion of an object. Immutable, except for its cached line."""

    type: ChangeType
    entry: Entry  # the new state; for a deletion the last state, with the deletion's revision
    previous: Entry | None  # the state that it replaced; None for a new object
    _line: Fragments | None = None

    @property
    def revision(self) -> int:
        """The revision that this change made."""
        return self.entry.revision

    @property
    def line(self) -> Fragments:
        """The change as one line of a watch, encoded once for all watches unless it is long."""
        line = self._line
        if line is None:
            line = watch_line(self.type, self.entry.body)
            if len(line) == 1:
                self._line = line
        return line

    def forget_line(self) -> None:
        """Free the memory of the line; the next read encodes it again."""
        self._line = None


class Put(NamedTuple):
    """A write that creates or replaces an object.

    encode: takes the new revision and returns the body with it. The store calls it once, within `Store.write`.
    """

    key: Key
    encode: Callable[[int], bytes]


class Delete(NamedTuple):
    """A write that removes an object.

    encode: takes the deletion's revision and returns the last state with it.
    """

    key: Key
    encode: Callable[[int], bytes]


class Snapshot(NamedTuple):
    """The contents of the store at one revision; later writes do not change it."""

    revision: int
    entries: tuple[Entry, ...]  # sorted by (namespace, name); unsorted if it contains all resources
