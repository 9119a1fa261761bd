"""Gives workloads another node for one that is lost, or has them start anew where there is none.

A node is lost when it is gone, or not ready for a while and no pod of the workload runs there any more. The new place
counts at once, in the ledger; its write follows. Of several lost nodes the whole workload starts anew, as upstream.

Pods that were sent to such a node and had not come to it cannot be sent elsewhere. Where no pod of the workload runs,
it starts anew: that counts as no failure of its job. Where others run, they fail, as upstream has it, and their
controller makes others.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from muster.api.conditions import find, is_true
from muster.api.core import NODE, POD, Node, Pod
from muster.api.kueue import WORKLOAD, Workload, WorkloadStatus
from muster.api.kueue.names import ADMITTED, EVICTED, EVICTED_DUE_TO, FINISHED, NODE_FAILURES, POD_SET_LABEL
from muster.api.meta import controller_of
from muster.api.nodes import HOSTNAME_LABEL, is_ready
from muster.api.pods import is_active
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.indexes import PODS_BY_WORKLOAD, by_workload
from muster.controllers.queueing.ungater import waits
from muster.queueing.model import Places, WorkloadInfo
from muster.queueing.topology.replacement import replaced
from muster.queueing.topology.written import assignment_of
from muster.queueing.workload.eviction import evict
from muster.runtime.controller import Result
from muster.runtime.events.recorder import Recorder
from muster.runtime.manager import Manager
from muster.runtime.objects import merge_patch, reference
from muster.runtime.reconciler import Reconciler
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

# For so long a node may be not ready before its pods are looked for elsewhere (upstream NodeFailureDelay).
DELAY_SECONDS = 30.0

# After a replacement the ungater may still send a pod where the workload was, for as long as it has not heard of it.
AGAIN_SECONDS = 1.0

# As upstream tells people why a pod failed that never ran.
_UNSCHEDULABLE = {
    "type": "TerminatedByKueue",
    "status": "True",
    "reason": "UnschedulableOnAssignedNode",
    "message": "The pod had not come to its node when that was lost; its workload has another now",
}

_BY_HOST = "topology-host"
_SINGLE_NODES = (HOSTNAME_LABEL,)


class NodeReplacement(Reconciler):
    """Runs under a `Manager`."""

    name = "topology-node-replacement"

    def __init__(self, manager: Manager, cache: QueueingCache, recorder: Recorder) -> None:
        super().__init__(manager)
        self._cache = cache
        self._recorder = recorder
        self._nodes = manager.informer(NODE, indexes={_BY_HOST: _host_of})
        self._pods = manager.informer(POD, indexes={PODS_BY_WORKLOAD: by_workload})
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._controller.watch(cache.workloads, when=_has_hosts)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or (new is not None and is_ready(old) == is_ready(new)):
            return
        hosts = set(_host_of(old))
        for queue in self._cache.tree.queues.values():
            for holder in queue.workloads.values():
                if not hosts.isdisjoint(_hosts(holder.places)):
                    self._controller.queue.add(holder.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and is_active(old) and (new is None or not is_active(new)):
            for key in by_workload(old):
                self._controller.queue.add(key)

    async def _reconcile(self, key: str) -> Result:
        workload, holder = self._cache.latest(key), self._cache.tree.holder(key)
        if workload is None or holder is None or self._cache.is_assumed(key) or not _runs(workload):
            return None
        left = {host: self._until_lost(key, host) for host in sorted(_hosts(holder.places))}
        said = {node.name for node in workload.status.unhealthy_nodes}
        lost = [host for host, seconds in left.items() if seconds == 0 or host in said]
        stuck = self._stuck(key, holder, lost)
        if stuck and not any(pod.spec.node_name and is_active(pod) for pod in self._pods.by(PODS_BY_WORKLOAD, key)):
            hosts = ", ".join(sorted({pod.spec.node_selector[HOSTNAME_LABEL] for pod in stuck}))
            await self._evict(
                workload, f"Workload was evicted as its pods had not started when their node failed: {hosts}"
            )
        elif lost:
            await self._replace(workload, holder, lost)
            return AGAIN_SECONDS
        else:
            await self._fail(stuck)
        return min((seconds for seconds in left.values() if seconds is not None), default=None)

    def _stuck(self, key: str, holder: WorkloadInfo, lost: Collection[str]) -> list[Pod]:
        """The pods that were sent to a node that is lost, or where the workload is no longer and that does not work.

        Only those were sent whose podset has places by node: others may have chosen one themselves.
        """
        hosts = {places.podset: _hosts([places]) for places in holder.places if places.levels == _SINGLE_NODES}
        return [
            pod
            for pod in self._pods.by(PODS_BY_WORKLOAD, key)
            if (podset := pod.metadata.labels.get(POD_SET_LABEL, "")) in hosts
            and (host := pod.spec.node_selector.get(HOSTNAME_LABEL, ""))
            and (host in lost or not (host in hosts[podset] or any(map(is_ready, self._nodes.by(_BY_HOST, host)))))
            and not (pod.spec.node_name or waits(pod))
            and is_active(pod)
            and controller_of(pod.metadata) is not None
        ]

    async def _fail(self, pods: Iterable[Pod]) -> None:
        """End pods that cannot come to their node. Raises `ApiError` (Conflict: one may have a node after all)."""
        now = self._clock.now().replace(microsecond=0)
        status = {"phase": "Failed", "conditions": [_UNSCHEDULABLE | {"lastTransitionTime": now}]}
        for pod in pods:
            with ignoring("NotFound"):
                await self._client.patch_object(
                    POD, pod, {"status": status}, type=STRATEGIC_MERGE_PATCH, subresource="status"
                )

    def _until_lost(self, key: str, host: str) -> float | None:
        """How long until the pods of a workload on a node are looked for elsewhere; None: as things are, never."""
        node = next(iter(self._nodes.by(_BY_HOST, host)), None)
        if node is None:
            return 0.0
        ready = find(node.status.conditions, "Ready")
        if is_ready(node) or ready is None or ready.last_transition_time is None:
            return None
        left = DELAY_SECONDS - (self._clock.now() - ready.last_transition_time).total_seconds()
        if left > 0:
            return left
        there = (pod for pod in self._pods.by(PODS_BY_WORKLOAD, key) if pod.spec.node_name == node.metadata.name)
        return None if any(map(is_active, there)) else 0.0

    async def _replace(self, workload: Workload, holder: WorkloadInfo, lost: Sequence[str]) -> None:
        found = self._elsewhere(holder, lost[0]) if len(lost) == 1 else ""
        if isinstance(found, str):
            several = "Workload eviction triggered due to multiple TAS assigned node failures, including: "
            none = f"Workload was evicted as there was no replacement for a failed node: {lost[0]} ({found})"
            await self._evict(workload, none if found else several + ", ".join(lost))
            return
        self._cache.tree.hold(replace(holder, places=found))
        self._cache.assume(holder.key)
        written = workload
        try:
            status = with_places(workload.status, found)
            patch = {"status": merge_patch(status, workload.status)}
            written = await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        finally:
            self._cache.settle(holder.key, written)

    def _elsewhere(self, holder: WorkloadInfo, lost: str) -> tuple[Places, ...] | str:
        """All places of a workload, with another node for the lost one; podsets beside those before them."""
        ledger, flavors = self._cache.tree.ledger, self._cache.flavors
        specs = {podset.name: podset for podset in holder.podsets}
        found: list[Places] = []
        try:
            for places in holder.places:
                outcome: Places | str = places
                if lost in _hosts([places]):
                    outcome = replaced(places, specs[places.podset], flavors, ledger, lost)
                if isinstance(outcome, str):
                    return outcome
                ledger.give([places])
                ledger.take([outcome])
                found.append(outcome)
        finally:
            ledger.give(found)
            ledger.take(holder.places[: len(found)])
        return tuple(found)

    async def _evict(self, workload: Workload, message: str) -> None:
        status = evict(workload.status, NODE_FAILURES, message, self._clock.now())
        patch = {"status": merge_patch(status, workload.status)}
        await self._client.patch_object(WORKLOAD, workload, patch, subresource="status")
        about = reference(WORKLOAD, workload)
        self._recorder.event(about, "Normal", f"{EVICTED_DUE_TO}{NODE_FAILURES}", message)


def with_places(status: WorkloadStatus, found: Sequence[Places]) -> WorkloadStatus:
    """The status of a workload whose pods are elsewhere now."""
    assert status.admission is not None, "it has places"
    by_name = {places.podset: assignment_of(places) for places in found}
    podsets = tuple(
        msgspec.structs.replace(one, topology_assignment=by_name.get(one.name, one.topology_assignment))
        for one in status.admission.pod_set_assignments
    )
    admission = msgspec.structs.replace(status.admission, pod_set_assignments=podsets)
    return msgspec.structs.replace(status, admission=admission, unhealthy_nodes=())


def _hosts(places: Iterable[Places]) -> set[str]:
    """The nodes that pods were given, where it is nodes that they were given."""
    return {values[-1] for one in places if one.levels == _SINGLE_NODES for values, _ in one.domains}


def _host_of(node: Node) -> Iterable[str]:
    host = node.metadata.labels.get(HOSTNAME_LABEL)
    return [host] if host else []


def _has_hosts(old: Workload | None, new: Workload | None) -> bool:  # noqa: ARG001  (what it was does not matter)
    admission = new.status.admission if new is not None else None
    assignments = admission.pod_set_assignments if admission is not None else ()
    return any(one.topology_assignment is not None for one in assignments)


def _runs(workload: Workload) -> bool:
    conditions = workload.status.conditions
    ended = is_true(conditions, EVICTED) or is_true(conditions, FINISHED)
    return is_true(conditions, ADMITTED) and workload.status.admission is not None and not ended
