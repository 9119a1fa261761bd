"""The pod reconciler killed after every single write that it makes, and late: whoever comes next ends as it should."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from msgspec.structs import replace
from tests.system.first_objects import seeded_plane
from tests.system.integrations.test_queued_pods import pod
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World
from tests.system.queueing.queueing_world import flavor, get, queue

from muster.api.conditions import find_true
from muster.api.config import DEFAULT, EMBEDDED, Configuration, Integrations, load
from muster.api.core import POD
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD
from muster.api.kueue.names import WAITING_FOR_REPLACEMENT_PODS
from muster.api.managed.pods import is_held
from muster.api.ours.embedded import SERVER_MACHINE
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.controllers.integrations.pods.reconciler import PodReconciler
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager

pytestmark = pytest.mark.slow

RUNS = {"muster.dev/run-time": "100s"}
FAILS = {"muster.dev/run-time": "30s", "muster.dev/exit-code": "1"}

NOBODY = msgspec.structs.replace(DEFAULT, integrations=Integrations(frameworks=()))

Story = Callable[[World], Awaitable[None]]


class Reconciler:
    """The pod reconciler, with a connection of its own that may be cut."""

    def __init__(self, plane: ControlPlane, writes: int | None = None, configuration: Configuration = EMBEDDED) -> None:
        self.wire = Wire(InProcessTransport(plane.server))
        self.wire.writes_left = writes
        inputs = plane.inputs
        self._manager = Manager(Client(self.wire), inputs.clock, inputs.random)
        self._manager.add(PodReconciler(self._manager, plane.events.recorder("kueue-job-controller"), configuration))
        self._run = asyncio.create_task(self._manager.run())

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


async def alone(world: World) -> None:
    """A pod runs to its end."""
    await pod(world, "p", annotations=RUNS)


async def gathered(world: World) -> None:
    """One is too many."""
    for name in "abc":
        await pod(world, name, group="g", size=2, annotations=RUNS)


async def replaced(world: World) -> None:
    """One fails, and another takes its place."""
    await pod(world, "a", group="g", size=2, annotations=RUNS)
    await pod(world, "b", group="g", size=2, annotations=FAILS)
    await world.settle(60)
    await pod(world, "c", group="g", size=2, annotations=RUNS)


async def evicted(world: World) -> None:
    """All are stopped, and others take their places."""
    for name in "ab":
        await pod(world, name, group="g", size=2, annotations=RUNS)
    await world.settle(20)
    await world.client.patch(LOCAL_QUEUE, "team", {"spec": {"stopPolicy": "HoldAndDrain"}}, "default")
    await world.settle(60)
    await world.client.patch(LOCAL_QUEUE, "team", {"spec": {"stopPolicy": "None"}}, "default")
    for name in "cd":
        await pod(world, name, group="g", size=2, annotations=RUNS)


STORIES = pytest.mark.parametrize("story", [alone, gathered, replaced, evicted])


@asynccontextmanager
async def cluster() -> AsyncIterator[World]:
    """Everything but the pod reconciler."""
    async with seeded_plane(VirtualClock(), 1, EMBEDDED) as plane:
        replace(plane, configuration=NOBODY).add_controllers()
        nodes = SimulatedNodes(plane.manager, ["n"], resources={"cpu": "100"}, labels={SERVER_MACHINE: "true"})
        plane.manager.add(nodes)
        run = asyncio.create_task(plane.manager.run())
        await nodes.ready.wait()
        world = World(plane)
        await flavor(world)
        await queue(world, "team", cpu=2)
        try:
            yield world
        finally:
            await plane.manager.stop()
            await run


async def mend(world: World) -> None:
    """Play the user: who is sent away too early, or fails, is replaced later."""
    for number in range(4):
        workloads = (await world.client.list(WORKLOAD, "default")).items
        if any(find_true(one.status.conditions, WAITING_FOR_REPLACEMENT_PODS) for one in workloads):
            await pod(world, f"later-{number}", group="g", size=2, annotations=RUNS)
        await world.settle(200)


async def check(world: World, writes: int) -> None:
    """All has ended well, nobody is held back, and nothing held fast."""
    (name,) = [one.metadata.name for one in (await world.client.list(WORKLOAD, "default")).items]
    workload = await get(world, name)
    finished = find_true(workload.status.conditions, "Finished")
    assert finished is not None, f"after {writes} writes"
    assert finished.reason == "Succeeded", f"after {writes} writes"
    assert workload.metadata.finalizers == (), f"after {writes} writes"
    pods = await world.pods()
    assert not any(is_held(one) or one.metadata.finalizers for one in pods), f"after {writes} writes"
    assert sum(one.status.phase == "Succeeded" for one in pods) >= sum(one.count for one in workload.spec.pod_sets)


@STORIES
def test_killed_after_each_write(story: Story, long: bool) -> None:
    async def scenario(writes: int) -> bool:
        async with cluster() as world:
            first = Reconciler(world.plane, writes)
            await story(world)
            await world.settle(20)
            await first.stop()
            second = Reconciler(world.plane)
            await world.settle(200)
            await mend(world)
            await second.stop()
            await check(world, writes)
            return first.wire.writes_left == 0

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 2


@STORIES
@pytest.mark.parametrize("lag", [0.3, 4.0])
def test_late_watches(story: Story, lag: float) -> None:
    async def scenario() -> None:
        async with cluster() as world:
            reconciler = Reconciler(world.plane)
            reconciler.wire.lags = {POD.plural: lag, WORKLOAD.plural: lag / 2}
            await story(world)
            await world.settle(200)
            await mend(world)
            await reconciler.stop()
            await check(world, 0)

    run_virtual(scenario())


def test_pods_that_are_deleted_before_they_are_observed_get_no_workload() -> None:
    async def scenario() -> None:
        async with cluster() as world:
            reconciler = Reconciler(world.plane)
            reconciler.wire.lags = {POD.plural: 4.0}
            for name in "ab":
                created = await pod(world, name, group="g", size=2)
                await world.client.patch(POD, name, {"metadata": {"finalizers": None}}, "default")
                await world.client.delete_object(POD, created, grace_period_seconds=0)
            await world.settle(60)
            await reconciler.stop()
            assert reconciler.wire.count("POST") == 0

    run_virtual(scenario())


KEPT = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
integrations: {frameworks: [pod]}
objectRetentionPolicies: {workloads: {afterDeactivatedByKueue: 60s}}
"""


def test_pods_that_were_deactivated_are_kept_for_as_long_as_the_settings_say() -> None:
    async def scenario() -> None:
        async with cluster() as world:
            reconciler = Reconciler(world.plane, configuration=load(KEPT))
            for name in "ab":
                created = await pod(world, name, group="g", size=2, annotations=RUNS)
                labels = {"kueue.x-k8s.io/max-exec-time-seconds": "10"}
                await world.client.patch(POD, created.metadata.name, {"metadata": {"labels": labels}}, "default")
            await world.settle(50)
            assert not (await get(world, "g")).spec.active
            assert len(await world.pods()) == 2
            await world.settle(60)
            assert await world.pods() == []
            assert (await world.client.list(WORKLOAD, "default")).items == []
            await reconciler.stop()

    run_virtual(scenario())
