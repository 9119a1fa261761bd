"""An API server with a Workload controller and nothing else: no admission, no jobs. The test plays both.

What the controller sends can be cut off at any write; what the test sends always arrives.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
from tests.system.first_objects import seeded_plane
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World
from tests.system.queueing.queueing_world import get

from muster.api.config import Configuration
from muster.api.core import EVENT
from muster.api.kueue import WORKLOAD, Workload
from muster.api.meta import Condition
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.controllers.queueing.workload import WorkloadController
from muster.queueing.conditions import put
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random
from muster.runtime.metrics import Registry

START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class LifeWorld(World):
    """What a test says and sees."""

    def __init__(self, plane: ControlPlane, configuration: Configuration) -> None:
        super().__init__(plane)
        self.registry = Registry()
        self.wire: Wire
        self._configuration = configuration
        self._running: tuple[Manager, asyncio.Task[None]] | None = None

    async def start(self, writes: int | None = None) -> None:
        """Start a controller, whose connection dies after so many writes."""
        self.wire = Wire(InProcessTransport(self.plane.server))
        self.wire.writes_left = writes
        manager = Manager(Client(self.wire), self.clock, Random(3), registry=self.registry)
        sink = EventSink(self.client, self.clock, Ids(4), Random(4))
        manager.add(sink)
        manager.add(WorkloadController(manager, sink.recorder("kueue-workload-controller"), self._configuration))
        self._running = manager, asyncio.create_task(manager.run())
        await manager.ready.wait()

    async def kill(self) -> None:
        """Nothing that it sends arrives any more; then it is gone."""
        assert self._running is not None
        self.wire.writes_left = 0
        (manager, task), self._running = self._running, None
        await manager.stop()
        await task

    async def stop(self) -> None:
        if self._running is not None:
            await self.kill()

    @property
    def looks(self) -> int:
        """How often the controller has looked at a workload."""
        lines = self.registry.text().decode().splitlines()
        mine = (line for line in lines if line.startswith('controller_runtime_reconcile_total{controller="workload"'))
        return int(sum(float(line.rpartition(" ")[2]) for line in mine))

    # Playing admission, checks, users and jobs.

    async def set_status(self, name: str, **fields: Any) -> Workload:
        status = {key: msgspec.to_builtins(value) for key, value in fields.items()}
        return await self.client.patch(WORKLOAD, name, {"status": status}, "default", subresource="status")

    async def say(self, name: str, type: str, value: bool, reason: str) -> Workload:
        """Put a condition."""
        conditions = put((await get(self, name)).status.conditions, type, value, reason, "by test", self.clock.now())
        return await self.set_status(name, conditions=conditions)

    async def reserve(self, name: str, queue: str = "team", flavor: str = "default", cpu: str = "1") -> Workload:
        """Give it quota; its checks are left to the controller."""
        conditions: tuple[Condition, ...] = (await get(self, name)).status.conditions
        now = self.clock.now()
        for old in ("Evicted", "Preempted"):
            conditions = put(conditions, old, False, "QuotaReserved", "Previously", now)
        conditions = put(conditions, "QuotaReserved", True, "QuotaReserved", "by test", now)
        assignment = {"name": "main", "flavors": {"cpu": flavor}, "resourceUsage": {"cpu": cpu}, "count": 1}
        admission = {"clusterQueue": queue, "podSetAssignments": [assignment]}
        return await self.set_status(name, conditions=conditions, admission=admission)

    async def check(self, name: str, check: str, state: str, **more: Any) -> None:
        """Say how a check stands."""
        now = self.clock.now().replace(microsecond=0)
        states = msgspec.to_builtins((await get(self, name)).status.admission_checks)
        for one in states:
            if one["name"] == check:
                one |= {"state": state, "message": "by test", "lastTransitionTime": now, **more}
        await self.set_status(name, admissionChecks=states)

    async def activate(self, name: str, *, active: bool) -> None:
        await self.client.patch(WORKLOAD, name, {"spec": {"active": active}}, "default")

    async def told(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages of events about a workload, in the order in which they came up first."""
        events = (await self.client.list(EVENT, "default")).items
        events.sort(key=lambda event: (event.first_timestamp, int(event.metadata.resource_version)))
        return [(event.reason, event.message) for event in events if event.involved_object.name == name]


@asynccontextmanager
async def life(configuration: Configuration, *, writes: int | None = None) -> AsyncIterator[LifeWorld]:
    async with seeded_plane(VirtualClock(START), seed=1) as plane:
        world = LifeWorld(plane, configuration)
        await world.start(writes)
        try:
            yield world
        finally:
            await world.stop()


def living(
    configuration: Configuration,
) -> Callable[[Callable[[LifeWorld], Awaitable[None]]], Callable[[], None]]:
    """Run a test of a world in virtual time."""

    def decorate(test: Callable[[LifeWorld], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with life(configuration) as world:
                await test(world)

        def run() -> None:
            run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate
