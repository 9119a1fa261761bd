"""A control plane in virtual time, and a few words to play nodes with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeAlias

import msgspec
from tests.system.first_objects import seeded_plane

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, Configuration, load
from muster.api.core import NAMESPACE, NODE, POD, Namespace, Node, Pod
from muster.api.meta import ObjectMeta
from muster.cluster.apiserver.access.control import Trust
from muster.cluster.apiserver.cel import device_matches
from muster.cluster.controlplane import ControlPlane, MakeDefinitions
from muster.controllers.engine import Part, assemble
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.table import INTEGRATIONS
from muster.runtime.client import Client
from muster.runtime.clock import Clock, VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.refusals import ignoring
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
    engine: Collection[Part] = tuple(Part),
    make_definitions: MakeDefinitions = tuple,
) -> AsyncIterator[ControlPlane]:
    """A control plane whose controllers run, or these parts of the engine alone. Only on a virtual loop.

    engine: of the controllers, the parts of the engine that run too.
    make_definitions: makes those of kinds that are built in.
    """
    given = (configuration, trust, integrations, make_definitions)
    async with seeded_plane(VirtualClock(), seed, *given) as plane:
        if parts:
            manager, events = plane.manager, plane.events
            assemble(manager, events, configuration, parts, integrations, matches=device_matches)
        elif controllers:
            plane.add_controllers(engine)
        run = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        try:
            yield plane
        finally:
            await plane.manager.stop()
            await run


# Keep an object from the collector, which removes what names an owner of another namespace.
STAYS = ("example.org/stays",)


class World:
    """What a test says and sees."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.client: Client = plane.client()
        self.clock: Clock = plane.inputs.clock
        self.random = plane.inputs.random

    async def node(self, name: str, *, cpu: str = "4", **spec: Any) -> Node:
        """A ready node, just heard of: kube-controller-manager would take it for one of its name before."""
        await self.client.create(NODE, msgspec.convert({"metadata": {"name": name}, "spec": spec}, Node))
        amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        heard = self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        status = {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "R", "message": "m", "lastHeartbeatTime": heard}
            ],
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

    async def copy_elsewhere(self, pod: Pod) -> Pod:
        """Make a pod of another namespace that names the same owners, as its user may."""
        with ignoring("AlreadyExists"):
            await self.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="other")))
        old = pod.metadata
        copy = ObjectMeta(
            name="stranger",
            labels=old.labels,
            annotations=old.annotations,
            owner_references=old.owner_references,
            finalizers=STAYS,
        )
        spec = msgspec.structs.replace(pod.spec, node_name="")
        return await self.client.create(POD, Pod(metadata=copy, spec=spec), "other")

    async def settle(self, seconds: float = 5.0) -> None:
        """Let all do what they have to do. On a real clock that is when nothing is written any more."""
        await self.clock.sleep(seconds)

    async def elapse(self, seconds: float) -> None:
        """Let so much time pass, where something takes its time, on any clock."""
        await self.clock.sleep(seconds)

    async def until(self, holds: Callable[[], Any], seconds: float = 120.0) -> None:
        """Wait until an asynchronous condition holds."""
        async with asyncio.timeout(seconds):
            while not await holds():
                await self.clock.sleep(0.1)


@asynccontextmanager
async def alone(make: Callable[[Manager, Recorder], Reconciler]) -> AsyncIterator[World]:
    """A world in which one controller runs and nobody else: nothing collects what names a wrong owner."""
    async with running(controllers=False) as plane:
        manager = Manager(plane.client(), plane.inputs.clock, plane.inputs.random)
        manager.add(make(manager, plane.events.recorder("alone")))
        run = asyncio.create_task(manager.run())
        await manager.ready.wait()
        yield World(plane)
        await manager.stop()
        await run


Scenario: TypeAlias = Callable[[World], Awaitable[None]]

# Plays a scenario on another control plane than the embedded one, under these settings: tests/cluster sets it for its
# own.
ELSEWHERE: ContextVar[Callable[[str, Scenario], None] | None] = ContextVar("elsewhere", default=None)


@cache  # nearly all tests have the same
def settings(text: str) -> Configuration:
    """Those of an embedded cluster, but for what the text says of a Configuration, in YAML."""
    return load(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{text}", embedded=True)


def under(text: str) -> Callable[[Scenario], Callable[[], None]]:
    """Run a test of a world, in virtual time, under these settings."""

    def decorate(test: Scenario) -> Callable[[], None]:
        async def body() -> None:
            async with running(configuration=settings(text)) as plane:
                await test(World(plane))

        def run() -> None:
            if (elsewhere := ELSEWHERE.get()) is not None:
                elsewhere(text, test)
            else:
                run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate


def virtual(test: Scenario) -> Callable[[], None]:
    """Run a test of a world in virtual time."""
    return under("")(test)


def looks(plane: ControlPlane, controller: str) -> int:
    """How often a controller has looked at a key."""
    lines = plane.manager.registry.text().decode().splitlines()
    start = f'controller_runtime_reconcile_total{{controller="{controller}",'
    return int(sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start)))
