"""Words for tests of Jobs that wait in queues, on a control plane in virtual time with simulated nodes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from tests.system.plane import World, under
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.core import EVENT, NODE
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.ours.embedded import SERVER_MACHINE
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.queueing.conditions import Conditions, put
from muster.queueing.workload.eviction import evict
from muster.runtime.control.manager import Manager
from muster.runtime.objects import merge_patch


class Queued:
    """A world with a flavor `f` (nodes with the label zone=a), a queue `cq` and nodes that have room for everybody."""

    def __init__(self, world: World) -> None:
        self.world, self.client = world, world.client
        self.forget_node: Callable[[str], None] = lambda _: None  # a node that is deleted is not made again

    async def queue(self, cpu: int = 4, **spec: Any) -> None:
        """The queue, with so many CPUs, and the flavor."""
        await queueing_world.flavor(self.world, "f", nodeLabels={"zone": "a"})
        await queueing_world.queue(self.world, "cq", cpu, flavor="f", **spec)
        await self.world.settle()

    async def job(self, name: str = "j", workers: int = 2, *, labels: Any = None, **spec: Any) -> Job:
        """An Indexed Job in the queue (`queue=""`: in none); `template` and `metadata` come on top."""
        container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": "1"}}}
        given, metadata = spec.pop("template", {}), spec.pop("metadata", {})
        queue = {QUEUE_NAME_LABEL: local} if (local := spec.pop("queue", "cq")) else {}
        pods = {**given, "spec": {"restartPolicy": "Never", "containers": [container], **given.get("spec", {})}}
        sizes = {"parallelism": workers, "completions": workers, "completionMode": "Indexed"}
        document = {
            "metadata": {"name": name, "labels": queue | (labels or {}), **metadata},
            "spec": {**sizes, "template": pods, **spec},
        }
        made = await self.client.create(JOB, msgspec.convert(document, Job), "default")
        await self.world.settle()
        return made

    async def change(self, name: str = "j", **patch: Any) -> Job:
        """Patch a Job."""
        changed = await self.client.patch(JOB, name, patch, "default")
        await self.world.settle()
        return changed

    async def now(self, name: str = "j") -> Job:
        """The Job as it is."""
        return await self.client.get(JOB, name, "default")

    async def workloads(self) -> list[Workload]:
        """All of them."""
        return (await self.client.list(WORKLOAD, "default")).items

    async def workload(self, name: str = "j") -> Workload:
        """The only Workload of a Job."""
        (found,) = [
            one for one in await self.workloads() if any(owner.name == name for owner in one.metadata.owner_references)
        ]
        return found

    async def state(self, name: str = "j") -> dict[str, str]:
        """The conditions of a Job's Workload, such as `True Admitted`, by type."""
        found = (await self.workload(name)).status.conditions
        return {one.type: f"{one.status} {one.reason}" for one in found}

    async def running(self, name: str = "j") -> list[int]:
        """The indexes of a Job's pods that run."""
        pods = await self.world.pods(name)
        return sorted(
            int(pod.metadata.labels["batch.kubernetes.io/job-completion-index"])
            for pod in pods
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        )

    async def held(self, name: str = "j") -> int:
        """For how many pods a Job holds quota."""
        admission = (await self.workload(name)).status.admission
        return sum(one.count or 0 for one in admission.pod_set_assignments) if admission is not None else 0

    async def evict(self, name: str = "j", reason: str = "Preempted", message: str = "go") -> None:
        """Play whoever takes the quota back."""
        workload = await self.workload(name)
        status = evict(workload.status, reason, message, self.world.clock.now())
        await self.status(workload, status)

    async def condition(self, workload: Workload, type_: str, value: bool, reason: str, message: str = "m") -> None:
        """Set a condition of a Workload."""
        conditions: Conditions = workload.status.conditions
        conditions = put(conditions, type_, value, reason, message, self.world.clock.now())
        await self.status(workload, msgspec.structs.replace(workload.status, conditions=conditions))

    async def status(self, workload: Workload, status: Any) -> None:
        """Make the status of a Workload this."""
        patch = {"status": merge_patch(status)}
        await self.client.patch(WORKLOAD, workload.metadata.name, patch, "default", subresource="status")

    async def told(self, name: str = "j") -> list[str]:
        """What events say about a Job's queueing, in order: `Reason: message`."""
        events = (await self.client.list(EVENT, "default")).items
        ours = [e for e in events if e.involved_object.name == name and e.source.component == "kueue-job-controller"]
        ours.sort(key=lambda event: int(event.metadata.resource_version))
        return [f"{event.reason}: {event.message}" for event in ours]

    async def template_is_clean(self, name: str = "j") -> bool:
        """Whether nothing is left of what was injected."""
        template = (await self.now(name)).spec.template
        return POD_SET_LABEL not in template.metadata.labels and template.spec.node_selector == {}


def story(test: Callable[[Queued], Awaitable[None]]) -> Callable[[], None]:
    """A test in virtual time, with one simulated node of the zone that has room for 100 CPUs."""
    return configured("")(test)


def configured(text: str) -> Callable[[Callable[[Queued], Awaitable[None]]], Callable[[], None]]:
    """A `story` under these settings."""

    def decorate(test: Callable[[Queued], Awaitable[None]]) -> Callable[[], None]:
        async def played(world: World) -> None:
            await play(Queued(world), test)

        played.__name__, played.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return under(text)(played)

    return decorate


async def play(q: Queued, test: Callable[[Queued], Awaitable[None]]) -> None:
    """The test with its node."""
    async with noded(q):
        await test(q)


@asynccontextmanager
async def noded(q: Queued) -> AsyncIterator[None]:
    """A node with room for everybody."""
    manager = Manager(q.client, q.world.clock, q.world.random)
    nodes = SimulatedNodes(manager, ["n"], resources={"cpu": "100"}, labels={SERVER_MACHINE: "true"})
    manager.add(nodes)
    run = asyncio.create_task(manager.run())
    await nodes.ready.wait()
    await q.client.patch(NODE, "n", {"metadata": {"labels": {"zone": "a"}}})
    try:
        yield
    finally:
        await manager.stop()
        await run
