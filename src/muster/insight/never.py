"""Whether a job can never start, however much of the cluster becomes free: what no node has, and what no quota covers.

It is said of what is proven only: the nodes are taken as empty, ready and uncordoned, a queue with all that it may
borrow, an elastic job at its least size. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from muster.api.core import Node, NodeCondition, Pod
from muster.api.elastic import bounds_of
from muster.api.jobset import JobSet
from muster.api.kueue import ClusterQueue, Cohort, LocalQueue, PodSet, Workload
from muster.api.pods import pod_requests
from muster.controllers.gangs import starts_together
from muster.controllers.integrations.job.integration import JobIntegration
from muster.controllers.integrations.jobset.integration import JobSetIntegration
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Refusal, place
from muster.gang.shapes import Shape, shape_of
from muster.insight.forecast import quota_tree
from muster.insight.jobstate import OPEN, JobState, Verdict
from muster.insight.record import JobRecord
from muster.insight.text import quantity
from muster.jobs.jobset.gang import is_one_gang
from muster.queueing.additions import Completion
from muster.queueing.model import PODS, FlavorResource, ResourceGroup
from muster.queueing.quota.tree import Node as QuotaNode
from muster.queueing.requests import ResourceRules, requests_of
from muster.runtime.objects import key_of

# Taints that come and go with the state of a node.
_PASSING = "node.kubernetes.io/"

_READY = NodeCondition(type="Ready", status="True")

_AT_ALL = " at all"
_NOTHING_ADDED = Completion()


@dataclass(frozen=True, slots=True)
class Ask:
    """What has to start, at the least: of each podset the pods and how many, and whether only all together."""

    podsets: tuple[tuple[PodSet, int], ...]
    together: bool


class Room:
    """All that a cluster has, as far as it may be seen. fixed: no nodes are added by themselves."""

    def __init__(
        self,
        nodes: Iterable[Node],
        *,
        fixed: bool,
        cluster_queues: Iterable[ClusterQueue] = (),
        cohorts: Iterable[Cohort] = (),
        local_queues: Iterable[LocalQueue] = (),
        completion: Completion = _NOTHING_ADDED,
    ) -> None:
        self.fixed = fixed
        self.capacity = Capacity()
        for node in nodes:
            self.capacity.set_node(_at_its_best(node))
        self.tree = quota_tree(cluster_queues, cohorts)
        self._behind = {key_of(queue): queue.spec.cluster_queue for queue in local_queues}
        self.completion = completion

    def quota_of(self, namespace: str, queue: str) -> QuotaNode | None:
        """That of a LocalQueue."""
        return self.tree.queues.get(self._behind.get(f"{namespace}/{queue}", ""))


def ask_of(subject: JobRecord | Workload) -> Ask:
    """A job; or a Workload where the job is of another kind, and it is not known how its pods are placed."""
    if isinstance(subject, Workload):
        return Ask(tuple((one, one.min_count or one.count) for one in subject.spec.pod_sets), together=False)
    if isinstance(subject.source, JobSet):
        return _ask_of_set(subject.source)
    podsets, bounds = JobIntegration().podsets(subject.source), bounds_of(subject.metadata.annotations)
    least = bounds.least if bounds is not None else None
    counts = (min(one.count, least or one.min_count or one.count) for one in podsets)
    return Ask(tuple(zip(podsets, counts, strict=True)), starts_together(subject.metadata))


def _ask_of_set(source: JobSet) -> Ask:
    """All of its roles."""
    podsets = JobSetIntegration().podsets(source)
    return Ask(tuple((podset, podset.count) for podset in podsets), is_one_gang(source))


def prospects(subject: JobRecord | Workload, state: JobState, room: Room) -> Verdict:
    """Whether a job that does not start, as its state says, ever will."""
    if not state.stuck:
        return OPEN
    quota_state = state.quota_state
    queue = quota_state.queue if quota_state is not None and quota_state.final else ""
    return verdict(ask_of(subject), room, subject.metadata.namespace, queue)


def doubted(subject: JobRecord | Workload, state: JobState, room: Room) -> JobState:
    """The state, with the reason why it can never start, if that is so."""
    found = prospects(subject, state, room)
    return state.saying(found.sentence) if found.text else state


def verdict(ask: Ask, room: Room, namespace: str = "", queue: str = "") -> Verdict:
    """Whether it can never start. queue: the LocalQueue that it needs quota of; "" if it needs none."""
    quota = room.quota_of(namespace, queue) if queue else None
    ask = replace(
        ask, podsets=tuple((room.completion.podset(podset, namespace), count) for podset, count in ask.podsets)
    )
    try:
        by_nodes = _by_nodes(ask, room) if len(room.capacity) else {}
        by_quota = _by_quota(ask, quota, queue) if quota is not None else {}
    except ValueError:  # a quantity that is none: that is for others to say
        return OPEN
    # Where the nodes are too small the quota is too small as well, as a rule: that is said once.
    shown = {resource: text for resource, text in by_quota.items() if not by_nodes or text.endswith(_AT_ALL)}
    return Verdict("; ".join((shown | by_nodes).values()), bool(by_quota) or (room.fixed and bool(by_nodes)))


# Nodes.


def _by_nodes(ask: Ask, room: Room) -> dict[str, str]:
    """What the nodes lack, by resource ("" for what is of none)."""
    capacity, together = room.capacity, ask.together and room.fixed  # elsewhere other schedulers may place them
    counts: dict[Shape, int] = {}
    asked: dict[Shape, Mapping[str, int]] = {}  # of one pod: shapes know no more than would fill any node
    for podset, count in ask.podsets:
        # Volumes may yet be there, and pods around it may come and go.
        shape = msgspec.structs.replace(shape_of(Pod(spec=podset.template.spec)), claims=())
        asked.setdefault(shape, pod_requests(podset.template.spec))
        counts[shape] = counts.get(shape, 0) + count if together else min(count, 1)
    ever = " ever" if room.fixed else ""
    for shape, count in counts.items():
        if count and (found := _of_one(capacity, shape, asked[shape], ever)):
            return found
    outcome = place(capacity, {shape: count for shape, count in counts.items() if count})
    if isinstance(outcome, Refusal) and outcome.proven:
        nodes = "the nodes have" if len(capacity) != 1 else "the node has"
        each = f" with {words} each" if (words := _words(asked[outcome.shape])) else ""
        return {"": f"its {outcome.wanted} pods{each} never fit at once; empty, {nodes} room for {outcome.fits}"}
    return {}


def _at_its_best(node: Node) -> Node:
    """Ready and uncordoned, as it may become."""
    replace = msgspec.structs.replace
    taints = tuple(taint for taint in node.spec.taints if not taint.key.startswith(_PASSING))
    conditions = (*(one for one in node.status.conditions if one.type != "Ready"), _READY)
    return replace(
        node,
        spec=replace(node.spec, unschedulable=False, taints=taints),
        status=replace(node.status, conditions=conditions),
    )


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
    """What the quota lacks, by resource ("" for what is of none)."""
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
