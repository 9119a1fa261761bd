"""What could be done about one workload now: the flavors it would get, with all of its pods or fewer, at whose expense.

A nomination holds until usage in its tree grows by more than its slack: then it may fit no longer, or only by borrowing
from further away. Within a cycle usage only grows but for victims, so most nominations need no second look.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from muster.queueing.model import Assignment, FlavorResource, FlavorSpec, Mode, PodSetAssignment, WorkloadInfo
from muster.queueing.quota.tree import UNLIMITED, Node, Tree
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.scheduling.fairness import Contender, FairSharing
from muster.queueing.scheduling.flavors import assign, level_of
from muster.queueing.scheduling.partial import reduced
from muster.queueing.scheduling.preemption.candidates import Victim
from muster.queueing.scheduling.preemption.classical import Preemptor
from muster.queueing.topology.assigning import needs_places, placed, places_now


class AdmissionSettings(Struct, frozen=True):
    """How this cluster admits.

    fair: fair sharing is on. blocking: whose pods are waited for; None: no workload's.
    ignore_undeclared: resources that a ClusterQueue does not cover need no quota.
    past: by LocalQueue, how much it used lately (admission fair sharing).
    """

    fair: FairSharing | None = None
    blocking: Blocking | None = None
    ignore_undeclared: bool = False
    past: Mapping[str, float] = field(default_factory=dict)


class Found(Struct, frozen=True):
    """The best for a workload.

    mode: of the assignment. unplaced: in some flavor it was a place for its pods that was missing.
    """

    assignment: Assignment
    mode: Mode
    victims: tuple[Victim, ...] = ()
    unplaced: bool = False

    @property
    def fits(self) -> bool:
        """Whether it could be admitted without preemption."""
        return self.mode == Mode.FIT

    @property
    def possible(self) -> bool:
        """Whether it could be admitted at all."""
        return self.mode == Mode.FIT or bool(self.victims)


class Nomination(Struct, eq=False):
    """The head of a ClusterQueue, with what it would get.

    improvable: another flavor may turn out to be better while usage grows, as there may be one to displace then.
    version: of the usage of its tree. ledger: of the places of all trees.
    """

    contender: Contender
    found: Found
    improvable: bool
    version: int
    ledger: int = 0

    @property
    def node(self) -> Node:
        """Its ClusterQueue."""
        return self.contender.queue

    @property
    def workload(self) -> WorkloadInfo:
        """The head."""
        return self.contender.workload


def nominate(
    tree: Tree, workload: WorkloadInfo, flavors: Mapping[str, FlavorSpec], settings: AdmissionSettings
) -> Found:
    """The best for a workload: with all pods, or, if that cannot be had, with as many as can (KEP-420)."""
    search = _Search(tree, workload, flavors, settings)
    found = search.attempt(None)
    if found.possible or all(podset.least is None for podset in workload.podsets):
        return found
    return reduced(workload.podsets, search.success) or found


class _Search:
    """The search for one workload."""

    def __init__(
        self, tree: Tree, workload: WorkloadInfo, flavors: Mapping[str, FlavorSpec], settings: AdmissionSettings
    ) -> None:
        self._tree = tree
        self._node = tree.queues[workload.queue]
        self._workload = workload
        self._flavors = flavors
        self._settings = settings
        self._preemptor = Preemptor(tree, workload, fair=settings.fair, past=settings.past)
        self._oracle = self._nobody
        self._pinned = {
            (index, resource): flavor
            for index, podset in enumerate(workload.podsets)
            for resource, flavor in podset.flavors.items()
        }
        if not (_preempts_never(self._node) or workload.growth_of):
            self._oracle = self._preemptor.oracle

    def success(self, counts: Sequence[int]) -> Found | None:
        """With so many pods, if that can be had without preemption.

        Upstream also preempts for a part. But what was preempted for one size may not do for the next that is tried,
        and two workloads could take turns for ever.
        """
        found = self.attempt(counts)
        return found if found.fits else None

    def attempt(self, counts: Sequence[int] | None) -> Found:
        """Go on with the flavors after those that turned out not to do, until something does or all were tried.

        Upstream goes on in later cycles, so that what it finds depends on the past; here it is one search.
        """
        first: Found | None = None
        unplaced = False
        start: dict[tuple[int, str], int] = {}
        seen: list[dict[tuple[int, str], int]] = []
        while start not in seen:
            seen.append(start)
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
            )
            if self._tree.ledger.in_use:
                assignment = placed(assignment, self._workload.podsets, self._flavors, self._tree.ledger)
                unplaced = unplaced or any(podset.unplaced for podset in assignment.podsets)
            mode = assignment.mode
            found = Found(assignment, mode, self._victims(assignment, mode))
            if found.possible:
                return found
            first = first or found
            if not assignment.has_more_flavors:
                break
            start = {
                (index, resource): choice.tried
                for index, podset in enumerate(assignment.podsets)
                for resource, choice in podset.flavors.items()
            }
        assert first is not None, "there is a first attempt"
        return replace(first, unplaced=True) if unplaced else first

    def _victims(self, assignment: Assignment, mode: Mode) -> tuple[Victim, ...]:
        if mode not in (Mode.PREEMPT, Mode.RECLAIM):
            return ()
        if not (self._tree.ledger.in_use and needs_places(assignment, self._flavors)):
            return self._preemptor.victims(assignment)
        return self._preemptor.victims(assignment, partial(self._has_places, assignment))

    def _has_places(self, assignment: Assignment) -> bool:
        return places_now(assignment, self._workload.podsets, self._flavors, self._tree.ledger) is not None

    def _nobody(self, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        return Mode.NO_CANDIDATES, level_of(self._node, fr, amount)[0]


def _preempts_never(node: Node) -> bool:
    rules = node.policy.preemption
    return rules.within_queue == "Never" and rules.within_cohort == "Never"


def may_improve(node: Node, assignment: Assignment) -> bool:
    """Whether a flavor that was passed over might be taken later in the cycle; see `Nomination`.

    While usage grows a flavor only gets worse, but for one thing: there may come to be a workload to displace in it.
    """
    return not _preempts_never(node) and any(map(_passed_over, assignment.podsets))


def _passed_over(podset: PodSetAssignment) -> bool:
    usable = [attempt.group for attempt in podset.attempts if attempt.mode != Mode.NO_FIT]
    return len(usable) > len(set(usable))


def slack(node: Node, fr: FlavorResource, amount: int) -> int:
    """By how much usage may grow elsewhere in the tree and the amount still fits, at the same level of borrowing."""
    if node.parent is None:
        return UNLIMITED
    # Its own borrowing limit does not depend on others, so it is what is above that may run out.
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
