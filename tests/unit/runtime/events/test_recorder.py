"""The event sink: writes what happened, bothers nobody, and loses nothing at the end that the server would take."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.unit.runtime.conftest import MemoryServer, busy, down

from muster.api.core import EVENT, NODE, POD, Node, Pod
from muster.api.meta import ObjectMeta
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.events.recorder import AT_ONCE, BUFFER_SIZE, FLUSH_SECONDS, EventSink
from muster.runtime.ids import Ids, Random
from muster.runtime.objects import make_reference
from muster.runtime.transport import ClosedError, Request, Response

CLOCK = VirtualClock()
POD_1 = make_reference(POD, Pod(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="3")))
NODE_1 = make_reference(NODE, Node(metadata=ObjectMeta(name="n" * 250, uid="v")))


@asynccontextmanager
async def running(server: MemoryServer) -> AsyncIterator[EventSink]:
    sink = EventSink(Client(server), CLOCK, Ids(seed=1), Random(seed=1))
    task = asyncio.create_task(sink.run())
    yield sink
    await sink.stop()
    await asyncio.wait([task])
    assert task.cancelled() or task.exception() is None


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await test()

    run_virtual(main())


def events(server: MemoryServer) -> list[dict[str, Any]]:
    return list(server.objects.get(EVENT.path(), {}).values())


def test_event_says_who_what_and_when(server: MemoryServer) -> None:
    async def test() -> None:
        await CLOCK.sleep(0.25)
        async with running(server) as sink:
            sink.recorder("job-controller", "node-1").event(POD_1, "Warning", "Failed", "it failed")
        (event,) = events(server)
        metadata = event.pop("metadata")
        assert metadata["namespace"] == "ns"
        name, _, digits = metadata["name"].rpartition(".")
        assert name == "p"
        assert len(digits) == 16
        assert int(digits, 16)
        assert event == {
            "apiVersion": "v1",
            "kind": "Event",
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "ns",
                "name": "p",
                "uid": "u",
                "resourceVersion": "3",
            },
            "type": "Warning",
            "reason": "Failed",
            "message": "it failed",
            "source": {"component": "job-controller", "host": "node-1"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "count": 1,
            "reportingComponent": "job-controller",
            "reportingInstance": "node-1",
        }

    run(test)


def test_cluster_wide_objects_speak_in_default_and_names_fit(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            sink.recorder("test").event(NODE_1, "Normal", "Ready", "it is ready")
        (event,) = events(server)
        assert event["metadata"]["namespace"] == "default"
        assert len(event["metadata"]["name"]) == 253

    run(test)


def test_repetition_is_one_object(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            for _ in range(4):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", "again")
                await CLOCK.sleep(10)
        (event,) = events(server)
        assert (event["count"], event["firstTimestamp"][-9:], event["lastTimestamp"][-9:]) == (
            4,
            "00:00:00Z",
            "00:00:30Z",
        )
        assert [request.method for request in server.requests] == ["POST", "PATCH", "PATCH", "PATCH"]

    run(test)


class Slow(MemoryServer):
    """Takes a second for each request, and any number of requests at a time."""

    async def request(self, request: Request) -> Response:
        await CLOCK.sleep(1)
        return await super().request(request)


@pytest.mark.parametrize(("objects", "seconds"), [(2 * AT_ONCE, 2), (1, 2 * AT_ONCE)])
def test_events_about_different_objects_are_written_together(objects: int, seconds: int) -> None:
    async def test() -> None:
        server = Slow()
        async with running(server) as sink:
            for number in range(2 * AT_ONCE):
                about = msgspec.structs.replace(POD_1, name=f"p-{number % objects}")
                sink.recorder("test").event(about, "Normal", "Pulled", "again", series=True)
            await CLOCK.sleep(seconds - 0.5)
            assert len(server.requests) == 2 * AT_ONCE - min(objects, AT_ONCE)
            await CLOCK.sleep(1)
        assert sum(event["count"] for event in events(server)) == 2 * AT_ONCE

    run(test)


def test_event_that_the_server_forgot_is_made_again(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            recorder = sink.recorder("test")
            recorder.event(POD_1, "Normal", "Pulled", "again")
            await CLOCK.sleep(1)
            server.objects[EVENT.path()].clear()
            recorder.event(POD_1, "Normal", "Pulled", "again")
            await CLOCK.sleep(1)
        (event,) = events(server)
        assert event["count"] == 2

    run(test)


@pytest.mark.parametrize("fault", [down, busy])
def test_server_that_is_away_is_waited_for(server: MemoryServer, fault: Callable[[Request], Any]) -> None:
    async def test() -> None:
        async with running(server) as sink:
            server.fault = fault
            for number in range(5):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", f"image {number}")
            await CLOCK.sleep(60)
            assert events(server) == []
            server.fault = lambda request: None
            await CLOCK.sleep(60)
            assert [event["message"] for event in events(server)] == [f"image {number}" for number in range(5)]
            assert sink.dropped == 0

    run(test)


def test_lost_answer_makes_no_second_event(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:

            def fault(request: Request) -> Exception | None:
                if server.writers:
                    return None
                server._handle(request)
                return down(request)

            server.fault = fault
            sink.recorder("test").event(POD_1, "Normal", "Pulled", "once")
            await CLOCK.sleep(60)
        assert len(events(server)) == 1

    run(test)


def test_refused_event_is_dropped(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            server.fault = lambda request: Response(403, b"")
            sink.recorder("test").event(POD_1, "Normal", "Pulled", "no")
            await CLOCK.sleep(60)
            assert (len(server.requests), sink.dropped) == (1, 1)

    run(test)


def test_server_that_stays_away_loses_events_one_by_one(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            server.fault = down
            sink.recorder("test").event(POD_1, "Normal", "Pulled", "no")
            await CLOCK.sleep(600)
            assert (len(server.requests), sink.dropped) == (12, 1)

    run(test)


def test_full_buffer_drops_what_comes(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            for number in range(BUFFER_SIZE + 7):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", f"image {number}")
            assert sink.dropped == 7

    run(test)


def test_stop_writes_what_is_there(server: MemoryServer) -> None:
    async def test() -> None:
        async with running(server) as sink:
            for number in range(5):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", f"image {number}")
        assert len(events(server)) == 5
        sink.recorder("test").event(POD_1, "Normal", "Pulled", "too late")
        assert sink.dropped == 1

    run(test)


def test_stop_does_not_wait_for_a_transport_that_this_process_has_closed(server: MemoryServer) -> None:
    def closed(_request: Request) -> Exception:
        return ClosedError("this process no longer leads")

    async def test() -> None:
        server.fault = closed
        async with running(server) as sink:
            for number in range(5):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", f"image {number}")
        assert (CLOCK.monotonic(), sink.dropped) == (0, 5)

    run(test)


def test_stop_does_not_wait_for_ever(server: MemoryServer, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        server.fault = down
        async with running(server) as sink:
            for number in range(5):
                sink.recorder("test").event(POD_1, "Normal", "Pulled", f"image {number}")
        assert CLOCK.monotonic() == FLUSH_SECONDS
        assert sink.dropped == 5
        assert "events lost" in caplog.text

    run(test)
