"""A real control plane as a world: the words of the engine's scenarios, for a server that is reached over HTTPS."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.system.plane import World

from muster.api.batch import JOB
from muster.api.core import EVENT, NODE, POD, Node
from muster.api.core.quota import LIMIT_RANGE
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.groups.resource import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from muster.api.groups.runtimeclass import RUNTIME_CLASS
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    TOPOLOGY,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from muster.api.meta import ObjectMeta
from muster.api.podgroups import coscheduling, kep, kubebatch, sigs, volcano
from muster.cluster.nodes.simulated.leases import SimulatedLeases
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel
from muster.runtime.transport import Transport

# All is done if for so long nothing was written. kube-controller-manager gathers what it hears of pods for a second.
QUIET_SECONDS = 2.5

# Who waits for longer does it in virtual time alone: for quiet, of which a tenth is waited for, and for time to pass.
_FOR_QUIET, _FOR_TIME = 120.0, 60.0

# Of what a scenario makes, in the order in which it goes.
KINDS: tuple[Kind[Any], ...] = (
    JOB_SET, JOB, *(dialect.POD_GROUP for dialect in (kep, coscheduling, volcano, sigs, kubebatch)), POD, WORKLOAD,
    LOCAL_QUEUE, CLUSTER_QUEUE, COHORT, RESOURCE_FLAVOR, TOPOLOGY, ADMISSION_CHECK, WORKLOAD_PRIORITY_CLASS,
    PRIORITY_CLASS, RUNTIME_CLASS, LIMIT_RANGE, POD_DISRUPTION_BUDGET, RESOURCE_CLAIM_TEMPLATE, RESOURCE_CLAIM,
    RESOURCE_SLICE, DEVICE_CLASS, NODE,
)  # fmt: skip
# What still has finalizers then has them of a controller that there is not.
_FINALIZED_WITHIN = timedelta(seconds=10)
# Whose objects the cluster has by itself.
_SYSTEM = "system-"


class RealWorld(World):
    """What a scenario says and sees."""

    plane = property(lambda _: pytest.skip("it looks behind the wire"))

    def __init__(self, transport: Transport) -> None:
        self.client = Client(transport)
        self.clock = RealClock()
        self.random = Random()
        self._written = 0.0
        self._run: asyncio.Task[None]
        self._manager = Manager(self.client, self.clock, self.random)
        for kind in (*KINDS, EVENT):
            self._manager.informer(kind).on_change(self._note)
        self._alive: dict[str, asyncio.Task[None]] = {}  # by the UID of the node
        self._manager.informer(NODE).on_change(self._keep_alive)

    async def node(self, name: str, *, cpu: str = "4", **spec: Any) -> Node:
        """One that pods may go to: the node controller takes a taint away once it has seen that it is ready."""
        made = await super().node(name, cpu=cpu, **spec)
        wanted = len(spec.get("taints", ()))

        async def is_open() -> bool:
            return len((await self.client.get(NODE, name)).spec.taints) == wanted

        await self.until(is_open)
        return made

    async def settle(self, seconds: float = 5.0) -> None:
        """Until nothing is written any more."""
        _require_patience(seconds, _FOR_QUIET)
        self._note()  # it may be that what the test itself wrote is not heard of yet
        quiet = max(QUIET_SECONDS, seconds / 10)
        while (left := self._written + quiet - self.clock.monotonic()) > 0:
            await self.clock.sleep(left)

    async def elapse(self, seconds: float) -> None:
        """So much time, and until nothing is written any more."""
        _require_patience(seconds, _FOR_TIME)
        await self.clock.sleep(seconds)
        await self.settle()

    def _note(self, *_change: Any) -> None:
        self._written = self.clock.monotonic()

    def _keep_alive(self, old: Node | None, new: Node | None) -> None:
        """Renew a node's Lease: kube-controller-manager takes one for lost that has not shown itself for 50 s."""
        if old is None and new is not None:
            leases = SimulatedLeases(self._manager, [new.metadata.name])
            self._alive[new.metadata.uid] = asyncio.create_task(leases.run())
        elif old is not None and new is None:
            self._alive.pop(old.metadata.uid).cancel()

    async def start(self) -> None:
        """Hear of what is written."""
        self._run = asyncio.create_task(self._manager.run())
        await self._manager.ready.wait()

    async def stop(self) -> None:
        await cancel(self._alive.values())
        await self._manager.stop()
        await self._run

    async def clean(self, seconds: float = 60.0) -> None:
        """Remove all that scenarios make."""
        for event in (await self.client.list(EVENT)).items:
            await self._remove(EVENT, event)
        async with asyncio.timeout(seconds):
            while await self._left():
                await self.clock.sleep(0.2)

    async def _left(self) -> int:
        """Ask all of it to go; how much there still was."""
        found = [(kind, one) for kind in KINDS for one in (await self.client.list(kind)).items]
        mine = [(kind, one) for kind, one in found if not one.metadata.name.startswith(_SYSTEM)]
        await asyncio.gather(*(self._remove(kind, one) for kind, one in mine))
        return len(mine)

    async def _remove(self, kind: Kind[Any], one: Any) -> None:
        meta: ObjectMeta = one.metadata
        with ignoring("NotFound", "Conflict"):
            await self.client.delete_object(kind, one, grace_period_seconds=0)
            if (since := meta.deletion_timestamp) and self.clock.now() - since > _FINALIZED_WITHIN:
                nobodys = {"metadata": {"finalizers": None, "uid": meta.uid}}
                await self.client.patch(kind, meta.name, nobodys, meta.namespace)


def _require_patience(seconds: float, limit: float) -> None:
    if seconds > limit:
        pytest.skip(f"it waits for {seconds:g} s")
