"""Register a process node, and renew its Lease.

The heartbeat also writes the node's conditions when they change. If the Node object is deleted, the node registers
again with everything that it reported before.

The server marks a guest (a machine that joined the cluster) as lost if the guest sends no renewals. So a guest reads
its Node at every beat, and at once corrects conditions that the server has written meanwhile. Each renewal moves the
guest's fence.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from muster.api.core import NAMESPACE, NODE, Namespace, Node, NodeAddress, NodeCondition, NodeStatus, NodeSystemInfo
from muster.api.groups.coordination import LEASE, Lease, micro_time
from muster.api.meta import ObjectMeta
from muster.api.ours.embedded import NODE_IDENTITY, PROCESS, SERVER_MACHINE
from muster.api.ours.gpus import GPUS_ANNOTATION
from muster.api.ours.release import VERSION
from muster.api.status import ApiError, conflict, not_found
from muster.api.values.quantity import Quantity
from muster.cluster.nodes import node_object
from muster.cluster.nodes.fence import Fence
from muster.cluster.nodes.gpus.holding import Gpus
from muster.cluster.nodes.machine import machine
from muster.cluster.nodes.machine.machine import Machine
from muster.cluster.nodes.shim.fence import NANOSECONDS
from muster.cluster.nodes.wire import node_status_patch
from muster.cluster.release import GIT_VERSION
from muster.runtime.client import Client
from muster.runtime.clock import Clock, boot_nanoseconds
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, TransportError

# After this time the node writes its status even without a change, as the kubelet does.
REPORT_SECONDS = 300.0
# How many times a Lease is renewed within its duration, and how much sooner a failed renewal is retried.
_RENEWALS, _RETRIES = 4, 5

log = logging.getLogger(__name__)


class Moment(Struct, frozen=True):
    """A time on two clocks: the node agent's clock, in seconds, and the machine's boot clock, in nanoseconds."""

    monotonic: float
    boot: int

    def seconds_since(self, earlier: "Moment") -> float:
        """Return the seconds between two moments.

        If the two clocks differ, return the longer time: only the machine's boot clock runs while the machine sleeps.
        """
        return max(self.monotonic - earlier.monotonic, (self.boot - earlier.boot) / NANOSECONDS)


class Heartbeat:
    """The writer of a node's Node object and Lease."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        name: str,
        node_machine: Machine,
        resources: Mapping[str, Quantity],
        disks: Sequence[Path],
        address: str,
        port: int | None,
        gpus: Gpus,
        identity: str = "",
        holder: str = "",
        lease_seconds: int = node_object.LEASE_SECONDS,
        fence: Fence | None = None,
        annotations: Mapping[str, str] = node_object.NO_ANNOTATIONS,
    ) -> None:
        """Make the heartbeat of a node.

        annotations: further annotations of the Node, as long as this agent runs.
        disks: the directories that the node needs; a full disk makes the node reject pods.
        identity: the identity of a guest's machine; "" for a node of the server's own machine.
        holder: the holder identity in the Lease; by default the node's name.
        """
        self._client = client
        self._clock = clock
        self._name = name
        self._machine = node_machine
        self._resources = resources
        self._disks = disks
        self._annotations = annotations
        self._address, self._port, self._identity = address, port, identity
        self._gpus = gpus
        self._holder, self._lease_seconds, self._fence = holder or name, lease_seconds, fence
        self.last_renewal = self._get_moment()  # when the last renewal that counts was sent
        self._last_answered = self.last_renewal  # when the last renewal that succeeded was sent
        self._is_late = False  # the last renewal that succeeded does not count
        self._known_status = NodeStatus()  # the status as last written
        self._reported_at = 0.0
        self._uid = ""
        self._term: int | None = None  # the Lease's transitions when it became ours
        self._trouble = ""  # why the last beat failed
        self._problem = ""  # why the node accepts no pods

    def silent_seconds(self) -> float:
        """Return the seconds since the last renewal that counts was sent, including time in which the machine slept."""
        return self._get_moment().seconds_since(self.last_renewal)

    async def register(self) -> None:
        """Create or update the Node object, and retry until the server accepts it or the node shuts down.

        A user's webhook may refuse the object, and the user can remove that webhook only while the server runs.
        """
        while not self._problem:
            try:
                await self._register()
                if self._identity:  # the fence must be set before the node accepts pods
                    await self._renew_lease()
            except (ApiError, TransportError) as error:
                log.warning("%s: cannot register: %s", self._name, error)
                await self._clock.sleep(node_object.REGISTER_SECONDS)
            else:
                return

    async def _register(self) -> None:
        node = self._make_node()
        try:
            present = await self._client.create(NODE, node)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._check_identity()
            patch = {"metadata": {"labels": node.metadata.labels, "annotations": node.metadata.annotations}}
            present = await self._client.patch(NODE, self._name, patch, type=STRATEGIC_MERGE_PATCH)
        self._uid = present.metadata.uid
        self._known_status = present.status
        await self._write_status()

    async def _check_identity(self) -> None:
        """Raise `ApiError` (409) if the Node of this name belongs to another machine."""
        present = await self._client.get(NODE, self._name)
        other = present.metadata.annotations.get(NODE_IDENTITY, "")
        if other == self._identity:
            return
        if not self._identity:
            why = "a joined machine has this name: let it join by another --name, and delete this Node"
            raise conflict("nodes", self._name, why)
        raise conflict("nodes", self._name, "it belongs to another machine now")

    async def run(self) -> None:
        """Renew the Lease and update the Node until cancelled. Retry sooner after a failure."""
        while True:
            pause = self._lease_seconds / _RENEWALS
            try:
                async with asyncio.timeout(pause):
                    await self._report_once()
            except (
                ApiError,
                TransportError,
                OSError,
            ) as error:  # OSError: no answer in time, or the fence could not be written
                self._log_trouble(str(error) or f"no answer within {pause:g} s")
                pause /= _RETRIES
            else:
                self._log_trouble("")
                pause /= _RETRIES if self._is_late else 1
            await self._clock.sleep(pause)

    def _log_trouble(self, trouble: str) -> None:
        """Log why the node cannot reach the server, unless the last log entry gave the same reason.

        trouble: the reason; "" means that the node reaches the server.
        """
        if trouble and trouble != self._trouble:
            log.warning("%s: heartbeat: %s", self._name, trouble)
        elif self._trouble and not trouble:
            log.warning("%s: heartbeat: the server is reached again", self._name)
        self._trouble = trouble

    async def report_shutdown(self) -> None:
        """Report that the node shuts down and accepts no more pods."""
        self._problem = "node is shutting down"
        try:
            await self._write_status()
        except (ApiError, TransportError) as error:
            log.warning("%s: cannot report that the node is shutting down: %s", self._name, error)

    async def _report_once(self) -> None:
        try:
            await self._renew_lease()
            if self._identity:
                await self._read_node()
            if self._is_status_due():
                await self._write_status()
        except ApiError as error:
            # The Lease is deleted with its Node; a Node that was created again has another UID.
            if self._problem or not (error.reason in ("NotFound", "Conflict") and await self._is_gone()):
                raise
            await self._register()
            log.warning("%s: its Node object was deleted, and is created again", self._name)
            await self._renew_lease()

    async def _read_node(self) -> None:
        """Read the Node from the server, and store its status. Raises `ApiError` (404) if it is deleted or replaced."""
        present = await self._client.get(NODE, self._name)
        if present.metadata.uid != self._uid:
            raise not_found("nodes", self._name)
        self._known_status = present.status

    async def _is_gone(self) -> bool:
        present = await self._client.find(NODE, self._name)
        return present is None or present.metadata.uid != self._uid

    def _is_status_due(self) -> bool:
        now = self._make_node().status
        late = self._clock.monotonic() - self._reported_at >= REPORT_SECONDS
        same = node_object.is_same(now.conditions, self._known_status.conditions)
        return late or not same or now.allocatable != self._known_status.allocatable

    async def _write_status(self) -> None:
        node = self._make_node()
        annotations = {GPUS_ANNOTATION: None} | self._gpus.annotations()
        meta = {"uid": self._uid, "annotations": annotations}
        patch = {"metadata": meta} | node_status_patch(self._known_status, node.status)
        written = await self._client.patch(NODE, self._name, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")
        self._known_status = written.status
        self._reported_at = self._clock.monotonic()

    async def _renew_lease(self) -> None:
        """Renew the Lease. Raises `ApiError`.

        The error's code is 404 if the Node is deleted, and 409 if another agent with this node name has taken the
        Lease.
        """
        moment, sent = micro_time(self._clock.now()), self._get_moment()
        lease: Lease | None = None
        with ignoring("NotFound"):
            renewal = {"spec": {"renewTime": moment}}
            lease = await self._client.patch(LEASE, self._name, renewal, node_object.LEASE_NAMESPACE)
        if lease is None:
            if await self._is_gone():
                raise not_found("nodes", self._name)
            await self._make_lease()
        elif (lease.spec.holder_identity, lease.spec.lease_duration_seconds) != (self._holder, self._lease_seconds):
            await self._take_lease(lease)
        else:
            self._term = lease.spec.lease_transitions or 0
        self._count_renewal(sent)

    def _count_renewal(self, sent: Moment) -> None:
        """Count a renewal of the Lease, and move the fence, unless the Lease had expired before the renewal.

        When a late renewal is sent, the server may already be replacing the pods. The watch shows such replacements to
        the node before the next renewal, which counts again. Raises OSError.

        sent: when the renewal was sent.
        """
        self._is_late = sent.seconds_since(self._last_answered) > self._lease_seconds
        self._last_answered = sent
        if self._is_late:
            return
        if self._fence is not None:
            self._fence.record_renewal(sent.boot, self._lease_seconds)
        self.last_renewal = sent

    def _get_moment(self) -> Moment:
        return Moment(self._clock.monotonic(), boot_nanoseconds())

    async def _take_lease(self, lease: Lease) -> None:
        """Make this agent the holder of a Lease that an earlier agent held, or that a restored backup contains.

        Raises `ApiError` (409) if another agent has taken the Lease after this agent.
        """
        term = lease.spec.lease_transitions or 0
        if self._term is not None and term > self._term:
            raise conflict("leases", self._name, f"another agent of this node holds it: {lease.spec.holder_identity}")
        term = max(term, self._term or 0) + 1
        changes = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": self._lease_seconds,
            "leaseTransitions": term,
        }
        await self._client.patch_object(LEASE, lease, {"spec": changes})
        self._term = term

    async def _make_lease(self) -> None:
        moment = micro_time(self._clock.now())
        lease = node_object.make_lease(self._name, self._uid, moment, self._holder, self._lease_seconds)
        with ignoring("NotFound"):
            await self._client.create(LEASE, lease)
            return
        await self._client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name=node_object.LEASE_NAMESPACE)))
        await self._client.create(LEASE, lease)

    def _make_conditions(self) -> tuple[NodeCondition, ...]:
        return node_object.make_conditions(
            self._known_status.conditions,
            self._clock.now(),
            problem=self._problem,
            full_disk=machine.find_full_disk(self._disks),
            gpu_problem=self._gpus.problem() if self._gpus.devices else None,
        )

    def _make_node(self) -> Node:
        local = {} if self._identity else {SERVER_MACHINE: "true"}
        more = self._machine.labels | self._gpus.labels() | local
        labels = node_object.make_labels(self._name, PROCESS, self._machine.architecture, more)
        node = node_object.make_node(
            self._name,
            labels,
            self._resources,
            (NodeAddress(type="InternalIP", address=self._address), NodeAddress(type="Hostname", address=self._name)),
            self._make_info(),
            self._make_conditions(),
            port=self._port,
            lacking=self._gpus.count_unhealthy(),
            annotations={**self._gpus.annotations(), **self._annotations},
        )
        return node_object.make_joined_node(node, self._identity) if self._identity else node

    def _make_info(self) -> NodeSystemInfo:
        return NodeSystemInfo(
            machine_id=self._machine.machine_id,
            system_uuid=self._machine.machine_id,
            boot_id=self._machine.boot_id,
            kernel_version=self._machine.kernel,
            os_image=self._machine.os_image,
            container_runtime_version=f"process://{VERSION}",
            kubelet_version=f"{GIT_VERSION}-{VERSION}",
            operating_system="linux",
            architecture=self._machine.architecture,
        )
