"""All-or-nothing readiness (KEP-349) with Jobs and pods: who waits for whose pods, and that nobody waits for ever.

The scenarios are those of the KEP's integration tests, and what goes beyond it: blocking that concerns one
ClusterQueue, one flavor, or one Job. `start-time` is how long a simulated pod takes to be ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random as Chance
from typing import Any

import msgspec
import pytest
from tests.system import queueing_world
from tests.system.plane import World, running
from tests.system.queued_jobs import Queued

from muster.api.conditions import find, is_true
from muster.api.config import EMBEDDED, WaitForPodsReady
from muster.api.config.types import RequeuingStrategy
from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD, Workload
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.runtime.clock import run_virtual
from muster.runtime.ids import Random
from muster.runtime.manager import Manager

SECOND = 1_000_000_000
STRATEGY = RequeuingStrategy(backoff_base_seconds=60, backoff_limit_count=2)
GLOBAL = WaitForPodsReady(timeout=30 * SECOND, block_admission=True, requeuing_strategy=STRATEGY)
LOCAL = msgspec.structs.replace(GLOBAL, block_admission=False)
BLOCKS = {"metadata": {"annotations": {READY_ANNOTATION: "blockAdmission=true"}}}
NEVER = "10000h"


class Watcher:
    """Writes down who was admitted, in order, and who at the same time had quota and was not ready."""

    def __init__(self, world: World) -> None:
        self.admitted: list[str] = []
        self.together: list[set[str]] = []
        self._manager = Manager(world.client, world.clock, Random(1))
        self._workloads = self._manager.informer(WORKLOAD)
        self._workloads.on_change(self._look)
        self._run = asyncio.create_task(self._manager.run())

    def most(self, *names: str) -> int:
        """How many of these were not ready at one instant at most."""
        return max(len(unready & set(names)) if names else len(unready) for unready in self.together)

    def _look(self, old: Workload | None, new: Workload | None) -> None:
        unready = {
            _job(one)
            for one in self._workloads.all()
            if _holds(one) and not is_true(one.status.conditions, "PodsReady")
        }
        self.together.append(unready)
        if new is not None and _holds(new) and not (old is not None and _holds(old)):
            self.admitted.append(_job(new))

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


def _job(workload: Workload) -> str:
    return workload.metadata.owner_references[0].name


def _holds(workload: Workload) -> bool:
    conditions = workload.status.conditions
    return is_true(conditions, "QuotaReserved") and not is_true(conditions, "Finished")


Story = Callable[[Queued, Watcher], Awaitable[None]]


def ready(settings: WaitForPodsReady | None) -> Callable[[Story], Callable[[], None]]:
    """A test with these settings, in virtual time, with a simulated node that has room for everybody."""

    def decorate(test: Story) -> Callable[[], None]:
        async def body() -> None:
            configuration = msgspec.structs.replace(EMBEDDED, wait_for_pods_ready=settings)
            async with running(configuration=configuration) as plane:
                world, given = World(plane), plane.surroundings
                manager = Manager(world.client, given.clock, given.random)
                nodes = SimulatedNodes(manager, ["n"], resources={"cpu": "100"})
                manager.add(nodes)
                run = asyncio.create_task(manager.run())
                await nodes.ready.wait()
                await world.client.patch(NODE, "n", {"metadata": {"labels": {"zone": "a"}}})
                watcher = Watcher(world)
                try:
                    await test(Queued(world), watcher)
                finally:
                    await watcher.stop()
                    await manager.stop()
                    await run

        def case() -> None:
            run_virtual(body())

        case.__name__, case.__doc__ = getattr(test, "__name__", "case"), test.__doc__
        return case

    return decorate


def pods(start: str = "5s", run: str | None = None) -> dict[str, Any]:
    """A template whose pods take so long to be ready, and to end."""
    annotations = {"muster.dev/start-time": start} | ({"muster.dev/run-time": run} if run else {})
    return {"metadata": {"annotations": annotations}}


async def submit(q: Queued, name: str, workers: int = 1, queue: str = "cq", **spec: Any) -> None:
    """A Job in a queue, without waiting for anything."""
    settle, q.world.settle = q.world.settle, _at_once  # type: ignore[method-assign]
    try:
        await q.job(name, workers, labels={"kueue.x-k8s.io/queue-name": queue}, **spec)
    finally:
        q.world.settle = settle  # type: ignore[method-assign]


async def _at_once(seconds: float = 0.0) -> None:
    del seconds


async def said(q: Queued, name: str) -> tuple[str, str]:
    """Why a Job has no quota."""
    found = find((await q.workload(name)).status.conditions, "QuotaReserved")
    return (found.reason, found.message) if found is not None else ("", "")


# The Configuration says so: everybody waits for everybody.


@ready(GLOBAL)
async def test_pitfall_4_nobody_is_admitted_while_somebody_is_not_ready(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.queue(q.world, "other", 100, flavor="f")
    for number in range(8):
        await submit(q, f"j{number}", 3, queue=("cq", "other")[number % 2], template=pods())
    await q.world.settle(4)
    assert len(watcher.admitted) == 1
    waits = next(name for name in map("j{}".format, range(8)) if name not in watcher.admitted)
    assert await said(q, waits) == (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
    )
    await q.world.settle(60)
    assert len(watcher.admitted) == 8, "each in its turn"
    assert watcher.most() == 1
    assert [await q.running(f"j{number}") for number in range(8)] == [[0, 1, 2]] * 8


@ready(LOCAL)
async def test_without_the_setting_all_start_at_once(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    for number in range(4):
        await submit(q, f"j{number}", template=pods())
    await q.world.settle(4)
    assert (len(watcher.admitted), watcher.most()) == (4, 4)


@ready(GLOBAL)
async def test_who_is_not_ready_in_time_is_suspended_and_the_next_one_runs(q: Queued, watcher: Watcher) -> None:
    """It keeps nothing, is not considered until its back-off is over, comes after the others, and is given up."""
    await q.queue(cpu=4)
    await submit(q, "first", 2, template=pods(NEVER))
    await q.world.settle(2)
    await submit(q, "next", 2, template=pods("1s"))
    await q.world.settle(20)
    assert watcher.admitted == ["first"], "there is quota for both"
    await q.world.settle(15)
    assert (await q.now("first")).spec.suspend
    assert (await q.held("first"), await q.running("next")) == (0, [0, 1])
    state = await q.state("first")
    assert (state["Evicted"], state["Requeued"]) == ("True PodsReadyTimeout", "False PodsReadyTimeout")
    await q.world.settle(30)
    assert watcher.admitted == ["first", "next"], "not before a minute is over"
    await q.world.settle(600)
    assert watcher.admitted == ["first", "next", "first", "first"]
    assert (await q.state("first"))["Evicted"] == "True DeactivatedDueToRequeuingLimitExceeded"
    assert watcher.most() == 1
    await submit(q, "last", 2, template=pods("1s"))
    await q.world.settle(10)
    assert await q.running("last") == [0, 1], "nobody waits for one that was given up"


@ready(GLOBAL)
async def test_who_lost_a_pod_holds_the_others_up_until_it_has_recovered(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=4)
    await submit(q, "first", 2, template=pods("10s"), backoffLimit=10)
    await q.world.settle(15)
    await q.world.finish((await q.world.pods("first"))[0], "Failed")
    await q.world.settle(1)
    await submit(q, "next", 1, template=pods("1s"))
    await q.world.settle(5)
    assert (await q.state("first"))["PodsReady"] == "False WaitForRecovery"
    assert watcher.admitted == ["first"]
    await q.world.settle(30)
    assert (await q.state("first"))["PodsReady"] == "True Recovered"
    assert watcher.admitted == ["first", "next"]
    assert watcher.most() == 1


@ready(GLOBAL)
async def test_who_ends_before_it_was_seen_ready_holds_nobody_up(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    for number in range(6):
        await submit(q, f"j{number}", 2, template=pods("0s", run="0s"))
    await q.world.settle(60)
    assert sorted(watcher.admitted) == [f"j{number}" for number in range(6)]
    assert watcher.most() == 1


@ready(GLOBAL)
async def test_who_is_deleted_holds_nobody_up(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await submit(q, "first", template=pods(NEVER))
    await q.world.settle(2)
    await submit(q, "next", template=pods("1s"))
    await q.world.settle(5)
    (workload,) = [one for one in await q.workloads() if _job(one) == "first"]
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": False}}, "default")
    await q.world.settle(5)
    assert watcher.admitted == ["first", "next"]
    assert watcher.most() == 1


# Only work that competes for the same capacity waits.


@ready(LOCAL)
async def test_a_cluster_queue_blocks_only_its_own(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.queue(q.world, "free", 100, flavor="f")
    await q.client.patch(CLUSTER_QUEUE, "cq", BLOCKS)
    await q.world.settle()
    for number in range(4):
        await submit(q, f"j{number}", template=pods())
        await submit(q, f"free{number}", queue="free", template=pods())
    await q.world.settle(4)
    assert len(watcher.admitted) == 5
    await q.world.settle(40)
    assert len(watcher.admitted) == 8
    assert watcher.most("j0", "j1", "j2", "j3") == 1
    assert watcher.most("free0", "free1", "free2", "free3") == 4


@ready(LOCAL)
async def test_a_flavor_blocks_only_who_would_get_it(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.flavor(q.world, "g", nodeLabels={"zone": "a"})
    await queueing_world.queue(q.world, "same", 100, flavor="f")
    await queueing_world.queue(q.world, "free", 100, flavor="g")
    await q.client.patch(RESOURCE_FLAVOR, "f", BLOCKS)
    await q.world.settle()
    for number in range(2):
        await submit(q, f"j{number}", template=pods())
        await submit(q, f"same{number}", queue="same", template=pods())
        await submit(q, f"free{number}", queue="free", template=pods())
    await q.world.settle(40)
    assert len(watcher.admitted) == 6
    assert watcher.most("j0", "j1", "same0", "same1") == 1
    assert watcher.most("free0", "free1") == 2


@ready(LOCAL)
async def test_a_job_blocks_who_would_get_its_flavors(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.flavor(q.world, "g", nodeLabels={"zone": "a"})
    await queueing_world.queue(q.world, "free", 100, flavor="g")
    await submit(q, "blocks", template=pods("20s"), metadata=BLOCKS["metadata"])
    await q.world.settle(2)
    for number in range(2):
        await submit(q, f"j{number}", template=pods("10s"))
        await submit(q, f"free{number}", queue="free", template=pods("10s"))
    await q.world.settle(5)
    assert sorted(watcher.admitted) == ["blocks", "free0", "free1"]
    await q.world.settle(40)
    assert watcher.most("j0", "j1") == 2, "they block nobody themselves"
    assert watcher.most("blocks", "j0") == watcher.most("blocks", "j1") == 1


# Nobody starves where the queue is strict.


@ready(None)
async def test_a_strict_queue_keeps_its_place_for_a_large_gang(q: Queued, watcher: Watcher) -> None:
    """Small Jobs come all the time, in its queue and in another one that borrows, and nobody may be displaced."""
    await q.queue(cpu=4, cohortName="both", queueingStrategy="StrictFIFO")
    await queueing_world.queue(q.world, "other", 0, flavor="f", cohortName="both")
    for number in range(40):
        if number == 5:
            await submit(q, "gang", 4, template=pods("0s", "30s"))
        for queue in ("cq", "other"):
            await submit(q, f"{queue}-{number}", queue=queue, template=pods("0s", "20s"))
        await q.world.settle(5)
    own = [name for name in watcher.admitted if name.startswith(("cq", "gang"))]
    assert own.index("gang") == 5, "nobody of its queue passed it"
    ahead = watcher.admitted[: watcher.admitted.index("gang")]
    assert len(ahead) < 15, "what others borrow comes back"


@pytest.mark.parametrize("seed", range(3))
def test_a_strict_queue_is_served_in_order_and_to_the_end(seed: int) -> None:
    """Whatever its Jobs ask for: none passes one that came before it with the same priority, and all get their turn."""
    chance = Chance(seed)

    @ready(None)
    async def scenario(q: Queued, watcher: Watcher) -> None:
        await q.queue(cpu=6, queueingStrategy="StrictFIFO")
        names = [f"j{number:02d}" for number in range(25)]
        for name in names:
            await submit(q, name, chance.choice((1, 2, 3, 6)), template=pods("0s", f"{chance.randrange(1, 40)}s"))
            await q.world.settle(chance.choice((1.0, 1.0, 5.0)))
        await q.world.settle(1200)
        assert watcher.admitted == names

    scenario()
