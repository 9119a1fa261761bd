"""Assign flavors: decide which flavor each podset of a workload gets for its resources, and in which mode.

The rules are Kueue's (flavorcall.go, Kueue KEP-582 fungibility). From each resource group of the ClusterQueue a podset
gets one flavor, for all its resources in the group. Flavors are tried in the order of the group. The first flavor that
is good enough by the queue's fungibility is chosen, else the best of all.

Podsets are assigned one after the other, and the usage of earlier ones counts. Podsets of one group (`together`) are
assigned as if they were one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.values.quantity import format_amount
from muster.api.values.selectors import SelectorError
from muster.queueing.model import (
    PODS,
    Assignment,
    Cause,
    FlavorAttempt,
    FlavorChoice,
    FlavorResource,
    FlavorSpec,
    Fungibility,
    Mode,
    PodSet,
    PodSetAssignment,
    QueueSpec,
    ResourceGroup,
    WorkloadInfo,
)
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.affinity import explain_mismatch
from muster.queueing.scheduling.explain import most_serious
from muster.queueing.topology.assigning import explain_unsuited
from muster.queueing.topology.nodelabels import NodeLabels

# The index of the last flavor tried, by the index of a podset in the workload and a resource.
Tried = Mapping[tuple[int, str], int]
Pinned = Mapping[tuple[int, str], str]

# The mode in which a flavor is available, and the level of borrowing (`FlavorChoice`).
How = tuple[Mode, int]

_WORST: How = (Mode.NO_FIT, 0)

# The maximum number of searches for flavors with matching labels, for podsets that are assigned together.
_MOST_SEARCHES = 256


class Oracle(Protocol):
    """A function that returns whether preemption could free an amount of one flavor and resource."""

    def __call__(self, fr: FlavorResource, amount: int) -> How:
        """Return NO_CANDIDATES, PREEMPT or RECLAIM, and the level of borrowing without the victims."""


def assign(
    workload: WorkloadInfo,
    node: Node,
    flavors: Mapping[str, FlavorSpec],
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    start: Tried | None = None,
    pinned: Pinned | None = None,
    fair: bool = False,
    ignore_undeclared: bool = False,
    nodes: NodeLabels | None = None,
) -> Assignment:
    """Assign flavors to all podsets of a workload in the ClusterQueue `node`.

    The assignment ends with the first podsets that fit in no flavor; later podsets are not tried.

    oracle: returns whether preemption could free an amount.
    counts: the number of pods of each podset; None for the podsets' own numbers.
    start: the last flavors that were tried, after which the search continues; None to start with the first.
    pinned: the only flavor that a resource of a podset may get; empty or None for any.
    fair: whether fair sharing is on.
    ignore_undeclared: whether resources that the ClusterQueue does not cover need no quota (`quotaCheckStrategy`).
    nodes: the labels of the cluster's nodes; None if they are unknown.
    """
    podsets = workload.podsets
    if counts is not None:
        podsets = tuple(replace(podset, count=count) for podset, count in zip(podsets, counts, strict=True))
    call = _Call(podsets, node, flavors, oracle, start or {}, pinned or {}, fair, ignore_undeclared, nodes)
    return call.run()


def level_of(node: Node, fr: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the level of borrowing that an amount needs, and whether preemption could reclaim the amount from others.

    The level is the height of the lowest subtree with enough quota left (0: the ClusterQueue itself), or of the whole
    tree if none has enough. The amount can be reclaimed if that subtree is not the whole tree.
    """
    if node.parent is None or not node.borrows(fr, amount):
        return 0, node.parent is not None
    height = 0
    for above in node.ancestors():
        amount -= node.local_available(fr)
        if not above.borrows(fr, amount):
            return above.height, above.parent is not None
        node, height = above, above.height
    return height, False


def is_preferred(one: How, other: How, fungibility: Fungibility) -> bool:
    """Return whether mode and level `one` are better than `other` for this queue (upstream isPreferred)."""
    return _rank_mode(*one, fungibility) > _rank_mode(*other, fungibility)


def _rank_mode(mode: Mode, level: int, fungibility: Fungibility) -> tuple[int, int, int]:
    """Return the rank of a mode and level, the greater the better.

    If there are no candidates for preemption, the flavor is not available now and ranks below every available one.
    """
    if mode == Mode.NO_FIT:
        return 0, 0, 0
    viable = 1 if mode == Mode.NO_CANDIDATES else 2
    if fungibility.preference == "BorrowingOverPreemption":
        return viable, mode, -level
    return viable, -level, mode


def _needs_next(mode: Mode, level: int, fungibility: Fungibility) -> bool:
    """Return whether the next flavor must be tried after this mode and level."""
    if mode <= Mode.NO_CANDIDATES:
        return True
    if mode != Mode.FIT and fungibility.try_next_before_preempting:
        return True
    return level > 0 and fungibility.try_next_before_borrowing


class _Quote(Struct):
    """The way in which a flavor could provide one resource: mode, level of borrowing, and why it is no better."""

    mode: Mode
    level: int = 0
    reason: str = ""
    cause: Cause = ""


class _Offer(Struct):
    """The way in which a flavor could provide all resources of a group.

    how: the mode and level of the worst resource.
    """

    attempt: FlavorAttempt
    how: How
    quotes: dict[str, _Quote]


class _Call(Struct):
    """One call of `assign`: its arguments, and the usage of the podsets assigned so far."""

    podsets: tuple[PodSet, ...]
    node: Node
    flavors: Mapping[str, FlavorSpec]
    oracle: Oracle
    start: Tried
    pinned: Pinned
    fair: bool
    ignore_undeclared: bool
    nodes: NodeLabels | None
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    @property
    def queue(self) -> QueueSpec:
        """The specification of the ClusterQueue."""
        return self.node.policy

    def run(self) -> Assignment:
        assignments: dict[int, PodSetAssignment] = {}
        for members in _group_podsets(self.podsets):
            group = _Group(self, members)
            has_flavors = group.choose()
            assignments.update(zip(members, group.assignments(), strict=True))
            if not has_flavors:
                break
        podsets = tuple(assignments[index] for index in sorted(assignments))
        level = max((choice.level for podset in podsets for choice in podset.flavors.values()), default=0)
        return Assignment(podsets, self.usage, level)

    def total(self, podset: PodSet) -> dict[str, int]:
        """Return the requests of all pods of a podset, and their number if the ClusterQueue has a quota of pods."""
        requests = {resource: amount * podset.count for resource, amount in podset.requests.items()}
        if self.queue.group_of(PODS) is not None:
            requests[PODS] = podset.count
        return requests

    def quote(self, fr: FlavorResource, request: int) -> _Quote:
        """Return how a flavor could provide a resource (upstream fitsResourceQuota)."""
        node, assumed = self.node, self.usage.get(fr, 0)
        amount = assumed + request
        if amount > (most := node.potential(fr)):
            return _Quote(Mode.NO_FIT, 0, _explain_excess(fr, assumed, request, most), "ExceedsMaxQuota")
        level, may_reclaim = level_of(node, fr, amount)
        available = max(0, node.available(fr))
        if amount <= available:
            return _Quote(Mode.FIT, level)
        lack = format_amount(fr.resource, amount - available)
        reason = f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, {lack} more needed"
        if node.quota(fr).nominal >= amount or may_reclaim or self._preempts_while_borrowing():
            return _Quote(*self.oracle(fr, amount), reason)
        return _Quote(Mode.NO_FIT, level, reason, "WaitingForQuota")

    def _preempts_while_borrowing(self) -> bool:
        policy = self.queue.preemption
        return policy.while_borrowing or (self.fair and policy.within_cohort != "Never")


def _explain_excess(fr: FlavorResource, assumed: int, request: int, most: int) -> str:
    before, now, limit = (format_amount(fr.resource, amount) for amount in (assumed, request, most))
    return (
        f"insufficient quota for {fr.resource} in flavor {fr.flavor}, previously considered podsets requests "
        f"({before}) + current podset request ({now}) > maximum capacity ({limit})"
    )


def _group_podsets(podsets: tuple[PodSet, ...]) -> list[list[int]]:
    """Return the indexes of podsets, grouped by podsets that must get the same flavors, in the order of the podsets."""
    groups: dict[str | int, list[int]] = {}
    for index, podset in enumerate(podsets):
        groups.setdefault(podset.together or index, []).append(index)
    return list(groups.values())


class _Group:
    """The search for flavors for podsets that must get the same flavors.

    members: the indexes of the podsets.
    """

    def __init__(self, call: _Call, members: list[int]) -> None:
        self.call = call
        self.members = members
        self.totals = [call.total(call.podsets[index]) for index in members]
        self.requests = self.totals[0] if len(members) == 1 else _add_up(self.totals)
        self.chosen: dict[str, FlavorChoice] = {}
        self.reasons: list[str] = []
        self.attempts: list[FlavorAttempt] = []
        self.error = ""
        self.searches = 0
        self.clashes: dict[str, str] = {}  # flavors whose labels conflict with a later choice, and the reason

    def choose(self) -> bool:
        """Choose flavors for all resources and count them as used; return False if a resource gets none."""
        if self._choose(sorted(self.requests)):
            self._add_to_usage()
            return True
        self.chosen = {}
        return False

    def _choose(self, resources: Sequence[str]) -> bool:
        """Choose flavors for the resources that have none yet; return False if a resource gets none."""
        for place, resource in enumerate(resources):
            if resource in self.chosen:
                continue
            group = self.call.queue.group_of(resource)
            if group is not None:
                return self._choose_from(group, resource, resources[place + 1 :])
            if self.requests[resource] and not self.call.ignore_undeclared:
                self.reasons = [f"resource {resource} unavailable in ClusterQueue"]
                return False
        return True

    def _choose_from(self, group: ResourceGroup, resource: str, rest: Sequence[str]) -> bool:
        """Choose a flavor of a resource group, and then flavors for the other resources; return False if that fails.

        If the labels of a flavor leave no flavor for the other resources, try the next best flavor instead.
        """
        barred: dict[str, str] = {}
        before = dict(self.chosen), list(self.reasons), list(self.attempts)
        while self._search(group, resource, barred):
            flavor = self.chosen[resource].flavor
            if self._choose(rest):
                return True
            clash = self.clashes.pop(flavor, "")
            if not clash or self.error or self.searches >= _MOST_SEARCHES:
                return False
            barred[flavor] = clash
            self.chosen, self.reasons, self.attempts = dict(before[0]), list(before[1]), list(before[2])
        return False

    def assignments(self) -> Iterator[PodSetAssignment]:
        """Yield the assignment of each podset."""
        reasons = tuple(sorted(self.reasons))
        attempts = tuple(sorted(self.attempts, key=lambda attempt: attempt.flavor))
        for index, total in zip(self.members, self.totals, strict=True):
            podset = self.call.podsets[index]
            flavors = {resource: self.chosen[resource] for resource in total if resource in self.chosen}
            yield PodSetAssignment(podset.name, podset.count, flavors, total, reasons, attempts, self.error)

    def _add_to_usage(self) -> None:
        usage = self.call.usage
        for resource, choice in self.chosen.items():
            if amount := self.requests[resource]:
                fr = FlavorResource(choice.flavor, resource)
                usage[fr] = usage.get(fr, 0) + amount

    def _search(self, group: ResourceGroup, resource: str, barred: Mapping[str, str]) -> bool:
        """Choose a flavor of a resource group (upstream findFlavorForPodSets); return False if none is suitable.

        barred: flavors that may not be chosen, and the reasons.
        """
        self.searches += 1
        fungibility = self.call.queue.fungibility
        number = self.call.queue.groups.index(group)
        resources = [name for name in sorted(self.requests) if name in group.resources]
        last = len(group.flavors) - 1
        index = self.call.start.get((self.members[0], resource), -1)
        best: _Offer | None = None
        tried = -1
        reasons: list[str] = []
        barred = {**self._find_without_nodes(group, number, resource), **barred}
        # The group may have been shortened since the index was recorded.
        for tried in range(index + 1 if index < last else 0, last + 1):
            offer = self._make_offer(group.flavors[tried], number, resource, resources, barred)
            if self.error:
                return False
            reasons.extend(offer.attempt.reasons)
            self.attempts.append(offer.attempt)
            if not _needs_next(*offer.how, fungibility):
                best = offer
                break
            if is_preferred(offer.how, best.how if best is not None else _WORST, fungibility):
                best = offer
        if best is None:
            self.reasons = reasons
            return False
        if best.attempt.mode != Mode.FIT:
            self.reasons += reasons
        tried = -1 if tried == last else tried
        for name, quote in best.quotes.items():
            self.chosen[name] = FlavorChoice(best.attempt.flavor, quote.mode, quote.level, tried)
        return True

    def _find_without_nodes(self, group: ResourceGroup, number: int, resource: str) -> dict[str, str]:
        """Return the flavors of a group that have no suitable node for the pods, each with the reason.

        The result is empty unless another flavor has a suitable node, because nodes may be created on demand.
        """
        nodes, podsets = self.call.nodes, [self.call.podsets[index] for index in self.members]
        if nodes is None or len(group.flavors) == 1 or not any(one.selector or one.terms for one in podsets):
            return {}
        usable = [name for name in group.flavors if not self._find_problem(name, resource, number)]
        verdicts = {name: [nodes.could_take(self.call.flavors[name], one) for one in podsets] for name in usable}
        if not any(map(all, verdicts.values())):
            return {}
        return {
            name: f"no node of flavor {name} matches node affinity"
            for name, verdict in verdicts.items()
            if False in verdict
        }

    def _make_offer(
        self, flavor: str, group: int, resource: str, resources: list[str], barred: Mapping[str, str]
    ) -> _Offer:
        """Return how a flavor could provide the wanted resources of its group."""
        if (
            problem := barred.get(flavor)
            or self._find_problem(flavor, resource, group)
            or self._find_clash(flavor, resources)
        ):
            return _Offer(FlavorAttempt(flavor, group, Mode.NO_FIT, 0, (problem,), "NoMatchingFlavor"), _WORST, {})
        call = self.call
        quotes = {name: call.quote(FlavorResource(flavor, name), self.requests[name]) for name in resources}
        offers = quotes.values()
        level = max(quote.level for quote in offers)
        if all(quote.mode == Mode.FIT for quote in offers):
            return _Offer(FlavorAttempt(flavor, group, Mode.FIT, level), (Mode.FIT, level), quotes)
        fungibility = call.queue.fungibility
        worst = min(offers, key=lambda quote: _rank_mode(quote.mode, quote.level, fungibility))
        reasons = tuple(sorted(quote.reason for quote in offers if quote.reason))
        cause = most_serious(*(quote.cause for quote in offers))
        attempt = FlavorAttempt(flavor, group, worst.mode, level, reasons, cause)
        return _Offer(attempt, (worst.mode, worst.level), quotes)

    def _find_problem(self, flavor: str, resource: str, group: int) -> str:
        """Return why a flavor may not be chosen, whatever its quota; "" if it may.

        A malformed node affinity also ends the search: it is stored as `error`.
        """
        call = self.call
        if call.pinned and flavor not in (call.pinned.get((index, resource)) for index in self.members):
            return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
        podsets = [call.podsets[index] for index in self.members]
        if any(podset.allowed and flavor not in podset.allowed for podset in podsets):
            return f"skipping flavor {flavor} due to WorkloadAllowedResourceFlavorAnnotation annotation"
        spec = call.flavors.get(flavor)
        if spec is None:
            return f"flavor {flavor} not found"
        if spec.topology or any(podset.topology is not None for podset in podsets):
            queue = call.queue
            covered = queue.groups[group].resources
            if problem := next(
                filter(None, (explain_unsuited(one, spec, covered, queue, call.flavors) for one in podsets)), ""
            ):
                return problem
        try:
            return next(filter(None, (explain_mismatch(podset, spec) for podset in podsets)), "")
        except SelectorError as error:
            self.error = str(error)
            return self.error

    def _find_clash(self, flavor: str, resources: list[str]) -> str:
        """Return why a flavor's labels conflict with those of flavors chosen for other resources; "" if they do not.

        Two flavors conflict if they need different values of one label, because a node has one value for a label.
        """
        labels = self.call.flavors[flavor].labels
        for resource, choice in self.chosen.items():
            others = self.call.flavors[choice.flavor].labels
            for key in labels.keys() & others.keys():
                if labels[key] != others[key] and resource not in resources:
                    clash = (
                        f"flavor {flavor} sets node label {key}={labels[key]}, "
                        f"and flavor {choice.flavor} of {resource} sets {key}={others[key]}"
                    )
                    self.clashes[choice.flavor] = clash
                    return clash
        return ""


def _add_up(totals: list[dict[str, int]]) -> dict[str, int]:
    requests: dict[str, int] = {}
    for total in totals:
        for resource, amount in total.items():
            requests[resource] = requests.get(resource, 0) + amount
    return requests
