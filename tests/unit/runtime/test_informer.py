"""Informers against a small server that misbehaves: always right in the end, never in a hot loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.runtime.conftest import THING, MemoryServer, Thing, busy, down

from muster.api.status import forbidden, path_not_found
from muster.runtime import informer as informer_module
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.ids import Random
from muster.runtime.informer import SILENCE_SECONDS, Informer, Outage
from muster.runtime.objects import key_of
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, Response, TransportError

Told = list[tuple[str | None, str | None]]


def names(told: Told) -> Callable[[Thing | None, Thing | None], None]:
    def on_change(old: Thing | None, new: Thing | None) -> None:
        told.append((_show(old), _show(new)))

    return on_change


def _show(obj: Thing | None) -> str | None:
    return f"{obj.metadata.name}={obj.value}" if obj else None


class World:
    """A server, an informer that runs, and virtual time."""

    def __init__(self, server: MemoryServer, informer: Informer[Thing], clock: VirtualClock) -> None:
        self.server = server
        self.informer = informer
        self.clock = clock
        self.told: Told = []

    def known(self) -> dict[str, tuple[str, int]]:
        return {key_of(obj): (obj.metadata.uid, obj.value) for obj in sorted(self.informer.all(), key=key_of)}

    async def settle(self, seconds: float = 0.001) -> None:
        await self.clock.sleep(seconds)


@asynccontextmanager
async def running(server: MemoryServer, **options: Any) -> AsyncIterator[World]:
    clock = VirtualClock()
    informer = Informer(Client(server), THING, clock, Random(seed=1), **options)
    world = World(server, informer, clock)
    informer.on_change(names(world.told))
    task = asyncio.create_task(informer.run())
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            await task


def run(server: MemoryServer, test: Callable[[World], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        async with running(server, **options) as world:
            await world.informer.synced.wait()
            await test(world)

    run_virtual(main())


def test_lists_then_follows(server: MemoryServer) -> None:
    server.put("a", 1)
    server.put("b", 2)

    async def test(world: World) -> None:
        assert world.told == [(None, "a=1"), (None, "b=2")]
        await world.settle()
        server.put("a", 3)
        server.remove("b")
        server.put("c", 4)
        await world.settle()
        assert world.told[2:] == [("a=1", "a=3"), ("b=2", None), (None, "c=4")]
        assert world.known() == server.state()
        found = world.informer.get("default/a")
        assert found is not None
        assert found.value == 3
        assert world.informer.get("default/b") is None
        assert len(world.informer) == 2
        assert world.informer.version == str(server.revision)

    run(server, test)


def test_list_is_paged(server: MemoryServer) -> None:
    for number in range(1100):
        server.put(f"thing-{number:04}", number)

    async def test(world: World) -> None:
        assert world.known() == server.state()
        assert sum("continue" in request.query for request in server.requests) == 2

    run(server, test)


def test_selectors_and_bookmarks_are_asked_for(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        await world.settle()
        listing, watching = server.requests
        assert listing.path == watching.path == "/apis/test.dev/v1/namespaces/ns/things"
        for request in (listing, watching):
            assert (request.query["labelSelector"], request.query["fieldSelector"]) == ("a=b", "c=d")
        assert watching.query["allowWatchBookmarks"] == "true"
        assert 300 <= int(watching.query["timeoutSeconds"]) < 600

    run(server, test, namespace="ns", labels="a=b", fields="c=d")


def test_indexes(server: MemoryServer) -> None:
    server.put("a", 1)

    async def test(world: World) -> None:
        world.informer.add_index("name", lambda obj: [obj.metadata.name])
        server.put("b", 1)
        await world.settle()
        assert [obj.metadata.name for obj in world.informer.by("value", "1")] == ["a", "b"]
        assert [obj.value for obj in world.informer.by("name", "b")] == [1]
        server.put("a", 2)
        await world.settle()
        assert [obj.metadata.name for obj in world.informer.by("value", "1")] == ["b"]

    run(server, test, indexes={"value": lambda obj: [str(obj.value)]})


def test_late_handler_hears_of_what_is_there(server: MemoryServer) -> None:
    server.put("a", 1)

    async def test(world: World) -> None:
        await world.settle()
        late: Told = []
        world.informer.on_change(names(late))
        assert late == [(None, "a=1")]
        server.put("a", 2)
        await world.settle()
        assert late == world.told

    run(server, test)


@pytest.mark.parametrize("error", [None, TransportError("connection reset")])
def test_resumes_where_the_stream_ended(server: MemoryServer, error: Exception | None) -> None:
    async def test(world: World) -> None:
        await world.settle(60)
        server.put("a", 1)
        await world.settle()
        server.break_streams(error)
        server.put("a", 2)  # while nobody looks
        await world.settle()
        assert world.told == [(None, "a=1"), ("a=1", "a=2")], "a stream that lived long is resumed at once"
        assert server.count(watch=False) == 1
        assert server.requests[-1].query["resourceVersion"] == "2"

    run(server, test)


def test_bookmark_moves_the_resume_point(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        await world.settle(60)
        server.revision = 500  # other kinds were written
        server.bookmark()
        await world.settle()
        server.compact()
        server.break_streams()
        await world.settle(60)
        assert server.count(watch=False) == 1
        assert server.requests[-1].query["resourceVersion"] == "500"

    run(server, test)


def test_expired_version_is_a_new_list_with_tombstones(server: MemoryServer) -> None:
    for name in ("a", "b", "c"):
        server.put(name, 1)

    async def test(world: World) -> None:
        await world.settle(60)
        world.told.clear()
        server.break_streams()
        server.remove("a")
        server.put("b", 2)
        server.remove("c")
        server.put("c", 3)
        server.put("d", 4)
        server.compact()
        await world.settle(5)
        assert world.told == [("a=1", None), ("b=1", "b=2"), ("c=1", None), (None, "c=3"), (None, "d=4")]
        assert world.known() == server.state()
        assert server.count(watch=False) == 2

    run(server, test)


def refuses_watches(request: Request) -> Response | None:
    if "watch" in request.query:
        return Response(410, b"")
    return None


def test_repeated_expiry_is_no_hot_loop(server: MemoryServer) -> None:
    server.fault = refuses_watches

    async def test(world: World) -> None:
        await world.settle(600)
        # 0.8, 1.6, ... 15 to 30 s: some 40 turns in ten minutes at the very most.
        assert 20 <= server.count(watch=True) <= 45
        assert 20 <= server.count(watch=False) <= 45
        server.fault = lambda request: None
        server.put("a", 1)
        await world.settle(31)
        assert world.known() == server.state()

    run(server, test)


@pytest.mark.parametrize("events_first", [False, True])
def test_streams_that_close_at_once_are_no_hot_loop(server: MemoryServer, events_first: bool) -> None:
    async def test(world: World) -> None:
        async def close_always() -> None:
            while True:
                await world.clock.sleep(0.01)
                if server.streams:
                    if events_first:
                        server.put("a", server.revision)
                    server.break_streams()

        closing = asyncio.create_task(close_always())
        await world.settle(600)
        closing.cancel()
        assert 20 <= server.count(watch=True) <= 45
        assert server.count(watch=False) == 1

    run(server, test)


def test_stream_that_lives_a_while_earns_a_quick_return(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        for _ in range(100):
            await world.settle(5)
            server.break_streams()
            server.put("a", server.revision)
            await world.settle()
            assert world.known() == server.state()

    run(server, test)


@pytest.mark.parametrize("fault", [down, busy, lambda request: Response(403, b""), lambda request: Response(200, b"?")])
def test_unreachable_server_is_asked_ever_less_often(server: MemoryServer, fault: Callable[[Request], Any]) -> None:
    async def main() -> None:
        server.put("a", 1)
        server.fault = fault
        async with running(server) as world:
            await world.settle(600)
            assert 20 <= len(server.requests) <= 45
            assert not world.informer.synced.is_set()
            server.fault = lambda request: None
            await asyncio.wait_for(world.informer.synced.wait(), 31)
            assert world.known() == server.state()

    run_virtual(main())


def test_what_interrupts_is_logged_once_until_a_watch_begins(
    server: MemoryServer, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        found = [record.getMessage().split("interrupted: ")[1] for record in caplog.records]
        caplog.clear()
        return found

    async def test(world: World) -> None:
        await world.settle(60)
        for _ in range(2):
            server.fault = down
            server.break_streams(TransportError("broken"))
            await world.settle(300)
            assert said() == ["broken"], "a server that is away is one trouble"
            server.fault = lambda request: Response(403, b"no right")
            await world.settle(300)
            (refusal,) = said()
            assert "broken" not in refusal
            server.fault = lambda request: None
            await world.settle(60)
        assert said() == []

    run(server, test)


@pytest.mark.parametrize(("answer", "warnings"), [(b"?", 2), (None, 1)], ids=["unreadable", "away"])
def test_a_kind_that_cannot_be_read_is_no_outage_of_all(
    server: MemoryServer, caplog: pytest.LogCaptureFixture, answer: bytes | None, warnings: int
) -> None:
    async def main() -> None:
        outage = Outage()
        server.fault = down if answer is None else lambda request: Response(200, answer)
        async with running(server, outage=outage) as one, running(server, outage=outage):
            await one.settle(60)
        assert len([record for record in caplog.records if "interrupted: " in record.getMessage()]) == warnings

    run_virtual(main())


def test_refused_watch_lists_again_later(server: MemoryServer) -> None:
    """A right that was taken away and given back: what happened meanwhile is found by a list."""
    server.put("a", 1)

    async def test(world: World) -> None:
        await world.settle(60)
        server.fault = lambda request: Response(403, b"") if "watch" in request.query else None
        server.break_streams(forbidden("no"))
        server.remove("a")
        server.compact()
        await world.settle(60)
        server.fault = lambda request: None
        await world.settle(60)
        assert world.known() == server.state() == {}

    run(server, test)


@pytest.mark.parametrize("garbage", [b"\xff\xfe\n", b'{"type":"ADDED","object":{"value":"?"}}\n', b"{}\n"])
def test_event_that_cannot_be_read_is_a_new_list(server: MemoryServer, garbage: bytes) -> None:
    async def test(world: World) -> None:
        await world.settle(60)
        server.send_raw(garbage)
        await world.settle()
        server.put("a", 1)
        await world.settle()
        assert world.known() == server.state()
        assert (server.count(watch=True), server.count(watch=False)) == (2, 2)

    run(server, test)


def test_silent_stream_is_given_up(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        await world.settle()
        for _ in range(10):
            await world.settle(SILENCE_SECONDS * 0.8)
            server.bookmark()
        await world.settle()
        assert server.count(watch=True) == 1, "bookmarks keep it alive"
        server.streams.clear()  # the other end is gone, and nobody says so
        server.put("a", 1)
        await world.settle(SILENCE_SECONDS * 1.2)
        assert world.known() == server.state()
        assert server.count(watch=True) == 2

    run(server, test)


def test_handler_that_fails_ends_the_informer(server: MemoryServer) -> None:
    async def main() -> None:
        informer = Informer(Client(server), THING, VirtualClock(), Random(seed=1))
        server.put("a")

        def fails(old: Thing | None, new: Thing | None) -> None:
            raise ZeroDivisionError

        informer.on_change(fails)
        with pytest.raises(ZeroDivisionError):
            await informer.run()

    run_virtual(main())


def test_others_get_a_turn_during_a_flood(server: MemoryServer) -> None:
    """Thousands of events that are there already are not handled in one go."""

    async def test(world: World) -> None:
        await world.settle()
        for number in range(5000):
            server.put(f"thing-{number}")
        turns = 0
        while len(world.told) < 5000:
            await world.clock.sleep(0)
            turns += 1
        assert turns >= 10

    run(server, test)


def test_a_reader_who_is_not_in_a_hurry_takes_changes_together(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        await world.settle(1)
        moments = set()
        world.informer.on_change(lambda _old, _new: moments.add(round(world.clock.monotonic(), 3)))
        for number in range(100):
            server.put("thing", number)
            await world.settle(0.01)
        await world.settle(0.1)
        assert world.told[-1][1] == "thing=99"
        assert len(world.told) == 100
        assert len(moments) <= 25

    run(server, test, rest=0.1)


def test_a_rest_does_not_slow_down_a_flood(server: MemoryServer) -> None:
    async def test(world: World) -> None:
        await world.settle(1)
        for number in range(5000):
            server.put(f"thing-{number}")
        await world.settle(0.2)
        assert len(world.told) == 5000

    run(server, test, rest=0.1)


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("abc")),
        st.tuples(st.just("remove"), st.sampled_from("abc")),
        st.sampled_from(
            [("close", ""), ("reset", ""), ("compact", ""), ("bookmark", ""), ("garbage", ""), ("down", ""), ("up", "")]
        ),
        st.tuples(st.just("sleep"), st.sampled_from(["0", "1", "20"])),
    ),
    max_size=40,
)


@given(_STEPS)
def test_cache_equals_the_server_after_any_faults(steps: list[tuple[str, str]]) -> None:
    server = MemoryServer()

    async def test(world: World) -> None:
        actions: dict[str, Callable[[], None]] = {
            "close": server.break_streams,
            "reset": lambda: server.break_streams(TransportError("reset")),
            "compact": server.compact,
            "bookmark": server.bookmark,
            "garbage": lambda: server.send_raw(b"{}\n"),
        }
        for step, argument in steps:
            if step == "put":
                server.put(argument, server.revision)
            elif step == "remove":
                server.remove(argument)
            elif step == "sleep":
                await world.settle(float(argument))
            elif step in ("down", "up"):
                server.fault = down if step == "down" else lambda request: None
            else:
                actions[step]()
        server.fault = lambda request: None
        await world.settle(100)
        assert world.known() == server.state()
        told: dict[str, str] = {}
        for old, new in world.told:
            name = (new or old or "").split("=")[0]
            assert told.get(name) == old
            told.pop(name, None)
            if new:
                told[name] = new
        assert told == {key.split("/")[1]: f"{key.split('/')[1]}={value}" for key, (_, value) in server.state().items()}

    run(server, test)


def test_what_is_not_served_counts_as_empty_and_is_followed_once_it_is(server: MemoryServer) -> None:
    server.put("a", 1)
    refusal = path_not_found()
    gone = Response(refusal.code, msgspec.json.encode(refusal.status))
    server.fault = lambda _: gone

    async def test(world: World) -> None:
        assert (world.told, len(world.informer)) == ([], 0)
        server.fault = lambda _: None
        await world.settle(30)
        assert world.told == [(None, "a=1")]
        server.put("b", 2)
        await world.settle()
        assert world.told == [(None, "a=1"), (None, "b=2")]
        server.fault = lambda _: gone
        server.break_streams()
        await world.settle(30)
        assert world.told[2:] == [("a=1", None), ("b=2", None)]
        asked = len(server.requests)
        await world.settle(3600)
        assert len(server.requests) - asked < 60, "seldom"

    run(server, test, optional=True)


class Flood:
    """A server that always has one more event."""

    async def request(self, _request: Request) -> Response:
        return Response(200, b'{"metadata":{"resourceVersion":"1"},"items":[]}')

    @asynccontextmanager
    async def stream(self, _request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._events()

    async def _events(self) -> AsyncIterator[bytes]:
        for version in count(2):
            meta = {"name": "a", "resourceVersion": str(version)}
            yield msgspec.json.encode({"type": "MODIFIED", "object": {"metadata": meta}}) + b"\n"

    async def close(self) -> None: ...


@pytest.mark.parametrize(("seconds", "events"), [(0.0, 100), (1000.0, 100 * 500)])
def test_a_flood_leaves_others_their_turns(monkeypatch: pytest.MonkeyPatch, seconds: float, events: int) -> None:
    monkeypatch.setattr(informer_module, "_TURN_SECONDS", seconds)

    async def main() -> None:
        informer = Informer(Client(Flood()), THING, VirtualClock(), Random(seed=1))
        following = asyncio.create_task(informer.run())
        await informer.synced.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        assert events / 2 < int(informer.version) <= events + 2
        await cancel([following])

    run_virtual(main())
