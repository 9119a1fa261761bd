"""Rebuild admission's view of the queues from API objects, to estimate starts and to find missing quota. Pure.

Only the cohort tree from which a workload could get quota is built. As in admission, an object with an invalid quantity
or selector is left out.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from muster.api.conditions import find
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
    QUOTA_RESERVED,
    TOPOLOGY_PLACEMENT_FAILED,
)
from muster.api.managed.variants import parent_of
from muster.api.meta import ObjectMeta
from muster.api.values.quantity import QuantityError
from muster.api.values.selectors import SelectorError
from muster.insight.history.build import owner_of
from muster.insight.quota.state import display_name, owner_uids
from muster.queueing import convert
from muster.queueing.devices import devices_by_status
from muster.queueing.model import PODS, FlavorResource, FlavorSpec, WorkloadInfo
from muster.queueing.pending import usagestatus
from muster.queueing.pending.queues import Queues
from muster.queueing.pending.usage import ON_DEMAND, Decay
from muster.queueing.quota.division import decide_quotas, limit_quotas, list_divisions
from muster.queueing.quota.tree import Node as QuotaNode
from muster.queueing.quota.tree import Tree
from muster.queueing.scheduling import runtimes
from muster.queueing.scheduling.estimate import Certainty, RunTime, StartEstimate, StartForecast
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.nomination import AdmissionSettings
from muster.queueing.topology.occupants import read_occupied
from muster.queueing.variants.family import without_doubles
from muster.queueing.workload.place import Holds, Waits, place_of
from muster.runtime.objects import key_of

WORKLOADS_A_SECOND = 250
"""How many Workloads lengthen the time for which forecasts of a changing cluster serve by a second."""

MOST_SERVED = timedelta(seconds=60)
"""How long forecasts of a changing cluster serve at most."""

_INVALID = (QuantityError, SelectorError)


@dataclass(frozen=True)
class Snapshot:
    """All objects that a forecast reads, and the values that all forecasts from them share.

    deadlines: the time limits of jobs after their start, by the job's UID.
    expectations: the run times that users expect of their jobs, if shorter than the limits, by the job's UID.
    topologies: the Topologies; empty if no flavor has one, or the user may not see them.
    nodes, pods: the objects for topology domains; None if they were not read, or the user may not see them.
    """

    cluster_queues: Iterable[ClusterQueue]
    local_queues: Iterable[LocalQueue]
    cohorts: Iterable[Cohort]
    flavors: Iterable[ResourceFlavor]
    namespaces: Iterable[Namespace]
    workloads: Iterable[Workload]
    deadlines: Mapping[str, timedelta]
    expectations: Mapping[str, timedelta] = field(default_factory=dict)
    topologies: Iterable[Topology] = ()
    nodes: Iterable[Node] | None = None
    pods: Iterable[Pod] | None = None

    @cached_property
    def counted(self) -> Sequence[Workload]:
        """The Workloads without those that would count their job a second time."""
        return without_doubles(self.workloads)

    @cached_property
    def past(self) -> runtimes.PastRuns:
        """The run times of the Workloads that have finished, from which the run times of others are estimated."""
        return runtimes.read_past_runs(self.counted, self.find_limit)

    @cached_property
    def targets(self) -> Mapping[str, str]:
        """The name of the ClusterQueue of each LocalQueue, by the LocalQueue's key."""
        return {key_of(one): one.spec.cluster_queue for one in self.local_queues}

    @cached_property
    def places(self) -> Mapping[str, Sequence[tuple[Workload, Holds | Waits]]]:
        """The unfinished Workloads by ClusterQueue, each with whether it holds quota or waits for it."""
        found = defaultdict[str, list[tuple[Workload, Holds | Waits]]](list)
        for one in self.counted:
            if (place := place_of(one)) is not None:
                found[place.cluster_queue if isinstance(place, Holds) else self.find_target(one)].append((one, place))
        return found

    @cached_property
    def by_key(self) -> Mapping[str, Workload]:
        """The Workloads by their keys."""
        return {key_of(one): one for one in self.workloads}

    @cached_property
    def owners(self) -> Mapping[tuple[str, str], str]:
        """The users who submitted the Workloads, by namespace and name."""
        return {(one.metadata.namespace, one.metadata.name): owner_of(one.metadata) for one in self.workloads}

    @cached_property
    def _names(self) -> dict[str, Mapping[str, str]]:
        return {}

    def name_workloads(self, namespace: str) -> Mapping[str, str]:
        """Return the display names of the Workloads, by key, for a user of a namespace."""
        if namespace not in self._names:
            self._names[namespace] = name_workloads(self.workloads, namespace)
        return self._names[namespace]

    @cached_property
    def _infos(self) -> dict[str, WorkloadInfo | None]:
        return {}

    def convert(self, workload: Workload) -> WorkloadInfo | None:
        """Return a Workload as admission reads it, converted only once; None if it has an invalid quantity."""
        key = key_of(workload)
        if key not in self._infos:
            self._infos[key] = None
            with suppress(*_INVALID):
                target, devices = self.find_target(workload), devices_by_status(workload)
                self._infos[key] = convert.convert_workload(workload, target, devices=devices)
        return self._infos[key]

    def find_target(self, workload: Workload) -> str:
        """Return the name of the ClusterQueue of a Workload's LocalQueue; "" if that LocalQueue does not exist."""
        return self.targets.get(f"{workload.metadata.namespace}/{workload.spec.queue_name}", "")

    def find_limit(self, workload: Workload) -> timedelta | None:
        """Return the time after which a Workload is stopped; None if it has no limit."""
        limits = [self.deadlines[uid] for uid in owner_uids(workload) if uid in self.deadlines]
        if (most := runtimes.find_time_limit(workload)) is not None:
            limits.append(most)
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class Need:
    """A workload's request for a resource of one flavor, and the ClusterQueue's quota for it, in admission's units.

    nominal: the ClusterQueue's own quota.
    used: the quota in use.
    available: the quota that the ClusterQueue can still use now, with borrowing.
    most: the quota that it could use if no workload of the cohort tree ran.
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
        """The amount of quota that must become free before the request fits; 0 if it fits now."""
        return max(0, self.asked - self.available)


@dataclass(frozen=True, slots=True)
class Holder:
    """A workload that holds quota that another workload needs.

    queue: its ClusterQueue.
    since: when it got the quota.
    usage: the amounts, by resource.
    owner: the user who submitted it.
    """

    name: str
    queue: str
    since: datetime | None
    usage: Mapping[str, int]
    owner: str = ""


class Outlook:
    """The cohort tree around one ClusterQueue, with its running and waiting workloads.

    The first estimate changes the tree, so call `find_needs` and `find_holders` before.

    namespace: the user's namespace, which is left out of the names of its workloads.
    settings: admission's settings, as far as API objects show them.
    """

    def __init__(self, snapshot: Snapshot, cluster_queue: str, namespace: str, now: datetime) -> None:
        self._now = now
        self.names = snapshot.name_workloads(namespace)
        self.flavors = _make_flavors(snapshot)
        self.tree = _make_tree(snapshot, cluster_queue)
        self.queues = Queues()
        self._workloads: dict[str, Workload] = {}  # the Workloads in the tree, by key
        self._fill(snapshot)
        self._unplaced = {key for key, one in self._workloads.items() if _waits_for_place(one)}
        self.runs = find_run_times(snapshot, self._workloads.values())
        self._recall_past_use(snapshot.local_queues)
        self.settings = AdmissionSettings(fair=_find_fairness(snapshot.cluster_queues), past=self.queues.usage)

    @property
    def exists(self) -> bool:
        """Whether the ClusterQueue exists."""
        return bool(self.tree.queues)

    def list_siblings(self, cluster_queue: str) -> list[str]:
        """Return the names of all ClusterQueues below the root of this one, including this one."""
        node = self.tree.queues.get(cluster_queue)
        return [one.name for one in node.root.queues()] if node is not None else [cluster_queue]

    def is_strict(self, cluster_queue: str) -> bool:
        """Return whether the ClusterQueue is strict, so that no workload passes its head."""
        return self.tree.queues[cluster_queue].policy.strict

    def estimate(self, key: str) -> StartEstimate:
        """Estimate when the Workload with this key gets quota; the estimate has no time if that is unknown."""
        if key in self._unplaced and not self.tree.ledger.in_use:
            because = "it waits for a place in its topology, and you may not see the nodes"
            return StartEstimate(None, Certainty.NONE, because)
        return self.estimate_all([key])[key]

    def estimate_all(self, keys: Iterable[str]) -> dict[str, StartEstimate]:
        """Estimate in one simulation when the Workloads with these keys get quota; return the estimates by key.

        Workloads that wait for a place in a topology whose nodes are not known are left out.
        """
        return self._forecast.estimate(key for key in keys if self.tree.ledger.in_use or key not in self._unplaced)

    @cached_property
    def _forecast(self) -> StartForecast:
        return StartForecast(self.tree, self.queues, self.flavors, self.runs, self._now, self.settings, self.names)

    def find_needs(self, workload: Workload, cluster_queue: str) -> list[Need]:
        """Return a Workload's requests, each with the quota of every flavor of the ClusterQueue for that resource.

        Return an empty list if the Workload has an invalid quantity. The ClusterQueue must exist.
        """
        requests: dict[str, int] = {}
        try:
            podsets = convert.convert_workload(workload, cluster_queue, devices=devices_by_status(workload)).podsets
        except _INVALID:
            return []
        for podset in podsets:
            for resource, amount in podset.requests.items():
                requests[resource] = requests.get(resource, 0) + amount * podset.count
            requests[PODS] = requests.get(PODS, 0) + podset.count
        return list_needs(self.tree.queues[cluster_queue], requests)

    def find_holders(self, needs: Iterable[Need], workload: Workload) -> list[Holder]:
        """Return the workloads that hold quota that a Workload lacks, the largest holders first.

        Workloads of the same job are left out, such as a variant that has quota while its parent waits.
        """
        own = _list_uids(workload)
        missing = {FlavorResource(need.flavor, need.resource) for need in needs if need.missing}
        holders = []
        for node in self.tree.queues.values():
            for holder in node.workloads.values():
                usage = {fr.resource: n for fr, n in (holder.usage or {}).items() if n and fr in missing}
                if usage and own.isdisjoint(_list_uids(self._workloads[holder.key])):
                    holders.append(Holder(self.names[holder.key], node.name, holder.reserved, usage, holder.owner))
        return sorted(holders, key=lambda one: ([-n for n in one.usage.values()], one.name))

    def _fill(self, snapshot: Snapshot) -> None:
        self._add_nodes(snapshot)
        for namespace in snapshot.namespaces:
            self.queues.set_namespace(namespace.metadata.name, namespace.metadata.labels)
        active = {one.metadata.name: _is_active(one) for one in snapshot.cluster_queues}
        for name, node in self.tree.queues.items():
            self.queues.set_queue(node.policy, active=active[name])
        for queue in snapshot.local_queues:
            self.queues.stop_local(key_of(queue), stopped=queue.spec.stop_policy != STOP_NONE)
        for name in snapshot.places if self.tree.ledger.in_use else self.tree.queues:
            for workload, place in snapshot.places.get(name, ()):
                self._add_workload(snapshot, workload, place, is_inside=name in self.tree.queues)
        if snapshot.nodes is not None:
            limit_tree(self.tree, list(snapshot.cluster_queues), snapshot.flavors, snapshot.nodes)

    def _recall_past_use(self, local_queues: Iterable[LocalQueue]) -> None:
        """Set the past usage of LocalQueues from their statuses, for ClusterQueues with admission fair sharing.

        No object shows the Configuration's half-life and resource weights, so the defaults are used.
        """
        decay = Decay.of(ON_DEMAND)
        for local in local_queues:
            node, key = self.tree.queues.get(local.spec.cluster_queue), key_of(local)
            if node is None or not node.policy.by_usage:
                continue
            current = usagestatus.by_resource(node.tallies.of(key).used)
            with suppress(*_INVALID):
                self.queues.set_usage(key, usagestatus.score_status(local, current, decay, self._now))

    def _add_nodes(self, snapshot: Snapshot) -> None:
        """Add the nodes, so that estimates consider topology, if a flavor has levels and the user may see its nodes."""
        ledger = self.tree.ledger
        for node in snapshot.nodes or ():
            self.tree.node_labels.set_node(node.metadata.name, node.metadata.labels)
        if snapshot.nodes is None or snapshot.pods is None or not any(one.levels for one in self.flavors.values()):
            return
        ledger.in_use = True
        for node in snapshot.nodes:
            ledger.set_node(node)
        for pod in snapshot.pods:
            if (requests := read_occupied(pod)) is not None:
                ledger.occupy(pod.metadata.uid, pod.spec.node_name, requests)

    def _add_workload(self, snapshot: Snapshot, workload: Workload, place: Holds | Waits, *, is_inside: bool) -> None:
        """Add a Workload that holds quota or waits for it to the quota tree or the queues.

        For a Workload outside of the tree, only its use of nodes counts, because workloads in the tree may use the same
        nodes. A Workload with an invalid quantity is left out.

        is_inside: whether the Workload's quota belongs to the tree.
        """
        if not is_inside and isinstance(place, Waits):
            return
        if (seen := snapshot.convert(workload)) is None:
            return
        if not is_inside:
            self.tree.ledger.take(seen.places)
            return
        self._workloads[seen.key] = workload
        match place:
            case Holds():
                self.tree.hold(seen)
            case Waits(expected=expected):
                self.queues.add(seen, until=expected)


class Forecasts:
    """The forecasts of the waiting workloads of one snapshot. Each cohort tree is built and simulated once for all.

    snapshot, now: the objects for all forecasts, and when they were read.
    namespace: as for an `Outlook`.
    """

    def __init__(self, snapshot: Snapshot, namespace: str, now: datetime) -> None:
        self.snapshot = snapshot
        self.now = now
        self._namespace = namespace
        # The outlook and the forecasts of each ClusterQueue below one root, by its name.
        self._untouched: dict[str, Outlook] = {}
        self._simulated: dict[str, Outlook] = {}

    @cached_property
    def names_by_uid(self) -> Mapping[str, str]:
        """The display names of the Workloads, by UID."""
        names = self.snapshot.name_workloads(self._namespace)
        return {one.metadata.uid: names[key] for key, one in self.snapshot.by_key.items()}

    def serves(self, workload: Workload, now: datetime) -> bool:
        """Return whether the forecasts are recent enough, and the Workload waits for the same as in the snapshot.

        They are valid for a number of seconds in proportion to the number of Workloads, so that they take a bounded
        part of a reader's time, but at most for `MOST_SERVED`.
        """
        before = self.snapshot.by_key.get(key_of(workload))
        lifetime = min(timedelta(seconds=len(self.snapshot.by_key) / WORKLOADS_A_SECOND), MOST_SERVED)
        is_known = before is not None and _list_demand(before) == _list_demand(workload)
        return is_known and timedelta() <= now - self.now < lifetime

    def find_outlook(self, cluster_queue: str) -> Outlook:
        """Return the quota around a ClusterQueue as it is in the snapshot, not changed by any estimate."""
        if cluster_queue not in self._untouched:
            outlook = Outlook(self.snapshot, cluster_queue, self._namespace, self.now)
            self._untouched |= dict.fromkeys(outlook.list_siblings(cluster_queue), outlook)
        return self._untouched[cluster_queue]

    def estimate(self, cluster_queue: str, key: str) -> StartEstimate:
        """Estimate when the Workload with this key gets quota of a ClusterQueue that exists."""
        if cluster_queue not in self._simulated:
            outlook = self.find_outlook(cluster_queue)
            siblings = outlook.list_siblings(cluster_queue)
            self._simulated |= dict.fromkeys(siblings, outlook)
            self._untouched = {name: one for name, one in self._untouched.items() if name not in siblings}
        return self._simulated[cluster_queue].estimate(key)


def _list_demand(workload: Workload) -> tuple[object, ...]:
    """Return the fields of a Workload that decide how it waits. The messages of its conditions do not."""
    meta, status = workload.metadata, workload.status
    conditions = [(one.type, one.status, one.reason, one.last_transition_time) for one in status.conditions]
    return meta.uid, meta.labels, meta.annotations, workload.spec, status.admission, status.requeue_state, conditions


def _list_uids(workload: Workload) -> set[str]:
    """Return the UIDs of a Workload and of the jobs that own it."""
    return owner_uids(workload) | {workload.metadata.uid}


def name_workloads(workloads: Iterable[Workload], namespace: str) -> dict[str, str]:
    """Return the display names of Workloads, by their keys; a variant has the name of its parent's job."""
    workloads = list(workloads)
    by_uid = {one.metadata.uid: one for one in workloads}

    def meta_of(one: Workload) -> ObjectMeta:
        owner = parent_of(one.metadata)
        return (by_uid.get(owner.uid, one) if owner is not None else one).metadata

    return {key_of(one): display_name(meta_of(one), namespace) for one in workloads}


def list_needs(node: QuotaNode, requests: Mapping[str, int]) -> list[Need]:
    """Return the requests, each with the quota of every flavor of a ClusterQueue for that resource."""
    return [
        _find_need(node, FlavorResource(flavor, resource), requests[resource])
        for group in node.policy.groups
        for flavor in group.flavors
        for resource in group.resources
        if requests.get(resource)
    ]


def _find_need(node: QuotaNode, fr: FlavorResource, amount: int) -> Need:
    return Need(
        flavor=fr.flavor,
        resource=fr.resource,
        asked=amount,
        nominal=node.quota(fr).nominal,
        used=node.usage.get(fr, 0),
        available=max(0, node.available(fr)),
        most=node.potential(fr),
    )


def _make_flavors(snapshot: Snapshot) -> dict[str, FlavorSpec]:
    """Return the flavors of the snapshot by name. They have their topology levels if the snapshot has the nodes."""
    topologies = {one.metadata.name: one for one in snapshot.topologies}
    return {
        one.metadata.name: convert.flavor_spec(
            one, None if snapshot.nodes is None else convert.levels_of(topologies.get(one.spec.topology_name))
        )
        for one in snapshot.flavors
    }


def build_quota_tree(cluster_queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> Tree:
    """Return the cohort tree with all quotas and without usage; objects with invalid quantities are left out."""
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


def limit_tree(
    tree: Tree, cluster_queues: Collection[ClusterQueue], flavors: Iterable[ResourceFlavor], nodes: Iterable[Node]
) -> None:
    """Set, in a tree with its usage, the quotas of ClusterQueues that follow the nodes or are parts of such a queue."""
    decided = decide_quotas(tree, cluster_queues, {one.metadata.name: one for one in flavors}, nodes)
    for name in decided:
        tree.set_queue(limit_quotas(tree.queues[name].policy, decided))


def _make_tree(snapshot: Snapshot, cluster_queue: str) -> Tree:
    """Return the tree of the ClusterQueues that share quota with this one, by a cohort or by dividing the nodes."""
    tree = build_quota_tree(snapshot.cluster_queues, snapshot.cohorts)
    mine = tree.queues.get(cluster_queue)
    roots = [mine.root] if mine is not None else []
    for division in list_divisions(list(snapshot.cluster_queues)):
        members = [tree.queues[one.metadata.name].root for one in division if one.metadata.name in tree.queues]
        if any(root is member for root in roots for member in members):
            roots += members
    for name, node in list(tree.queues.items()):
        if not any(node.root is root for root in roots):
            tree.remove_queue(name)
    return tree


def _waits_for_place(workload: Workload) -> bool:
    reserved = find(workload.status.conditions, QUOTA_RESERVED)
    return reserved is not None and reserved.reason == TOPOLOGY_PLACEMENT_FAILED


def _find_fairness(queues: Iterable[ClusterQueue]) -> FairSharing | None:
    """Return the settings of fair sharing; None if it is off, as the statuses of ClusterQueues show."""
    return FairSharing() if any(one.status.fair_sharing is not None for one in queues) else None


def _is_active(queue: ClusterQueue) -> bool:
    """Return whether a ClusterQueue admits workloads: its condition Active is True or missing."""
    condition = find(queue.status.conditions, ACTIVE)
    return condition is None or condition.status == "True"


def find_run_times(snapshot: Snapshot, workloads: Iterable[Workload]) -> dict[str, RunTime]:
    """Return the known run times of unfinished Workloads, by key: limits, past runs and expectations."""
    runs = {}
    for workload in workloads:
        limit = snapshot.find_limit(workload)
        expected = [snapshot.expectations[uid] for uid in owner_uids(workload) if uid in snapshot.expectations]
        recent = snapshot.past.find(runtimes.find_traits(workload), limit)
        runs[key_of(workload)] = RunTime(limit, recent, min(expected, default=None))
    return runs
