"""A control plane in virtual time, and a few words to play nodes with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, Configuration
from muster.api.core import NODE, POD, Node, Pod
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.controlplane import ControlPlane, Givens, control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.engine import Part, assemble
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.table import INTEGRATIONS
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


@asynccontextmanager
async def running(
    *,
    controllers: bool = True,
    parts: Collection[Part] = (),
    seed: int = 1,
    configuration: Configuration = EMBEDDED,
    trust: Callable[[], Trust] = Trust,
    integrations: Sequence[Integration[Any]] = INTEGRATIONS,
) -> AsyncIterator[ControlPlane]:
    """A control plane whose controllers run, or these parts of the engine alone. Only on a virtual loop."""
    surroundings = Givens(VirtualClock(), Ids(seed), Random(seed))
    async with control_plane(MemoryJournal(), surroundings, configuration, trust, integrations) as plane:
        if parts:
            assemble(plane.manager, plane.events, configuration, parts, integrations)
        elif controllers:
            plane.add_controllers()
        run = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        try:
            yield plane
        finally:
            await plane.manager.stop()
            await run


class World:
    """What a test says and sees."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.client: Client = plane.client()
        self.clock = plane.surroundings.clock

    async def node(self, name: str, *, cpu: str = "4", **spec: Any) -> Node:
        """A ready node."""
        await self.client.create(NODE, msgspec.convert({"metadata": {"name": name}, "spec": spec}, Node))
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        status = {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}],
        }
        return await self.client.patch(NODE, name, {"status": status}, subresource="status")

    async def job(self, name: str, workers: int, *, cpu: str = "1", annotations: Any = None, **spec: Any) -> Job:
        """An Indexed Job of so many workers."""
        container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}
        document = {
            "metadata": {"name": name, "annotations": annotations or {}},
            "spec": {
                "parallelism": workers,
                "completions": workers,
                "completionMode": "Indexed",
                "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
                **spec,
            },
        }
        return await self.client.create(JOB, msgspec.convert(document, Job), "default")

    async def pods(self, job: str = "") -> list[Pod]:
        labels = f"batch.kubernetes.io/job-name={job}" if job else ""
        return (await self.client.list(POD, "default", labels=labels)).items

    async def nodes_of(self, job: str) -> list[str]:
        """The nodes of a job's pods, sorted; "" for a pod that has none."""
        return sorted(pod.spec.node_name for pod in await self.pods(job))

    async def finish(self, pod: Pod, phase: str = "Succeeded") -> None:
        """Play the node: the pod has ended."""
        await self.client.patch(
            POD,
            pod.metadata.name,
            {"status": {"phase": phase}},
            "default",
            type=STRATEGIC_MERGE_PATCH,
            subresource="status",
        )

    async def settle(self, seconds: float = 5.0) -> None:
        """Let everybody do what they have to do."""
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], Any], seconds: float = 120.0) -> None:
        """Wait until an asynchronous condition holds."""
        async with asyncio.timeout(seconds):
            while not await holds():
                await self.clock.sleep(0.1)


def virtual(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Run a test of a world in virtual time."""

    async def body() -> None:
        async with running() as plane:
            await test(World(plane))

    def run() -> None:
        run_virtual(body())

    run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
    return run


def looks(plane: ControlPlane, controller: str) -> int:
    """How often a controller has looked at a key."""
    lines = plane.manager.registry.text().decode().splitlines()
    start = f'controller_runtime_reconcile_total{{controller="{controller}",'
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start)))
