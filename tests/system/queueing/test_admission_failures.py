"""Admission when writes fail, answers are lost, watches are late: quota is never given twice, nobody is forgotten."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World
from tests.system.queueing.queueing_world import admitted, flavor, get, is_, queue, why, workload

from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.api.ours.elastic import ELASTIC_ANNOTATION
from muster.api.status import ApiError, Status
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.admission import __name__ as admission_logger
from muster.controllers.queueing.cache import QueueingCache
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import JSON_PATCH, Request, Response, TransportError


class Troubled(Wire):
    """before: called ahead of each write of a Workload's status."""

    before: Callable[[Request], Awaitable[None]] | None = None

    async def request(self, request: Request) -> Response:
        if self.before is not None and request.method == "PATCH" and request.path.endswith("/status"):
            await self.before(request)
        return await super().request(request)


@asynccontextmanager
async def admission() -> AsyncIterator[tuple[World, Troubled]]:
    """Nothing but admission runs, behind a wire with troubles; events go another way."""
    inputs = ExternalInputs(VirtualClock(), Ids(1), Random(1))
    async with control_plane(MemoryJournal(), inputs) as plane:
        wire = Troubled(InProcessTransport(plane.server))
        manager = Manager(Client(wire), inputs.clock, inputs.random)
        events = EventSink(plane.client(), inputs.clock, inputs.ids, inputs.random)
        manager.add(events)
        cache = QueueingCache(manager, plane.configuration)
        manager.add(AdmissionController(manager, cache, events.recorder("test")))
        running = asyncio.create_task(manager.run())
        await manager.ready.wait()
        try:
            yield World(plane), wire
        finally:
            await manager.stop()
            await running


def played(test: Callable[[World, Troubled], Awaitable[None]]) -> Callable[[], None]:
    async def body() -> None:
        async with admission() as (world, wire):
            await test(world, wire)

    def run() -> None:
        run_virtual(body())

    run.__name__ = getattr(test, "__name__", "run")
    return run


@played
async def test_an_admission_whose_answer_is_lost_counts(world, wire):
    await flavor(world)
    await queue(world, "team", 10, stopPolicy="Hold")
    await workload(world, "second", "team", 10)
    await workload(world, "first", "team", 10, priority=1)
    await world.settle()
    wire.lags = {"workloads": 0.5}
    wire.lost_answers = {len(wire.writes)}
    await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "None"}})
    await world.settle(30)
    assert await admitted(world) == ["first"]


@played
async def test_an_eviction_that_conflicts_is_made_again(world, wire):
    await flavor(world)
    await queue(world, "team", 10, preemption={"withinClusterQueue": "LowerPriority"})
    await workload(world, "low", "team", 10)
    await world.settle()

    async def touch(request: Request) -> None:
        if request.path.endswith("/low/status"):
            wire.before = None
            await world.client.patch(WORKLOAD, "low", {"metadata": {"annotations": {"touched": "yes"}}}, "default")

    wire.before = touch
    await workload(world, "high", "team", 10, priority=5)
    await world.settle()
    assert wire.before is None
    assert await is_(world, "low", "Evicted")


@played
async def test_a_conflict_is_not_tried_again_until_the_server_was_asked(world, wire):
    await flavor(world)
    await queue(world, "team", 10)
    wire.lags = {"workloads": 2.0}

    async def touch(request: Request) -> None:
        wire.before = None
        await world.client.patch(WORKLOAD, "one", {"metadata": {"annotations": {"touched": "yes"}}}, "default")

    wire.before = touch
    await workload(world, "one", "team", 1)
    await world.settle(10)
    assert await admitted(world) == ["one"]
    assert wire.count("PATCH") == 2


@pytest.mark.parametrize(
    "error", [TransportError("connection refused"), ApiError(Status(code=500, message="connection refused"))]
)
def test_one_line_tells_of_all_writes_that_a_server_in_trouble_does_not_store(error, caplog):
    async def body() -> None:
        async with admission() as (world, wire):
            await flavor(world)
            await queue(world, "team", 10, stopPolicy="Hold")
            for name in ("one", "two", "three"):
                await workload(world, name, "team", 1)
            await world.settle()

            async def fail(_: Request) -> None:
                raise error

            wire.before = fail
            await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "None"}})
            await world.settle(3)
            wire.before = None
            await world.settle(10)
            assert len(await admitted(world)) == 3

    with caplog.at_level(logging.WARNING, logger=admission_logger):
        run_virtual(body())
    (message,) = [record.getMessage() for record in caplog.records if record.name == admission_logger]
    assert message.endswith(" and 2 more: the write failed, deciding again in 5 s: connection refused")


def test_writes_that_fail_for_two_reasons_have_a_line_each(caplog):
    async def body() -> None:
        async with admission() as (world, wire):
            await flavor(world)
            await queue(world, "team", 10, stopPolicy="Hold")
            for name in ("one", "two", "three", "four"):
                await workload(world, name, "team", 1)
            await world.settle()

            async def fail(request: Request) -> None:
                is_away = "/one/" in request.path or "/two/" in request.path
                raise TransportError("refused") if is_away else ApiError(Status(code=500, message="broken"))

            wire.before = fail
            await world.client.patch(CLUSTER_QUEUE, "team", {"spec": {"stopPolicy": "None"}})
            await world.settle(3)
            wire.before = None
            await world.settle(10)
            assert len(await admitted(world)) == 4

    with caplog.at_level(logging.WARNING, logger=admission_logger):
        run_virtual(body())
    messages = sorted(record.getMessage() for record in caplog.records if record.name == admission_logger)
    assert [message.split(" and 1 more: ")[1] for message in messages] == [
        f"the write failed, deciding again in 5 s: {cause}" for cause in ("broken", "refused")
    ]


def refuse_while_stored(world: World, wire: Troubled, seconds: float) -> list[float]:
    """Let each write of a status conflict for a while, as if another write took so long; return when each came."""
    times = list[float]()
    since = world.clock.monotonic()

    async def refuse(_: Request) -> None:
        times.append(world.clock.monotonic() - since)
        if times[-1] < seconds:
            raise ApiError(Status(reason="Conflict", code=409, message="another write is being stored"))

    wire.before = refuse
    return times


@played
async def test_conflicts_in_a_row_are_tried_again_ever_more_seldom(world, wire):
    await flavor(world)
    await queue(world, "team", 10)
    await world.settle()
    times = refuse_while_stored(world, wire, 10)
    await workload(world, "one", "team", 1)
    await world.settle(20)
    assert await admitted(world) == ["one"]
    assert len(times) <= 25, "not each 10 ms"
    assert times[1] - times[0] < 0.05, "most changes are stored at once"
    assert times[-1] < 11.5, "and none waits for long"
    await workload(world, "two", "team", 1)
    times = refuse_while_stored(world, wire, 0.01)
    await world.settle(1)
    assert await admitted(world) == ["one", "two"], "another workload begins with the first pause"


@played
async def test_the_conflicts_of_a_deleted_workload_do_not_count_for_its_successor(world, wire):
    await flavor(world)
    await queue(world, "team", 10)
    await world.settle()
    times = refuse_while_stored(world, wire, 10)
    await workload(world, "one", "team", 1)
    await world.settle(6)
    before = len(times)
    await world.client.delete(WORKLOAD, "one", "default")
    await workload(world, "one", "team", 1)
    await world.settle(3)
    assert times[before + 1] - times[before] < 0.05


@played
async def test_a_growth_that_conflicts_is_tried_again_ever_more_seldom(world, wire):
    await flavor(world)
    await queue(world, "team", 10)
    await workload(world, "one", "team", 1, metadata={"annotations": {ELASTIC_ANNOTATION: "true"}})
    await world.settle()
    assert await admitted(world) == ["one"]
    times = refuse_while_stored(world, wire, 10)
    grown = [{"op": "replace", "path": "/spec/podSets/0/count", "value": 3}]
    await world.client.patch(WORKLOAD, "one", grown, "default", type=JSON_PATCH)
    await world.settle(20)
    current = await get(world, "one")
    assert current.status.admission.pod_set_assignments[0].count == 3
    assert 2 <= len(times) <= 25, "not each 10 ms"


@played
async def test_who_moves_to_another_queue_is_not_admitted_by_the_former(world, wire):
    await flavor(world)
    await queue(world, "a", 10)
    await queue(world, "b", 0)

    async def move(request: Request) -> None:
        wire.before = None
        await world.client.patch(WORKLOAD, "one", {"spec": {"queueName": "b"}}, "default")

    wire.before = move
    await workload(world, "one", "a", 1)
    await world.settle()
    assert await admitted(world) == []
    assert (await why(world, "one"))[0] == "ExceedsMaxQuota"
    await world.client.delete(LOCAL_QUEUE, "b", "default")


@played
async def test_a_lower_priority_of_who_holds_quota_is_news_for_who_waits(world, wire):
    await flavor(world)
    await queue(world, "team", 10, preemption={"withinClusterQueue": "LowerPriority"})
    await workload(world, "holder", "team", 10, priority=5)
    await world.settle()
    await workload(world, "waits", "team", 10, priority=3)
    await world.settle()
    assert not await is_(world, "holder", "Evicted")
    await world.client.patch(WORKLOAD, "holder", {"spec": {"priority": 1}}, "default")
    await world.settle()
    assert await is_(world, "holder", "Evicted")


@played
async def test_what_has_ended_is_not_evicted(world, wire):
    await flavor(world)
    await queue(world, "team", 10, preemption={"withinClusterQueue": "LowerPriority"})
    await workload(world, "low", "team", 10)
    await world.settle()

    async def end(request: Request) -> None:
        wire.before = None
        low = await world.client.get(WORKLOAD, "low", "default")
        done = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "done"}
        done["lastTransitionTime"] = "2026-01-01T00:00:10Z"
        conditions = [*msgspec.to_builtins(low.status.conditions), done]
        await world.client.patch(
            WORKLOAD, "low", {"status": {"conditions": conditions}}, "default", subresource="status"
        )

    wire.before = end
    wire.lags = {"workloads": 0.5}
    await workload(world, "high", "team", 10, priority=5)
    await world.settle(10)
    assert not await is_(world, "low", "Evicted")
    assert await admitted(world) == ["high"]
