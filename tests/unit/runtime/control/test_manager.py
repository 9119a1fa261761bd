"""Managers: start in order, stop in order, and let nothing die silently."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.runtime.conftest import THING, MemoryServer, Thing, down

from muster.api.meta import Object
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.controller import Controller, Result
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random
from muster.runtime.informer import Informer

CLOCK = VirtualClock()


class Part:
    """Something that runs, and says what happens to it."""

    def __init__(
        self, name: str, story: list[str], *, fails_after: float = 0, ends_after: float = 0, stops_in: float = 0
    ) -> None:
        self.name = name
        self._story = story
        self._fails_after = fails_after
        self._ends_after = ends_after
        self._stops_in = stops_in
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        self._story.append(f"{self.name} runs")
        try:
            if self._fails_after:
                await CLOCK.sleep(self._fails_after)
                raise ZeroDivisionError(f"{self.name} broke")
            if self._ends_after:
                await CLOCK.sleep(self._ends_after)
                return
            await self._stopping.wait()
            await CLOCK.sleep(self._stops_in)
            self._story.append(f"{self.name} ended")
        except asyncio.CancelledError:
            self._story.append(f"{self.name} cut")
            raise

    async def stop(self) -> None:
        self._story.append(f"{self.name} stops")
        self._stopping.set()


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()
        assert len(asyncio.all_tasks()) == 1, "nothing is left running"

    run_virtual(main())


def make(server: MemoryServer) -> Manager:
    return Manager(Client(server), CLOCK, Random(seed=1), stop_limit_seconds=45)


def test_parts_start_in_order_after_the_caches_and_stop_backwards(server: MemoryServer) -> None:
    async def test() -> None:
        story: list[str] = []
        manager = make(server)
        informer = manager.informer(THING)
        informer.on_change(lambda old, new: story.append("a change"))
        for name in ("sink", "first", "second"):
            manager.add(Part(name, story, stops_in=1))
        server.put("a")
        server.fault = down
        task = asyncio.create_task(manager.run())
        await CLOCK.sleep(10)
        assert story == []
        assert not manager.ready.is_set()
        assert (manager.awaited, "cannot reach the server" in manager.trouble) == (["things.test.dev"], True)
        server.fault = lambda request: None
        await manager.ready.wait()
        assert (manager.awaited, manager.trouble) == ([], "")
        await CLOCK.sleep(0.01)
        assert story == ["a change", "sink runs", "first runs", "second runs"]
        story.clear()
        await manager.stop()
        assert story == [f"{name} {word}" for name in ("second", "first", "sink") for word in ("stops", "ended")]
        await task
        assert server.streams == []

    run(test)


def test_informers_are_shared(server: MemoryServer) -> None:
    async def test() -> None:
        manager = make(server)
        one = manager.informer(THING, indexes={"name": lambda obj: [obj.metadata.name]})
        assert manager.informer(THING) is one
        other = manager.informer(THING, labels="a=b")
        assert other is not one
        assert manager.informer(THING, namespace="ns") not in (one, other)
        manager.informer(THING, indexes={"value": lambda obj: [str(obj.value)]})
        server.put("a", 7)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        assert one.by("value", "7") == one.by("name", "a") == one.all()
        assert server.count(watch=False) == 3
        await manager.stop()
        await task

    run(test)


@pytest.mark.parametrize("metadata_first", [True, False])
def test_who_wants_only_the_metadata_shares_the_informer_of_the_objects(
    server: MemoryServer, *, metadata_first: bool
) -> None:
    async def test() -> None:
        manager = make(server)
        metadata = THING.seen_as(Object)
        kinds = (metadata, THING) if metadata_first else (THING, metadata)
        informers: list[Informer[Any]] = [manager.informer(kind) for kind in (*kinds, metadata, THING)]
        assert len(set(informers)) == 1
        assert manager.informer(THING.seen_as(dict)) not in informers
        names: list[str] = []
        manager.informer(metadata).on_change(lambda _old, new: names.append(new.metadata.name if new else ""))
        server.put("a", 7)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        assert [thing.value for thing in manager.informer(THING).all()] == [7]
        assert names == ["a"]
        assert server.count(watch=False) == 2
        await manager.stop()
        await task

    run(test)


def test_a_kind_is_forgotten_by_those_alone_who_came_to_follow_its_metadata(server: MemoryServer) -> None:
    async def test() -> None:
        manager = make(server)
        whole, metadata = manager.informer(THING), THING.seen_as(Object)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        await manager.informer(metadata).synced.wait()
        manager.forget(metadata)
        server.put("a", 7)
        await CLOCK.sleep(1)
        assert [thing.value for thing in whole.all()] == [7]
        await manager.stop()
        await task

    run(test)


def test_what_is_followed_by_name_is_forgotten_alone(server: MemoryServer) -> None:
    async def test() -> None:
        manager = make(server)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        left, kept = (manager.informer(THING, namespace=namespace, fields="metadata.name=a") for namespace in "xy")
        manager.forget(THING, namespace="x", fields="metadata.name=a")
        assert manager.informer(THING, namespace="y", fields="metadata.name=a") is kept
        assert manager.informer(THING, namespace="x", fields="metadata.name=a") is not left
        await manager.stop()
        await task

    run(test)


def test_an_informer_that_runs_goes_on_with_the_metadata_alone(server: MemoryServer) -> None:
    async def test() -> None:
        manager = make(server)
        metadata: Informer[Any] = manager.informer(THING.seen_as(Object))
        server.put("a", 7)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        whole = manager.informer(THING)
        await whole.synced.wait()
        assert whole is not metadata
        assert [thing.value for thing in whole.all()] == [7]
        await manager.stop()
        await task

    run(test)


def test_informer_asked_for_later_starts_at_once(server: MemoryServer) -> None:
    async def test() -> None:
        manager = make(server)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        server.put("a")
        late = manager.informer(THING)
        await late.synced.wait()
        assert len(late) == 1
        await manager.stop()
        await task

    run(test)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"fails_after": 5}, ZeroDivisionError, "^bad broke$"),
        ({"ends_after": 5}, RuntimeError, "^bad ended before it was stopped$"),
    ],
)
def test_part_that_ends_stops_everything(
    server: MemoryServer, options: dict[str, float], error: type[Exception], message: str
) -> None:
    async def test() -> None:
        story: list[str] = []
        manager = make(server)
        manager.informer(THING)
        manager.add(Part("good", story))
        manager.add(Part("bad", story, **options))
        with pytest.raises(error, match=message):
            await manager.run()
        assert story[-2:] == ["good stops", "good ended"]
        assert int(CLOCK.monotonic()) == 5
        await manager.stop()

    run(test)


def test_informer_that_breaks_stops_everything(server: MemoryServer) -> None:
    def fails(old: Thing | None, new: Thing | None) -> None:
        raise KeyError("handler")

    async def test() -> None:
        manager = make(server)
        manager.informer(THING).on_change(fails)
        manager.add(Part("never", []))
        server.put("a")
        with pytest.raises(KeyError, match="handler"):
            await manager.run()

    run(test)


def test_stop_while_starting(server: MemoryServer) -> None:
    async def test() -> None:
        story: list[str] = []
        server.fault = down
        manager = make(server)
        manager.informer(THING)
        manager.add(Part("never", story))
        task = asyncio.create_task(manager.run())
        await CLOCK.sleep(100)
        await manager.stop()
        await task
        assert story == []

    run(test)


def test_stop_without_run(server: MemoryServer) -> None:
    async def test() -> None:
        await make(server).stop()

    run(test)


def test_stop_that_takes_too_long_is_cut(server: MemoryServer, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        story: list[str] = []
        manager = make(server)
        manager.add(Part("good", story))
        manager.add(Part("slow", story, stops_in=1000))
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        await CLOCK.sleep(1)
        await manager.stop()
        await task
        assert CLOCK.monotonic() == 46
        assert story[2:] == ["slow stops", "slow cut", "good stops", "good ended"]
        assert "slow did not stop within 45 s" in caplog.text

    run(test)


def test_without_grace_a_stop_waits_for_nothing(server: MemoryServer, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        story: list[str] = []
        manager = make(server)

        async def reconcile(key: str) -> Result:
            try:
                await CLOCK.sleep(20)
            finally:
                story.append(f"{key} cut")
            return None

        controller = manager.controller("busy", reconcile)
        for part in (Part("sink", story), controller, Part("slow", story, stops_in=30)):
            manager.add(part)
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        controller.queue.add("key")
        await CLOCK.sleep(1)
        story.clear()
        began = CLOCK.monotonic()
        manager.skip_grace()
        task.cancel()
        await asyncio.wait([task])
        assert CLOCK.monotonic() == began
        assert story == ["slow stops", "slow cut", "key cut", "sink stops", "sink cut"]
        assert caplog.records == []

    run(test)


def test_cancelled_run_stops_in_order_too(server: MemoryServer) -> None:
    """Ctrl-C: the reconcile that writes is not cut."""
    written: list[str] = []

    async def reconcile(key: str) -> Result:
        await CLOCK.sleep(10)
        written.append(key)
        return None

    async def test() -> None:
        manager = make(server)
        controller = Controller("c", reconcile, CLOCK, Random(seed=1))
        controller.watch(manager.informer(THING))
        manager.add(controller)
        server.put("a")
        server.put("b")
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        await CLOCK.sleep(3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert written == ["default/a"]

    run(test)


def test_informers_live_until_the_parts_have_stopped(server: MemoryServer) -> None:
    """A reconcile that finishes while stopping may still wait for what it wrote to come back."""
    seen: list[int] = []

    async def test() -> None:
        manager = make(server)
        informer = manager.informer(THING)

        async def reconcile(key: str) -> Result:
            await CLOCK.sleep(10)
            server.put("b", 5)
            await CLOCK.sleep(1)
            found = informer.get("default/b")
            seen.append(found.value if found else -1)
            return None

        controller = Controller("c", reconcile, CLOCK, Random(seed=1))
        controller.watch(informer)
        manager.add(controller)
        server.put("a")
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        await CLOCK.sleep(1)
        await manager.stop()
        await task
        assert seen == [5]

    run(test)
