import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.cluster.store.kit import header_of, key, put

from muster.cluster.store import MemoryJournal, StorageFull, Store, keep_compacted
from muster.cluster.store.journal import History, JournalRecord
from muster.cluster.store.pastbytes import STEP_BYTES
from muster.cluster.store.store import PAST_BYTES
from muster.cluster.store.upkeep import KEEP_BYTES, KEEP_REVISIONS
from muster.runtime.clock import VirtualClock, run_virtual


class Compactions(MemoryJournal):
    """Remembers what it was asked to forget; refuses as told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.history = History(records=(), compacted=0)
        self.refusals: list[Exception] = []
        self.full: StorageFull | None = None

    async def open(self) -> History:
        return self.history

    def find_fullness(self) -> StorageFull | None:
        return self.full

    async def compact(self, revision: int) -> None:
        self.asked.append(revision)
        if self.refusals:
            raise self.refusals.pop()


def test_what_is_to_be_done_then_is_done_at_the_start_and_once_for_each_compaction() -> None:
    done: list[int] = []

    async def body() -> None:
        async with Store(Compactions(), header_of) as store:

            async def then() -> None:
                done.append(store.oldest)

            upkeep = asyncio.create_task(keep_compacted(store, VirtualClock(), then))
            await store.write(put(key("a")))
            await asyncio.sleep(3600)
            upkeep.cancel()

    run_virtual(body())
    assert done == [0, 1]


def on_kept(test: Callable[[Store, Compactions], Awaitable[None]], journal: Compactions | None = None) -> None:
    """Run a test with a store that is kept compacted by a virtual clock."""
    journal = journal or Compactions()

    async def body() -> None:
        async with Store(journal, header_of) as store:
            upkeep = asyncio.create_task(keep_compacted(store, VirtualClock()))
            await test(store, journal)
            upkeep.cancel()

    run_virtual(body())


def test_changes_are_kept_for_five_minutes() -> None:
    async def test(store: Store, journal: Compactions) -> None:
        await asyncio.sleep(30)
        for number in range(10):  # revision n + 1 at n and a half minutes
            await store.write(put(key(str(number))))
            await asyncio.sleep(60)
        assert store.revision == 10
        assert journal.asked == [1, 2, 3, 4, 5]
        await asyncio.sleep(3600)
        assert journal.asked == list(range(1, 11)), "once all is forgotten there is nothing to do"

    on_kept(test)


def test_many_changes_are_not_kept_so_long() -> None:
    async def test(store: Store, journal: Compactions) -> None:
        for at in range(0, KEEP_REVISIONS + 5_000, 5_000):
            await store.write(*(put(key(str(at + number))) for number in range(5_000)))
        await asyncio.sleep(61)
        assert journal.asked == [5_000]

    on_kept(test)


def test_changes_from_before_the_start_are_kept_for_a_minute() -> None:
    journal = Compactions()
    journal.history = History([JournalRecord(1, key("a"), False, None, put(key("a")).encode(1))], compacted=0)

    async def test(store: Store, journal: Compactions) -> None:
        assert (store.oldest, store.revision) == (0, 1)
        await asyncio.sleep(59)
        assert journal.asked == []
        await asyncio.sleep(2)
        assert journal.asked == [1]

    on_kept(test, journal)


def test_a_history_that_grows_too_large_is_cut_at_once() -> None:
    big = "x" * (15 << 20)

    async def test(store: Store, journal: Compactions) -> None:
        for _ in range(PAST_BYTES // len(big) + 1):  # each write but the first replaces so many bytes
            await store.write(put(key("a"), big))
            await asyncio.sleep(0.1)
        assert journal.asked == []
        await store.write(put(key("a"), big))
        await asyncio.sleep(0.1)
        assert journal.asked == [store.revision - KEEP_BYTES // len(big)]
        assert store.past.kept_bytes <= KEEP_BYTES
        assert not store.past.exceeded.is_set()
        await asyncio.sleep(61)
        assert len(journal.asked) == 1, "what is left is small enough, and young"

    on_kept(test)


def test_a_full_disk_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def test(store: Store, journal: Compactions) -> None:
        journal.refusals = [StorageFull("the disk")]
        await store.write(put(key("a")))
        await asyncio.sleep(3600)
        assert len(journal.asked) == 1
        await store.write(put(key("b")))
        await asyncio.sleep(3600)
        assert journal.asked == [1, 2]

    with caplog.at_level(logging.WARNING):
        on_kept(test)
    assert "history not compacted" in caplog.text
    assert "no space left for the disk" in caplog.text


def test_a_full_disk_keeps_no_history() -> None:
    async def test(store: Store, journal: Compactions) -> None:
        await store.write(put(key("a")))
        journal.full = StorageFull("the disk")
        for _ in range(3):
            await store.write(put(key("a")))
            await asyncio.sleep(61)
        assert journal.asked == [2, 3, 4], "each minute all of it, though it is young"

    on_kept(test)


def test_on_a_full_disk_the_history_is_deleted_as_it_grows() -> None:
    big = "x" * (STEP_BYTES // 4)

    async def test(store: Store, journal: Compactions) -> None:
        for _ in range(12):
            await store.write(put(key("a"), big))
            await asyncio.sleep(0.1)
        assert journal.asked == []
        journal.full = StorageFull("the disk")
        for _ in range(12):
            await store.write(put(key("a"), big))
            await asyncio.sleep(0.1)
            assert store.past.kept_bytes <= 2 * STEP_BYTES
        assert len(journal.asked) > 1

    on_kept(test)
