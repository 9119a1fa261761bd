"""Replace a lost node of a workload's topology assignment, or restart the workload if no other node fits.

A node is lost to a workload if it is deleted, or if it is not ready for a while, cordoned or tainted, and no pod of the
workload runs there any more. First, the Workload's status names the node (`status.unhealthyNodes`), so that no more
pods are assigned to it. A second later, the workload gets another node. The new assignment counts at once, in the
ledger; its write follows. If several nodes are lost, the whole workload restarts, as in upstream. A node that recovers
before that is removed from the status.

A pod that was assigned to a lost node and has not reached it cannot be assigned to another:

- If no pod of the workload runs, the workload restarts, which does not count as a failure of its job.
- If other pods run, such pods fail, as in upstream, and their controller recreates them.
- Late pods fail as well: pods that were assigned to a node which the workload no longer has, and pods without any
  admission.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from muster.api.conditions import find, is_true
from muster.api.config.features import FeatureGates
from muster.api.core import NODE, POD, Node, Pod, Taint, Toleration
from muster.api.kueue import WORKLOAD, UnhealthyNode, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    EVICTED_DUE_TO,
    FINISHED,
    NODE_FAILURES,
    POD_SET_LABEL,
    WORKLOAD_ANNOTATION,
)
from muster.api.meta import controller_of
from muster.api.nodes import HOSTNAME_LABEL, is_ready, taints_of
from muster.api.pods import is_active
from muster.api.values.taints import find_untolerated_taint
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.indexes import PODS_BY_WORKLOAD, by_workload
from muster.controllers.queueing.ungater import waits
from muster.queueing.model import FlavorSpec, Places, WorkloadInfo
from muster.queueing.topology.conversion import assignment_of, domains_of
from muster.queueing.topology.replacement import SINGLE_NODES, describe_eviction, hosts_of, lost_of, replace_in_all
from muster.queueing.workload.eviction import evict
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, make_reference, merge_patch
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# The time after which a node that is not ready is lost (upstream NodeFailureDelay).
DELAY_SECONDS = 30.0

# Until the ungater observes a replacement, it may still assign pods to the former node. For this time a lost node is in
# the Workload's status before it is replaced (upstream: its second pass).
AGAIN_SECONDS = 1.0

# The condition with which upstream explains the failure of a pod that never ran.
_UNSCHEDULABLE = {
    "type": "TerminatedByKueue",
    "status": "True",
    "reason": "UnschedulableOnAssignedNode",
    "message": "The pod had not reached its node when the node was lost; its workload has another node now",
}

# The taint that kube-controller-manager adds to a cordoned node.
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")

_BY_HOST = "topology-host"
_BY_PLACE = "topology-place"


class NodeReplacement(Reconciler):
    """The reconciler that replaces lost nodes in the topology assignments of workloads."""

    name = "topology-node-replacement"

    def __init__(self, manager: Manager, cache: QueueingCache, recorder: Recorder, features: FeatureGates) -> None:
        super().__init__(manager)
        self._cache = cache
        self._is_on = features.is_enabled("TASFailedNodeReplacement")
        self._fails_fast = features.is_enabled("TASFailedNodeReplacementFailFast")
        self._waits_for_pods = features.is_enabled("TASReplaceNodeOnPodTermination")
        self._heeds_taints = features.is_enabled("TASReplaceNodeOnNodeTaints")
        self._named_until: dict[str, float] = {}  # by workload: the earliest time to replace its lost node
        self._recorder = recorder
        self._nodes = manager.informer(NODE, indexes={_BY_HOST: _list_hosts})
        self._pods = manager.informer(POD, indexes={PODS_BY_WORKLOAD: by_workload})
        self._workloads = manager.informer(WORKLOAD, indexes={_BY_PLACE: _list_assigned_hosts})
        self._nodes.on_change(self._on_node_changed)
        self._pods.on_change(self._on_pod_changed)
        self._controller.watch(cache.workloads, when=_has_hosts)

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None and _read_health(old) == _read_health(new):
            return
        node = new if new is not None else old
        assert node is not None
        for host in _list_hosts(node):
            for workload in self._workloads.by(_BY_PLACE, host):
                self._controller.queue.add(key_of(workload))

    def _on_pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and is_active(old) and (new is None or not is_active(new)):
            for key in by_workload(old):
                self._controller.queue.add(key)
        elif old is None and new is not None and _was_sent(new):
            for key in by_workload(new):
                self._controller.queue.add_after(key, AGAIN_SECONDS)

    async def _reconcile(self, key: str) -> Result:
        """Handle the lost nodes of a workload's assignment; return the seconds until the next reconcile, or None.

        If pods are stuck and none runs, the workload is evicted. Otherwise a single lost node is first recorded in the
        status, and lost nodes are replaced.
        """
        workload, holder = self._cache.latest(key), self._cache.tree.holder(key)
        if holder is None:
            self._named_until.pop(key, None)
        if workload is None or not self._is_on or self._cache.is_assumed(key) or _is_of_one_pod(workload):
            return None
        if _is_awaiting_admission(workload):
            pods = self._pods.by(PODS_BY_WORKLOAD, key)
            await self._fail(pod for pod in pods if WORKLOAD_ANNOTATION in pod.metadata.annotations and _is_stray(pod))
            return None
        if holder is None or not _is_running(workload):
            return None
        seconds_left = {
            host: self._compute_seconds_until_lost(key, host, holder) for host in sorted(hosts_of(holder.places))
        }
        unhealthy = {node.name for node in workload.status.unhealthy_nodes}
        lost_hosts = [host for host, seconds in seconds_left.items() if seconds == 0]
        stuck = self._find_stuck_pods(key, holder, lost_hosts)
        if stuck and not any(pod.spec.node_name and is_active(pod) for pod in self._pods.by(PODS_BY_WORKLOAD, key)):
            hosts = ", ".join(sorted({pod.spec.node_selector[HOSTNAME_LABEL] for pod in stuck}))
            await self._evict(
                workload, f"Workload was evicted as its pods had not started when their node failed: {hosts}"
            )
        elif len(lost_hosts) == 1 and unhealthy != {*lost_hosts}:
            await self._mark(workload, lost_hosts)
            return AGAIN_SECONDS
        elif lost_hosts:
            wait = self._named_until.get(key, 0.0) - self._clock.monotonic()
            if wait > 0:
                return wait
            self._named_until.pop(key, None)
            return await self._replace(workload, holder, lost_hosts)
        else:
            if unhealthy:
                await self._mark(workload, ())
                self._named_until.pop(key, None)
            await self._fail(stuck)
        return min((seconds for seconds in seconds_left.values() if seconds is not None), default=None)

    def _find_stuck_pods(self, key: str, holder: WorkloadInfo, lost_hosts: Collection[str]) -> list[Pod]:
        """Return the pods that were assigned to a lost node, or to an unusable node that the workload no longer has.

        Only podsets with assignments by node assign their pods to nodes: other pods may have selected a node
        themselves.
        """
        hosts = {places.podset: hosts_of([places]) for places in holder.places if places.levels == SINGLE_NODES}
        return [
            pod
            for pod in self._pods.by(PODS_BY_WORKLOAD, key)
            if (podset := pod.metadata.labels.get(POD_SET_LABEL, "")) in hosts
            and (host := pod.spec.node_selector.get(HOSTNAME_LABEL, ""))
            and (host in lost_hosts or not (host in hosts[podset] or self._can_take(host, pod.spec.tolerations)))
            and _is_stray(pod)
        ]

    def _can_take(self, host: str, tolerations: Iterable[Toleration]) -> bool:
        """Return whether pods with these tolerations may run on a node."""
        return any(is_ready(node) and not self._is_closed(node, tolerations) for node in self._nodes.by(_BY_HOST, host))

    def _is_closed(self, node: Node, tolerations: Iterable[Toleration]) -> bool:
        """Return whether a node is cordoned, or has a taint that the pods do not tolerate without a time limit."""
        lasting = tuple(one for one in tolerations if one.toleration_seconds is None)
        cordon = (_CORDON,) if node.spec.unschedulable else ()
        return self._heeds_taints and find_untolerated_taint((*taints_of(node), *cordon), lasting) is not None

    def _is_closed_to_podset(self, node: Node, host: str, holder: WorkloadInfo) -> bool:
        """Return whether a podset with pods assigned to a node may run no more pods there."""
        flavors, specs = self._cache.flavors, {podset.name: podset for podset in holder.podsets}
        return any(
            self._is_closed(node, (*specs[one.podset].tolerations, *_list_flavor_tolerations(one, flavors)))
            for one in holder.places
            if host in hosts_of([one])
        )

    async def _fail(self, pods: Iterable[Pod]) -> None:
        """Fail pods that cannot reach their node.

        Raises `ApiError` (Conflict) if a pod has changed, because it may have reached its node after all.
        """
        now = self._clock.now().replace(microsecond=0)
        status = {"phase": "Failed", "conditions": [_UNSCHEDULABLE | {"lastTransitionTime": now}]}
        for pod in pods:
            with ignoring("NotFound"):
                await self._client.patch_object(
                    POD, pod, {"status": status}, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )

    def _compute_seconds_until_lost(self, key: str, host: str, holder: WorkloadInfo) -> float | None:
        """Return the seconds until a node counts as lost to a workload; None if it does not in its current state."""
        node = next(iter(self._nodes.by(_BY_HOST, host)), None)
        if node is None:
            return 0.0
        ready = find(node.status.conditions, "Ready")
        if is_ready(node):
            if not self._is_closed_to_podset(node, host, holder):
                return None
        elif ready is None or ready.last_transition_time is None:
            return None
        else:
            seconds_left = DELAY_SECONDS - (self._clock.now() - ready.last_transition_time).total_seconds()
            if seconds_left > 0:
                return seconds_left
        pods = [pod for pod in self._pods.by(PODS_BY_WORKLOAD, key) if pod.spec.node_name == node.metadata.name]
        if self._waits_for_pods and any(map(is_active, pods)):
            return None
        succeeded = sum(pod.status.phase == "Succeeded" for pod in pods)
        return None if succeeded and succeeded >= sum(lost_of(one, host) for one in holder.places) else 0.0

    async def _mark(self, workload: Workload, lost_hosts: Sequence[str]) -> None:
        """Write the lost nodes to the status of the Workload, in place of the nodes named there; () removes them."""
        self._named_until[key_of(workload)] = self._clock.monotonic() + AGAIN_SECONDS
        status = msgspec.structs.replace(
            workload.status, unhealthy_nodes=tuple(UnhealthyNode(name=one) for one in lost_hosts)
        )
        patch = {"status": merge_patch(status, workload.status)}
        self._cache.wrote(await self._client.patch_object(WORKLOAD, workload, patch, subresource="status"))

    async def _replace(self, workload: Workload, holder: WorkloadInfo, lost_hosts: Sequence[str]) -> float:
        """Assign another node to the workload, or evict it; return the seconds until the next reconcile."""
        ledger, flavors = self._cache.tree.ledger, self._cache.flavors
        places = replace_in_all(holder, flavors, ledger, lost_hosts[0]) if len(lost_hosts) == 1 else ""
        if isinstance(places, str):
            if places and not self._fails_fast:
                return DELAY_SECONDS
            await self._evict(workload, describe_eviction(lost_hosts, places))
            return AGAIN_SECONDS
        self._cache.tree.hold(replace(holder, places=places))
        self._cache.assume(holder.key)
        result = workload
        try:
            status = with_places(workload.status, places)
            patch = {"status": merge_patch(status, workload.status)}
            result = await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        finally:
            self._cache.settle(holder.key, result)
        return AGAIN_SECONDS

    async def _evict(self, workload: Workload, message: str) -> None:
        status = evict(workload.status, NODE_FAILURES, message, self._clock.now())
        patch = {"status": merge_patch(status, workload.status)}
        await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        about = make_reference(WORKLOAD, workload)
        self._recorder.event(about, "Normal", f"{EVICTED_DUE_TO}{NODE_FAILURES}", message)


def with_places(status: WorkloadStatus, new_places: Sequence[Places]) -> WorkloadStatus:
    """Return the status of a workload with new topology domains for its pods, and without lost nodes."""
    assert status.admission is not None, "it has places"
    by_name = {places.podset: assignment_of(places) for places in new_places}
    podsets = tuple(
        msgspec.structs.replace(one, topology_assignment=by_name.get(one.name, one.topology_assignment))
        for one in status.admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(status.admission, pod_set_assignments=podsets)
    return msgspec.structs.replace(status, admission=admission, unhealthy_nodes=())


def _list_assigned_hosts(workload: Workload) -> Iterable[str]:
    """Return the nodes of a workload's topology assignment; none if its domains are not single nodes."""
    admission = workload.status.admission
    assignments = [one.topology_assignment for one in admission.pod_set_assignments] if admission is not None else []
    return {
        values[-1]
        for one in assignments
        if one is not None and one.levels == SINGLE_NODES
        for values, _ in domains_of(one)
    }


def _list_hosts(node: Node) -> Iterable[str]:
    host = node.metadata.labels.get(HOSTNAME_LABEL)
    return [host] if host else []


def _has_hosts(old: Workload | None, new: Workload | None) -> bool:  # noqa: ARG001  (the old state does not matter)
    admission = new.status.admission if new is not None else None
    assignments = admission.pod_set_assignments if admission is not None else ()
    return any(one.topology_assignment is not None for one in assignments)


def _read_health(node: Node) -> tuple[bool, bool, tuple[Taint, ...]]:
    return is_ready(node), bool(node.spec.unschedulable), taints_of(node)


def _list_flavor_tolerations(places: Places, flavors: Mapping[str, FlavorSpec]) -> Iterator[Toleration]:
    """Yield the tolerations that pods get from their flavors."""
    for name in places.flavors:
        if (flavor := flavors.get(name)) is not None:
            yield from flavor.tolerations


def _was_sent(pod: Pod) -> bool:
    """Return whether a pod must run on one node, has not reached it, and has no scheduling gate."""
    is_sent = bool(pod.spec.node_selector.get(HOSTNAME_LABEL)) and not waits(pod)
    return is_sent and not pod.spec.node_name and is_active(pod)


def _is_stray(pod: Pod) -> bool:
    """Return whether a pod was assigned to a node, has not reached it, and has a controller that replaces it."""
    return _was_sent(pod) and controller_of(pod.metadata) is not None


def _is_of_one_pod(workload: Workload) -> bool:
    """Return whether the workload is a single pod, which cannot be assigned to another node.

    The rule is upstream's SkipReassignmentForPodOwnedWorkloads.
    """
    return [owner.kind for owner in workload.metadata.owner_references] == [POD.kind]


def _is_awaiting_admission(workload: Workload) -> bool:
    """Return whether the workload has no admission although it is neither evicted nor finished."""
    conditions = workload.status.conditions
    ended = is_true(conditions, EVICTED) or is_true(conditions, FINISHED)
    return workload.status.admission is None and not ended


def _is_running(workload: Workload) -> bool:
    conditions = workload.status.conditions
    ended = is_true(conditions, EVICTED) or is_true(conditions, FINISHED)
    return is_true(conditions, ADMITTED) and workload.status.admission is not None and not ended
