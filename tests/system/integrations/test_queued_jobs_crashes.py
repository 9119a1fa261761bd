"""The job reconciler killed after every single write that it makes: whoever comes next brings it to the same end."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.first_objects import seeded_plane
from tests.system.integrations.queued_jobs import Queued
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World

from muster.api.config import DEFAULT, Configuration
from muster.api.config.types import Integrations
from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from muster.api.ours.embedded import SERVER_MACHINE
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.controllers.integrations.setup import make_reconcilers
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager

pytestmark = pytest.mark.slow

RUN_TIME = {"metadata": {"annotations": {"muster.dev/run-time": "100s"}}}
MINIMUM = {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "2"}}
ELASTIC = {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}

NOBODY = msgspec.structs.replace(DEFAULT, integrations=Integrations(frameworks=()))


class Reconcilers:
    """The job reconcilers, with a connection of their own that may be cut."""

    def __init__(self, plane: ControlPlane, writes: int | None = None, configuration: Configuration = DEFAULT) -> None:
        self.wire = Wire(InProcessTransport(plane.server))
        self.wire.writes_left = writes
        inputs = plane.inputs
        self._manager = Manager(Client(self.wire), inputs.clock, inputs.random)
        for part in make_reconcilers(self._manager, plane.events.recorder("kueue-job-controller"), configuration):
            self._manager.add(part)
        self._run = asyncio.create_task(self._manager.run())

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


async def resume(q: Queued, policy: str) -> None:
    await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": policy}}, "default")
    await q.world.settle(20)


async def evicted(q: Queued) -> None:
    """It starts smaller than it would like, is evicted, and starts again."""
    await q.queue(cpu=3)
    await q.job(workers=6, template=RUN_TIME, metadata=MINIMUM)
    await q.world.settle(20)
    await resume(q, "HoldAndDrain")
    await resume(q, "None")


async def resized(q: Queued) -> None:
    """It shrinks, and grows when there is room."""
    await q.queue(cpu=4)
    await q.job(workers=4, template=RUN_TIME, metadata=ELASTIC)
    for size in (2, 4, 3):
        await q.change(spec={"parallelism": size, "completions": size})


async def changed(q: Queued) -> None:
    """It is changed while it waits, and while it runs."""
    await q.queue(cpu=3)
    await q.job(workers=4, template=RUN_TIME)
    await q.change(spec={"parallelism": 2, "completions": 2})
    await q.change(spec={"parallelism": 3, "completions": 3})


async def unpaired(q: Queued) -> None:
    """A user deletes its Workload while it runs."""
    await q.queue(cpu=3)
    await q.job(workers=3, template=RUN_TIME)
    await q.world.settle(20)
    for workload in await q.workloads():
        await q.client.delete_object(WORKLOAD, workload)
    await q.world.settle(20)


async def check(q: Queued, writes: int) -> None:
    job, workload = await q.now(), await q.workload()
    assert finish(job) is not None, f"after {writes} writes"
    assert (await q.state())["Finished"] == "True Succeeded", f"after {writes} writes"
    assert workload.metadata.finalizers == (), f"after {writes} writes"
    assert workload.spec.pod_sets[0].template.spec.node_selector == {}, f"after {writes} writes"


@asynccontextmanager
async def cluster(configuration: Configuration = DEFAULT) -> AsyncIterator[Queued]:
    """Everything but the job reconcilers."""
    async with seeded_plane(VirtualClock(), 1, configuration) as plane:
        replace(plane, configuration=NOBODY).add_controllers()
        nodes = SimulatedNodes(plane.manager, ["n"], resources={"cpu": "100"}, labels={SERVER_MACHINE: "true"})
        plane.manager.add(nodes)
        run = asyncio.create_task(plane.manager.run())
        await nodes.ready.wait()
        q = Queued(World(plane))
        await q.client.patch(NODE, "n", {"metadata": {"labels": {"zone": "a"}}})
        try:
            yield q
        finally:
            await plane.manager.stop()
            await run


STORIES = pytest.mark.parametrize("story", [evicted, resized, changed, unpaired])


@STORIES
def test_killed_after_each_write(story: Callable[[Queued], Awaitable[None]], long: bool) -> None:
    async def scenario(writes: int) -> bool:
        async with cluster() as q:
            first = Reconcilers(q.world.plane, writes)
            await story(q)
            await first.stop()
            second = Reconcilers(q.world.plane)
            await q.world.settle(600)
            await second.stop()
            await check(q, writes)
            return first.wire.writes_left == 0

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 5


@STORIES
@pytest.mark.parametrize("lag", [0.3, 4.0])
def test_late_watches(story: Callable[[Queued], Awaitable[None]], lag: float) -> None:
    """It decides on what is old, and never takes what was injected for what the job asks for."""

    async def scenario() -> None:
        async with cluster() as q:
            reconcilers = Reconcilers(q.world.plane)
            reconcilers.wire.lags = {"jobs": lag, "workloads": lag / 2}
            await story(q)
            await q.world.settle(900)
            await reconcilers.stop()
            await check(q, 0)

    run_virtual(scenario())


def test_own_writes_to_a_job_are_not_repeated_while_its_watch_is_late() -> None:
    async def scenario() -> None:
        async with cluster() as q:
            reconcilers = Reconcilers(q.world.plane)
            await q.queue(cpu=3, stopPolicy="Hold")
            await q.job(workers=3, template={"metadata": {"annotations": {"muster.dev/run-time": "2s"}}})
            reconcilers.wire.lags = {"jobs": 5.0}
            await q.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"stopPolicy": "None"}})
            await q.world.settle(60)
            await reconcilers.stop()
            assert finish(await q.now()) is not None
            starts = [one for one in reconcilers.wire.writes if one.path.endswith("/jobs/j")]
            assert [b'"suspend":false' in one.body for one in starts] == [True]

    run_virtual(scenario())


def test_pitfall_8_quota_is_not_given_back_on_old_news() -> None:
    """It has been started, which its reconciler does not see yet, when it is evicted."""

    async def scenario() -> None:
        async with cluster() as q:
            reconcilers = Reconcilers(q.world.plane)
            reconcilers.wire.lags = {"jobs": 30.0}
            await q.queue(cpu=3)
            await q.job(workers=3, template={"metadata": {"annotations": {"muster.dev/stop-time": "30s"}}})
            await q.world.until(lambda: is_running(q))
            await q.client.patch(LOCAL_QUEUE, "cq", {"spec": {"stopPolicy": "Hold"}}, "default")  # it stays away
            await q.evict()
            for _ in range(120):
                await q.world.settle(1)
                assert await q.held() == 3 or not await q.world.pods()
            await q.world.settle(300)
            assert (await q.held(), await q.world.pods()) == (0, [])
            await reconcilers.stop()

    run_virtual(scenario())


async def is_running(q: Queued) -> bool:
    return len(await q.running()) == 3
