"""Level 1 as a whole under faults: whatever breaks, whenever, quota is never given twice and every Job has its turn.

Two queues lend to each other. Jobs come and go, are scaled, stopped and resumed; some never get ready. Meanwhile the
process with all controllers is killed at some write and started again, answers to its writes are lost, and what it
watches comes late. All of it follows from a number, in virtual time.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random as Chance
from typing import Any

import msgspec
import pytest
from tests.system.jobs.job_cluster import Wire
from tests.system.mortal_engine import Disturb, Engine
from tests.system.plane import World
from tests.system.queueing import queueing_world
from tests.system.queueing.quota_audit import Books, Cell, reserved, squatters

from muster.api.batch import JOB, Job
from muster.api.conditions import find, is_true
from muster.api.config import EMBEDDED, WaitForPodsReady
from muster.api.config.types import RequeuingStrategy
from muster.api.core import POD, Pod
from muster.api.kinds import Kind
from muster.api.kueue import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
    Workload,
    WorkloadPriorityClass,
)
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.status import ApiError
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.store import MemoryJournal
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.status.visibility import Visibility
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
QUEUES = ("left", "right")
CPUS = 6
STRATEGY = RequeuingStrategy(backoff_base_seconds=5, backoff_limit_count=2)
READY = WaitForPodsReady(timeout=20 * SECOND, recovery_timeout=60 * SECOND, requeuing_strategy=STRATEGY)
LONG_ENOUGH = 30.0  # for each step, until all Jobs have ended or are given up
CONFIGURATION = msgspec.structs.replace(EMBEDDED, wait_for_pods_ready=READY)


def disturbed_by(chance: Chance) -> Disturb:
    """Return what makes a process die at some write, lose some answers, and hear of changes late."""

    def disturb(wire: Wire) -> None:
        wire.writes_left = chance.choice((chance.randrange(1, 20), chance.randrange(20, 200)))
        wire.lost_answers = {chance.randrange(100) for _ in range(chance.randrange(4))}
        late = chance.choice((0.0, 0.0, 0.2, 2.0))
        wire.lags = {kind: late * chance.random() for kind in ("jobs", "pods", "workloads", "clusterqueues")}

    return disturb


class Auditor:
    """Looks at every single change: nobody holds more than the tree allows, and no pods run whose Job holds nothing."""

    def __init__(self, plane: ControlPlane) -> None:
        inputs = plane.inputs
        self.looks = 0
        self.findings: list[str] = []
        self.forgiven: set[str] = set()  # Jobs that were deleted: their quota is free before their pods are gone
        self._clock = inputs.clock
        self._manager = Manager(plane.client(), inputs.clock, Random(7))
        self._queues = self._manager.informer(CLUSTER_QUEUE)
        self._cohorts = self._manager.informer(COHORT)
        self._workloads = self._manager.informer(WORKLOAD)
        self._pods = self._manager.informer(POD)
        self._timer: asyncio.TimerHandle | None = None
        self._workloads.on_change(self._reserved)
        self._pods.on_change(self._changed)
        self._run = asyncio.create_task(self._manager.run())

    @property
    def books(self) -> Books:
        return Books(self._queues.all(), self._cohorts.all())

    @property
    def held(self) -> dict[Cell, int]:
        """By all workloads."""
        return reserved(self._workloads.all())

    def _reserved(self, old: object, new: object) -> None:
        self.looks += 1
        if over := self.books.excess(self.held):
            self._find(f"reserved too much {over}: {self.held}")
        self._changed(old, new)

    def _changed(self, old: object, new: object) -> None:
        """What the two kinds say together holds once everybody has heard of everything: time passes only then."""
        del old, new
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(0.001, self._compare)

    def _compare(self) -> None:
        self._timer = None
        pods = [pod for pod in self._pods.all() if pod.metadata.labels.get("job-name") not in self.forgiven]
        if found := squatters(pods, self._workloads.all()):
            self._find(f"pods without quota {found}")

    def _find(self, what: str) -> None:
        self.findings.append(f"{self._clock.monotonic():.3f}: {what}")

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


class Story:
    """What users do."""

    def __init__(self, world: World, engine: Engine, auditor: Auditor, chance: Chance) -> None:
        self.world, self.client = world, world.client
        self.engine, self.auditor, self.chance = engine, auditor, chance
        self.log: list[str] = []
        self._made = 0

    def __repr__(self) -> str:
        """For failures."""
        return "\n".join(["what happened:", *self.log])

    async def begin(self) -> None:
        await queueing_world.flavor(self.world, "f")
        for name in QUEUES:
            preemption = {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}
            strategy = self.chance.choice(("StrictFIFO", "BestEffortFIFO"))
            spec: dict[str, Any] = {"cohortName": "both", "preemption": preemption, "queueingStrategy": strategy}
            await queueing_world.queue(self.world, name, CPUS, flavor="f", **spec)
        for name, value in (("low", 0), ("high", 10)):
            document = {"metadata": {"name": name}, "value": value}
            await self.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(document, WorkloadPriorityClass))

    async def step(self) -> None:
        deeds = [self.submit] * 6 + [self.scale] * 3 + [self.delete, self.suspend, self.deactivate, self.evict]
        deeds += [self.lose_pod, self.hold_queue, self.promote]
        deed = self.chance.choice(deeds)
        try:
            await deed()
        except ApiError as error:
            if error.code not in (404, 409, 422, 403):
                raise
        await self.engine.live(self.chance.choice((0.0, 0.1, 1.0, 8.0, 25.0)))

    async def submit(self) -> None:
        self._made += 1
        chance = self.chance
        workers = chance.choice((1, 2, 3, 4, 6, 14))
        pods = {
            "muster.dev/run-time": f"{chance.randrange(5, 90)}s",
            "muster.dev/stop-time": f"{chance.randrange(12)}s",
        }
        kind = chance.choice(("plain", "plain", "elastic", "smaller", "never ready"))
        own = {}
        if kind == "never ready":
            pods["muster.dev/start-time"] = "10000h"
        if kind == "elastic":
            own["kueue.x-k8s.io/elastic-job"] = "true"
        if kind == "smaller" and workers > 1:
            own["kueue.x-k8s.io/job-min-parallelism"] = "1"
        await self._create(f"{kind.replace(' ', '-')}-{self._made}", workers, own, pods)

    async def _create(self, name: str, workers: int, own: dict[str, str], pods: dict[str, str]) -> None:
        container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
        labels = {"kueue.x-k8s.io/queue-name": self.chance.choice(QUEUES)}
        labels["kueue.x-k8s.io/priority-class"] = self.chance.choice(("low", "low", "high"))
        template = {"metadata": {"annotations": pods}, "spec": {"restartPolicy": "Never", "containers": [container]}}
        sizes = {"parallelism": workers, "completions": workers, "completionMode": "Indexed"}
        document = {
            "metadata": {"name": name, "labels": labels, "annotations": own},
            "spec": {**sizes, "backoffLimit": 1000, "template": template},
        }
        self.say(f"{name} of {workers} to {labels}")
        await self.client.create(JOB, msgspec.convert(document, Job), "default")

    def say(self, what: str) -> None:
        self.log.append(f"{self.world.clock.monotonic():.3f}: {what}")

    async def one(self) -> str:
        jobs = [job for job in (await self.client.list(JOB, "default")).items if finish(job) is None]
        return self.chance.choice([job.metadata.name for job in jobs] or ["none"])

    async def change(self, name: str, **patch: Any) -> None:
        self.say(f"{name}: {patch}")
        await self.client.patch(JOB, name, patch, "default")

    async def scale(self) -> None:
        size = self.chance.choice((1, 2, 4, 5))
        await self.change(await self.one(), spec={"parallelism": size, "completions": size})

    async def delete(self) -> None:
        name = await self.one()
        self.say(f"{name}: deleted")
        self.auditor.forgiven.add(name)
        await self.client.delete(JOB, name, "default", propagation="Background")

    async def suspend(self) -> None:
        await self.change(await self.one(), spec={"suspend": True})

    async def promote(self) -> None:
        labels = {"kueue.x-k8s.io/priority-class": self.chance.choice(("low", "high"))}
        await self.change(await self.one(), metadata={"labels": labels})

    async def workload(self) -> str:
        page = await self.client.list(WORKLOAD, "default")
        name = self.chance.choice([item.metadata.name for item in page.items] or ["none"])
        self.say(f"workload {name} is deleted or (de)activated")
        return name

    async def deactivate(self) -> None:
        patch = {"spec": {"active": self.chance.random() < 0.4}}
        await self.client.patch(WORKLOAD, await self.workload(), patch, "default")

    async def evict(self) -> None:
        """Somebody deletes a Workload."""
        await self.client.delete(WORKLOAD, await self.workload(), "default")

    async def lose_pod(self) -> None:
        pods = (await self.client.list(POD, "default")).items
        name = self.chance.choice([pod.metadata.name for pod in pods] or ["none"])
        await self.client.delete(POD, name, "default")

    async def hold_queue(self) -> None:
        policy = self.chance.choice(("None", "None", "Hold", "HoldAndDrain"))
        kinds: list[tuple[Kind[Any], str]] = [(LOCAL_QUEUE, "default"), (CLUSTER_QUEUE, "")]
        kind, namespace = self.chance.choice(kinds)
        name = self.chance.choice(QUEUES)
        self.say(f"{kind.kind} {name}: {policy}")
        await self.client.patch(kind, name, {"spec": {"stopPolicy": policy}}, namespace)

    async def go_on(self) -> None:
        """Nobody is in the way any more: queues are open, and Jobs that are larger than all quota are taken away."""
        for job in (await self.client.list(JOB, "default")).items:
            if (job.spec.parallelism or 0) > len(QUEUES) * CPUS and finish(job) is None:
                await self.client.delete(JOB, job.metadata.name, "default", propagation="Background")
        for name in QUEUES:
            await self.client.patch(CLUSTER_QUEUE, name, {"spec": {"stopPolicy": "None"}})
            await self.client.patch(LOCAL_QUEUE, name, {"spec": {"stopPolicy": "None"}}, "default")


# What holds once nothing has happened for a while.


class Rest:
    """Everything at one moment of rest."""

    def __init__(self, jobs: Iterable[Job], workloads: Iterable[Workload], pods: Iterable[Pod]) -> None:
        self.jobs, self.pods = list(jobs), list(pods)
        self.by_owner = {one.metadata.owner_references[0].uid: one for one in workloads}

    @classmethod
    async def of(cls, client: Client) -> "Rest":
        jobs = await client.list(JOB, "default")
        workloads, pods = await client.list(WORKLOAD, "default"), await client.list(POD, "default")
        return cls(jobs.items, workloads.items, pods.items)

    def findings(self) -> list[str]:
        return [finding for job in self.jobs for finding in self._job(job)]

    def _job(self, job: Job) -> Iterable[str]:
        name = job.metadata.name
        workload = self.by_owner.get(job.metadata.uid)
        if workload is None and finish(job) is not None:
            return  # somebody deleted it
        if workload is None:
            yield f"{name} has no workload"
            return
        conditions = workload.status.conditions
        admitted, evicted = is_true(conditions, "Admitted"), is_true(conditions, "Evicted")
        pods = [
            pod
            for pod in self.pods
            if pod.metadata.labels.get("job-name") == name and pod.status.phase in ("Pending", "Running")
        ]
        gated = [pod for pod in pods if pod.spec.scheduling_gates]
        bound = [pod for pod in pods if pod.spec.node_name]
        if finish(job) is not None:
            if not is_true(conditions, "Finished") or pods:
                yield f"{name} has ended: {conditions} {len(pods)} pods"
            return
        if pods and (not admitted or evicted):
            yield f"{name} has {len(pods)} pods and its workload says {conditions}"
        if bound and len(bound) + len(gated) != len(pods):
            yield f"{name} is partly started: {len(bound)} of {len(pods)}"
        if bool(job.spec.suspend) == admitted:
            yield f"{name}: suspend {job.spec.suspend} and its workload says {conditions}"
        if evicted and workload.status.admission is not None:
            yield f"{name} was evicted and holds quota"

    def unfinished(self) -> Iterable[str]:
        """Jobs that have neither ended nor been given up, and why."""
        for job in self.jobs:
            workload = self.by_owner.get(job.metadata.uid)
            if finish(job) is None and workload is not None and workload.spec.active:
                said = find(workload.status.conditions, "QuotaReserved")
                yield f"{job.metadata.name}: {said}"


@asynccontextmanager
async def cluster(seed: int) -> AsyncIterator[Story]:
    chance = Chance(seed)
    inputs = ExternalInputs(VirtualClock(), Ids(seed), Random(seed))
    async with control_plane(MemoryJournal(), inputs, CONFIGURATION) as plane:
        nodes = Manager(plane.client(), inputs.clock, inputs.random)
        simulated = SimulatedNodes(nodes, ["n"], resources={"cpu": "100"}, labels={SERVER_MACHINE: "true"})
        nodes.add(simulated)
        run = asyncio.create_task(nodes.run())
        await simulated.ready.wait()
        engine, auditor = Engine(plane, disturbed_by(chance)), Auditor(plane)
        await engine.start()
        try:
            yield Story(World(plane), engine, auditor, chance)
        finally:
            await engine.stop()
            await auditor.stop()
            await nodes.stop()
            await run


async def equals_one_made_anew(story: Story) -> None:
    """The cache of the engine, by what it tells people; and the statuses of the queues, by the books."""
    plane, clock = story.world.plane, story.world.clock
    manager = Manager(story.client, clock, Random(1))
    fresh = Visibility(QueueingCache(manager, plane.configuration))
    run = asyncio.create_task(manager.run())
    await manager.ready.wait()
    try:
        for name in QUEUES:
            kept, anew = (one.in_cluster_queue(name, 0, 1000) for one in (story.engine.visibility, fresh))
            assert kept == anew
            queue = await story.client.get(CLUSTER_QUEUE, name)
            told = {
                Cell(name, flavor.name, one.name): int(one.total) * 1000
                for flavor in queue.status.flavors_reservation
                for one in flavor.resources
            }
            held = {cell: amount for cell, amount in story.auditor.held.items() if cell.node == name}
            assert {cell: amount for cell, amount in told.items() if amount} == held
    finally:
        await manager.stop()
        await run


async def history(seed: int, steps: int) -> None:
    async with cluster(seed) as story:
        await story.begin()
        await story.engine.restart(disturbed_by(story.chance))
        for _ in range(steps):
            await story.step()
            assert story.auditor.findings == [], story
        await story.engine.restart()
        await story.world.settle(15)
        await story.go_on()
        await story.world.settle(LONG_ENOUGH * steps)
        rest = await Rest.of(story.client)
        assert [*story.auditor.findings, *rest.findings(), *rest.unfinished()] == [], story
        await equals_one_made_anew(story)
        assert story.engine.deaths > 0


@pytest.mark.parametrize("seed", range(8))
def test_whatever_breaks(seed: int, *, long: bool) -> None:
    run_virtual(history(seed, 600 if long else 25))
