"""Define the interface below the store: a journal keeps committed changes after the process has exited.

The store decides and orders writes, and serves reads from memory. A journal only makes batches of records permanent and
returns them at the next start. Only one append runs at a time; a compaction may run between two appends.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from muster.cluster.store.errors import WriteRefused
from muster.cluster.store.values import Key


class JournalRecord(NamedTuple):
    """One change as a journal stores it."""

    revision: int
    key: Key
    deleted: bool
    previous: int | None  # the revision that this one replaces; None if the object was created
    body: bytes


class History(NamedTuple):
    """The contents of a journal: the state of each object at revision `compacted`, and every change since."""

    records: Iterable[JournalRecord]  # in the order of revisions
    compacted: int  # some changes up to this revision are no longer kept


class Journal(Protocol):
    """Permanent storage for records.

    Errors of `append` are `WriteRefused`. After such an error no record of the batch is stored.
    """

    durable: bool  # whether an appended record survives the process

    async def open(self) -> History:
        """Lock the files and read everything. Raises `DataDirectoryError`."""
        ...

    async def append(self, records: Sequence[JournalRecord]) -> None:
        """Store all of the records, or none. Return after they are permanent."""
        ...

    async def compact(self, revision: int) -> None:
        """Delete the states that were replaced at or before `revision`."""
        ...

    async def reserve(self) -> None:
        """Preallocate free disk space, if there is any, so that writes still succeed when the disk is full."""
        ...

    def find_fullness(self) -> WriteRefused | None:
        """Return why new objects should not be stored, although changes and deletions should; None if they should.

        The reason is a disk that is almost full.
        """
        ...

    async def close(self) -> None:
        """Release all resources. No method may be called afterwards."""
        ...


class MemoryJournal:
    """A journal that stores nothing, for tests and for clusters that live only as long as their process."""

    durable = False

    async def open(self) -> History:
        """Return an empty history."""
        return History(records=(), compacted=0)

    async def append(self, records: Sequence[JournalRecord]) -> None:
        """Accept the records without storing them."""
        del records

    async def compact(self, revision: int) -> None:
        """Do nothing, because nothing is stored."""

    async def reserve(self) -> None:
        """Do nothing: memory needs no reserve."""

    def find_fullness(self) -> WriteRefused | None:
        """Return None, because there is no disk."""
        return None

    async def close(self) -> None:
        """Do nothing, because there are no resources."""
