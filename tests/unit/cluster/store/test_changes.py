"""Watches, over a store in memory and in virtual time."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.cluster.store.kit import Kit, delete, key, put

from muster.cluster.store import Change, Closed, Compacted, Delete, Put, Store, Watch
from muster.cluster.store.changes import LINES, Changes


async def names(watch: Watch) -> list[str]:
    return [f"{change.type} {change.entry.key.name}" for change in await watch.next()]


def test_a_watch_wakes_once_and_takes_everything_since(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0)
        next_one = asyncio.create_task(names(watch))
        await asyncio.sleep(0)
        first, second = store.write(put(key("a"))), store.write(put(key("b")))
        await asyncio.gather(first, second)
        assert await next_one == ["ADDED a", "ADDED b"]
        await store.write(put(key("a")))
        await store.write(delete(key("b")))
        assert await names(watch) == ["MODIFIED a", "DELETED b"]

    memory.on(test)


def test_a_change_knows_what_it_replaced(memory: Kit) -> None:
    async def test(store: Store) -> None:
        [one] = await store.write(put(key("a"), "1"))
        [two] = await store.write(put(key("a"), "2"))
        [gone] = await store.write(delete(key("a"), "2"))
        changes = await store.watch("pods", 0).next()
        assert [(change.type, change.entry, change.previous) for change in changes] == [
            ("ADDED", one, None),
            ("MODIFIED", two, one),
            ("DELETED", gone, two),
        ]
        assert gone.revision == 3
        assert gone.header.labels == {"value": "2"}

    memory.on(test)


def test_a_watch_begins_after_the_revision_asked_for(memory: Kit) -> None:
    async def test(store: Store) -> None:
        for name in "abc":
            await store.write(put(key(name)))
        assert await names(store.watch("pods", 1)) == ["ADDED b", "ADDED c"]
        assert await names(store.watch("pods", 2)) == ["ADDED c"]

    memory.on(test)


def test_a_watch_that_begins_in_the_future_waits_for_it(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 2)
        for name in "abc":
            await store.write(put(key(name)))
        assert await names(watch) == ["ADDED c"]
        assert watch.revision == 3

    memory.on(test)


def test_a_watch_sees_one_resource_and_one_namespace(memory: Kit) -> None:
    async def test(store: Store) -> None:
        pods = store.watch("pods", 0)
        blue = store.watch("pods", 0, "blue")
        await store.write(put(key("x", "", "nodes")), put(key("a", "red")), put(key("b", "blue")))
        assert await names(pods) == ["ADDED a", "ADDED b"]
        assert await names(blue) == ["ADDED b"]

    memory.on(test)


def test_a_quiet_namespace_misses_nothing_while_others_overrun_the_history(memory: Kit) -> None:
    async def test(store: Store) -> None:
        quiet = asyncio.create_task(names(store.watch("pods", 0, "quiet")))
        for number in range(100):
            await store.write(put(key(str(number), "busy")))
        assert not quiet.done()
        await store.write(put(key("last", "quiet")))
        assert await quiet == ["ADDED last"]

    memory.on(test, history=10)


def test_a_watch_in_time_slices_misses_nothing(memory: Kit) -> None:
    """A reader that gives up waiting now and then, as one does who sends bookmarks."""

    async def test(store: Store) -> None:
        watch, seen = store.watch("pods", 0, "quiet"), []
        for number in range(30):
            try:
                async with asyncio.timeout(1):
                    seen += await names(watch)
            except TimeoutError:
                assert watch.revision == store.revision
            writes = [put(key(f"{number}-{other}", "busy")) for other in range(5)]
            await store.write(*writes)
            if number % 3 == 0:
                await store.write(put(key(str(number), "quiet")))
        assert seen == [f"ADDED {number}" for number in range(0, 30, 3)]

    memory.on(test, history=10)


@pytest.mark.parametrize("happens_first", [True, False])
def test_cancelling_at_the_very_moment_of_a_change_loses_nothing(memory: Kit, *, happens_first: bool) -> None:
    async def test(store: Store) -> None:
        await store.write(put(key("a")))
        (change,) = await store.watch("pods", 0).next()
        changes = Changes(0, limit=10, limit_bytes=1_000)
        watch = Watch(changes, 0, "", lambda: 1)
        reader = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        changes.append(change)
        for happens in (changes.wake, reader.cancel) if happens_first else (reader.cancel, changes.wake):
            happens()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert await names(watch) == ["ADDED a"]

    memory.on(test)


def test_a_nudged_watch_goes_on_with_what_happened(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0, "blue")
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        await store.write(put(key("a", "red")))
        watch.nudge()
        assert watch.revision == 1, "it waited, so there was nothing for it"
        assert await waiting == []
        watch.nudge()
        await store.write(put(key("b", "blue")))
        assert await watch.next() == []
        assert watch.revision == 1, "there is something for it"
        assert await names(watch) == ["ADDED b"]

    memory.on(test)


def test_the_revision_of_a_watch_is_that_of_what_was_given_out(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0, "blue")
        assert watch.revision == 0
        await store.write(put(key("a", "blue")), put(key("a", "red")))
        assert watch.revision == 0, "nothing was given out yet"
        await watch.next()
        assert watch.revision == 2
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        await store.write(put(key("b", "red")))
        assert watch.revision == 3, "it waits, so there was nothing for it"
        await store.write(put(key("b", "blue")))
        await waiting
        assert watch.revision == 4

    memory.on(test)


@pytest.mark.parametrize("namespace", ["", "blue"])
@pytest.mark.parametrize("at_most", [1, 2, 3, 10])
def test_a_watch_may_take_a_little_at_a_time(memory: Kit, at_most: int, namespace: str) -> None:
    async def test(store: Store) -> None:
        watch, whole = store.watch("pods", 0, namespace), store.watch("pods", 0, namespace)
        for number in range(9):
            await store.write(put(key(str(number), ("red", "blue")[number % 2])))
        await store.write(put(key("x", "", "nodes")))
        expected = whole.take()
        found: list[Change] = []
        while len(found) < len(expected):
            some = await watch.next(at_most)
            assert 0 < len(some) <= at_most
            found += some
            if len(found) < len(expected):
                assert found[-1].revision <= watch.revision < expected[len(found)].revision
        assert found == expected
        assert watch.take(at_most) == []
        assert watch.revision == store.revision

    memory.on(test)


def test_a_watch_that_falls_behind_the_history_is_told(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0)
        for number in range(100):
            await store.write(put(key(str(number))))
        with pytest.raises(Compacted) as behind:
            await watch.next()
        assert (behind.value.since, behind.value.oldest) == (0, 100 - 10)
        with pytest.raises(Compacted):
            store.watch("pods", behind.value.oldest - 1)
        assert len(await store.watch("pods", behind.value.oldest).next()) == 10
        store.watch("nodes", 0)  # nothing of it was dropped

    memory.on(test, history=10)


@pytest.mark.parametrize("ending", [(), (delete(key("a"), "x" * 1000), put(key("a"), "x" * 1000))])
def test_the_history_is_bounded_in_bytes_too(memory: Kit, ending: Sequence[Put | Delete]) -> None:
    """It counts what is kept for it alone: what was replaced, and the last state of what is gone."""

    async def test() -> None:
        async with memory.store() as store:
            for write in (put(key("a"), "x" * 1000), *ending) * 10:
                await store.write(write)
            every = await store.watch("pods", 0).next()
        size = len(every[0].entry.body)
        changes = Changes(0, limit=1000, limit_bytes=4 * size)
        for change in every:
            changes.append(change)
            changes.wake()
            kept = changes.since(changes.position_after(changes.oldest), 0)
            past = {id(entry): entry for one in kept for entry in (one.entry, one.previous) if entry is not None}
            if change.type != "DELETED":
                del past[id(change.entry)]
            assert 0 <= sum(len(entry.body) for entry in past.values()) <= 5.1 * size
        assert changes.oldest >= every[-8].revision

    memory.run(test())


def test_objects_that_are_there_do_not_count(memory: Kit) -> None:
    async def test() -> None:
        async with memory.store() as store:
            await store.write(*(put(key(str(number)), "x" * 1000) for number in range(20)))
            every = await store.watch("pods", 0).next()
        changes = Changes(0, limit=1000, limit_bytes=1)
        for change in every:
            changes.append(change)
            changes.wake()
        assert changes.since(0, 0) == list(every)

    memory.run(test())


def test_only_the_newest_lines_are_remembered(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0)
        await store.write(*(put(key(str(number))) for number in range(LINES)))
        changes = await watch.next()
        lines = [change.line for change in changes]
        await store.write(put(key("one more")))
        assert changes[0].line is not lines[0]
        assert changes[1].line is lines[1]

    memory.on(test)


def test_closing_a_watch_ends_its_wait(memory: Kit) -> None:
    async def test(store: Store) -> None:
        watch = store.watch("pods", 0)
        waiting = asyncio.create_task(watch.next())
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        with pytest.raises(Closed):
            await waiting
        with pytest.raises(Closed):
            await watch.next()

    memory.on(test)


def test_closing_the_store_ends_every_watch(memory: Kit) -> None:
    async def test() -> None:
        store = await memory.store().open()
        reader = asyncio.create_task(store.watch("pods", 0, "blue").next())
        idle = store.watch("pods", 0)
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(Closed):
            await reader
        with pytest.raises(Closed):
            await idle.next()

    memory.run(test())
