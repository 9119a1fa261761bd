"""Admission fair sharing in virtual time: of two LocalQueues of one ClusterQueue, who used less lately goes first."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, looks, running
from tests.system.queueing.queueing_world import admitted, finish, flavor, is_, local_queue, queue, workload

from muster.api.config import Configuration, Muster
from muster.api.config.types import AdmissionFairSharing
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, AdmissionFairSharingStatus
from muster.api.kueue.names import ELASTIC_JOB
from muster.api.values.durations import HOUR, MINUTE
from muster.api.values.quantity import parse_thousandths
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.fairusage import fair_usage
from muster.controllers.queueing.status.localqueue import LocalQueueController
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random
from muster.runtime.transport import Transport

SHARING = AdmissionFairSharing(usage_half_life_time=HOUR, usage_sampling_interval=5 * MINUTE)
FAIR = Configuration(wait_for_pods_ready=None, admission_fair_sharing=SHARING)
# The past fades in a sixth of the time: what waits for that to come need not watch nodes for days.
QUICK = Configuration(
    wait_for_pods_ready=None,
    admission_fair_sharing=AdmissionFairSharing(usage_half_life_time=10 * MINUTE, usage_sampling_interval=MINUTE),
)
BY_USAGE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def fair(
    configuration: Configuration = FAIR,
) -> Callable[[Callable[[World], Awaitable[None]]], Callable[[], None]]:
    """Run a test of a world in virtual time."""

    def decorate(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with running(configuration=configuration) as plane:
                await test(World(plane))

        def run() -> None:
            run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate


async def two(world: World, cpu: int = 4, *, mode: dict[str, Any] | None = None, **weights: Any) -> None:
    """A ClusterQueue `cq` with the LocalQueues `a` and `b`."""
    await flavor(world)
    await queue(world, "cq", cpu, local=False, **(BY_USAGE if mode is None else mode))
    for name in ("a", "b"):
        sharing = {"fairSharing": {"weight": weights[name]}} if name in weights else {}
        await local_queue(world, name, "cq", **sharing)


async def ran(world: World, name: str, queue: str, seconds: float, cpu: int = 4) -> None:
    """A workload was admitted, ran for so long and ended."""
    await workload(world, name, queue, cpu)
    await world.settle(1)
    assert name in await admitted(world)
    await world.settle(seconds)
    await finish(world, name)
    await world.settle(1)


async def line(world: World, *names: str, queues: str = "", cpu: int = 4) -> None:
    """Workloads come one after the other, each into the LocalQueue of its letter."""
    for name, local in zip(names, queues or (name[0] for name in names), strict=True):
        await workload(world, name, local, cpu)
        await world.settle(1)


async def order(world: World) -> list[str]:
    """Who is admitted, one after the other, while each that is ends."""
    found = []
    while running := await admitted(world):
        found += running
        for name in running:
            await finish(world, name)
        await world.settle(1)
    return found


async def past(world: World, name: str) -> AdmissionFairSharingStatus | None:
    sharing = (await world.client.get(LOCAL_QUEUE, name, "default")).status.fair_sharing
    return sharing.admission_fair_sharing_status if sharing is not None else None


async def consumed(world: World, name: str) -> float:
    """CPUs that the status of a LocalQueue says."""
    shown = await past(world, name)
    return parse_thousandths(shown.consumed_resources["cpu"]) / 1000 if shown is not None else 0.0


@fair()
async def test_who_used_less_lately_goes_first(world: World) -> None:
    await two(world)
    await ran(world, "before", "a", 3600)
    await line(world, "blocker", "a1", "b1", queues="bab")
    assert await order(world) == ["blocker", "b1", "a1"]


@fair(Configuration(wait_for_pods_ready=None))
async def test_without_the_setting_the_past_does_not_matter_and_nothing_is_kept(world: World) -> None:
    await two(world)
    await ran(world, "before", "a", 3600)
    await line(world, "blocker", "a1", "b1", queues="bab")
    assert await order(world) == ["blocker", "a1", "b1"]
    assert await past(world, "a") is None


@fair(Configuration(wait_for_pods_ready=None, muster=Muster(fair_sharing_on_demand=True)))
async def test_a_queue_that_asks_for_it_needs_no_setting_and_others_keep_no_account(world: World) -> None:
    await two(world)
    await queue(world, "other", 4)
    await world.settle(1)
    looked = looks(world.plane, "admission-fair-sharing")
    await ran(world, "elsewhere", "other", 3600)
    assert looks(world.plane, "admission-fair-sharing") == looked
    await ran(world, "before", "a", 3600)
    assert await consumed(world, "a") > 0
    assert await past(world, "other") is None
    await line(world, "blocker", "a1", "b1", queues="bab")
    assert await order(world) == ["blocker", "b1", "a1"]


@fair()
async def test_cluster_queues_that_do_not_ask_for_it_go_by_the_order_of_arrival(world: World) -> None:
    await two(world, mode={})
    await ran(world, "before", "a", 3600)
    assert await consumed(world, "a") == pytest.approx(2, abs=0.1), "account is kept all the same"
    await line(world, "blocker", "a1", "b1", queues="bab")
    assert await order(world) == ["blocker", "a1", "b1"]


@fair()
async def test_each_admission_counts_for_the_next_even_within_one_cycle(world: World) -> None:
    await two(world, 1)
    await line(world, "a1", "a2", "a3", "b1", "b2", "b3", cpu=1)
    quota = [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": 4}]}]
    patch = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": quota}]}}
    await world.client.patch(CLUSTER_QUEUE, "cq", patch)
    await world.settle()
    assert await admitted(world) == ["a1", "a2", "b1", "b2"]


@fair()
async def test_a_heavier_queue_may_use_more(world: World) -> None:
    await two(world, 6, a=2, b=1)
    await local_queue(world, "other", "cq")
    await workload(world, "blocker", "other", 6)
    await world.settle(1)
    await line(world, "b1", "a1", "b2", "a2", "b3", "a3", "b4", "a4", "b5", "a5", "b6", "a6", cpu=1)
    await finish(world, "blocker")
    await world.settle(1)
    assert await admitted(world) == ["a1", "a2", "a3", "a4", "b1", "b2"]


@fair()
async def test_a_queue_without_weight_comes_last(world: World) -> None:
    await two(world, a=0)
    await ran(world, "before", "b", 600)
    await line(world, "blocker", "a1", "b1", queues="bab")
    assert await order(world) == ["blocker", "b1", "a1"]
    await local_queue(world, "c", "cq")
    await world.client.patch(LOCAL_QUEUE, "a", {"spec": {"fairSharing": {"weight": "100"}}}, "default")
    await line(world, "blocker2", "b2", "a3", queues="cba")
    assert await order(world) == ["blocker2", "a3", "b2"]


@fair()
async def test_usage_grows_towards_what_is_in_use_and_halves_in_each_half_life(world: World) -> None:
    await two(world)
    await workload(world, "long", "a", 4)
    await world.settle(1)
    penalty = 4 * (1 - 0.5 ** (1 / 12))
    assert await consumed(world, "a") == pytest.approx(penalty, abs=0.001)
    await world.settle(3600)
    assert await consumed(world, "a") == pytest.approx(2 + penalty / 2, abs=0.01)
    await finish(world, "long")
    await world.settle(600)
    most = await consumed(world, "a")
    await world.settle(3600)
    assert await consumed(world, "a") == pytest.approx(most / 2, rel=0.01)


@pytest.mark.timeout(300)  # more than a day of virtual time
@fair(QUICK)
async def test_once_nothing_is_left_of_the_past_nothing_is_written(world: World) -> None:
    await two(world)
    await ran(world, "before", "a", 600)
    await world.settle(600)
    before = world.plane.store.revision
    await world.settle(12 * 600)
    assert world.plane.store.revision - before <= 12, "once in each half-life, while it fades"
    await world.settle(6 * 600)
    assert await consumed(world, "a") == 0
    before, looked = world.plane.store.revision, looks(world.plane, "admission-fair-sharing")
    await world.settle(6 * 600)
    assert world.plane.store.revision == before
    assert looks(world.plane, "admission-fair-sharing") == looked > 0
    await ran(world, "after", "a", 0)
    assert 0 < await consumed(world, "a") < 0.5, "the time without usage does not count for what is admitted now"


@fair()
async def test_a_change_of_mode_changes_the_order_at_once(world: World) -> None:
    await two(world, mode={})
    await ran(world, "before", "a", 3600)
    await line(world, "blocker", "a1", "b1", queues="bab")
    await world.client.patch(CLUSTER_QUEUE, "cq", {"spec": BY_USAGE})
    await world.settle(10)
    assert await order(world) == ["blocker", "b1", "a1"]


@fair()
async def test_a_queue_that_was_never_used_says_so_once(world: World) -> None:
    await two(world)
    await world.settle(10)
    found = await past(world, "a")
    assert (found.consumed_resources, found.last_update is not None) == ({"cpu": "0"}, True)
    before = world.plane.store.revision
    await world.settle(4 * 3600)
    assert world.plane.store.revision == before


@fair(
    Configuration(
        wait_for_pods_ready=None,
        admission_fair_sharing=AdmissionFairSharing(usage_sampling_interval=5 * MINUTE),
    )
)
async def test_without_a_half_life_nothing_is_kept(world: World) -> None:
    await two(world, b=0)
    await ran(world, "before", "a", 3600)
    assert await past(world, "a") is None
    await line(world, "blocker", "b1", "a1", queues="aba")
    assert await order(world) == ["blocker", "a1", "b1"]


@fair()
async def test_of_those_who_may_be_displaced_the_one_comes_first_whose_queue_used_more(world: World) -> None:
    await two(world, mode=BY_USAGE | {"preemption": {"withinClusterQueue": "LowerPriority"}})
    await ran(world, "before", "a", 3600)
    await line(world, "a1", "b1", cpu=2)
    await world.settle()
    await workload(world, "b2", "b", 2, priority=1)
    await world.settle()
    assert await is_(world, "a1", "Preempted")
    assert not await is_(world, "b1", "Preempted")


@fair()
async def test_an_elastic_workload_is_charged_for_what_it_grows_by(world: World) -> None:
    await two(world, 8)
    podsets = (await workload(world, "a1", "a", metadata={"annotations": {ELASTIC_JOB: "true"}})).spec.pod_sets
    await world.settle(1)
    one = await consumed(world, "a")
    assert one > 0
    grown = msgspec.to_builtins([msgspec.structs.replace(podset, count=5) for podset in podsets])
    await world.client.patch(WORKLOAD, "a1", {"spec": {"podSets": grown}}, "default")
    await world.settle(1)
    assert await consumed(world, "a") == pytest.approx(5 * one, abs=0.005)


@asynccontextmanager
async def controllers(world: World, transport: Transport | None = None) -> AsyncIterator[None]:
    """What admits, for a time."""
    client = Client(transport) if transport is not None else world.client
    manager = Manager(client, world.clock, Random(2))
    cache = QueueingCache(manager, FAIR)
    usage = fair_usage(manager, cache, FAIR)
    assert usage is not None
    manager.add(usage)
    manager.add(AdmissionController(manager, cache, world.plane.events.recorder("test")))
    manager.add(LocalQueueController(manager, cache, usage))
    running = asyncio.create_task(manager.run())
    await manager.ready.wait()
    yield
    await manager.stop()
    await running


def test_what_could_not_be_admitted_costs_nothing() -> None:
    async def body() -> None:
        async with running(controllers=False, configuration=FAIR) as plane:
            world, wire = World(plane), Wire(InProcessTransport(plane.server))
            async with controllers(world, wire):
                await two(world)
                await local_queue(world, "c", "cq")
                await world.settle()
                wire.writes_left = 0
                await workload(world, "lost", "a", 4)
                await world.settle()
                await world.client.delete(WORKLOAD, "lost", "default")
                wire.writes_left = None
                await world.settle(10)
                await line(world, "blocker", "a1", "b1", queues="cab")
                await world.settle()
                assert await order(world) == ["blocker", "a1", "b1"]

    run_virtual(body())


def test_a_restart_goes_on_from_what_was_used_with_its_first_decision() -> None:
    async def body() -> None:
        async with running(controllers=False, configuration=FAIR) as plane:
            world = World(plane)
            async with controllers(world):
                for number in range(9):
                    await local_queue(world, f"0{number}", "cq")
                await two(world)
                await ran(world, "before", "a", 3600)
                await line(world, "blocker", "a1", "b1", queues="bab")
            used = await consumed(world, "a")
            assert used == pytest.approx(2.1, abs=0.2)
            await finish(world, "blocker")
            await world.settle(3600)
            async with controllers(world):
                await world.settle()
                assert await consumed(world, "a") == pytest.approx(used / 2, abs=0.1)
                assert await order(world) == ["b1", "a1"]

    run_virtual(body())
