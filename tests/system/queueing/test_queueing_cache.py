"""The cache of level 1 is a function of what there is: after any history it equals one that was made just now."""

import asyncio
from random import Random as Chance
from typing import Any

import msgspec
import pytest
from tests.system.plane import World, running
from tests.system.queueing.queueing_world import cohort, finish, flavor, get, give_back, local_queue, queue, workload

from muster.api.conditions import is_true
from muster.api.core import NODE
from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR, TOPOLOGY, WORKLOAD, Topology
from muster.api.nodes import HOSTNAME_LABEL
from muster.api.status import ApiError
from muster.controllers.queueing.admission import AdmissionController
from muster.controllers.queueing.cache import QueueingCache
from muster.gang.shapes import Shape
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random

STEPS = 120
QUEUES = ("a", "b", "c")
COHORTS = ("", "left", "right")
FLAVORS = ("red", "blue", "racks")  # of the last nodes are known
NODES = ("n0", "n1", "n2")
POD = (("cpu", 1000), ("pods", 1))


def holdings(cache: QueueingCache) -> dict[str, Any]:
    """Who holds what, and what that comes to everywhere in the tree."""
    nodes = {**cache.tree.queues, **{f"cohort/{name}": node for name, node in cache.tree.cohorts.items()}}
    return {
        name: (
            {fr: amount for fr, amount in node.usage.items() if amount},
            {key: (one.usage, one.places) for key, one in node.workloads.items()},
            node.parent.name if node.parent is not None else "",
        )
        for name, node in nodes.items()
    }


def room(cache: QueueingCache) -> list[int]:
    """How many pods each node still takes, as far as places are given."""
    racks = cache.flavors.get("racks")
    return list(cache.tree.ledger.room(racks, Shape(POD)).pods) if racks is not None and racks.levels else []


def waiting(cache: QueueingCache, others: set[str]) -> dict[str, list[str]]:
    """Who waits where, in order, but for these."""
    names = {queue.metadata.name for queue in cache.cluster_queues.all()}
    lines = {name: [one.workload.key for one in cache.queues.yield_pending(name)] for name in sorted(names)}
    return {name: [key for key in keys if key not in others] for name, keys in lines.items()}


def sticky(cache: QueueingCache) -> set[str]:
    """Those who stay heads until their victims are gone; who begins anew finds them by the next decision."""
    everybody = (key for keys in waiting(cache, set()).values() for key in keys)
    return {key for key in everybody if cache.queues.is_sticky(key)}


class Story:
    """Random things that happen to queues and workloads."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.chance = Chance(seed)
        self.made = 0

    async def begin(self) -> None:
        levels = [{"nodeLabel": HOSTNAME_LABEL}]
        document = {"metadata": {"name": "hosts"}, "spec": {"levels": levels}}
        await self.world.client.create(TOPOLOGY, msgspec.convert(document, Topology))
        for name in NODES:
            await self.world.node(name, cpu="3")
            await self.world.client.patch(NODE, name, {"metadata": {"labels": {HOSTNAME_LABEL: name, "zone": "a"}}})
        for name in FLAVORS:
            await self.make_flavor(name)
        for name in ("left", "right"):
            await cohort(self.world, name)
        for name in QUEUES:
            await self.make_queue(name)
            await local_queue(self.world, name, name)

    async def make_flavor(self, name: str) -> None:
        spec = {"nodeLabels": {"zone": "a"}, "topologyName": "hosts"} if name == "racks" else {}
        await flavor(self.world, name, **spec)

    async def cordon(self) -> None:
        patch = {"spec": {"unschedulable": self.chance.random() < 0.5}}
        await self.world.client.patch(NODE, self.chance.choice(NODES), patch)

    async def make_queue(self, name: str) -> None:
        rules = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
        spec = {"cohortName": self.chance.choice(COHORTS), "preemption": rules}
        cpu = self.chance.randrange(1, 6)
        await queue(self.world, name, cpu, flavor=self.chance.choice(FLAVORS), local=False, **spec)

    async def step(self) -> None:
        deed = self.chance.choice(
            [self.submit] * 8 + [self.end] * 4 + [self.yield_] * 4 + [self.drop, self.requota, self.stop, self.local]
            + [self.remake] * 2 + [self.recohort, self.reflavor, self.deactivate, self.cordon]
        )  # fmt: skip
        try:
            await deed()
        except ApiError as error:
            if error.code not in (404, 409, 422):
                raise
        await self.world.clock.sleep(self.chance.choice((0.0, 0.0, 0.05, 2.0)))

    async def one(self) -> str:
        page = await self.world.client.list(WORKLOAD, "default")
        return self.chance.choice([item.metadata.name for item in page.items] or ["none"])

    async def submit(self) -> None:
        self.made += 1
        count, priority = self.chance.randrange(1, 5), self.chance.randrange(3)
        await workload(self.world, f"w{self.made}", self.chance.choice(QUEUES), count=count, priority=priority)

    async def end(self) -> None:
        name = await self.one()
        if is_true((await get(self.world, name)).status.conditions, "Admitted"):
            await finish(self.world, name)

    async def yield_(self) -> None:
        page = await self.world.client.list(WORKLOAD, "default")
        for item in page.items:
            conditions = item.status.conditions
            if is_true(conditions, "Evicted") and is_true(conditions, "QuotaReserved"):
                await give_back(self.world, item.metadata.name)
                return

    async def drop(self) -> None:
        await self.world.client.delete(WORKLOAD, await self.one(), "default")

    async def deactivate(self) -> None:
        patch = {"spec": {"active": self.chance.random() < 0.5}}
        await self.world.client.patch(WORKLOAD, await self.one(), patch, "default")

    async def requota(self) -> None:
        name = self.chance.choice(QUEUES)
        quota = {"name": "cpu", "nominalQuota": self.chance.randrange(6)}
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": self.chance.choice(FLAVORS), "resources": [quota]}],
        }
        await self.world.client.patch(CLUSTER_QUEUE, name, {"spec": {"resourceGroups": [group]}})

    async def stop(self) -> None:
        policy = self.chance.choice(("None", "Hold"))
        patch, name = {"spec": {"stopPolicy": policy}}, self.chance.choice(QUEUES)
        if self.chance.random() < 0.5:
            await self.world.client.patch(CLUSTER_QUEUE, name, patch)
        else:
            await self.world.client.patch(LOCAL_QUEUE, name, patch, "default")

    async def local(self) -> None:
        name = self.chance.choice(QUEUES)
        if self.chance.random() < 0.3:
            await self.world.client.delete(LOCAL_QUEUE, name, "default")
        else:
            await local_queue(self.world, name, self.chance.choice(QUEUES))

    async def remake(self) -> None:
        name = self.chance.choice(QUEUES)
        free = {"metadata": {"finalizers": None}}
        if self.chance.random() < 0.3:
            await self.world.client.delete(CLUSTER_QUEUE, name)
            await self.world.client.patch(CLUSTER_QUEUE, name, free)
        else:
            await self.make_queue(name)

    async def recohort(self) -> None:
        if self.chance.random() < 0.3:
            await self.world.client.delete(COHORT, "left")
        else:
            spec = {"parentName": self.chance.choice(("", "right", "left"))}
            await self.world.client.patch(COHORT, self.chance.choice(("left", "right")), {"spec": spec})

    async def reflavor(self) -> None:
        name = self.chance.choice(FLAVORS)
        if self.chance.random() < 0.2:
            await self.world.client.delete(RESOURCE_FLAVOR, name)
            await self.world.client.patch(RESOURCE_FLAVOR, name, {"metadata": {"finalizers": None}})
        else:
            await self.make_flavor(name)


async def history(seed: int, steps: int) -> None:
    async with running(controllers=False, seed=seed) as plane:
        world = World(plane)
        clock, configuration = plane.inputs.clock, plane.configuration
        manager = Manager(world.client, clock, Random(seed))
        cache = QueueingCache(manager, configuration)
        manager.add(AdmissionController(manager, cache, plane.events.recorder("test")))
        task = asyncio.create_task(manager.run())
        await manager.ready.wait()
        story = Story(world, seed)
        await story.begin()
        for _ in range(steps):
            await story.step()
        await world.settle()
        again = Manager(world.client, clock, Random(seed))
        fresh = QueueingCache(again, configuration)
        second = asyncio.create_task(again.run())
        await again.ready.wait()
        try:
            assert holdings(cache) == holdings(fresh)
            assert room(cache) == room(fresh)
            assert all(0 <= pods <= 3 for pods in room(cache))
            assert waiting(cache, sticky(cache)) == waiting(fresh, sticky(cache))
            assert cache.unfit == fresh.unfit
            for node in cache.tree.cohorts.values():
                assert all(amount >= 0 for amount in node.usage.values())
        finally:
            await again.stop()
            await manager.stop()
            await asyncio.gather(task, second)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_after_any_history_the_cache_equals_one_made_anew(seed: int, request: pytest.FixtureRequest) -> None:
    steps = STEPS * (20 if request.config.getoption("--long") else 1)
    run_virtual(history(seed, steps))
