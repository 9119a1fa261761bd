"""What the queues of a cluster look like to admission, made from API objects: for estimates, and for what is missing.

Only the tree of Cohorts that a workload could get quota from is looked at. An object with a quantity that is none, or a
selector that is none, is left out, as admission leaves it out. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from muster.api.conditions import find, is_true
from muster.api.core import Namespace, Node, Pod
from muster.api.kueue import (
    STOP_NONE,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    Topology,
    Workload,
)
from muster.api.kueue.names import (
    ACTIVE,
    FINISHED,
    QUOTA_RESERVED,
    TOPOLOGY_PLACEMENT_FAILED,
)
from muster.api.values.quantity import QuantityError
from muster.api.values.selectors import SelectorError
from muster.insight.quotastate import display_name, owner_uids
from muster.queueing import convert
from muster.queueing.model import PODS, FlavorResource, FlavorSpec
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node as QuotaNode
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling import runtimes
from muster.queueing.scheduling.estimate import Certainty, Estimate, RunTime, estimate
from muster.queueing.topology.occupants import occupied
from muster.queueing.workload.place import Holds, Waits, place_of
from muster.runtime.objects import key_of

_INVALID = (QuantityError, SelectorError)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that was read.

    deadlines: how long jobs may run once they have started, by the job's UID.
    topologies, nodes, pods: where places are looked for; None if no flavor has a Topology, or they may not be seen.
    """

    cluster_queues: Iterable[ClusterQueue]
    local_queues: Iterable[LocalQueue]
    cohorts: Iterable[Cohort]
    flavors: Iterable[ResourceFlavor]
    namespaces: Iterable[Namespace]
    workloads: Iterable[Workload]
    deadlines: Mapping[str, timedelta]
    topologies: Iterable[Topology] = ()
    nodes: Iterable[Node] | None = None
    pods: Iterable[Pod] | None = None


@dataclass(frozen=True, slots=True)
class Need:
    """How much of one flavor and resource a workload asks for, and what there is; in the units of decisions.

    nominal: of its ClusterQueue. used: there. available: to it now, with what it may borrow. most: if all was free.
    """

    flavor: str
    resource: str
    asked: int
    nominal: int
    used: int
    available: int
    most: int

    @property
    def missing(self) -> int:
        """How much more must become free."""
        return max(0, self.asked - self.available)


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds quota: how much, by resource, of what another one misses, and since when."""

    name: str
    queue: str
    since: datetime | None
    usage: Mapping[str, int]


class Outlook:
    """The tree around one ClusterQueue, with who holds quota in it and who waits for it. Good for one estimate.

    namespace: of the user, whose own workloads are called by their names only.
    """

    def __init__(self, snapshot: Snapshot, cluster_queue: str, namespace: str) -> None:
        self.names = {key_of(one): display_name(one.metadata, namespace) for one in snapshot.workloads}
        self.flavors = _flavors(snapshot)
        self.tree = _tree(snapshot, cluster_queue)
        self.queues = Queues()
        self.runs = run_times(snapshot)
        self._unplaced = {key_of(one) for one in snapshot.workloads if _waits_for_place(one)}
        self._fill(snapshot)

    @property
    def known(self) -> bool:
        """Whether the ClusterQueue is there."""
        return bool(self.tree.queues)

    def strict(self, cluster_queue: str) -> bool:
        """Whether nothing passes the head of the ClusterQueue."""
        return self.tree.queues[cluster_queue].policy.strict

    def estimate(self, key: str, now: datetime) -> Estimate:
        """When the Workload with that key gets quota."""
        if key in self._unplaced and not self.tree.ledger.in_use:
            because = "it waits for a place in its topology, and you may not see the nodes"
            return Estimate(None, Certainty.NONE, because)
        return estimate(self.tree, self.queues, self.flavors, key, self.runs, now, names=self.names)

    def needs(self, workload: Workload, cluster_queue: str) -> list[Need]:
        """What the Workload asks for, in every flavor that it could get it from."""
        asked: dict[str, int] = {}
        try:
            podsets = convert.workload(workload, cluster_queue).podsets
        except _INVALID:
            return []
        for podset in podsets:
            for resource, amount in podset.requests.items():
                asked[resource] = asked.get(resource, 0) + amount * podset.count
            asked[PODS] = asked.get(PODS, 0) + podset.count
        node = self.tree.queues[cluster_queue]
        return [
            _need(node, FlavorResource(flavor, resource), asked[resource])
            for group in node.policy.groups
            for flavor in group.flavors
            for resource in group.resources
            if asked.get(resource)
        ]

    def holders(self, needs: Iterable[Need]) -> list[Holder]:
        """Who has what is missing, those who have most first."""
        missing = {FlavorResource(need.flavor, need.resource) for need in needs if need.missing}
        found = []
        for node in self.tree.queues.values():
            for holder in node.workloads.values():
                usage = {fr.resource: n for fr, n in (holder.usage or {}).items() if n and fr in missing}
                if usage:
                    found.append(Holder(self.names[holder.key], node.name, holder.reserved, usage))
        return sorted(found, key=lambda one: ([-n for n in one.usage.values()], one.name))

    def _fill(self, snapshot: Snapshot) -> None:
        self._open_places(snapshot)
        for namespace in snapshot.namespaces:
            self.queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        active = {one.metadata.name: _is_active(one) for one in snapshot.cluster_queues}
        for name, node in self.tree.queues.items():
            self.queues.set_queue(node.policy, active=active[name])
        local = {key_of(one): one for one in snapshot.local_queues}
        for key, queue in local.items():
            self.queues.stop_local(key, stopped=queue.spec.stop_policy != STOP_NONE)
        for workload in snapshot.workloads:
            behind = local.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}")
            self._take_in(workload, behind.spec.cluster_queue if behind is not None else "")

    def _open_places(self, snapshot: Snapshot) -> None:
        """From here on places are looked for, if a flavor has levels and its nodes may be seen."""
        ledger = self.tree.ledger
        if snapshot.nodes is None or snapshot.pods is None or not any(one.levels for one in self.flavors.values()):
            return
        ledger.in_use = True
        for node in snapshot.nodes:
            ledger.set_node(node)
        for pod in snapshot.pods:
            if (requests := occupied(pod)) is not None:
                ledger.occupy(pod.metadata.uid, pod.spec.node_name, requests)

    def _take_in(self, workload: Workload, cluster_queue: str) -> None:
        place = place_of(workload)
        if place is None:
            return
        try:
            seen = convert.workload(workload, cluster_queue)
        except _INVALID:
            return
        if seen.queue not in self.tree.queues:
            if isinstance(place, Holds):
                self.tree.ledger.take(seen.places)  # queues that share no quota may share nodes
            return
        match place:
            case Holds():
                self.tree.hold(seen)
            case Waits(expected=expected):
                self.queues.add(seen, until=expected)


def _need(node: QuotaNode, fr: FlavorResource, asked: int) -> Need:
    return Need(
        flavor=fr.flavor,
        resource=fr.resource,
        asked=asked,
        nominal=node.quota(fr).nominal,
        used=node.usage.get(fr, 0),
        available=max(0, node.available(fr)),
        most=node.potential(fr),
    )


def _flavors(snapshot: Snapshot) -> dict[str, FlavorSpec]:
    """By name; their levels where there are nodes to look at."""
    topologies = {one.metadata.name: one for one in snapshot.topologies}
    return {
        one.metadata.name: convert.flavor_spec(
            one, None if snapshot.nodes is None else convert.levels_of(topologies.get(one.spec.topology_name))
        )
        for one in snapshot.flavors
    }


def quota_tree(cluster_queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> Tree:
    """All quotas, with nothing used."""
    tree = Tree()
    for cohort in cohorts:
        try:
            tree.set_cohort(convert.cohort_spec(cohort))
        except _INVALID:
            continue
    for queue in cluster_queues:
        try:
            tree.set_queue(convert.queue_spec(queue))
        except _INVALID:
            continue
    return tree


def _tree(snapshot: Snapshot, cluster_queue: str) -> Tree:
    """Of all ClusterQueues, those in the tree of one."""
    tree = quota_tree(snapshot.cluster_queues, snapshot.cohorts)
    mine = tree.queues.get(cluster_queue)
    for name, node in list(tree.queues.items()):
        if mine is None or node.root is not mine.root:
            tree.remove_queue(name)
    return tree


def _waits_for_place(workload: Workload) -> bool:
    reserved = find(workload.status.conditions, QUOTA_RESERVED)
    return reserved is not None and reserved.reason == TOPOLOGY_PLACEMENT_FAILED


def _is_active(queue: ClusterQueue) -> bool:
    """Unless a controller has looked and says that it is not."""
    condition = find(queue.status.conditions, ACTIVE)
    return condition is None or condition.status == "True"


def run_times(snapshot: Snapshot) -> dict[str, RunTime]:
    """By key, for every Workload that is not finished."""
    recent = runtimes.recent(snapshot.workloads)
    runs = {}
    for workload in snapshot.workloads:
        if not is_true(workload.status.conditions, FINISHED):
            before = recent.get((workload.metadata.namespace, workload.spec.queue_name), ())
            runs[key_of(workload)] = RunTime(_limit(workload, snapshot.deadlines), before)
    return runs


def _limit(workload: Workload, deadlines: Mapping[str, timedelta]) -> timedelta | None:
    limits = [deadlines[uid] for uid in owner_uids(workload) if uid in deadlines]
    if (most := runtimes.limit(workload)) is not None:
        limits.append(most)
    return min(limits, default=None)
