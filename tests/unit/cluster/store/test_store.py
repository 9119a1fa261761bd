"""The contract of the store, the same over every journal."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from operator import is_

import msgspec
import pytest
from tests.unit.cluster.store.kit import Faulty, Kit, delete, header_of, key, put, value_of

from muster.cluster.store import (
    Compacted,
    DataDirectoryError,
    Entry,
    Header,
    MemoryJournal,
    StorageFailed,
    StorageFull,
    Store,
    StoreClosed,
)
from muster.cluster.store.changes import LINES
from muster.cluster.store.packing import LEAST_BYTES
from muster.cluster.store.store import TURNS, WAIT_SECONDS
from muster.runtime.clock import run_virtual


def test_readers_see_a_write_only_once_it_is_committed(kit: Kit) -> None:
    async def test(store: Store) -> None:
        a = key("a")
        done = store.write(put(a, "1"))
        assert (store.get(a), store.revision, store.list("pods").entries) == (None, 0, ())
        assert value_of(store.latest(a)) == "1"
        assert [entry.key for entry in store.latest_list("pods").entries] == [a]
        [entry] = await done
        assert store.get(a) is store.latest(a) is entry
        assert (entry.key, entry.revision, entry.body) == (a, 1, b'{"revision":1,"value":"1"}')
        assert entry.header.labels == {"value": "1"}
        assert store.revision == 1

    kit.on(test)


def test_decisions_are_made_on_the_latest_state(kit: Kit) -> None:
    async def test(store: Store) -> None:
        a, b = key("a"), key("b", "other")
        done = [store.write(put(a, "1")), store.write(put(a, "2")), store.write(put(b))]
        assert value_of(store.latest(a)) == "2"
        done.append(store.write(delete(a)))
        assert store.latest(a) is None
        assert [entry.key for entry in store.latest_list("pods").entries] == [b]
        assert store.latest_list("pods", "default").entries == ()
        assert store.latest_list("pods").revision == 4
        done.append(store.write(put(a, "3")))
        await asyncio.gather(*done)
        assert value_of(store.get(a)) == "3"
        assert [change.type for change in await store.watch("pods", 0).next()] == [
            "ADDED",
            "MODIFIED",
            "ADDED",
            "DELETED",
            "ADDED",
        ]

    kit.on(test)


def test_writes_made_meanwhile_are_one_batch(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await asyncio.gather(*(store.write(put(key(str(number)))) for number in range(50)))
        assert journal.batches == [50]
        journal.gate.clear()
        first = store.write(put(key("a")))
        await asyncio.sleep(0)
        rest = [store.write(put(key(str(number)))) for number in range(50)]
        journal.gate.set()
        await asyncio.gather(first, *rest)
        assert journal.batches == [50, 1, 50]

    kit.on_faulty(test)


def test_a_batch_has_a_limit_that_never_splits_a_write(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        writes = [store.write(*(put(key(f"{number}-{part}")) for part in range(300))) for number in range(10)]
        await asyncio.gather(*writes)
        assert journal.batches == [1200, 1200, 600]
        big = [store.write(put(key(str(number)), "x" * (9 << 20))) for number in range(3)]
        await asyncio.gather(*big)
        assert journal.batches[3:] == [2, 1]

    kit.on_faulty(test)


def test_lists_are_sorted_and_do_not_change(kit: Kit) -> None:
    async def test(store: Store) -> None:
        keys = [key(name, namespace) for namespace in ("b", "a", "a-b") for name in ("2", "10", "1")]
        await store.write(*map(put, keys))
        before = store.list("pods")
        await store.write(delete(keys[0]), put(keys[1], "new"))
        assert [entry.key for entry in before.entries] == sorted(keys)
        assert before.revision == 9
        assert store.list("pods").revision == 11
        assert [entry.key.name for entry in store.list("pods", "a").entries] == ["1", "10", "2"]
        assert store.list("pods", "nowhere").entries == store.list("nodes").entries == ()
        assert len(before.entries) == 9

    kit.on(test)


def test_the_writes_of_one_call_are_made_together_or_not_at_all(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        journal.failures = [StorageFull("the disk")]
        a, b = key("a"), key("b", resource="nodes")
        with pytest.raises(StorageFull):
            await store.write(put(a), put(b))
        assert store.get(a) is store.get(b) is store.latest(a) is store.latest(b) is None
        entries = await store.write(put(a), put(b))
        assert [entry.key for entry in entries] == [a, b]

    kit.on_faulty(test)


def test_an_encoder_that_fails_leaves_nothing_behind(kit: Kit) -> None:
    async def test(store: Store) -> None:
        def broken(revision: int) -> bytes:
            raise ValueError(revision)

        with pytest.raises(ValueError):
            store.write(put(key("a")), put(key("b"))._replace(encode=broken))
        assert store.latest(key("a")) is None
        [entry] = await store.write(put(key("b")))
        assert entry.revision > 0
        assert store.list("pods").entries == (entry,)

    kit.on(test)


def test_nothing_to_write_is_done_at_once(kit: Kit) -> None:
    async def test(store: Store) -> None:
        assert await store.write() == []
        assert store.revision == 0

    kit.on(test)


def test_who_waits_for_an_object_hears_when_its_newest_write_is_durable(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.wait_until_durable(key("a"))
        journal.gate.clear()
        store.write(put(key("a")))
        await asyncio.sleep(0)
        waiting = asyncio.create_task(store.wait_until_durable(key("a")))
        await store.wait_until_durable(key("b"))
        assert not waiting.done()
        journal.gate.set()
        await waiting
        assert store.get(key("a"))
        assert journal.batches == [1], "nothing is written for who waits"

    kit.on_faulty(test)


def test_who_waits_for_an_object_hears_that_its_newest_write_is_taken_back(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        journal.failures = [StorageFull("the disk")]
        written = store.write(put(key("a")))
        for done in (store.wait_until_durable(key("a")), written):
            with pytest.raises(StorageFull):
                await done
        await store.wait_until_durable(key("a"))

    kit.on_faulty(test)


def test_a_name_that_no_disk_can_hold_is_refused_at_once(kit: Kit) -> None:
    async def test(store: Store) -> None:
        with pytest.raises(UnicodeEncodeError):
            store.write(put(key("\udc80")))
        await store.write(put(key("a\0b", "\N{SNOWMAN}")))
        assert store.list("pods", "\N{SNOWMAN}").entries == (store.get(key("a\0b", "\N{SNOWMAN}")),)

    kit.on(test)


def test_after_a_failed_commit_everything_decided_on_it_is_taken_back(kit: Kit) -> None:
    async def test(store: Store, journal: Faulty) -> None:
        a, b = key("a"), key("b")
        await store.write(put(a, "old"))
        watch = store.watch("pods", store.revision)
        journal.failures = [StorageFull("the disk")]
        journal.gate.clear()
        first = store.write(put(a, "new"))
        await asyncio.sleep(0)
        later = [store.write(put(b)), store.write(delete(a))]
        journal.gate.set()
        for done in (first, *later):
            with pytest.raises(StorageFull) as full:
                await done
            assert full.value.code == 507
        assert value_of(store.get(a)) == value_of(store.latest(a)) == "old"
        assert store.latest(b) is None
        [entry] = await store.write(put(b))
        assert entry.revision > 1 + 3, "a number that was given to a failed write is not given again"
        assert [change.entry for change in await watch.next()] == [entry]

    kit.on_faulty(test)


def test_a_disk_that_failed_is_not_written_to_again(kit: Kit) -> None:
    failures: list[StorageFailed] = []

    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        journal.failures = [StorageFailed("the disk", "I/O error")]
        with pytest.raises(StorageFailed, match="cannot write to the disk: I/O error"):
            await store.write(put(key("b")))
        with pytest.raises(StorageFailed):
            await store.write(put(key("b")))
        assert journal.batches == [1, 1]
        assert [entry.key.name for entry in store.list("pods").entries] == ["a"]

    kit.on_faulty(test, on_failure=failures.append)
    assert [failure.code for failure in failures] == [503]


@pytest.mark.parametrize("error", [RuntimeError("a bug"), asyncio.CancelledError()])
def test_whatever_stops_a_commit_no_writer_waits_for_ever(kit: Kit, error: BaseException) -> None:
    failures: list[StorageFailed] = []

    async def test(store: Store, journal: Faulty) -> None:
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
        journal.failures = [error]
        with pytest.raises(StorageFailed):
            await store.write(put(key("a")))
        with pytest.raises(StorageFailed):
            await store.write(put(key("a")))
        gc.collect()
        assert reported == ([error] if isinstance(error, RuntimeError) else [])

    kit.on_faulty(test, on_failure=failures.append)
    assert len(failures) == 1


def test_a_writer_that_goes_away_does_not_stop_its_write(kit: Kit) -> None:
    async def test(store: Store) -> None:
        writer = asyncio.ensure_future(store.write(put(key("a"))))
        writer.cancel()
        await store.write(put(key("b")))
        assert [entry.key.name for entry in store.list("pods").entries] == ["a", "b"]

    kit.on(test)


def test_closing_commits_what_is_pending_and_refuses_the_rest(kit: Kit) -> None:
    async def test() -> None:
        store = kit.store()
        with pytest.raises(StoreClosed):
            await store.write(put(key("early")))
        await store.open()
        done = store.write(put(key("a")))
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        with pytest.raises(StoreClosed) as closed:
            await store.write(put(key("late")))
        assert closed.value.code == 503
        await closing
        await store.close()
        assert [entry.key.name for entry in await done] == ["a"]
        assert [entry.key.name for entry in store.list("pods").entries] == ["a"], "reads go on"

    kit.run(test())


def test_a_deletion_of_nothing_is_a_mistake_of_the_caller(kit: Kit) -> None:
    async def test(store: Store) -> None:
        with pytest.raises(AssertionError):
            store.write(delete(key("a")))
        with pytest.raises(AssertionError):
            store.write(put(key("a")), put(key("a")))

    kit.on(test)


def test_compaction_leaves_watches_from_a_revision_after_which_nothing_was_dropped(kit: Kit) -> None:
    async def test(store: Store) -> None:
        [first] = await store.write(put(key("quiet")))
        for value in "123":
            await store.write(put(key("busy", resource="nodes"), value))
        await store.compact(3)
        following = store.watch("pods", first.revision)
        with pytest.raises(Compacted):
            store.watch("nodes", first.revision)
        await store.write(put(key("quiet"), "new"))
        assert [value_of(change.entry) for change in await following.next()] == ["new"]

    kit.on(test)


def test_compaction_forgets_changes_but_no_objects(kit: Kit) -> None:
    async def test(store: Store) -> None:
        a, b = key("a"), key("b")
        for value in "123":
            await store.write(put(a, value))
        await store.write(put(b))
        await store.write(delete(b))
        watch = store.watch("pods", 2)
        await store.compact(3)
        assert store.oldest == 3
        await store.compact(2)
        assert store.oldest == 3
        for since, resource in ((2, "pods"), (2, "never seen")):
            with pytest.raises(Compacted):
                store.watch(resource, since)
        with pytest.raises(Compacted):
            await watch.next()
        assert [change.revision for change in await store.watch("pods", 3).next()] == [4, 5]
        await store.compact(1000)
        assert store.oldest == store.revision == 5
        assert value_of(store.get(a)) == "3"
        following = store.watch("pods", 5)
        await store.write(put(a, "4"))
        assert [value_of(change.previous) for change in await following.next()] == ["3"]

    kit.on(test)


def test_everything_is_there_after_a_restart(sqlite: Kit) -> None:
    async def test() -> None:
        a, b, c, node = key("a"), key("b"), key("c"), key("n", "", "nodes")
        async with sqlite.store() as store:
            assert store.durable
            await store.write(put(a, "1"), put(b, "1"), put(node))
            await store.write(put(a, "2"), put(c, "1"))
            await store.write(delete(b, "1"))
            lists = [store.list("pods"), store.list("nodes")]
            changes = await store.watch("pods", 0).next()
        async with sqlite.store() as store:
            for before, after in zip(lists, [store.list("pods"), store.list("nodes")], strict=True):
                assert after.revision == before.revision == 6
                assert [(e.key, e.revision, e.body, e.header) for e in after.entries] == [
                    (e.key, e.revision, e.body, e.header) for e in before.entries
                ]
            again = await store.watch("pods", 0).next()
            assert [change.line for change in again] == [change.line for change in changes]
            assert [c.previous and c.previous.revision for c in again] == [
                c.previous and c.previous.revision for c in changes
            ]
            [entry] = await store.write(put(b, "2"))
            assert entry.revision == 7

    sqlite.run(test())


def test_a_compacted_store_restarts_at_the_same_revision(sqlite: Kit) -> None:
    async def test() -> None:
        a = key("a")
        async with sqlite.store() as store:
            await store.write(put(a))
            await store.write(delete(a))
            await store.compact(2)
        async with sqlite.store() as store:
            assert (store.revision, store.oldest, store.list("pods").entries) == (2, 2, ())
            [entry] = await store.write(put(a))
            assert entry.revision == 3
            with pytest.raises(Compacted):
                store.watch("pods", 1)
            assert [change.type for change in await store.watch("pods", 2).next()] == ["ADDED"]
            await store.write(put(a, "2"))
            await store.compact(3)
        async with sqlite.store() as store:
            [change] = await store.watch("pods", 3).next()
            assert (change.type, value_of(change.previous)) == ("MODIFIED", "x")

    sqlite.run(test())


def test_only_what_the_history_holds_comes_back_to_watches(sqlite: Kit) -> None:
    async def test() -> None:
        async with sqlite.store() as store:
            for number in range(100):
                await store.write(put(key(str(number))))
        async with sqlite.store(history=10) as store:
            assert len(store.list("pods").entries) == 100
            assert len(await store.watch("pods", 90).next()) == 10
            with pytest.raises(Compacted):
                store.watch("pods", 89)

    sqlite.run(test())


def test_an_object_that_cannot_be_read_stops_the_start_with_its_name(sqlite: Kit) -> None:
    async def test() -> None:
        async with sqlite.store() as store:
            await store.write(put(key("a")))

        def unreadable(resource: str, body: bytes) -> Header:
            raise msgspec.DecodeError("not JSON")

        with pytest.raises(DataDirectoryError, match=r"damaged: .*name='a'.* cannot be read: not JSON"):
            await Store(sqlite.new_journal(), unreadable).open()
        async with sqlite.store() as store:
            assert len(store.list("pods").entries) == 1

    sqlite.run(test())


def test_the_collector_of_garbage_is_left_as_it_was(kit: Kit) -> None:
    async def test(store: Store) -> None:
        assert gc.isenabled()

    kit.on(test)
    gc.disable()
    try:
        kit.on(lambda _: asyncio.sleep(0))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_store_in_memory_is_not_durable(memory: Kit) -> None:
    async def test(store: Store) -> None:
        assert not store.durable

    memory.on(test)


def test_everything_is_all_objects_at_one_revision(kit: Kit) -> None:
    async def test(store: Store) -> None:
        a, b = key("a"), key("b", resource="nodes")
        await store.write(put(a, "1"), put(b, "2"), put(key("c")))
        await store.write(delete(key("c")))
        seen = store.everything()
        pending = store.write(put(a, "3"))
        assert (seen.revision, {e.key: value_of(e) for e in seen.entries}) == (4, {a: "1", b: "2"})
        await pending
        assert len(seen.entries) == 2

    kit.on(test)


def on_durable(test: Callable[[Store, Faulty], Awaitable[None]]) -> None:
    """Run a test, in virtual time, with a store that takes its journal for a disk."""

    async def body() -> None:
        journal = Faulty(MemoryJournal())
        journal.durable = True
        async with Store(journal, header_of) as store:
            await test(store, journal)

    run_virtual(body())


def test_a_write_that_may_wait_shares_the_commit_of_the_next_one() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        event = store.write(put(key("event")), may_wait=True)
        await asyncio.sleep(WAIT_SECONDS / 2)
        assert journal.batches == [1]
        assert not event.done()
        await store.write(put(key("b")))
        assert event.done()
        assert journal.batches == [1, 2]

    on_durable(test)


def test_a_write_that_may_wait_does_not_wait_for_long() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        await asyncio.gather(*(store.write(put(key(f"event-{i}")), may_wait=True) for i in range(3)))
        assert asyncio.get_running_loop().time() == pytest.approx(WAIT_SECONDS)
        assert journal.batches == [1, 3]

    on_durable(test)


def test_a_write_that_comes_during_a_commit_waits_for_the_next_one() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        journal.gate.clear()
        first = store.write(put(key("a")))
        await asyncio.sleep(0)
        event = store.write(put(key("event")), may_wait=True)
        journal.gate.set()
        await first
        assert not event.done()
        await event
        assert asyncio.get_running_loop().time() == pytest.approx(WAIT_SECONDS)
        assert journal.batches == [1, 1]

    on_durable(test)


def test_nothing_waits_while_no_other_writes_come() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("event-1")), may_wait=True)
        await store.write(put(key("a")))
        await asyncio.sleep(WAIT_SECONDS)
        now = asyncio.get_running_loop().time()
        await store.write(put(key("event-2")), may_wait=True)
        assert asyncio.get_running_loop().time() == now
        assert journal.batches == [1, 1, 1]

    on_durable(test)


def test_who_needs_a_waiting_write_does_not_wait_for_it() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        event = store.write(put(key("event")), may_wait=True)
        await store.wait_until_durable(key("event"))
        assert event.done()
        assert asyncio.get_running_loop().time() == 0
        assert journal.batches == [1, 1]

    on_durable(test)


def test_a_waiting_write_is_committed_at_the_close() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        event = store.write(put(key("event")), may_wait=True)
        await store.close()
        assert [entry.key for entry in await event] == [key("event")]
        assert asyncio.get_running_loop().time() == 0
        assert journal.batches == [1, 1]

    on_durable(test)


def test_a_full_disk_takes_changes_and_deletions_and_nothing_new() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")), put(key("b")))
        journal.full = StorageFull("/data")
        with pytest.raises(StorageFull):
            await store.write(put(key("a"), "2"), put(key("c")))
        assert store.latest(key("c")) is None
        assert value_of(store.latest(key("a"))) == value_of(store.get(key("a")))
        await store.write(put(key("a"), "2"))
        await store.write(delete(key("b")))
        assert value_of(store.get(key("a"))) == "2"
        assert store.get(key("b")) is None
        journal.full = None
        await store.write(put(key("b")))

    on_durable(test)


def test_a_waiting_write_is_taken_back_with_the_commit_that_it_waits_for() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        await store.write(put(key("a")))
        event = store.write(put(key("event")), may_wait=True)
        journal.failures.append(StorageFull("/data"))
        other = store.write(put(key("b")))
        for refused in (event, other):
            with pytest.raises(StorageFull):
                await refused
        assert store.latest(key("event")) is None
        await store.write(put(key("event")), may_wait=True)
        assert store.get(key("event")) is not None

    on_durable(test)


async def _write_in_turns(store: Store, name: str, writes: int) -> None:
    """Write again and again, as a client does whose answers take it two turns of the loop."""
    for number in range(writes):
        await store.write(put(key(f"{name}-{number}")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)


def test_a_commit_lets_those_write_that_the_last_one_woke() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        journal.gate.clear()
        writers = asyncio.gather(*(_write_in_turns(store, name, 3) for name in "abcd"))
        for _ in range(TURNS + 2):
            await asyncio.sleep(0)
        other = store.write(put(key("other")))  # it comes during the commit, so the next one is due at once
        journal.gate.set()
        await asyncio.gather(writers, other)
        assert journal.batches == [4, 5, 4]

    on_durable(test)


def test_a_lone_writer_waits_for_nobody() -> None:
    async def test(store: Store, journal: Faulty) -> None:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        await store.write(put(key("first")))
        turns = 0
        await store.write(put(key("second")))
        counting.cancel()
        assert turns < TURNS
        assert journal.batches == [1, 1]

    on_durable(test)


def test_nothing_waits_for_a_store_in_memory(memory: Kit) -> None:
    async def test(store: Store) -> None:
        await store.write(put(key("a")))
        await store.write(put(key("event")), may_wait=True)
        assert asyncio.get_running_loop().time() == 0

    memory.on(test)


def test_objects_share_the_words_of_their_labels(kit: Kit) -> None:
    def words(*entries: Entry | None) -> list[str]:
        return [word for entry in entries if entry for pair in entry.header.labels.items() for word in pair]

    async def body() -> None:
        async with kit.store() as store:
            long = "of many objects"  # Python shares short words by itself
            await store.write(put(key("a"), long), put(key("b"), long))
            made = words(store.get(key("a")), store.get(key("b")))
        assert made[:2] == ["value", long]
        assert all(map(is_, made[:2], made[2:]))

    kit.run(body())


def test_versions_of_an_object_share_equal_labels(memory: Kit) -> None:
    async def test(store: Store) -> None:
        first, second, third = [(await store.write(put(key("a"), value)))[0].header.labels for value in "xxy"]
        assert first is second
        assert (first, third) == ({"value": "x"}, {"value": "y"})

    memory.on(test)


def test_objects_that_changed_long_ago_are_kept_in_pieces_that_they_share(kit: Kit) -> None:
    async def test(store: Store) -> None:
        alike = "x" * LEAST_BYTES
        names = [f"pod-{number}" for number in range(LINES + 2)]
        await asyncio.gather(*(store.write(put(key(name), alike)) for name in names))
        old = [store.get(key(name)) for name in names]
        bodies = [entry.body for entry in old if entry]
        assert [entry.body is entry.body for entry in old if entry] == [False] * 2 + [True] * LINES
        assert [change.entry.body for change in await store.watch("pods", 0).next()] == bodies
        await store.pack()
        assert not any(entry.body is entry.body for entry in old if entry)
        assert [entry.body for entry in store.list("pods").entries] == [
            body for _, body in sorted(zip(names, bodies, strict=True))
        ]

    kit.on(test)
