"""Nominate a workload: find the flavors that it would get now, for all of its pods or fewer, and its victims.

A nomination is valid until usage in its tree grows by more than its slack. Then the workload may no longer fit, or only
by borrowing from a higher Cohort. Within a cycle usage only grows, except for victims, so most nominations are made
only one time.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from muster.queueing.model import (
    Assignment,
    FlavorResource,
    FlavorSpec,
    Mode,
    PendingReason,
    PodSetAssignment,
    WorkloadInfo,
)
from muster.queueing.quota.tree import UNLIMITED, Node, Tree
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.scheduling.fairness import Contender, FairSharing
from muster.queueing.scheduling.flavors import assign, level_of
from muster.queueing.scheduling.migration import GATED, find_bar, find_leaver, find_sibling
from muster.queueing.scheduling.partial import find_most_pods
from muster.queueing.scheduling.preemption.candidates import Victim
from muster.queueing.scheduling.preemption.classical import Preemptor
from muster.queueing.topology.assigning import assign_places, find_places_now, needs_places


class AdmissionSettings(Struct, frozen=True):
    """The settings of this cluster for admission.

    fair: the settings of fair sharing; None if it is off.
    blocking: the settings for waiting until the pods of other workloads are ready; None if that is off.
    ignore_undeclared: whether resources that a ClusterQueue does not cover need no quota.
    past: the past usage of LocalQueues (admission fair sharing).
    """

    fair: FairSharing | None = None
    blocking: Blocking | None = None
    ignore_undeclared: bool = False
    past: Mapping[str, float] = field(default_factory=dict)


class BestAssignment(Struct, frozen=True):
    """The best assignment that was found for a workload.

    mode: the mode of the assignment.
    unplaced: whether topology domains for its pods were missing in some flavor.
    gave_up: a sentence that says why the search for victims was stopped early; "" if it was complete.
    bar: why a possible assignment is withheld from a variant; `mode` is then NO_FIT. None if nothing withholds it.
    """

    assignment: Assignment
    mode: Mode
    victims: tuple[Victim, ...] = ()
    unplaced: bool = False
    gave_up: str = ""
    bar: PendingReason | None = None

    @property
    def migrates(self) -> bool:
        """Whether the workload fits, except that it replaces another variant of its parent."""
        return bool(self.victims) and all(victim.migrates for victim in self.victims)

    @property
    def fits(self) -> bool:
        """Whether the workload could be admitted without preemption."""
        return self.mode == Mode.FIT

    @property
    def is_possible(self) -> bool:
        """Whether the workload could be admitted, possibly by preemption."""
        return self.mode == Mode.FIT or bool(self.victims)


class Nomination(Struct, eq=False):
    """The head of a ClusterQueue, with the assignment that it would get.

    improvable: whether another flavor may become better while usage grows, because a workload to preempt may appear
    there.
    version: the version of its tree's usage.
    ledger: the version of the topology ledger.
    """

    contender: Contender
    found: BestAssignment
    improvable: bool
    version: int
    ledger: int = 0

    @property
    def node(self) -> Node:
        """The ClusterQueue of the head."""
        return self.contender.queue

    @property
    def workload(self) -> WorkloadInfo:
        """The workload that is the head."""
        return self.contender.workload


def nominate(
    tree: Tree,
    workload: WorkloadInfo,
    flavors: Mapping[str, FlavorSpec],
    settings: AdmissionSettings,
    protected: AbstractSet[str] = frozenset(),
) -> BestAssignment:
    """Find the best assignment of a workload: with all pods, or else with as many as possible (Kueue KEP-420).

    protected: keys of workloads that may not be preempted for it (`pending.displaced`).
    """
    search = _Search(tree, workload, flavors, settings, protected)
    best = search.attempt(None)
    if workload.family:
        return _restrict_variant(tree, workload, best)
    if best.is_possible or all(podset.least is None for podset in workload.podsets):
        return best
    return find_most_pods(workload.podsets, search.attempt_without_preemption) or best


def _restrict_variant(tree: Tree, workload: WorkloadInfo, best: BestAssignment) -> BestAssignment:
    """Return the assignment of a variant, limited by the admitted variant of the same parent.

    A variant always starts with all its pods.
    """
    if not best.is_possible:
        return best
    sibling, queue = find_sibling(tree, workload), tree.queues[workload.queue].policy
    if sibling is not None and (bar := find_bar(queue, workload, sibling)) is not None:
        return replace(best, mode=Mode.NO_FIT, victims=(), bar=bar)
    if not best.fits and workload.gated:
        return replace(best, mode=Mode.NO_FIT, victims=(), bar=GATED)
    if not best.fits or sibling is None:
        return best
    leavers = find_leaver(queue, workload, sibling)
    return replace(best, mode=Mode.RECLAIM, victims=leavers) if leavers else best


class _Search:
    """The search for the best assignment of one workload."""

    def __init__(
        self,
        tree: Tree,
        workload: WorkloadInfo,
        flavors: Mapping[str, FlavorSpec],
        settings: AdmissionSettings,
        protected: AbstractSet[str],
    ) -> None:
        self._tree = tree
        self._node = tree.queues[workload.queue]
        self._workload = workload
        self._flavors = flavors
        self._settings = settings
        self._preemptor = Preemptor(tree, workload, fair=settings.fair, past=settings.past, protected=protected)
        self._oracle = self._find_no_candidates
        self._pinned = {
            (index, resource): flavor
            for index, podset in enumerate(workload.podsets)
            for resource, flavor in podset.flavors.items()
        }
        if not (_is_preemption_off(self._node) or workload.growth_of):
            self._oracle = self._preemptor.oracle

    def attempt_without_preemption(self, counts: Sequence[int]) -> BestAssignment | None:
        """Return the assignment with these pod counts if it needs no preemption, else None.

        Upstream also preempts for a reduced number of pods. But the victims for one size may not suffice for the next
        size that is tried, and two workloads could preempt each other forever.
        """
        best = self.attempt(counts)
        return best if best.fits else None

    def attempt(self, counts: Sequence[int] | None) -> BestAssignment:
        """Return the assignment from the first flavors that suffice, or the best one if none does.

        Each attempt starts after the flavors of the last attempt. Upstream continues the search in later cycles, so its
        result depends on the past. Here the search is one call.
        """
        first: BestAssignment | None = None
        unplaced = False
        start: dict[tuple[int, str], int] = {}
        starts: list[dict[tuple[int, str], int]] = []
        while start not in starts:
            starts.append(start)
            assignment = assign(
                self._workload,
                self._node,
                self._flavors,
                self._oracle,
                counts=counts,
                start=start,
                pinned=self._pinned,
                fair=self._settings.fair is not None,
                ignore_undeclared=self._settings.ignore_undeclared,
                nodes=self._tree.node_labels,
            )
            if self._tree.ledger.in_use:
                assignment = assign_places(assignment, self._workload.podsets, self._flavors, self._tree.ledger)
                unplaced = unplaced or any(podset.unplaced for podset in assignment.podsets)
            mode = assignment.mode
            best = BestAssignment(assignment, mode, self._find_victims(assignment, mode))
            if best.is_possible:
                return best
            first = first or best
            if not assignment.has_more_flavors:
                break
            start = {
                (index, resource): choice.tried
                for index, podset in enumerate(assignment.podsets)
                for resource, choice in podset.flavors.items()
            }
        assert first is not None, "there is a first attempt"
        if unplaced or self._preemptor.gave_up:
            return replace(first, unplaced=unplaced, gave_up=self._preemptor.gave_up)
        return first

    def _find_victims(self, assignment: Assignment, mode: Mode) -> tuple[Victim, ...]:
        if mode not in (Mode.PREEMPT, Mode.RECLAIM):
            return ()
        if not (self._tree.ledger.in_use and needs_places(assignment, self._flavors)):
            return self._preemptor.victims(assignment)
        return self._preemptor.victims(assignment, partial(self._has_places, assignment))

    def _has_places(self, assignment: Assignment) -> bool:
        return find_places_now(assignment, self._workload.podsets, self._flavors, self._tree.ledger) is not None

    def _find_no_candidates(self, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        return Mode.NO_CANDIDATES, level_of(self._node, fr, amount)[0]


def _is_preemption_off(node: Node) -> bool:
    rules = node.policy.preemption
    return rules.within_queue == "Never" and rules.within_cohort == "Never"


def may_improve(node: Node, assignment: Assignment) -> bool:
    """Return whether a flavor that was not chosen may become the better choice later in the cycle.

    While usage grows, a flavor only becomes worse, with one exception: a workload to preempt may appear in it.
    """
    return not _is_preemption_off(node) and any(map(_has_passed_over, assignment.podsets))


def _has_passed_over(podset: PodSetAssignment) -> bool:
    usable = [attempt.group for attempt in podset.attempts if attempt.mode != Mode.NO_FIT]
    return len(usable) > len(set(usable))


def compute_slack(node: Node, fr: FlavorResource, amount: int) -> int:
    """Return how much usage may grow elsewhere in the tree while the amount still fits at its level of borrowing."""
    if node.parent is None:
        return UNLIMITED
    # The node's own borrowing limit does not depend on other nodes, so only the parent's quota may run out.
    room = node.parent.available(fr) - (amount - node.local_available(fr))
    if not node.borrows(fr, amount):
        return room
    below, rest = node, amount
    for above in node.ancestors():
        rest -= below.local_available(fr)
        if not above.borrows(fr, rest):
            return min(room, above.subtree.get(fr, 0) - above.usage.get(fr, 0) - rest)
        below = above
    return room
