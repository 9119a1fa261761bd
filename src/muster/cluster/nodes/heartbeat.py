"""Registers a process node and says that it is alive: a Lease every ten seconds, its conditions when they change."""

import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from muster.api.coordination import LEASE
from muster.api.core import NAMESPACE, NODE, Namespace, Node, NodeStatus, NodeSystemInfo
from muster.api.embedded import PROCESS
from muster.api.meta import ObjectMeta
from muster.api.quantity import Quantity
from muster.api.status import ApiError
from muster.cluster.nodes import node_object
from muster.cluster.nodes.machine import machine
from muster.cluster.nodes.machine.machine import Machine
from muster.cluster.nodes.wire import to_wire
from muster.cluster.release import GIT_VERSION
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError

# Even if nothing changes, the node's status is written after this, as the kubelet does.
REPORT_SECONDS = 300.0
# Below this share of free disk the node says that it is under pressure.
_LEAST_FREE = 0.05
_VERSION = version("muster-batch")

log = logging.getLogger(__name__)


class Heartbeat:
    """The node's own object and lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        name: str,
        found: Machine,
        resources: Mapping[str, Quantity],
        state: Path,
        address: str,
    ) -> None:
        self._client = client
        self._clock = clock
        self._name = name
        self._machine = found
        self._resources = resources
        self._state = state
        self._address = address
        self._known = NodeStatus()  # as last written
        self._reported = 0.0
        self._uid = ""
        self._retired = False

    async def register(self) -> None:
        """Make the Node object, or bring the one from before up to date: until the server agrees, or we retire.

        A user's webhook may refuse it, and only a server that goes on can be told to forget that webhook.
        """
        while not self._retired:
            try:
                await self._register()
            except (ApiError, TransportError) as error:
                log.warning("%s: cannot register: %s", self._name, error)
                await self._clock.sleep(node_object.REGISTER_SECONDS)
            else:
                return

    async def _register(self) -> None:
        node = self._node()
        try:
            there = await self._client.create(NODE, node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            patch = {"metadata": {"labels": node.metadata.labels}}
            there = await self._client.patch(NODE, self._name, patch, type=STRATEGIC_MERGE_PATCH)
        self._uid = there.metadata.uid
        self._known = there.status
        await self._write_status(problem="")

    async def run(self) -> None:
        """Beat until cancelled. A server that does not answer is asked again at the next beat."""
        while True:
            try:
                await self._renew()
                if self._due():
                    await self._write_status(problem="")
            except (ApiError, TransportError) as error:
                log.warning("%s: heartbeat: %s", self._name, error)
            await self._clock.sleep(node_object.RENEW_SECONDS)

    async def retire(self) -> None:
        """Say that the node takes no more pods."""
        self._retired = True
        try:
            await self._write_status(problem="node is shutting down")
        except (ApiError, TransportError) as error:
            log.warning("%s: cannot say that it is shutting down: %s", self._name, error)

    def _due(self) -> bool:
        now = node_object.conditions(self._known.conditions, self._clock.now(), full_disk=self._full_disk())
        late = self._clock.monotonic() - self._reported >= REPORT_SECONDS
        return late or not node_object.same(now, self._known.conditions)

    async def _write_status(self, *, problem: str) -> None:
        node = self._node(problem)
        status: dict[str, Any] = to_wire(node.status)
        for part, had in (("capacity", self._known.capacity), ("allocatable", self._known.allocatable)):
            status[part] = {name: None for name in had if name not in status[part]} | status[part]
        written = await self._client.patch(
            NODE, self._name, {"status": status}, type=STRATEGIC_MERGE_PATCH, subresource="status"
        )
        self._known = written.status
        self._reported = self._clock.monotonic()

    async def _renew(self) -> None:
        now = self._clock.now()
        with ignoring("NotFound"):
            await self._client.patch(LEASE, self._name, {"spec": {"renewTime": now}}, node_object.LEASE_NAMESPACE)
            return
        await self._make_lease()

    async def _make_lease(self) -> None:
        lease = node_object.lease(self._name, self._uid, self._clock.now())
        with ignoring("NotFound"):
            await self._client.create(LEASE, lease)
            return
        await self._client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=node_object.LEASE_NAMESPACE)))
        await self._client.create(LEASE, lease)

    def _node(self, problem: str = "") -> Node:
        conditions = node_object.conditions(
            self._known.conditions, self._clock.now(), problem=problem, full_disk=self._full_disk()
        )
        labels = node_object.labels(self._name, PROCESS, self._machine.architecture, self._machine.labels)
        return node_object.node(self._name, labels, self._resources, self._address, self._info(), conditions)

    def _info(self) -> NodeSystemInfo:
        return NodeSystemInfo(
            machine_id=self._machine.machine_id,
            system_uuid=self._machine.machine_id,
            boot_id=self._machine.boot_id,
            kernel_version=self._machine.kernel,
            os_image=self._machine.os_image,
            container_runtime_version=f"process://{_VERSION}",
            kubelet_version=f"{GIT_VERSION}-{_VERSION}",
            operating_system="linux",
            architecture=self._machine.architecture,
        )

    def _full_disk(self) -> bool:
        return machine.free_disk_share(self._state) < _LEAST_FREE
