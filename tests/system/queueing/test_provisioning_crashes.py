"""The controller of ProvisioningRequests killed after every single write: the next one comes to the same end."""

import asyncio

import msgspec
from tests.system.cluster.test_custom_kinds import DEFINITION
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, running
from tests.system.queueing import queueing_world
from tests.system.queueing.test_provisioning import CONFIG, CONTROLLER, served

from muster.api.config import DEFAULT
from muster.api.core import POD_TEMPLATE
from muster.api.groups.provisioning import PROVISIONING_REQUEST
from muster.api.kueue import (
    ADMISSION_CHECK,
    PROVISIONING_REQUEST_CONFIG,
    WORKLOAD,
    AdmissionCheck,
    ProvisioningRequestConfig,
)
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.controllers.provisioning.reconciler import ProvisioningController
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager


class Controller:
    """The controller alone. writes: after so many it is cut off."""

    def __init__(self, plane: ControlPlane, writes: int | None = None) -> None:
        self.wire = Wire(InProcessTransport(plane.server))
        self.wire.writes_left = writes
        inputs = plane.inputs
        self._manager = Manager(Client(self.wire), inputs.clock, inputs.random)
        self._manager.add(ProvisioningController(self._manager, plane.events.recorder("p"), DEFAULT))
        self._run = asyncio.create_task(self._manager.run())

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


async def reserve(world: World) -> None:
    """A workload that has quota, and a check that asks for room."""
    await world.client.create(DEFINITION, served())
    spec = {"controllerName": CONTROLLER, "parameters": CONFIG}
    check = {"metadata": {"name": "room"}, "spec": spec}
    await world.client.create(ADMISSION_CHECK, msgspec.convert(check, AdmissionCheck))
    config = {"metadata": {"name": "config"}, "spec": {"provisioningClassName": "best"}}
    await world.client.create(PROVISIONING_REQUEST_CONFIG, msgspec.convert(config, ProvisioningRequestConfig))
    await queueing_world.flavor(world)
    await queueing_world.workload(world, "w", "cq", count=2)
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "message": ""}
    assigned = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}, "count": 2}
    status = {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]},
        "conditions": [{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", **since}],
        "admissionChecks": [{"name": "room", "state": "Pending", **since}],
    }
    await world.client.patch(WORKLOAD, "w", {"status": status}, "default", subresource="status")


async def killed_after(writes: int) -> bool:
    """Whether it was killed."""
    async with running(controllers=False) as plane:
        world = World(plane)
        await reserve(world)
        first = Controller(plane, writes)
        await world.settle(30)
        await first.stop()
        second = Controller(plane)
        await world.settle(30)
        (request,) = (await world.client.list(PROVISIONING_REQUEST, "default")).items
        (template,) = (await world.client.list(POD_TEMPLATE, "default")).items
        assert request.metadata.name == "w-room-1", f"after {writes} writes"
        owners = [owner.uid for owner in template.metadata.owner_references]
        assert owners == [request.metadata.uid], f"after {writes} writes"
        done = [{"type": "Provisioned", "status": "True", "reason": "R", "message": "m"}]
        status = {"status": {"conditions": done}}
        await world.client.patch(PROVISIONING_REQUEST, "w-room-1", status, "default", subresource="status")
        await world.settle(30)
        await second.stop()
        (state,) = (await queueing_world.get(world, "w")).status.admission_checks
        assert (state.state, len(state.pod_set_updates)) == ("Ready", 1), f"after {writes} writes"
        return first.wire.writes_left == 0


def test_killed_after_each_write() -> None:
    writes = 0
    while run_virtual(killed_after(writes)):
        writes += 1
    assert writes >= 3
