"""Registers a process node and says that it is alive: a Lease every ten seconds, its conditions when they change.

A node whose object is deleted while it lives registers again, with all that it had of its own.
"""

import logging
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from muster.api.core import NAMESPACE, NODE, Namespace, Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from muster.api.groups.coordination import LEASE, micro_time
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, PROCESS
from muster.api.status import ApiError, conflict, not_found
from muster.api.values.quantity import Quantity
from muster.cluster.nodes import node_object
from muster.cluster.nodes.gpus.holding import Gpus
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
        port: int | None,
        gpus: Gpus,
        identity: str = "",
    ) -> None:
        """identity: of a machine that is a guest."""
        self._client = client
        self._clock = clock
        self._name = name
        self._machine = found
        self._resources = resources
        self._state = state
        self._address, self._port, self._identity = address, port, identity
        self._gpus = gpus
        self._known = NodeStatus()  # as last written
        self._reported = 0.0
        self._uid = ""
        self._problem = ""  # why the node takes no pods

    async def register(self) -> None:
        """Make the Node object, or bring the one from before up to date: until the server agrees, or we retire.

        A user's webhook may refuse it, and only a server that goes on can be told to forget that webhook.
        """
        while not self._problem:
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
            await self._require_ours()
            patch = {"metadata": {"labels": node.metadata.labels, "annotations": node.metadata.annotations}}
            there = await self._client.patch(NODE, self._name, patch, type=STRATEGIC_MERGE_PATCH)
        self._uid = there.metadata.uid
        self._known = there.status
        await self._write_status()

    async def _require_ours(self) -> None:
        """Raises `ApiError` (409) where the Node of our name has become another machine's."""
        if not self._identity:
            return
        there = await self._client.get(NODE, self._name)
        if there.metadata.annotations.get(NODE_IDENTITY) != self._identity:
            raise conflict("nodes", self._name, "it is another machine's now")

    async def run(self) -> None:
        """Beat until cancelled. A server that does not answer is asked again at the next beat."""
        while True:
            try:
                await self._beat()
            except (ApiError, TransportError) as error:
                log.warning("%s: heartbeat: %s", self._name, error)
            await self._clock.sleep(node_object.RENEW_SECONDS)

    async def retire(self) -> None:
        """Say that the node takes no more pods."""
        self._problem = "node is shutting down"
        try:
            await self._write_status()
        except (ApiError, TransportError) as error:
            log.warning("%s: cannot say that it is shutting down: %s", self._name, error)

    async def _beat(self) -> None:
        try:
            await self._renew()
            if self._due():
                await self._write_status()
        except ApiError as error:
            # A Node that is gone takes its Lease with it; one that was made anew has another UID.
            if self._problem or not (error.reason in ("NotFound", "Conflict") and await self._is_gone()):
                raise
            log.warning("%s: its Node object was deleted, and is made again", self._name)
            await self._register()
            await self._make_lease()

    async def _is_gone(self) -> bool:
        there = await self._client.find(NODE, self._name)
        return there is None or there.metadata.uid != self._uid

    def _due(self) -> bool:
        now = self._node().status
        late = self._clock.monotonic() - self._reported >= REPORT_SECONDS
        same = node_object.same(now.conditions, self._known.conditions)
        return late or not same or now.allocatable != self._known.allocatable

    async def _write_status(self) -> None:
        node = self._node()
        status: dict[str, Any] = to_wire(node.status)
        for part, had in (("capacity", self._known.capacity), ("allocatable", self._known.allocatable)):
            status[part] = {name: None for name in had if name not in status[part]} | status[part]
        patch = {"metadata": {"uid": self._uid, "annotations": self._gpus.annotations()}, "status": status}
        written = await self._client.patch(NODE, self._name, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")
        self._known = written.status
        self._reported = self._clock.monotonic()

    async def _renew(self) -> None:
        moment = micro_time(self._clock.now())
        with ignoring("NotFound"):
            await self._client.patch(LEASE, self._name, {"spec": {"renewTime": moment}}, node_object.LEASE_NAMESPACE)
            return
        if await self._is_gone():
            raise not_found("nodes", self._name)
        await self._make_lease()

    async def _make_lease(self) -> None:
        lease = node_object.lease(self._name, self._uid, micro_time(self._clock.now()))
        with ignoring("NotFound"):
            await self._client.create(LEASE, lease)
            return
        await self._client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=node_object.LEASE_NAMESPACE)))
        await self._client.create(LEASE, lease)

    def _conditions(self) -> tuple[NodeCondition, ...]:
        return node_object.conditions(
            self._known.conditions,
            self._clock.now(),
            problem=self._problem,
            full_disk=machine.has_full_disk(self._state),
            gpu_problem=self._gpus.problem() if self._gpus.devices else None,
        )

    def _node(self) -> Node:
        more = self._machine.labels | self._gpus.labels()
        labels = node_object.labels(self._name, PROCESS, self._machine.architecture, more)
        node = node_object.node(
            self._name,
            labels,
            self._resources,
            (NodeAddress(type="InternalIP", address=self._address), NodeAddress(type="Hostname", address=self._name)),
            self._info(),
            self._conditions(),
            port=self._port,
            lacking=self._gpus.lacking(),
            annotations=self._gpus.annotations(),
        )
        return node_object.of_guest(node, self._identity) if self._identity else node

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
