"""Where schedules are played: a cluster in virtual time, its nodes, the process with all controllers, and the users."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random as Chance

import msgspec
from tests.system.interruptions.kinds import KEPT, MEMBER_OF, SIZE, Order
from tests.system.interruptions.machines import MachineLeases, Machines
from tests.system.jobs.job_cluster import Wire
from tests.system.mortal_engine import Engine
from tests.system.plane import World
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, Configuration
from muster.api.core import POD, Pod
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD, WORKLOAD_PRIORITY_CLASS, Workload, WorkloadPriorityClass
from muster.api.meta import ObjectMeta
from muster.api.pods import is_active, is_deleting, is_finished
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.runtime.clock import VirtualClock
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.refusals import ignoring

NODES = tuple(f"node-{number}" for number in range(4))
QUEUE = "team"
QUOTA = 8
URGENT = "urgent"
_AUTHOR_SECONDS = 1.0  # how often a user who makes pods looks at them


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds by which the controllers hear of what is watched, and of how their writes went.

    lost: numbers of writes of each process that arrive, but whose answers do not.
    """

    watched: Mapping[str, float] = field(default_factory=dict)
    answers: float = 0.0
    lost: frozenset[int] = frozenset()

    def disturb(self, wire: Wire) -> None:
        """Make a connection as slow as this."""
        wire.lags = dict(self.watched)
        wire.answers_lag = self.answers
        wire.lost_answers = set(self.lost)


class Scene:
    """What deeds act on, and what laws are asked of."""

    def __init__(
        self, world: World, engine: Engine, machines: Machines, manager: Manager, chance: Chance, delays: Delays
    ) -> None:
        self.world, self.client, self.clock = world, world.client, world.clock
        self.engine, self.machines, self.chance, self.delays = engine, machines, chance, delays
        self.orders: list[Order] = []
        self.log: list[str] = []
        self.urgent: list[str] = []
        self.pods = manager.informer(POD)
        self.jobs = manager.informer(JOB)
        self.jobsets = manager.informer(JOB_SET)
        self.workloads = manager.informer(WORKLOAD)
        self.queues = manager.informer(CLUSTER_QUEUE)
        self.local_queue_is_open = True
        self._authors: list[asyncio.Task[None]] = []
        self._change, self._one_at_a_time = asyncio.Event(), asyncio.Lock()
        self._succeeded: defaultdict[str, set[str]] = defaultdict(set)
        self.pods.on_change(self._remember)
        self.pods.on_change(lambda _, __: self._change.set())
        self.workloads.on_change(lambda _, __: self._change.set())

    def say(self, what: str) -> None:
        """Put down what happens, for the reader of a failure."""
        self.log.append(f"{self.clock.monotonic():8.3f} {what}")

    async def restart_engine(self) -> None:
        """Kill the controllers, and start others whose connection is as slow."""
        async with self._one_at_a_time:
            await self.engine.restart(self.delays.disturb)

    async def stop_engine(self) -> None:
        """Kill the controllers."""
        async with self._one_at_a_time:
            await self.engine.stop()

    # What there is.

    def members(self, order: Order) -> list[Pod]:
        """Return the pods of an order, by name."""
        pods = [pod for pod in self.pods.all() if pod.metadata.labels.get(MEMBER_OF) == order.name]
        return sorted(pods, key=lambda pod: pod.metadata.name)

    def bound(self, order: Order) -> list[Pod]:
        """Return the pods of an order that hold a place on a node and are to keep it."""
        return [pod for pod in self.members(order) if pod.spec.node_name and is_active(pod)]

    def root(self, order: Order) -> Job | JobSet | None:
        """Return the object whose end is the order's; None for pods that their user makes."""
        key = f"default/{order.name}"
        return self.jobsets.get(key) or self.jobs.get(key)

    def workloads_of(self, order: Order) -> list[Workload]:
        """Return the Workloads of an order: one, or more while it grows."""
        return [one for one in self.workloads.all() if order.name in _names(one)]

    def succeeded(self, order: Order) -> set[str]:
        """Return which members of an order that its user makes have ever succeeded, by their first names."""
        return self._succeeded[order.name]

    def _remember(self, _: Pod | None, pod: Pod | None) -> None:
        """Pods that have succeeded may be collected with their node."""
        if pod is not None and pod.status.phase == "Succeeded":
            self._succeeded[pod.metadata.labels.get(MEMBER_OF, "")].add(_first_name(pod))

    async def changed(self) -> None:
        """Wait until a pod or a workload changes."""
        self._change.clear()
        await self._change.wait()

    # What users do.

    async def submit(self, order: Order) -> None:
        """Create what an order consists of."""
        self.orders.append(order)
        self.say(f"{order.name} ({order.kind.name}) is submitted")
        for kind, document in order.kind.documents(order):
            await self.client.create(kind, msgspec.convert(document, kind.type), "default")
        if order.kind.pods is not None:
            self._authors.append(asyncio.create_task(self._author(order)))

    async def submit_urgent(self, name: str, pods: int, *, queue: str, run: int) -> None:
        """Create a Job that others make room for."""
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        template = {
            "metadata": {"annotations": {"muster.dev/run-time": f"{run}s"}},
            "spec": {"restartPolicy": "Never", "priorityClassName": URGENT, "containers": [container]},
        }
        labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": URGENT} if queue else {}
        document = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template},
        }
        self.urgent.append(name)
        await self.client.create(JOB, msgspec.convert(document, Job), "default")

    async def _author(self, order: Order) -> None:
        """Make the pods of a group, and another in place of each that is gone or has failed, as workflow engines do."""
        assert order.kind.pods is not None
        made = 0
        while len(self.succeeded(order)) < SIZE:
            there = {_first_name(pod) for pod in self.members(order) if is_active(pod)} | self.succeeded(order)
            ending = {_first_name(pod) for pod in self.members(order) if is_deleting(pod) and not is_finished(pod)}
            for number in range(SIZE):
                if f"{order.name}-{number}" not in there | ending:
                    document = order.kind.pods(order, number)
                    document["metadata"]["name"] += f".{made}"
                    made += 1
                    await self.client.create(POD, msgspec.convert(document, Pod), "default")
            await self._release(pod for pod in self.members(order) if _is_lost(pod))
            await self.clock.sleep(_AUTHOR_SECONDS)
        await self._release(self.members(order))

    async def _release(self, pods: Iterable[Pod]) -> None:
        """Take the finalizer of their maker off pods that need not be kept."""
        for pod in pods:
            if KEPT in pod.metadata.finalizers:
                with ignoring("NotFound", "Conflict"):
                    await self.client.patch_object(POD, pod, {"metadata": {"finalizers": None}}, lock=False)

    async def close(self) -> None:
        """Let the users who make pods go."""
        for task in self._authors:
            task.cancel()
        await asyncio.gather(*self._authors, return_exceptions=True)

    def broken_authors(self) -> Iterable[BaseException]:
        """Return what stopped users who make pods."""
        for task in self._authors:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                yield error


def _is_lost(pod: Pod) -> bool:
    """Whether a pod is being deleted and cannot succeed any more."""
    ended = is_finished(pod) or not pod.spec.node_name
    return is_deleting(pod) and ended and pod.status.phase != "Succeeded"


def _first_name(pod: Pod) -> str:
    return pod.metadata.name.partition(".")[0]


def _names(workload: Workload) -> set[str]:
    """Return its own name, that of a group of pods, and those of its owners."""
    return {owner.name for owner in workload.metadata.owner_references} | {workload.metadata.name}


@asynccontextmanager
async def scene(
    seed: int, delays: Delays, spread: float, configuration: Configuration = EMBEDDED
) -> AsyncIterator[Scene]:
    """Run a cluster with a queue, its nodes and all controllers, all on the virtual loop."""
    inputs = ExternalInputs(VirtualClock(), Ids(seed), Random(seed))
    async with control_plane(MemoryJournal(), inputs, configuration) as plane:
        beside = Manager(plane.client(), inputs.clock, inputs.random)
        machines = Machines(beside, NODES, spread_seconds=spread)
        beside.add(machines)
        leases = MachineLeases(beside, machines)
        beside.add(leases)
        engine = Engine(plane, delays.disturb)
        found = Scene(World(plane), engine, machines, beside, Chance(seed), delays)
        run = asyncio.create_task(beside.run())
        await machines.ready.wait()
        await machines.begin()
        await leases.begin()
        await engine.start(delays.disturb)
        try:
            await _furnish(found)
            yield found
        finally:
            await found.close()
            await engine.stop()
            await beside.stop()
            await run


async def _furnish(found: Scene) -> None:
    await queueing_world.flavor(found.world, "f")
    preemption = {"withinClusterQueue": "LowerPriority"}
    await queueing_world.queue(found.world, QUEUE, QUOTA, flavor="f", preemption=preemption)
    meta = ObjectMeta(name=URGENT)
    await found.client.create(PRIORITY_CLASS, PriorityClass(metadata=meta, value=1000))
    document = {"metadata": {"name": URGENT}, "value": 1000}
    await found.client.create(WORKLOAD_PRIORITY_CLASS, msgspec.convert(document, WorkloadPriorityClass))
