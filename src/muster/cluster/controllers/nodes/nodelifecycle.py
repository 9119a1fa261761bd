"""Declare nodes lost when they have not renewed their Leases in time, and taint nodes that are not ready.

This is upstream's node lifecycle controller. For a renewal it only records the time, and reconciles a node again when
the node would be lost without another renewal. Time in which this process does not run does not count as silence. After
a laptop has slept, or the process was stopped, every node has its whole time again. Nodes that run in the server's own
process live as long as the server.
"""

from collections.abc import Container

from msgspec import Struct

from muster.api.conditions import find
from muster.api.config import Configuration
from muster.api.core import NODE, POD, Node, ObjectReference, Pod
from muster.api.groups.coordination import LEASE, Lease
from muster.api.nodes import is_ready
from muster.api.pods import is_finished
from muster.api.pods import is_ready as is_pod_ready
from muster.api.values.durations import SECOND
from muster.cluster.controllers.nodes.eviction import not_ready
from muster.cluster.controllers.nodes.nodehealth import (
    compute_patience,
    lost_conditions,
    owes_lease,
    read_readiness,
    wanted_taints,
)
from muster.cluster.indexes import BY_NODE, by_node
from muster.cluster.nodes.node_object import LEASE_NAMESPACE
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH
from muster.runtime.writes import Writes

# If a reconcile is delayed by more than this, the process was stopped or overloaded meanwhile.
STALL_SECONDS = 5.0
_AT_ONCE = 32
_WORKERS = 8


class _Watch(Struct):
    """A node whose Lease is watched. Times are in seconds of the monotonic clock.

    heard: the last sign of life.
    patience: for how many seconds the node may be silent.
    due: when the node will count as lost; None after it is lost.
    """

    heard: float
    patience: float
    due: float | None = None


class NodeLifecycle(Reconciler):
    """The node lifecycle controller: it marks nodes without renewals as lost, and taints unready nodes.

    It also marks the pods of lost nodes as not ready. A `Manager` runs it; its keys are names of nodes.

    own: the names of the nodes of the server's own process, which need no Lease.
    """

    name = "node-lifecycle-controller"

    def __init__(self, manager: Manager, recorder: Recorder, own: Container[str], configuration: Configuration) -> None:
        super().__init__(manager, workers=_WORKERS)
        self._recorder = recorder
        self._own = own
        self._grace = configuration.muster.nodes.monitor_grace_period / SECOND
        self._watched: dict[str, _Watch] = {}
        self._ready: set[str] = set()  # all ready nodes, including the server's own
        self._writes = Writes(_AT_ONCE)
        self._nodes = manager.informer(NODE)
        self._pods = manager.informer(POD, indexes={BY_NODE: by_node})
        manager.informer(LEASE).on_change(self._on_lease_changed)
        self._nodes.on_change(self._on_node_changed)

    def is_heard(self, name: str) -> bool:
        """Return whether a watched node has renewed its Lease within its allowed time."""
        watch = self._watched.get(name)
        return watch is not None and self._clock.monotonic() < watch.heard + watch.patience

    def _on_lease_changed(self, old: Lease | None, new: Lease | None) -> None:
        if new is None or new.metadata.namespace != LEASE_NAMESPACE or new.metadata.name in self._own:
            return
        if old is None or old.spec != new.spec:
            self._record_sign_of_life(new.metadata.name, compute_patience(self._grace, new))

    def _record_sign_of_life(self, name: str, patience: float) -> None:
        """Record that a node is alive now. patience: for how many seconds it may be silent from now on."""
        now = self._clock.monotonic()
        watch = self._watched.get(name)
        if watch is None:
            self._watched[name] = _Watch(now, patience)
            self._controller.queue.add(name)
            return
        is_sooner = patience < watch.patience
        watch.heard, watch.patience = now, patience
        if watch.due is None or is_sooner:
            self._controller.queue.add(name)

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        assert node is not None, "one of them is there"
        name = node.metadata.name
        was_disrupted = not self._ready
        if new is not None and is_ready(new):
            self._ready.add(name)
        else:
            self._ready.discard(name)
        if new is not None and name not in self._watched and name not in self._own and owes_lease(new):
            self._record_sign_of_life(name, self._grace)  # the node's first Lease may take as long
        watch = self._watched.get(name)
        if new is None:
            self._watched.pop(name, None)
        elif watch is not None:
            if old is not None and _find_report_time(old) != _find_report_time(new):
                self._record_sign_of_life(name, watch.patience)
            if old is None or read_readiness(old) != read_readiness(new) or old.spec.taints != new.spec.taints:
                self._controller.queue.add(name)
        if was_disrupted != (not self._ready):
            for each in self._watched:
                self._controller.queue.add(each)

    async def _reconcile(self, name: str) -> Result:
        node, watch = self._nodes.get(name), self._watched.get(name)
        if node is None or watch is None:
            return None
        left = self._compute_seconds_left(watch)
        if left <= 0:
            node = await self._declare_lost(node)
        await self._write_taints(node, is_silent=left <= 0)
        if read_readiness(node) == "Unknown":
            await self._mark_pods(name)
        return left if left > 0 else None

    def _compute_seconds_left(self, watch: _Watch) -> float:
        """Return for how many seconds the node may still be silent, and set `due` to the end of this time.

        A time in which this process did not run does not count as silence.
        """
        now = self._clock.monotonic()
        if watch.due is not None and now - watch.due > STALL_SECONDS:
            watch.heard = max(watch.heard, now)
        left = watch.heard + watch.patience - now
        watch.due = now + left if left > 0 else None
        return left

    async def _declare_lost(self, node: Node) -> Node:
        conditions = lost_conditions(node, self._clock.now())
        if not conditions:
            return node
        if is_ready(node):
            name = node.metadata.name
            subject = ObjectReference(kind=NODE.kind, api_version=NODE.api_version, name=name, uid=node.metadata.uid)
            message = f"Node {name} status is now: NodeNotReady"
            self._recorder.event(subject, "Normal", "NodeNotReady", message)
        patch = {"status": {"conditions": conditions}}
        return await self._client.patch_object(NODE, node, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")

    async def _write_taints(self, node: Node, *, is_silent: bool) -> None:
        """Write the taints of a node. Pods must leave a node that is silent, or reports that it is not ready.

        If no other node is ready, the cause may be the cluster and not the node, so no pod has to leave. A node that
        renews its Lease again keeps its pods, even before it has reported its conditions.
        """
        others_ready = len(self._ready) > (node.metadata.name in self._ready)
        evicts = others_ready and (is_silent or read_readiness(node) == "False")
        taints = wanted_taints(node, evicts=evicts, now=self._clock.now())
        if taints != node.spec.taints:
            patch = {"spec": {"taints": taints or None}}
            await self._client.patch_object(NODE, node, patch)

    async def _mark_pods(self, name: str) -> None:
        """Mark the pods of a lost node as not ready, because their node no longer does so."""

        async def mark(pod: Pod) -> None:
            status = {"conditions": [not_ready(self._clock.now())]}
            with ignoring("NotFound", "Conflict"):
                await self._client.patch_object(
                    POD, pod, {"status": status}, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )

        ready = [pod for pod in self._pods.by(BY_NODE, name) if is_pod_ready(pod) and not is_finished(pod)]
        for refusal in filter(None, await self._writes.each(mark, ready)):
            raise refusal


def _find_report_time(node: Node) -> object:
    ready = find(node.status.conditions, "Ready")
    return ready.last_heartbeat_time if ready is not None else None
