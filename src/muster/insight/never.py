"""Whether a job can never start, however much of the cluster becomes free: what no node has, and what no quota covers.

It is said of what is proven only: the nodes are taken as empty and at their best, a queue with all that it may borrow,
one that follows the nodes with what they then have, an elastic job at its least size. Where that would do, but the
nodes as they are would not, it is said what of them has to become well. Pure.
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
from muster.gang.placement import Refusal, place
from muster.gang.shapes import Shape, shape_of
from muster.insight.failures import NAMED
from muster.insight.forecast import quota_tree
from muster.insight.jobstate import OPEN, JobState, Verdict
from muster.insight.nodestate import Lack, at_best, healed, lack_of, recovered
from muster.insight.record import JobRecord
from muster.insight.text import quantity
from muster.jobs.jobset.gang import at_once
from muster.queueing.additions import Completion
from muster.queueing.model import PODS, FlavorResource, ResourceGroup
from muster.queueing.quota.nodes import following, follows
from muster.queueing.quota.tree import Node as QuotaNode
from muster.queueing.quota.tree import Tree
from muster.queueing.requests import ResourceRules, requests_of
from muster.runtime.objects import key_of

_AT_ALL = " at all"
_NOTHING_ADDED = Completion()


@dataclass(frozen=True, slots=True)
class Ask:
    """What has to start, at the least: of each podset the pods and how many.

    together: the names of the podsets that have nodes for all their pods at once, or never begin.
    here: on nodes of this cluster.
    """

    podsets: tuple[tuple[PodSet, int], ...]
    together: frozenset[str] = frozenset()
    here: bool = True


class Extent:
    """Nodes with nothing on them, and quotas of which nothing is used."""

    def __init__(self, nodes: Iterable[Node], queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self.capacity = Capacity()
        for node in nodes:
            self.capacity.set_node(node)
        self.tree: Tree = quota_tree(queues, cohorts)


class Room:
    """All that a cluster has, as far as it may be seen. fixed: no nodes are added by themselves.

    best: with every node at its best. flavors: None if they may not be seen.
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
        self._queues, self._cohorts = tuple(cluster_queues), tuple(cohorts)
        self._flavors = {one.metadata.name: one for one in flavors or ()}
        self.best = self._with(at_best)
        self._followers = {queue.metadata.name for queue in self._queues if follows(queue)}
        self._followed = bool(self.nodes) and flavors is not None  # else it is not seen what they follow
        self._behind = {key_of(queue): queue.spec.cluster_queue for queue in local_queues}
        self.completion = completion

    @cached_property
    def now(self) -> Extent:
        """As it is."""
        return Extent(self.nodes, self._queues, self._cohorts)

    @cached_property
    def unwell(self) -> list[Lack]:
        """Of the nodes that are not at their best."""
        return [lack for node in self.nodes if (lack := lack_of(node)) is not None]

    @cached_property
    def recovered(self) -> Extent:
        """With every node ready and uncordoned, but devices that are ill."""
        return self._with(recovered)

    @cached_property
    def healed(self) -> Extent:
        """With all devices well, of those nodes that take pods."""
        return self._with(healed)

    def _with(self, become: Callable[[Node], Node]) -> Extent:
        nodes = [become(node) for node in self.nodes]
        return Extent(nodes, [following(queue, self._flavors, nodes) for queue in self._queues], self._cohorts)

    def quota_of(self, extent: Extent, namespace: str, queue: str) -> QuotaNode | None:
        """That of a LocalQueue; None if it may not be seen how much it can be."""
        found = extent.tree.queues.get(self._behind.get(f"{namespace}/{queue}", ""))
        return found if found is None or self._followed or not self._follows(found) else None

    def may_grow(self, namespace: str, queue: str) -> bool:
        """Whether nodes may be added that would add to the quota of a LocalQueue, or to what it may borrow."""
        found = self.quota_of(self.best, namespace, queue)
        return found is not None and not self.fixed and self._follows(found)

    def _follows(self, quota: QuotaNode) -> bool:
        return any(one.name in self._followers for one in quota.root.queues())


def ask_of(subject: JobRecord | Workload) -> Ask:
    """A job; or a Workload where the job is of another kind, and it is not known how its pods are placed."""
    if isinstance(subject, Workload):
        return Ask(tuple((one, one.min_count or one.count) for one in subject.spec.pod_sets))
    return replace(_ask_of_job(subject), here=subject.elsewhere is None)


def _ask_of_job(subject: JobRecord) -> Ask:
    if isinstance(subject.source, JobSet):
        return _ask_of_set(subject.source, begun=bool(subject.succeeded))
    podsets, bounds = JobIntegration().podsets(subject.source), bounds_of(subject.metadata.annotations)
    least = bounds.least if bounds is not None else None
    counts = (min(one.count, least or one.min_count or one.count) for one in podsets)
    together = frozenset(one.name for one in podsets if starts_together(subject.metadata))
    return Ask(tuple(zip(podsets, counts, strict=True)), together)


def _ask_of_set(source: JobSet, *, begun: bool) -> Ask:
    """All of its roles. begun: some of its pods have succeeded before, and are not made again."""
    podsets = JobSetIntegration().podsets(source)
    return Ask(tuple((podset, podset.count) for podset in podsets), frozenset() if begun else at_once(source))


def prospects(subject: JobRecord | Workload, state: JobState, room: Room) -> Verdict:
    """Whether a job that does not start, as its state says, ever will."""
    if not state.stuck or (isinstance(subject, JobRecord) and subject.manager):
        return OPEN
    quota_state = state.quota_state
    queue = quota_state.queue if quota_state is not None and quota_state.final else ""
    return verdict(ask_of(subject), room, subject.metadata.namespace, queue)


def doubted(subject: JobRecord | Workload, state: JobState, room: Room) -> JobState:
    """The state, with the reason why it can never start or which nodes it waits for, if that is so."""
    said = prospects(subject, state, room).sentence
    return state.saying("; ".join(filter(None, (said, state.progress)))) if said else state


def verdict(ask: Ask, room: Room, namespace: str = "", queue: str = "") -> Verdict:
    """Whether it can never start. queue: the LocalQueue that it needs quota of; "" if it needs none."""
    ask = replace(
        ask, podsets=tuple((room.completion.podset(podset, namespace), count) for podset, count in ask.podsets)
    )

    def lacks(extent: Extent) -> tuple[dict[str, str], dict[str, str]]:
        """What the nodes lack, and the quota, by resource ("" for what is of none)."""
        quota = room.quota_of(extent, namespace, queue) if queue else None
        by_nodes = _by_nodes(ask, extent.capacity, fixed=room.fixed) if ask.here and room.nodes else {}
        return by_nodes, _by_quota(ask, quota, queue) if quota is not None else {}

    try:
        by_nodes, by_quota = lacks(room.best)
        if not by_nodes and not by_quota:
            return Verdict(awaits=_awaited(ask, room, lambda extent: not any(lacks(extent))))
    except ValueError:  # a quantity that is none: that is for others to say
        return OPEN
    # Where the nodes are too small the quota is too small as well, as a rule: that is said once.
    shown = {resource: text for resource, text in by_quota.items() if not by_nodes or text.endswith(_AT_ALL)}
    certain = (bool(by_quota) and not room.may_grow(namespace, queue)) or (room.fixed and bool(by_nodes))
    return Verdict("; ".join((shown | by_nodes).values()), certain)


def _awaited(ask: Ask, room: Room, suffices: Callable[[Extent], bool]) -> str:
    """What of the nodes that it could go to has to become well; "" if it fits as they are."""
    if not room.unwell or suffices(room.now):
        return ""
    shapes = {_shape_of(podset) for podset, count in ask.podsets if count}
    resources = {resource for shape in shapes for resource, _ in shape.requests}
    best = room.best.capacity
    fitting = [best.fitting(shape) for shape in shapes]
    lacks = [lack for lack in room.unwell if any(fits[best.index_of(lack.node)] for fits in fitting)]
    states = [lack.states for lack in lacks if lack.states]
    devices = [text for lack in lacks for resource, text in lack.devices.items() if resource in resources]
    if states and devices and suffices(room.recovered) != suffices(room.healed):  # one of them alone will do
        states, devices = (states, []) if suffices(room.recovered) else ([], devices)
    found = [*states, *devices]
    if not found:  # a quota that is about to follow
        return ""
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more + ("" if room.fixed else ", or more nodes")


# Nodes.


def _by_nodes(ask: Ask, capacity: Capacity, *, fixed: bool) -> dict[str, str]:
    together = ask.together if fixed else ()  # elsewhere other schedulers may place them
    counts: dict[Shape, int] = {}
    asked: dict[Shape, Mapping[str, int]] = {}  # of one pod: shapes know no more than would fill any node
    for podset, count in ask.podsets:
        shape = _shape_of(podset)
        if count:
            asked.setdefault(shape, pod_requests(podset.template.spec))
        if podset.name in together:
            counts[shape] = counts.get(shape, 0) + count
    ever = " ever" if fixed else ""
    for shape, of_one in asked.items():
        if found := _of_one(capacity, shape, of_one, ever):
            return found
    outcome = place(capacity, {shape: count for shape, count in counts.items() if count})
    if isinstance(outcome, Refusal) and outcome.proven:
        nodes = "the nodes have" if len(capacity) != 1 else "the node has"
        each = f" with {words} each" if (words := _words(asked[outcome.shape])) else ""
        return {"": f"its {outcome.wanted} pods{each} never fit at once; empty, {nodes} room for {outcome.fits}"}
    return {}


def _shape_of(podset: PodSet) -> Shape:
    """That of one pod. Volumes may yet be there, and pods around it may come and go."""
    return msgspec.structs.replace(shape_of(Pod(spec=podset.template.spec)), claims=())


def _of_one(capacity: Capacity, shape: Shape, asked: Mapping[str, int], ever: str) -> dict[str, str]:
    """What no node has for one pod."""
    if shape.unable:
        return {"": shape.unable}
    if capacity.fitting(shape).any():
        return {}
    eligible = capacity.eligible(shape)
    if not eligible.any():
        closed = sorted(capacity.closed(shape).items())
        return {"": f"no node is{ever} open to its pods: " + ", ".join(f"{count} {why}" for why, count in closed)}
    lacking = {}
    for resource, wanted in shape.requests:
        most = int(capacity.allocatable_of(resource)[eligible].max(initial=0))
        if wanted > most:
            largest = f"the largest has {quantity(resource, most)}" if most else "none has any"
            needed = quantity(resource, asked.get(resource, wanted))
            lacking[resource] = f"no node{ever} has {needed} {resource}; {largest}"
    return lacking or {"": f"no node{ever} has {_words(asked)} at once"}


def _words(amounts: Mapping[str, int]) -> str:
    """`2 cpu and 4Gi memory`."""
    return _and([f"{quantity(resource, amount)} {resource}" for resource, amount in amounts.items() if amount])


def _and(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 2 else words)


# Quota.


def _by_quota(ask: Ask, node: QuotaNode, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    total: dict[str, int] = {}
    for podset, count in ask.podsets:
        asked = {
            resource: amount * count for resource, amount in requests_of(podset.template.spec, ResourceRules()).items()
        }
        asked[PODS] = count
        for resource, amount in asked.items():
            total[resource] = total.get(resource, 0) + amount
        found |= _of_one_podset(node, asked, name)
    return _of_all(node, total, name) | found


def _of_one_podset(node: QuotaNode, asked: Mapping[str, int], name: str) -> dict[str, str]:
    """A podset gets all of a resource from one flavor, and the resources of a group from the same."""
    found = {}
    for group in node.policy.groups:
        wanted = {resource: asked[resource] for resource in group.resources if asked.get(resource)}
        for resource, amount in wanted.items():
            most = max(_potentials(node, group, resource), default=0)
            if amount > most:
                found[resource] = _short(resource, amount, most, name)
        fits = (
            all(amount <= node.potential(FlavorResource(flavor, resource)) for resource, amount in wanted.items())
            for flavor in group.flavors
        )
        if wanted and not found.keys() & wanted.keys() and not any(fits):
            found[""] = f"no flavor in the quota of queue {name} has {_words(wanted)} at once"
    return found


def _of_all(node: QuotaNode, total: Mapping[str, int], name: str) -> dict[str, str]:
    """All podsets get no more than all flavors have."""
    found = {}
    for resource, amount in sorted(total.items()):
        group = node.policy.group_of(resource)
        if group is None:
            if amount and resource != PODS:
                found[resource] = f"the quota of queue {name} has no {resource}{_AT_ALL}"
        elif amount > (most := sum(_potentials(node, group, resource))):
            found[resource] = _short(resource, amount, most, name)
    return found


def _potentials(node: QuotaNode, group: ResourceGroup, resource: str) -> list[int]:
    return [node.potential(FlavorResource(flavor, resource)) for flavor in group.flavors]


def _short(resource: str, amount: int, most: int, name: str) -> str:
    if not most:
        return f"the quota of queue {name} has no {resource}{_AT_ALL}"
    asked, limit = quantity(resource, amount), quantity(resource, most)
    return f"the quota of queue {name} is {limit} {resource} at most, and it asks for {asked}"
