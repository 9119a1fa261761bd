"""Flavor assignment: from which flavor each podset of a workload would get its resources, and how.

The rules are Kueue's (flavorcall.go, KEP-582 fungibility). Of each resource group of the ClusterQueue a podset
gets one flavor, for all its resources in the group. Flavors are tried in the order of the group; the first that is good
enough by the queue's fungibility is taken, else the best of all. Podsets are served one after the other, each on top of
what those before it take; podsets of one group (`together`) are served as if they were one.
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
    Choice,
    FlavorAttempt,
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
from muster.queueing.scheduling.affinity import mismatch
from muster.queueing.scheduling.explain import most_serious
from muster.queueing.topology.assigning import unsuited

# By podset (its index in the workload) and resource.
Tried = Mapping[tuple[int, str], int]
Pinned = Mapping[tuple[int, str], str]

# The mode in which a flavor can be had, and from how far up (`Choice`).
How = tuple[Mode, int]

_WORST: How = (Mode.NO_FIT, 0)


class Oracle(Protocol):
    """What preemption could do for a single flavor and resource."""

    def __call__(self, fr: FlavorResource, amount: int) -> How:
        """NO_CANDIDATES, PREEMPT or RECLAIM, and the level once the victims are gone."""


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
) -> Assignment:
    """Flavors for all podsets of a workload in the ClusterQueue `node`.

    It ends with the first podsets that no flavor suits; later ones are not looked at.

    counts: of the podsets, if not their own.
    start: index of the last flavor that was tried, where the search goes on.
    pinned: the only flavor that may be taken for a resource of a podset; empty or None is any.
    fair: whether fair sharing is on.
    ignore_undeclared: resources that the ClusterQueue does not cover need no quota (`quotaCheckStrategy`).
    """
    podsets = workload.podsets
    if counts is not None:
        podsets = tuple(replace(podset, count=count) for podset, count in zip(podsets, counts, strict=True))
    call = _Call(podsets, node, flavors, oracle, start or {}, pinned or {}, fair, ignore_undeclared)
    return call.run()


def level_of(node: Node, fr: FlavorResource, amount: int) -> tuple[int, bool]:
    """How far an amount must be borrowed, and whether it could be taken back from others.

    The level is the height of the lowest subtree that has so much left (0: the ClusterQueue itself), or of the whole
    tree if none has; it can be taken back if that subtree is not the whole tree.
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


def preferred(one: How, other: How, fungibility: Fungibility) -> bool:
    """Whether it is better to have a flavor in the first way, by the queue's preference (upstream isPreferred)."""
    return _rank(*one, fungibility) > _rank(*other, fungibility)


def _rank(mode: Mode, level: int, fungibility: Fungibility) -> tuple[int, int, int]:
    """The greater, the better. Without candidates nothing can be had now, so it is below whatever is viable."""
    if mode == Mode.NO_FIT:
        return 0, 0, 0
    viable = 1 if mode == Mode.NO_CANDIDATES else 2
    if fungibility.preference == "BorrowingOverPreemption":
        return viable, mode, -level
    return viable, -level, mode


def _tries_next(mode: Mode, level: int, fungibility: Fungibility) -> bool:
    """Whether the flavors after one with this mode and level are looked at too."""
    if mode <= Mode.NO_CANDIDATES:
        return True
    if mode != Mode.FIT and fungibility.try_next_before_preempting:
        return True
    return level > 0 and fungibility.try_next_before_borrowing


class _Quote(Struct):
    """What a flavor could do for one resource."""

    mode: Mode
    level: int = 0
    reason: str = ""
    cause: Cause = ""


class _Offer(Struct):
    """What a flavor could do for all resources of a group; `how` is of the worst resource."""

    attempt: FlavorAttempt
    how: How
    quotes: dict[str, _Quote]


class _Call(Struct):
    """One call of `assign`: what it was asked, and what the podsets so far take."""

    podsets: tuple[PodSet, ...]
    node: Node
    flavors: Mapping[str, FlavorSpec]
    oracle: Oracle
    start: Tried
    pinned: Pinned
    fair: bool
    ignore_undeclared: bool
    usage: dict[FlavorResource, int] = field(default_factory=dict)

    @property
    def queue(self) -> QueueSpec:
        """The ClusterQueue as it is specified."""
        return self.node.policy

    def run(self) -> Assignment:
        done: dict[int, PodSetAssignment] = {}
        for members in _together(self.podsets):
            served = _Group(self, members)
            found = served.find()
            done.update(zip(members, served.assignments(), strict=True))
            if not found:
                break
        podsets = tuple(done[index] for index in sorted(done))
        level = max((choice.level for podset in podsets for choice in podset.flavors.values()), default=0)
        return Assignment(podsets, self.usage, level)

    def total(self, podset: PodSet) -> dict[str, int]:
        """What all pods of a podset need."""
        requests = {resource: amount * podset.count for resource, amount in podset.requests.items()}
        if self.queue.group_of(PODS) is not None:
            requests[PODS] = podset.count
        return requests

    def quote(self, fr: FlavorResource, request: int) -> _Quote:
        """How a flavor could provide a resource (upstream fitsResourceQuota)."""
        node, assumed = self.node, self.usage.get(fr, 0)
        amount = assumed + request
        if amount > (most := node.potential(fr)):
            return _Quote(Mode.NO_FIT, 0, _never(fr, assumed, request, most), "ExceedsMaxQuota")
        level, may_reclaim = level_of(node, fr, amount)
        available = max(0, node.available(fr))
        if amount <= available:
            return _Quote(Mode.FIT, level)
        missing = format_amount(fr.resource, amount - available)
        reason = f"insufficient unused quota for {fr.resource} in flavor {fr.flavor}, {missing} more needed"
        if node.quota(fr).nominal >= amount or may_reclaim or self._preempts_while_borrowing():
            return _Quote(*self.oracle(fr, amount), reason)
        return _Quote(Mode.NO_FIT, level, reason, "WaitingForQuota")

    def _preempts_while_borrowing(self) -> bool:
        policy = self.queue.preemption
        return policy.while_borrowing or (self.fair and policy.within_cohort != "Never")


def _never(fr: FlavorResource, assumed: int, request: int, most: int) -> str:
    before, now, limit = (format_amount(fr.resource, amount) for amount in (assumed, request, most))
    return (
        f"insufficient quota for {fr.resource} in flavor {fr.flavor}, previously considered podsets requests "
        f"({before}) + current podset request ({now}) > maximum capacity ({limit})"
    )


def _together(podsets: tuple[PodSet, ...]) -> list[list[int]]:
    """The indexes of podsets that must get the same flavors, groups in the order of their first podset."""
    groups: dict[str | int, list[int]] = {}
    for index, podset in enumerate(podsets):
        groups.setdefault(podset.together or index, []).append(index)
    return list(groups.values())


class _Group:
    """The search for podsets that are served together."""

    def __init__(self, call: _Call, members: list[int]) -> None:
        self.call = call
        self.members = members
        self.totals = [call.total(call.podsets[index]) for index in members]
        self.requests = self.totals[0] if len(members) == 1 else _sum(self.totals)
        self.chosen: dict[str, Choice] = {}
        self.reasons: list[str] = []
        self.attempts: list[FlavorAttempt] = []
        self.error = ""

    def find(self) -> bool:
        """Choose flavors for all resources and count them as used; False if there is none for one of them."""
        for resource in sorted(self.requests):
            group = self.call.queue.group_of(resource)
            if resource in self.chosen:
                continue
            if group is None:
                if self.requests[resource] == 0 or self.call.ignore_undeclared:
                    continue
                self.reasons = [f"resource {resource} unavailable in ClusterQueue"]
                break
            if not self._search(group, resource):
                break
        else:
            self._count()
            return True
        self.chosen = {}
        return False

    def assignments(self) -> Iterator[PodSetAssignment]:
        """For each of the podsets, its part of what was found."""
        reasons = tuple(sorted(self.reasons))
        attempts = tuple(sorted(self.attempts, key=lambda attempt: attempt.flavor))
        for index, total in zip(self.members, self.totals, strict=True):
            podset = self.call.podsets[index]
            flavors = {resource: self.chosen[resource] for resource in total if resource in self.chosen}
            yield PodSetAssignment(podset.name, podset.count, flavors, total, reasons, attempts, self.error)

    def _count(self) -> None:
        usage = self.call.usage
        for resource, choice in self.chosen.items():
            if amount := self.requests[resource]:
                fr = FlavorResource(choice.flavor, resource)
                usage[fr] = usage.get(fr, 0) + amount

    def _search(self, group: ResourceGroup, resource: str) -> bool:
        """Choose a flavor of a resource group (upstream findFlavorForPodSets)."""
        fungibility = self.call.queue.fungibility
        number = self.call.queue.groups.index(group)
        wanted = [name for name in sorted(self.requests) if name in group.resources]
        last = len(group.flavors) - 1
        index = self.call.start.get((self.members[0], resource), -1)
        best: _Offer | None = None
        tried = -1
        reasons: list[str] = []
        # The group may have become smaller since the index was noted.
        for tried in range(index + 1 if index < last else 0, last + 1):
            offer = self._offer(group.flavors[tried], number, resource, wanted)
            if self.error:
                return False
            reasons.extend(offer.attempt.reasons)
            self.attempts.append(offer.attempt)
            if not _tries_next(*offer.how, fungibility):
                best = offer
                break
            if preferred(offer.how, best.how if best is not None else _WORST, fungibility):
                best = offer
        if best is None:
            self.reasons = reasons
            return False
        if best.attempt.mode != Mode.FIT:
            self.reasons += reasons
        tried = -1 if tried == last else tried
        for name, quote in best.quotes.items():
            self.chosen[name] = Choice(best.attempt.flavor, quote.mode, quote.level, tried)
        return True

    def _offer(self, flavor: str, group: int, resource: str, wanted: list[str]) -> _Offer:
        """What a flavor of a group could do for the resources wanted of it."""
        if problem := self._problem(flavor, resource, group):
            return _Offer(FlavorAttempt(flavor, group, Mode.NO_FIT, 0, (problem,), "NoMatchingFlavor"), _WORST, {})
        call = self.call
        quotes = {name: call.quote(FlavorResource(flavor, name), self.requests[name]) for name in wanted}
        each = quotes.values()
        level = max(quote.level for quote in each)
        if all(quote.mode == Mode.FIT for quote in each):
            return _Offer(FlavorAttempt(flavor, group, Mode.FIT, level), (Mode.FIT, level), quotes)
        fungibility = call.queue.fungibility
        worst = min(each, key=lambda quote: _rank(quote.mode, quote.level, fungibility))
        reasons = tuple(sorted(quote.reason for quote in each if quote.reason))
        cause = most_serious(*(quote.cause for quote in each))
        attempt = FlavorAttempt(flavor, group, worst.mode, level, reasons, cause)
        return _Offer(attempt, (worst.mode, worst.level), quotes)

    def _problem(self, flavor: str, resource: str, group: int) -> str:
        """Why a flavor is out of the question, whatever its quota."""
        call = self.call
        if call.pinned and flavor not in (call.pinned.get((index, resource)) for index in self.members):
            return f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
        spec = call.flavors.get(flavor)
        if spec is None:
            return f"flavor {flavor} not found"
        podsets = [call.podsets[index] for index in self.members]
        if spec.topology or any(podset.topology is not None for podset in podsets):
            queue = call.queue
            covered = queue.groups[group].resources
            if said := next(filter(None, (unsuited(one, spec, covered, queue, call.flavors) for one in podsets)), ""):
                return said
        try:
            return next(filter(None, (mismatch(podset, spec) for podset in podsets)), "")
        except SelectorError as error:
            self.error = str(error)
            return self.error


def _sum(totals: list[dict[str, int]]) -> dict[str, int]:
    requests: dict[str, int] = {}
    for total in totals:
        for resource, amount in total.items():
            requests[resource] = requests.get(resource, 0) + amount
    return requests
