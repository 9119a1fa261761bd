"""Run the store: all objects in memory, and every change on disk before any client sees it.

A write is decided and gets its revision at once, on the event loop, against the newest state (`latest`, which includes
writes that are not yet on disk). The journal commits it in a batch with other queued writes, one batch at a time. Only
then do readers (`get`, `list`), watches and the writer see it. If a batch fails, it and all later writes are rolled
back, because they were decided on a state that was never committed.

A commit costs as much as the work on a request. So while other writes arrive, a write that is not urgent waits a moment
for their next commit. A commit also waits briefly for tasks that are about to write.

Invariants: revisions strictly increase, even over restarts, and are never reused; readers always see the state after a
whole number of batches; `_pending` contains the newest uncommitted change of each object that has one.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from sys import intern
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
from msgspec.structs import replace

from muster.cluster.store.changes import Changes, Watch
from muster.cluster.store.errors import DataDirectoryError, StorageFailed, StoreClosed, WriteRefused
from muster.cluster.store.journal import History, Journal, JournalRecord
from muster.cluster.store.packing import Packing
from muster.cluster.store.pastbytes import PastBytes
from muster.cluster.store.sorted import SortedEntries
from muster.cluster.store.values import Change, ChangeType, Delete, Entry, Header, HeaderOf, Key, Put, Snapshot
from muster.runtime.process.garbage import collector_paused

BATCH = 1_000  # writes per commit: as many as the loop can publish in a few milliseconds
BATCH_BYTES = 16 << 20  # the same limit in bytes, for big objects
# A write that may wait does so for at most this long, and only if an urgent write has arrived within this time.
WAIT_SECONDS = 0.005
# If a commit and the previous one have at least `MANY` writes in total, the commit starts `TURNS` loop iterations
# later.
# A client that is notified of its write makes the next one within these iterations, and so do controllers that follow
# it.
MANY, TURNS = 5, 4
HISTORY = 10_000  # changes per resource that watches can resume from
HISTORY_BYTES = 64 << 20  # the same limit in bytes of replaced bodies, for big objects
_PACKED_AT_ONCE = 50  # objects that are packed before other tasks run: a millisecond
PAST_BYTES = 256 << 20  # the limit for all resources, on disk and in memory; above it `past.exceeded` is set


class _Collection:
    """The committed objects and changes of one resource."""

    def __init__(self, oldest: int, history: int, packing: Packing) -> None:
        self.entries = SortedEntries()
        self.changes = Changes(oldest, history, HISTORY_BYTES, packing)


class _Write(NamedTuple):
    changes: list[Change]
    done: asyncio.Future[list[Entry]]


# Named here because Store.list hides the type inside the class.
_Batch = list[_Write]
_Entries = list[Entry]
_Changes = list[Change]
Written = asyncio.Future[list[Entry]]


class Store:
    """The objects by key, each with a revision. One event loop uses the store, between `open` and `close`."""

    def __init__(
        self,
        journal: Journal,
        header_of: HeaderOf,
        *,
        history: int = HISTORY,
        on_failure: Callable[[StorageFailed], None] = lambda _: None,
    ) -> None:
        """Make a store.

        header_of: returns the header for an object's body.
        history: how many changes per resource are kept.
        on_failure: called once if the disk fails permanently.
        """
        self.revision = 0  # the revision of the newest commit
        self.oldest = 0  # the journal keeps all changes after this revision
        self.durable = journal.durable
        self.past = PastBytes(PAST_BYTES)  # the size of the changes after `oldest`
        self._journal = journal
        self._header_of = header_of
        self._history = history
        self._on_failure = on_failure
        self._last_assigned = 0
        self._packing = Packing()
        self._committed: dict[Key, Entry] = {}
        self._collections: dict[str, _Collection] = {}
        self._pending: dict[Key, Change] = {}
        self._queue: list[_Write] = []
        self._committer: asyncio.Task[None] | None = None
        self._is_due = False  # whether a write in the queue may not wait
        self._due_at = float("-inf")  # when the last such write arrived, in the loop's time
        self._waiting: asyncio.TimerHandle | None = None  # ends the wait of the queue while nothing is due
        self._upkeep = asyncio.Lock()
        self._listeners: defaultdict[str, list[Callable[[Change], None]]] = defaultdict(list)
        self._open = False
        self._refusal: WriteRefused | None = StoreClosed()  # why writes are refused
        self._last_refusal: WriteRefused | None = None  # why the last batch was refused, until one is committed

    async def open(self) -> Self:
        """Read all objects and kept changes from disk, and accept writes from now on. Raises `DataDirectoryError`."""
        with collector_paused():
            history = await self._journal.open()
            try:
                self._load_history(history)
            except BaseException:
                await self._journal.close()
                raise
        self._open, self._refusal = True, None
        return self

    @property
    def trouble(self) -> str:
        """Why the store refused the last batch of writes, or refuses new objects; "" if it refuses neither."""
        refusal = self._last_refusal or self._journal.find_fullness()
        return refusal.status.message if refusal is not None else ""

    @property
    def is_full(self) -> bool:
        """Whether the disk has no room for new objects."""
        return self._journal.find_fullness() is not None

    async def close(self) -> None:
        """Commit pending writes, close all watches and close the journal."""
        if not self._open:
            return
        self._open, self._refusal = False, StoreClosed()
        self._hasten()
        if self._committer is not None:
            await self._committer
        for collection in self._collections.values():
            collection.changes.close()
        async with self._upkeep:
            await self._journal.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, type: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- reading

    def get(self, key: Key) -> Entry | None:
        """Return the committed state of an object; None if it does not exist."""
        return self._committed.get(key)

    def latest(self, key: Key) -> Entry | None:
        """Return the newest state of an object, committed or not; None if it does not exist.

        New writes are decided on this state.
        """
        change = self._pending.get(key)
        if change is None:
            return self._committed.get(key)
        return None if change.type == "DELETED" else change.entry

    def list(self, resource: str, namespace: str = "") -> Snapshot:
        """Return the committed objects of a resource, in one namespace or in all ("")."""
        collection = self._collections.get(resource)
        return Snapshot(self.revision, collection.entries.of(resource, namespace) if collection else ())

    def everything(self) -> Snapshot:
        """Return all committed objects of all resources, unsorted."""
        return Snapshot(self.revision, tuple(self._committed.values()))

    def latest_list(self, resource: str, namespace: str = "") -> Snapshot:
        """Return the newest state of a resource's objects, committed or not, in one namespace or in all ("")."""
        committed = self.list(resource, namespace).entries
        pending = {
            change.entry.key: None if change.type == "DELETED" else change.entry
            for change in self.pending(resource, namespace)
        }
        if not pending:
            return Snapshot(self._last_assigned, committed)
        newest = {entry.key: entry for entry in committed} | pending
        return Snapshot(self._last_assigned, tuple(entry for key in sorted(newest) if (entry := newest[key])))

    def pending(self, resource: str, namespace: str = "") -> _Changes:
        """Return the newest uncommitted change of each object that has one, in one namespace or in all ("")."""
        return [
            change
            for key, change in self._pending.items()
            if key.resource == resource and namespace in ("", key.namespace)
        ]

    def changes_of(self, resource: str) -> int:
        """Return how many changes of a resource were committed since the start, as a version number for caches."""
        collection = self._collections.get(resource)
        return collection.changes.end if collection else 0

    def watch(self, resource: str, since: int, namespace: str = "") -> Watch:
        """Return a watch on the changes after a revision, in one namespace or in all (""). Raises `Compacted`."""
        return Watch(self._find_collection(resource).changes, since, namespace, lambda: self.revision)

    def listen(self, resource: str, listener: Callable[[Change], None]) -> None:
        """Call a listener for every later committed change of a resource.

        The call comes before the change's writer or a watch sees the change. The listener must be quick, and must not
        raise an error.
        """
        self._listeners[resource].append(listener)

    # -- writing

    def write(self, *writes: Put | Delete, may_wait: bool = False) -> Written:
        """Make all of the writes, or none; return a future that is done when they are durable.

        The writes get their revisions now, in order. The result of the future is the new entries (for a deletion, the
        last state); its error is `WriteRefused`. An error of a write's `encode` is raised at once, and nothing is
        written. The key of a `Delete` must exist in `latest`.

        may_wait: whether the writes may wait a moment (`WAIT_SECONDS`) for a commit with other writes.
        """
        loop = asyncio.get_running_loop()
        durable: Written = loop.create_future()
        if (refusal := self._refusal or self._refuse_creations(writes)) is not None:
            durable.set_exception(refusal)
            return durable
        if not writes:
            durable.set_result([])
            return durable
        assert len({write.key for write in writes}) == len(writes), "one write per object"
        changes = [self._make_change(write) for write in writes]
        self._pending.update((change.entry.key, change) for change in changes)
        self._queue.append(_Write(changes, durable))
        now = loop.time()
        if not may_wait:
            self._due_at = now
        if now - self._due_at >= WAIT_SECONDS or not (may_wait and self.durable):
            self._hasten()
        else:
            self._wait()
        return durable

    def _refuse_creations(self, writes: Sequence[Put | Delete]) -> WriteRefused | None:
        """Return why the disk has no room for a new object among the writes; None if none is new, or the disk has room.

        So the room that the journal has reserved is left for the writes that finish jobs and delete objects.
        """
        if (full := self._journal.find_fullness()) is None:
            return None
        return full if any(self.latest(write.key) is None for write in writes) else None

    async def wait_until_durable(self, key: Key) -> None:
        """Wait until the newest write of an object is durable. Raises `WriteRefused` if that write is rolled back."""
        if key in self._pending:
            durable: Written = asyncio.get_running_loop().create_future()
            self._queue.append(_Write([], durable))  # an empty write, queued behind the object's write
            self._hasten()
            await durable

    def _make_change(self, write: Put | Delete) -> Change:
        "".join(write.key).encode()  # a key that cannot be encoded must fail here, not in the journal
        previous = self.latest(write.key)
        self._last_assigned += 1
        body = write.encode(self._last_assigned)
        header = _share_labels(self._header_of(write.key.resource, body), previous)
        entry = Entry(write.key, self._last_assigned, body, header)
        if isinstance(write, Put):
            return Change("MODIFIED" if previous else "ADDED", entry, previous)
        assert previous is not None, f"{write.key} is not there to be deleted"
        return Change("DELETED", entry, previous)

    def _wait(self) -> None:
        """Commit the queued writes after `WAIT_SECONDS`, unless another commit includes them before."""
        if self._queue and self._committer is None and self._waiting is None:
            self._waiting = asyncio.get_running_loop().call_later(WAIT_SECONDS, self._hasten)

    def _hasten(self) -> None:
        """Commit the queued writes as soon as possible."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
        self._is_due = bool(self._queue)
        if self._is_due and self._committer is None:
            # The committer first runs after all tasks that are ready now, so that their writes are in the same batch.
            self._committer = asyncio.get_running_loop().create_task(self._commit(), name="store commit")

    async def _commit(self) -> None:
        """Commit the queued writes batch by batch, until none of them is urgent. Resolve their futures."""
        batch: _Batch = []
        while self._is_due:
            try:
                await self._let_others_write(len(batch))
                batch = self._take_batch()
                changes = [change for write in batch for change in write.changes]
                if changes:
                    await self._journal.append([_make_record(change) for change in changes])
                    self._publish_changes(changes)
                    if self.is_full:
                        self.past.free_room()
                    self._last_refusal = None
            except WriteRefused as refusal:
                self._take_back(batch, refusal)
            except BaseException as error:
                # Interrupted or failed: only the next start knows whether the batch is on disk.
                self._take_back(batch, StorageFailed("the store", repr(error)))
                self._committer = None
                raise
            else:
                for write in batch:
                    _resolve_write(write)
        self._committer = None
        self._wait()

    async def _let_others_write(self, before: int) -> None:
        """Let ready tasks add their writes to the next commit, if many writes arrive.

        before: how many writes the last commit had.
        """
        if self.durable and before + len(self._queue) >= MANY:
            for _ in range(TURNS):
                await asyncio.sleep(0)

    def _take_batch(self) -> _Batch:
        count = size = size_bytes = 0
        while count < len(self._queue) and size < BATCH and size_bytes < BATCH_BYTES:
            changes = self._queue[count].changes
            size += len(changes)
            size_bytes += sum(change.entry.size for change in changes)
            count += 1
        batch, self._queue = self._queue[:count], self._queue[count:]
        self._is_due = bool(self._queue)
        return batch

    def _publish_changes(self, changes: Sequence[Change]) -> None:
        for change in changes:
            assert change.revision > self.revision, "revisions strictly increase"
            self._apply(change)
            if self._pending.get(change.entry.key) is change:
                del self._pending[change.entry.key]
            for listener in self._listeners.get(change.entry.key.resource, ()):
                listener(change)
        for resource in {change.entry.key.resource for change in changes}:
            self._collections[resource].changes.wake()

    def _take_back(self, batch: _Batch, refusal: WriteRefused) -> None:
        """Roll back a batch and all queued writes. After a `StorageFailed`, refuse all later writes."""
        refused, self._queue = batch + self._queue, []
        self._last_refusal = refusal
        self._pending.clear()
        for write in refused:
            if not write.done.done():
                write.done.set_exception(refusal)
        if isinstance(refusal, StorageFailed):
            self._refusal = refusal
            self._on_failure(refusal)

    # -- the state

    def _find_collection(self, resource: str) -> _Collection:
        collection = self._collections.get(resource)
        if collection is None:
            collection = self._collections[resource] = _Collection(self.oldest, self._history, self._packing)
        return collection

    def _apply(self, change: Change) -> None:
        key = change.entry.key
        collection = self._find_collection(key.resource)
        if change.type == "DELETED":
            del self._committed[key]
            collection.entries.remove(key)
        else:
            self._committed[key] = change.entry
            collection.entries.put(change.entry)
        collection.changes.append(change)
        self.past.add(change)
        self.revision = change.revision

    # -- starting

    def _load_history(self, history: History) -> None:
        self.oldest = self.revision = history.compacted
        for record in history.records:
            change = self._restore_change(record)
            if change.type == "DELETED":
                del self._committed[record.key]
            else:
                self._committed[record.key] = change.entry
            if record.revision > self.oldest:
                self._find_collection(record.key.resource).changes.append(change)
                self.past.add(change)
                self.revision = record.revision
        self._last_assigned = self.revision
        for collection in self._collections.values():
            collection.changes.wake()
        entries: defaultdict[str, _Entries] = defaultdict(_Entries)
        for entry in self._committed.values():
            entries[entry.key.resource].append(entry)
        for resource, resource_entries in entries.items():
            self._find_collection(resource).entries = SortedEntries(resource_entries)

    def _restore_change(self, record: JournalRecord) -> Change:
        previous = self._committed.get(record.key)
        try:
            header = self._header_of(record.key.resource, record.body)
        except msgspec.MsgspecError as error:
            raise DataDirectoryError(f"the store is damaged: {record.key} cannot be read: {error}") from error
        if record.revision > self.oldest and record.previous != (previous.revision if previous else None):
            lost = f"the state of {record.key} before revision {record.revision} is missing"
            raise DataDirectoryError(f"the store is damaged: {lost}")
        header = _share_labels(header, previous)
        type_: ChangeType = "DELETED" if record.deleted else "MODIFIED" if previous else "ADDED"
        return Change(type_, Entry(record.key, record.revision, record.body, header), previous)

    # -- upkeep

    async def compact(self, keep_after_revision: int) -> None:
        """Delete the changes up to a revision; the objects stay.

        A watch from an earlier revision gets `Compacted` if a change of its resource was deleted since. The deletion on
        disk runs in steps between commits. Raises `WriteRefused` if the disk is full or has failed.

        keep_after_revision: the revision. A newer one than the store's means the store's.
        """
        revision = min(keep_after_revision, self.revision)
        if revision <= self.oldest:
            return
        self.oldest = revision
        self.past.forget(revision)
        for collection in self._collections.values():
            collection.changes.forget(revision)
        async with self._upkeep:
            await self._journal.compact(revision)

    async def pack(self) -> None:
        """Pack the bodies of all committed objects, so that they use less memory.

        A running store packs each object after a while.
        """
        entries = self.everything().entries
        for first in range(0, len(entries), _PACKED_AT_ONCE):
            for entry in entries[first : first + _PACKED_AT_ONCE]:
                entry.pack(self._packing)
            await asyncio.sleep(0)

    async def reserve(self) -> None:
        """Reserve room for writes on a full disk, because the writes that finish jobs may free space there."""
        async with self._upkeep:
            await self._journal.reserve()


def _share_labels(header: Header, previous: Entry | None) -> Header:
    """Return the header with the previous labels if they are equal, else with shared strings in its labels."""
    if previous is not None and header.labels == previous.header.labels:
        return replace(header, labels=previous.header.labels)  # one copy for the whole history
    return replace(header, labels={intern(name): intern(value) for name, value in header.labels.items()})


def _make_record(change: Change) -> JournalRecord:
    entry, previous = change.entry, change.previous
    deleted = change.type == "DELETED"
    return JournalRecord(entry.revision, entry.key, deleted, previous.revision if previous else None, entry.body)


def _resolve_write(write: _Write) -> None:
    if not write.done.done():  # the writer may have been cancelled
        write.done.set_result([change.entry for change in write.changes])
