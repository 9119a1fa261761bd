"""All-or-nothing readiness (KEP-349) with Jobs and pods: who waits for whose pods, and that nobody waits for ever.

The scenarios are those of the KEP's integration tests, and what goes beyond it: blocking that concerns one
ClusterQueue, one flavor, or one Job. `start-time` is how long a simulated pod takes to be ready.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random as Chance
from typing import Any

import pytest
from tests.system.integrations.queued_jobs import Queued, configured
from tests.system.plane import World
from tests.system.queueing import queueing_world

from muster.api.conditions import find, is_true
from muster.api.kueue import CLUSTER_QUEUE, RESOURCE_FLAVOR, WORKLOAD, Workload
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random

SECOND = 1_000_000_000
LOCAL = """
waitForPodsReady:
  timeout: 30s
  recoveryTimeout: 30m
  requeuingStrategy: {backoffBaseSeconds: 60, backoffLimitCount: 2}
"""
GLOBAL = f"{LOCAL}  blockAdmission: true\n"
HASTY = """
waitForPodsReady:
  timeout: 15s
  requeuingStrategy: {backoffBaseSeconds: 20, backoffLimitCount: 2}
  blockAdmission: true
"""
NOBODY_WAITS = "featureGates: {DisableWaitForPodsReady: true}"
BLOCKS = {"metadata": {"annotations": {READY_ANNOTATION: "blockAdmission=true"}}}
NEVER = "10000h"


class Watcher:
    """Writes down who was admitted, in order, who at once had quota and was not ready, and why others had none.

    So nothing has to be seen at its instant: on a real cluster there is no telling when a test comes to look.
    """

    def __init__(self, world: World) -> None:
        self.admitted: list[str] = []
        self.together: list[set[str]] = []
        self.told: set[tuple[str, str]] = set()
        self._world = world
        self._manager = Manager(world.client, world.clock, Random(1))
        self._workloads = self._manager.informer(WORKLOAD)
        self._workloads.on_change(self._look)
        self._run = asyncio.create_task(self._manager.run())

    def most(self, *names: str) -> int:
        """How many of these were not ready at one instant at most."""
        return max(len(unready & set(names)) if names else len(unready) for unready in self.together)

    async def wait(self, count: int) -> None:
        """Until so many were admitted."""

        async def are_admitted() -> bool:
            return len(self.admitted) >= count

        await self._world.until(are_admitted, 240)

    def _look(self, old: Workload | None, new: Workload | None) -> None:
        unready = {
            _job(one)
            for one in self._workloads.all()
            if _holds(one) and not is_true(one.status.conditions, "PodsReady")
        }
        self.together.append(unready)
        if new is not None and (quota := find(new.status.conditions, "QuotaReserved")) is not None:
            self.told.add((quota.reason, quota.message))
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


def ready(settings: str) -> Callable[[Story], Callable[[], None]]:
    """A test with these settings, in virtual time, with a simulated node that has room for everybody."""

    def decorate(test: Story) -> Callable[[], None]:
        async def watched(q: Queued) -> None:
            watcher = Watcher(q.world)
            try:
                await test(q, watcher)
            finally:
                await watcher.stop()

        watched.__name__, watched.__doc__ = getattr(test, "__name__", "case"), test.__doc__
        return configured(settings)(watched)

    return decorate


def pods(start: str = "10s", run: str | None = None) -> dict[str, Any]:
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


# The Configuration says so: everybody waits for everybody.


@ready(GLOBAL)
async def test_pitfall_4_nobody_is_admitted_while_somebody_is_not_ready(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.queue(q.world, "other", 100, flavor="f")
    names = [f"j{number}" for number in range(8)]
    for name, queue in zip(names, ("cq", "other") * 4, strict=True):
        await submit(q, name, 3, queue=queue, template=pods())
    await watcher.wait(8)
    await q.world.elapse(15)
    assert sorted(watcher.admitted) == names, "each in its turn"
    assert watcher.most() == 1
    assert (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
    ) in watcher.told
    assert [await q.running(name) for name in names] == [[0, 1, 2]] * 8


@ready(LOCAL)
async def test_without_the_setting_all_start_at_once(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    for number in range(4):
        await submit(q, f"j{number}", template=pods("25s"))
    await watcher.wait(4)
    assert (len(watcher.admitted), watcher.most()) == (4, 4)


@ready(HASTY)
async def test_who_is_not_ready_in_time_is_suspended_and_the_next_one_runs(q: Queued, watcher: Watcher) -> None:
    """It keeps nothing, is not considered until its back-off is over, comes after the others, and is given up."""
    await q.queue(cpu=4)
    await submit(q, "first", 2, template=pods(NEVER))
    await watcher.wait(1)
    await submit(q, "next", 2, template=pods("1s"))  # there is quota for both
    await watcher.wait(2)
    await q.world.settle()
    assert (await q.now("first")).spec.suspend
    assert (await q.held("first"), await q.running("next")) == (0, [0, 1])
    state = await q.state("first")
    assert (state["Evicted"], state["Requeued"]) == ("True PodsReadyTimeout", "False PodsReadyTimeout")
    assert watcher.admitted == ["first", "next"], "its back-off is not over"
    await watcher.wait(4)
    await q.world.elapse(30)
    assert watcher.admitted == ["first", "next", "first", "first"]
    assert (await q.state("first"))["Evicted"] == "True DeactivatedDueToRequeuingLimitExceeded"
    assert watcher.most() == 1
    await submit(q, "last", 2, template=pods("1s"))
    await q.world.elapse(10)
    assert await q.running("last") == [0, 1], "nobody waits for one that was given up"


@ready(GLOBAL)
async def test_who_lost_a_pod_holds_the_others_up_until_it_has_recovered(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=4)
    await submit(q, "first", 2, template=pods("20s"), backoffLimit=10)
    await q.world.elapse(25)
    await q.world.finish((await q.world.pods("first"))[0], "Failed")

    async def recovers() -> bool:
        return (await q.state("first"))["PodsReady"] == "False WaitForRecovery"

    await q.world.until(recovers)
    await submit(q, "next", 1, template=pods("1s"))
    await watcher.wait(2)
    assert (await q.state("first"))["PodsReady"] == "True Recovered"
    assert watcher.admitted == ["first", "next"]
    assert watcher.most() == 1


@ready(GLOBAL)
async def test_who_ends_before_it_was_seen_ready_holds_nobody_up(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    for number in range(6):
        await submit(q, f"j{number}", 2, template=pods("0s", run="0s"))
    await q.world.elapse(60)
    assert sorted(watcher.admitted) == [f"j{number}" for number in range(6)]
    assert watcher.most() == 1


@ready(GLOBAL)
async def test_who_is_deleted_holds_nobody_up(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await submit(q, "first", template=pods(NEVER))
    await q.world.elapse(2)
    await submit(q, "next", template=pods("1s"))
    await q.world.elapse(5)
    (workload,) = [one for one in await q.workloads() if _job(one) == "first"]
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": False}}, "default")
    await q.world.elapse(5)
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
        await submit(q, f"free{number}", queue="free", template=pods("25s"))
    await watcher.wait(8)
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
        await submit(q, f"free{number}", queue="free", template=pods("25s"))
    await watcher.wait(6)
    assert watcher.most("j0", "j1", "same0", "same1") == 1
    assert watcher.most("free0", "free1") == 2


@ready(LOCAL)
async def test_a_job_blocks_who_would_get_its_flavors(q: Queued, watcher: Watcher) -> None:
    await q.queue(cpu=100)
    await queueing_world.flavor(q.world, "g", nodeLabels={"zone": "a"})
    await queueing_world.queue(q.world, "free", 100, flavor="g")
    await submit(q, "blocks", template=pods("20s"), metadata=BLOCKS["metadata"])
    await watcher.wait(1)
    for number in range(2):
        await submit(q, f"j{number}", template=pods("10s"))
        await submit(q, f"free{number}", queue="free", template=pods("10s"))
    await watcher.wait(5)
    assert sorted(watcher.admitted[:3]) == ["blocks", "free0", "free1"]
    assert watcher.most("j0", "j1") == 2, "they block nobody themselves"
    assert watcher.most("blocks", "j0") == watcher.most("blocks", "j1") == 1


# Nobody starves where the queue is strict.


@ready(NOBODY_WAITS)
async def test_a_strict_queue_keeps_its_place_for_a_large_gang(q: Queued, watcher: Watcher) -> None:
    """Small Jobs come all the time, in its queue and in another one that borrows, and nobody may be displaced."""
    await q.queue(cpu=4, cohortName="both", queueingStrategy="StrictFIFO")
    await queueing_world.queue(q.world, "other", 0, flavor="f", cohortName="both")
    for number in range(20):
        if number == 5:
            await submit(q, "gang", 4, template=pods("0s", "30s"))
            await q.world.clock.sleep(1)  # the line is that of creation times, to the second
        for queue in ("cq", "other"):
            await submit(q, f"{queue}-{number}", queue=queue, template=pods("0s", "20s"))
        await q.world.clock.sleep(5)
    own = [name for name in watcher.admitted if name.startswith(("cq", "gang"))]
    assert own.index("gang") == 5, "nobody of its queue passed it"
    ahead = watcher.admitted[: watcher.admitted.index("gang")]
    assert len(ahead) < 15, "what others borrow comes back"


@pytest.mark.parametrize("seed", range(3))
def test_a_strict_queue_is_served_in_order_and_to_the_end(seed: int) -> None:
    """Whatever its Jobs ask for: none passes one that came before it with the same priority, and all get their turn."""
    chance = Chance(seed)

    @ready(NOBODY_WAITS)
    async def scenario(q: Queued, watcher: Watcher) -> None:
        await q.queue(cpu=6, queueingStrategy="StrictFIFO")
        names = [f"j{number:02d}" for number in range(20)]
        for name in names:
            await submit(q, name, chance.choice((1, 2, 3, 6)), template=pods("0s", f"{chance.randrange(1, 15)}s"))

            async def is_in_line(name: str = name) -> bool:
                return name in map(_job, await q.workloads())

            await q.world.until(is_in_line)  # the line is that of Workloads, to the second
            await q.world.clock.sleep(chance.choice((2.0, 2.0, 4.0)))
        await watcher.wait(len(names))
        since = {_job(one): find(one.status.conditions, "QuotaReserved") for one in await q.workloads()}
        # Of two that are admitted in one second, either may be seen first: they are written at once.
        assert sorted(names, key=lambda name: (since[name].last_transition_time, name)) == names

    scenario()
