"""Decide whether a job can never start, because no node is large enough or no quota covers it.

`judge_job` takes a job, `judge_ask` a demand, both with the nodes and quotas of the cluster; they return a
`NeverVerdict`. A verdict is negative only if it is proven. So these assumptions are made:

- Nodes are empty, ready, uncordoned and have healthy devices ("at their best").
- A queue has all quota that it may borrow; a quota that follows the nodes equals the nodes' capacity.
- An elastic job has its minimum size.

If the job would fit on the nodes at their best but not on the nodes as they are, the verdict names what has to recover.
`reader.forecasts.room` reads the cluster.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from muster.api.core import Node, Pod
from muster.api.jobset import JobSet
from muster.api.kueue import ClusterQueue, Cohort, LocalQueue, PodSet, ResourceFlavor, Workload
from muster.api.ours.elastic import bounds_of
from muster.api.pods import pod_requests
from muster.controllers.gangs import starts_together
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.devices import named_claim
from muster.gang.placement import NoPacking, Refusal, place
from muster.gang.shapes import DeviceAsk, Shape, shape_of
from muster.insight.forecasts.forecast import build_quota_tree
from muster.insight.forecasts.nodestate import NodeFault, find_lack, heal_devices, node_at_best, recover_node
from muster.insight.jobs.failures import NAMED
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.state import OPEN, JobState, NeverVerdict
from muster.insight.record import JobRecord
from muster.insight.text import format_quantity
from muster.jobs.jobset.gang import at_once
from muster.queueing.additions import Completion
from muster.queueing.model import PODS, FlavorResource, ResourceGroup
from muster.queueing.quota.nodes import follow_nodes, is_following_nodes
from muster.queueing.quota.tree import Node as QuotaNode
from muster.queueing.quota.tree import Tree
from muster.queueing.requests import ResourceRules, requests_of
from muster.runtime.objects import key_of

_AT_ALL = " at all"
_NOTHING_ADDED = Completion()
# A demand that fits on about this many of the nodes is not compared with all of them.
_PART = 100


@dataclass(frozen=True, slots=True)
class LeastDemand:
    """The least demand of a job: each podset with the number of its pods that must start.

    together: the names of the podsets whose pods need nodes at the same time.
    here: whether the pods run on nodes of this cluster, and not of a worker cluster.
    """

    podsets: tuple[tuple[PodSet, int], ...]
    together: frozenset[str] = frozenset()
    here: bool = True


class Extent:
    """A cluster's nodes and quotas as if no pod and no workload existed."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self._nodes = tuple(nodes)
        self.tree: Tree = build_quota_tree(queues, cohorts)

    @cached_property
    def capacity(self) -> Capacity:
        """The capacity of the nodes."""
        return _sum_capacity(self._nodes)

    @cached_property
    def part(self) -> Capacity:
        """The capacity of a sample of about 100 nodes, which suffices for most jobs."""
        return _sum_capacity(self._nodes[::step]) if (step := len(self._nodes) // _PART) > 1 else self.capacity


def _sum_capacity(nodes: Iterable[Node]) -> Capacity:
    total = Capacity()
    for node in nodes:
        total.set_node(node)
    return total


class VisibleCapacity:
    """The nodes and quotas of a cluster that the user may see.

    fixed: whether no autoscaler can add nodes.
    best: the extent with every node ready, uncordoned and with healthy devices.
    flavors: the ResourceFlavors; None if the user may not see them.
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        fixed: bool,
        cluster_queues: Iterable[ClusterQueue] = (),
        cohorts: Iterable[Cohort] = (),
        local_queues: Iterable[LocalQueue] = (),
        flavors: Iterable[ResourceFlavor] | None = None,
        completion: Completion = _NOTHING_ADDED,
    ) -> None:
        self.fixed = fixed
        self.nodes = sorted(nodes, key=lambda node: node.metadata.name)
        self.queues, self._cohorts = tuple(cluster_queues), tuple(cohorts)
        self.queues_by_name = {queue.metadata.name: queue for queue in self.queues}
        self._flavors = {one.metadata.name: one for one in flavors or ()}
        self._best_nodes = [node_at_best(node) for node in self.nodes]
        self.best = self._make_extent(self._best_nodes)
        self._followers = {queue.metadata.name for queue in self.queues if is_following_nodes(queue)}
        self._followed = bool(self.nodes) and flavors is not None  # otherwise the nodes are unknown
        self._behind = {key_of(queue): queue.spec.cluster_queue for queue in local_queues}
        self.completion = completion

    @cached_property
    def now(self) -> Extent:
        """The extent of the current nodes and quotas."""
        return Extent(self.nodes, self.queues, self._cohorts)

    @cached_property
    def node_faults(self) -> list[NodeFault]:
        """The faults of the nodes that are not ready, are cordoned or have unhealthy devices."""
        unwell = [node for node, best in zip(self.nodes, self._best_nodes, strict=True) if node is not best]
        return [lack for node in unwell if (lack := find_lack(node)) is not None]

    @cached_property
    def recovered(self) -> Extent:
        """The extent with every node ready and uncordoned. Unhealthy devices stay unhealthy."""
        return self._make_extent([recover_node(node) for node in self.nodes])

    @cached_property
    def healed(self) -> Extent:
        """The extent with all devices healthy on the nodes that accept pods."""
        return self._make_extent([heal_devices(node) for node in self.nodes])

    def _make_extent(self, nodes: Sequence[Node]) -> Extent:
        """Return the extent with these nodes, and with the quotas that follow from them."""
        return Extent(
            nodes, [follow_nodes(queue, self._flavors, nodes, self.queues) for queue in self.queues], self._cohorts
        )

    def find_quota(self, extent: Extent, namespace: str, queue: str) -> QuotaNode | None:
        """Return the quota behind a LocalQueue; None if there is none, or the user may not see how it can grow."""
        node = extent.tree.queues.get(self._behind.get(f"{namespace}/{queue}", ""))
        return node if node is None or self._followed or not self._follows(node) else None

    def may_grow(self, namespace: str, queue: str) -> bool:
        """Return whether added nodes could raise the quota of a LocalQueue, or the quota that it may borrow."""
        node = self.find_quota(self.best, namespace, queue)
        return node is not None and not self.fixed and self._follows(node)

    def _follows(self, quota: QuotaNode) -> bool:
        return any(one.name in self._followers for one in quota.root.queues())


def find_ask(subject: JobRecord | Workload) -> LeastDemand:
    """Return the fewest pods with which a job can start.

    A Workload stands for a job whose pods Muster does not create.
    """
    if isinstance(subject, Workload):
        return LeastDemand(tuple((one, one.min_count or one.count) for one in subject.spec.pod_sets))
    return replace(_ask_of_job(subject), here=subject.remote_counts is None)


def _ask_of_job(subject: JobRecord) -> LeastDemand:
    if isinstance(subject.source, JobSet):
        return _ask_of_set(subject.source, begun=bool(subject.succeeded))
    podsets, bounds = JobIntegration().podsets(subject.source), bounds_of(subject.metadata.annotations)
    least = bounds.least if bounds is not None else None
    counts = (min(one.count, least or one.min_count or one.count) for one in podsets)
    together = frozenset(one.name for one in podsets if starts_together(subject.metadata))
    return LeastDemand(tuple(zip(podsets, counts, strict=True)), together)


def _ask_of_set(source: JobSet, *, begun: bool) -> LeastDemand:
    """Return the demand of all replicated jobs of a JobSet.

    begun: whether pods have succeeded already; the JobSet does not create these again, so no pods must start together.
    """
    podsets = JobSetIntegration().podsets(source)
    return LeastDemand(tuple((podset, podset.count) for podset in podsets), frozenset() if begun else at_once(source))


def judge_job(subject: JobRecord | Workload, state: JobState, room: VisibleCapacity) -> NeverVerdict:
    """Decide whether a waiting job can never start, or waits for nodes to recover.

    Return `OPEN` for a job that does not wait, or that another manager runs.
    """
    if not state.waits or (isinstance(subject, JobRecord) and subject.manager):
        return OPEN
    quota_state = state.quota_state
    queue = quota_state.queue if quota_state is not None and quota_state.final else ""
    return judge_ask(find_ask(subject), room, subject.metadata.namespace, queue)


def with_verdict(subject: JobRecord | Workload, state: JobState, room: VisibleCapacity) -> JobState:
    """Return the state with the reason why the job can never start or for which nodes it waits, if one applies.

    Otherwise, if the job's ClusterQueue admits nothing, the reason says why.
    """
    sentence = judge_job(subject, state, room).sentence
    if not sentence:
        return with_obstacle(state, room.queues_by_name)
    return state.with_reason("; ".join(filter(None, (sentence, state.progress))))


def judge_ask(ask: LeastDemand, room: VisibleCapacity, namespace: str = "", queue: str = "") -> NeverVerdict:
    """Decide whether a demand can never be satisfied, or which nodes must recover first; `OPEN` if neither.

    queue: the LocalQueue whose quota the pods need; "" if they need none. The verdict on a demand that cannot be
    judged, such as one with an invalid quantity, is `OPEN`.
    """
    ask = replace(
        ask, podsets=tuple((room.completion.podset(podset, namespace), count) for podset, count in ask.podsets)
    )

    def lacks(extent: Extent) -> tuple[dict[str, str], dict[str, str]]:
        """Return why the nodes, and why the quota, do not suffice, by resource.

        The key is "" for no single resource.
        """
        quota = room.find_quota(extent, namespace, queue) if queue else None
        by_nodes = _find_lacks_of_nodes(ask, extent.part, fixed=room.fixed) if ask.here and room.nodes else {}
        if by_nodes and extent.part is not extent.capacity:
            by_nodes = _find_lacks_of_nodes(ask, extent.capacity, fixed=room.fixed)
        return by_nodes, _find_lacks_of_quota(ask, quota, queue) if quota is not None else {}

    try:
        by_nodes, by_quota = lacks(room.best)
        if not by_nodes and not by_quota:
            return NeverVerdict(awaits=_find_awaited_nodes(ask, room, lambda extent: not any(lacks(extent))))
    except ValueError:  # an invalid quantity, which the validation of the job reports
        return OPEN
    # If the nodes are too small, the quota usually is too, so the verdict names only the nodes.
    shown = {resource: text for resource, text in by_quota.items() if not by_nodes or text.endswith(_AT_ALL)}
    certain = (bool(by_quota) and not room.may_grow(namespace, queue)) or (room.fixed and bool(by_nodes))
    return NeverVerdict("; ".join((shown | by_nodes).values()), certain)


def _find_awaited_nodes(ask: LeastDemand, room: VisibleCapacity, suffices: Callable[[Extent], bool]) -> str:
    """Return a phrase that names the nodes that must recover before the pods fit; "" if the pods fit now.

    suffices: returns whether the pods fit an extent.
    """
    if not room.node_faults or suffices(room.now):
        return ""
    shapes = {_make_shape(podset) for podset, count in ask.podsets if count}
    resources = {resource for shape in shapes for resource, _ in shape.requests}
    best = room.best.capacity
    fitting = [best.count_fitting(shape) for shape in shapes]
    lacks = [lack for lack in room.node_faults if any(fits[best.index_of(lack.node)] for fits in fitting)]
    states = [lack.states for lack in lacks if lack.states]
    devices = [text for lack in lacks for resource, text in lack.devices.items() if resource in resources]
    if states and devices and suffices(room.recovered) != suffices(room.healed):  # one of both kinds suffices
        states, devices = (states, []) if suffices(room.recovered) else ([], devices)
    causes = [*states, *devices]
    if not causes:  # the quota will soon follow the nodes
        return ""
    more = f" and {len(causes) - NAMED} more" if len(causes) > NAMED else ""
    return ", ".join(causes[:NAMED]) + more + ("" if room.fixed else ", or more nodes")


# Nodes.


def _find_lacks_of_nodes(ask: LeastDemand, capacity: Capacity, *, fixed: bool) -> dict[str, str]:
    together = ask.together if fixed else ()  # another scheduler may place the pods in other clusters
    counts: dict[Shape, int] = {}
    requests_by_shape: dict[Shape, Mapping[str, int]] = {}  # the requests of one pod; shapes cap them
    for podset, count in ask.podsets:
        shape = _make_shape(podset)
        if count:
            requests_by_shape.setdefault(shape, pod_requests(podset.template.spec))
        if podset.name in together:
            counts[shape] = counts.get(shape, 0) + count
    ever = " ever" if fixed else ""
    for shape, of_one in requests_by_shape.items():
        if lacks := _find_lacks_of_pod(capacity, shape, of_one, ever):
            return lacks
    outcome = place(capacity, {shape: count for shape, count in counts.items() if count})
    if isinstance(outcome, NoPacking):
        return {"": f"its {sum(counts.values())} pods never fit at once, although those of each kind do"}
    if isinstance(outcome, Refusal) and outcome.proven:
        nodes = "the nodes have" if len(capacity) != 1 else "the node has"
        each = f" with {words} each" if (words := _format_amounts(requests_by_shape[outcome.shape])) else ""
        return {"": f"its {outcome.wanted} pods{each} never fit at once; empty, {nodes} room for {outcome.fits}"}
    return {}


def _make_shape(podset: PodSet) -> Shape:
    """Return the shape of one pod without volumes, devices and rules about other pods, which may change at any time."""
    return msgspec.structs.replace(shape_of(Pod(spec=podset.template.spec), asking=_ask_of_claims), claims=())


def _ask_of_claims(pod: Pod) -> DeviceAsk:
    return DeviceAsk(unable=named_claim(pod))


def _find_lacks_of_pod(capacity: Capacity, shape: Shape, requests: Mapping[str, int], ever: str) -> dict[str, str]:
    """Return why no node fits one pod, by resource, or by "" if the reason is no single resource; {} if one fits.

    requests: the pod's requests, as the messages quote them.
    ever: " ever" if the cluster never adds nodes, else "".
    """
    if shape.unable:
        return {"": shape.unable}
    if capacity.count_fitting(shape).any():
        return {}
    eligible = capacity.eligible(shape)
    if not eligible.any():
        closed = sorted(capacity.count_closed(shape).items())
        return {"": f"no node is{ever} open to its pods: " + ", ".join(f"{count} {why}" for why, count in closed)}
    lacking = {}
    for resource, wanted in shape.requests:
        most = int(capacity.allocatable_of(resource)[eligible].max(initial=0))
        if wanted > most:
            largest = f"the largest has {format_quantity(resource, most)}" if most else "none has any"
            needed = format_quantity(resource, requests.get(resource, wanted))
            lacking[resource] = f"no node{ever} has {needed} {resource}; {largest}"
    return lacking or {"": f"no node{ever} has {_format_amounts(requests)} at once"}


def _format_amounts(amounts: Mapping[str, int]) -> str:
    """Format amounts of resources as text, without amounts of 0: `2 cpu and 4Gi memory`."""
    return _join_words(
        [f"{format_quantity(resource, amount)} {resource}" for resource, amount in amounts.items() if amount]
    )


def _join_words(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


# Quota.


def _find_lacks_of_quota(ask: LeastDemand, node: QuotaNode, name: str) -> dict[str, str]:
    lacks: dict[str, str] = {}
    total: dict[str, int] = {}
    for podset, count in ask.podsets:
        requests = {
            resource: amount * count for resource, amount in requests_of(podset.template.spec, ResourceRules()).items()
        }
        requests[PODS] = count
        for resource, amount in requests.items():
            total[resource] = total.get(resource, 0) + amount
        lacks |= _find_lacks_of_podset(node, requests, name)
    return _find_lacks_of_all(node, total, name) | lacks


def _find_lacks_of_podset(node: QuotaNode, requests: Mapping[str, int], name: str) -> dict[str, str]:
    """Return a sentence for each resource of a podset of which no flavor can ever have enough, by resource.

    All resources of a group come from the same flavor. The key "" has the sentence about resources for which there are
    flavors, but no flavor has all of them at once. The result is {} if the podset fits.

    name: the name of the queue, for the sentences.
    """
    lacks = {}
    for group in node.policy.groups:
        wanted = {resource: requests[resource] for resource in group.resources if requests.get(resource)}
        for resource, amount in wanted.items():
            most = max(_list_potentials(node, group, resource), default=0)
            if amount > most:
                lacks[resource] = _describe_shortage(resource, amount, most, name)
        fits = (
            all(amount <= node.potential(FlavorResource(flavor, resource)) for resource, amount in wanted.items())
            for flavor in group.flavors
        )
        if wanted and not lacks.keys() & wanted.keys() and not any(fits):
            lacks[""] = f"no flavor in the quota of queue {name} has {_format_amounts(wanted)} at once"
    return lacks


def _find_lacks_of_all(node: QuotaNode, total: Mapping[str, int], name: str) -> dict[str, str]:
    """Return a sentence for each resource of which all flavors together have too little for all podsets.

    The result is {} if there is enough.

    name: the name of the queue, for the sentences.
    """
    lacks = {}
    for resource, amount in sorted(total.items()):
        group = node.policy.group_of(resource)
        if group is None:
            if amount and resource != PODS:
                lacks[resource] = f"the quota of queue {name} has no {resource}{_AT_ALL}"
        elif amount > (most := sum(_list_potentials(node, group, resource))):
            lacks[resource] = _describe_shortage(resource, amount, most, name)
    return lacks


def _list_potentials(node: QuotaNode, group: ResourceGroup, resource: str) -> list[int]:
    return [node.potential(FlavorResource(flavor, resource)) for flavor in group.flavors]


def _describe_shortage(resource: str, amount: int, most: int, name: str) -> str:
    if not most:
        return f"the quota of queue {name} has no {resource}{_AT_ALL}"
    asked, limit = format_quantity(resource, amount), format_quantity(resource, most)
    return f"the quota of queue {name} is {limit} {resource} at most, and it asks for {asked}"
