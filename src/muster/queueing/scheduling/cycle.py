"""The admission cycle: who gets quota now, at whose expense, and why the others do not.

The rule: of the heads of all ClusterQueues, each looked at as things stand, the first in order is served; then the
next, until no head is left that could be served. This is what a scheduler that admits one workload at a time would do
(the order is upstream's, KEP-1714 and `scheduler.go`), but here a head is looked at again only when usage changed so
far that its nomination may not hold.

- One that fits is admitted, and the next of its ClusterQueue becomes a head.
- One that fits at the expense of others stays the head until they are gone. For the rest of the cycle its usage counts,
  and theirs does not. Who fits only because they go waits as well, and keeps what it will get.
- One that does not fit is set aside, with all like it, and its successor becomes a head; of a StrictFIFO queue it stays
  the head, and if it waits for preemption to become possible, what it may have is kept for it. Growth of one that
  runs already (`growth.growth`) is set aside everywhere, and nothing is kept for it.
- One that fits at the expense of others, where smaller elastic workloads would do, stays the head as well and keeps
  what it will get; no workload is evicted.
- One that fits while the pods of another must get ready first stays the head and keeps what it will get.

A head whose turn depends on preemption is looked at again when its turn comes, and goes back if that changed.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.kueue.names import WAITING_FOR_PREEMPTED_WORKLOADS
from muster.queueing.model import Assignment, FlavorSpec, Mode, Places, Usage, WorkloadInfo
from muster.queueing.pending.queue import PendingReason
from muster.queueing.pending.queues import Queues
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling import explain
from muster.queueing.scheduling.blocking import MESSAGE, Closed
from muster.queueing.scheduling.fairness import Contender
from muster.queueing.scheduling.heads import CohortTree, Heads
from muster.queueing.scheduling.nomination import AdmissionSettings, Found, Nomination, may_improve, nominate
from muster.queueing.scheduling.preemption.candidates import Victim
from muster.queueing.topology.assigning import places_now

__all__ = ["Admission", "AdmissionSettings", "Outcome", "Pending", "Preemption", "Recomputation", "run"]

# Whether elastic workloads that shrink would do, so that none need be evicted.
Spare = Callable[["Preemption"], bool]

_DEFERRED = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)


class Admission(Struct, frozen=True):
    """A workload that holds quota from now on, and which."""

    workload: WorkloadInfo
    assignment: Assignment


class Preemption(Struct, frozen=True):
    """Who has to go, for whom. Those evicted already are among them; so may be one admitted in the same cycle."""

    workload: WorkloadInfo
    assignment: Assignment
    victims: tuple[Victim, ...]


def spare_none(decision: Preemption) -> bool:  # noqa: ARG001  (a `Spare`)
    """Where no workload is elastic."""
    return False


class Pending(Struct, frozen=True):
    """A workload that was looked at and waits."""

    workload: WorkloadInfo
    reason: str
    message: str


class Recomputation(StrEnum):
    """What became of a head whose victims go for another already, once they are counted as gone."""

    NEW_TARGETS = "new_targets"  # it fits at the expense of others
    DEFERRED_FIT = "deferred_fit"  # it fits once they are gone
    SKIPPED = "skipped"  # neither


class Outcome(Struct):
    """What a cycle decided, in order.

    spared: those for which elastic workloads are to shrink instead.
    skips: by ClusterQueue, how many heads could have preempted if others had not been served before (metric
    `admission_cycle_preemption_skips`). recomputed: of which ClusterQueues the heads had victims in common with others
    that were served before (metric `preemption_target_recomputations_total`). looks: how many nominations were made.
    """

    admitted: list[Admission] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    spared: list[Preemption] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    skips: dict[str, int] = field(default_factory=dict)
    recomputed: list[tuple[str, Recomputation]] = field(default_factory=list)
    looks: int = 0


def run(
    tree: Tree,
    queues: Queues,
    flavors: Mapping[str, FlavorSpec],
    settings: AdmissionSettings,
    now: datetime,
    *,
    limit: float = inf,
    spare: Spare = spare_none,
) -> Outcome:
    """Serve the heads of all ClusterQueues in which something changed.

    Those admitted leave the queues and hold their usage in the tree; otherwise the tree is as it was. More is to be
    done at once if `queues.untried` is not empty afterwards.

    limit: after about so many nominations stop, so that the caller can do something else before it goes on. The heads
        have to be nominated again by the next call, so at least as many as there are heads are made beside theirs.
    spare: asked before a workload is evicted; it reads the tree as the decisions before this one leave it.
    """
    return _Cycle(tree, queues, flavors, settings, now, spare).run(limit)


class _Cycle:
    def __init__(
        self,
        tree: Tree,
        queues: Queues,
        flavors: Mapping[str, FlavorSpec],
        settings: AdmissionSettings,
        now: datetime,
        spare: Spare,
    ) -> None:
        self._tree = tree
        self._queues = queues
        self._flavors = flavors
        self._settings = settings
        self._now = now
        self._spare = spare
        self._closed = Closed(settings.blocking, tree.unready.values())
        self._heads = Heads(settings)
        self._forest: dict[Node, CohortTree] = {}
        self._claimed: list[Places] = []  # places kept for those who wait for others to go
        self._left: list[Places] = []  # those of victims, which do not count for the rest of the cycle
        self._outcome = Outcome()
        self._most = inf  # nominations, until now and in all

    @property
    def _spent(self) -> bool:
        return self._outcome.looks >= self._most

    def run(self, limit: float) -> Outcome:
        self._queues.advance(self._now)
        self._wake()
        heads = self._to_try()
        more = max(limit, len(heads))
        self._most = len(heads) + more
        for name in heads:
            self._enter(name)
        try:
            # Without all heads it is not known whose turn it is: then the next call goes on with setting aside.
            if not self._spent:
                self._most = self._outcome.looks + more
            while not self._spent and (nomination := self._heads.pop()) is not None:
                self._serve(nomination)
        finally:
            self._undo()
        self._wake()
        return self._outcome

    def _wake(self) -> None:
        """Let those try again from whom another kept something, and those who waited for pods."""
        for name, parked in list(self._queues.parked.items()):
            if parked.blocker and parked.blocker not in self._tree.unready:
                self._queues.retry(name)
        for name, freed in self._queues.take_lifted().items():
            if (node := self._tree.queues.get(name)) is not None:
                self._queues.flush(node, freed)

    def _to_try(self) -> list[str]:
        """The ClusterQueues whose head is to be tried, and in their trees those whose head claims something."""
        names = [name for name in self._queues.untried if name in self._tree.queues]
        for name in names:
            self._forest.setdefault(self._tree.queues[name].root, CohortTree())
        rest = [
            name
            for name, parked in self._queues.parked.items()
            if parked.claim and name in self._tree.queues and self._tree.queues[name].root in self._forest
        ]
        return list(dict.fromkeys(names + rest))

    def _cohorts(self, node: Node) -> CohortTree:
        return self._forest[node.root]

    def _enter(self, name: str) -> None:
        """Put the head of a ClusterQueue among the heads, in place of the former one."""
        node = self._tree.queues[name]
        cohorts = self._cohorts(node)
        nomination = self._next(node)
        if nomination is None:
            cohorts.heads.pop(name, None)
            self._heads.withdraw(node)
        else:
            cohorts.watch(nomination)
            self._heads.enter(nomination)

    def _next(self, node: Node) -> Nomination | None:
        """The head of a ClusterQueue, if it can be served; those before it that do not fit are set aside.

        Once enough was looked at for now, none; then none at all is served any more, so the order is kept.
        """
        while not self._spent and (head := self._queues.head(node.name)) is not None:
            if self._tree.in_circle(node):
                self._park(head, PendingReason("Suspended", f"ClusterQueue {node.name} is inactive"), {})
                return None
            nomination = self._look(node, head)
            found = nomination.found
            strict = node.policy.strict and not head.growth_of
            if found.possible or (strict and found.mode > Mode.NO_FIT):
                return nomination
            note = _note(found.assignment)
            if strict:
                self._park(head, note, {}, unplaced=found.unplaced)
                return None
            self._set_aside(head, note, unplaced=found.unplaced)
        return None

    def _look(self, node: Node, workload: WorkloadInfo) -> Nomination:
        self._outcome.looks += 1
        found = nominate(self._tree, workload, self._flavors, self._settings)
        contender = Contender(node, workload, found.assignment.usage, self._queues.sticky(workload.key))
        return Nomination(
            contender,
            found,
            may_improve(node, found.assignment),
            self._cohorts(node).version,
            self._tree.ledger.version,
        )

    def _serve(self, nomination: Nomination) -> None:
        node, cohorts = nomination.node, self._cohorts(nomination.node)
        found = nomination.found
        if nomination.ledger != self._tree.ledger.version and found.fits and found.assignment.places:
            self._enter(node.name)  # another workload may have its place
            return
        if not found.fits and nomination.version != cohorts.version:
            self._enter(node.name)
            again = cohorts.heads.get(node.name)
            if again is not None and (again.workload is not nomination.workload or not again.found.possible):
                again = None
            if found.victims and again is None:
                self._outcome.skips[node.name] = self._outcome.skips.get(node.name, 0) + 1
            if any(self._tree.holder(victim.workload.key) is None for victim in found.victims):
                self._outcome.recomputed.append((node.name, _recomputed(again)))
            return
        cohorts.heads.pop(node.name, None)
        if found.fits:
            self._serve_fitting(nomination, cohorts)
        elif found.victims:
            self._preempt(nomination, cohorts)
        else:
            self._reserve(nomination, cohorts)

    def _serve_fitting(self, nomination: Nomination, cohorts: CohortTree) -> None:
        node, workload, assignment = nomination.node, nomination.workload, nomination.found.assignment
        if not self._fits_now(node, assignment, cohorts):
            elsewhere = self._without_victims(workload, cohorts)
            if not elsewhere.fits:
                note = PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, _DEFERRED)
                if workload.growth_of:
                    self._set_aside(workload, note)
                    self._enter(node.name)
                    return
                self._claim(node, assignment.usage, cohorts, assignment.places)
                self._park(workload, note, assignment.usage, sticky=True, unplaced=bool(assignment.places))
                return
            assignment = elsewhere.assignment
        if blocker := self._closed.blocker(workload, assignment.usage):
            self._claim(node, assignment.usage, cohorts, assignment.places)
            self._park(workload, PendingReason("WaitingForPodsReady", MESSAGE), assignment.usage, blocker=blocker)
            return
        self._admit(node, workload, assignment, cohorts)

    def _admit(self, node: Node, workload: WorkloadInfo, assignment: Assignment, cohorts: CohortTree) -> None:
        holder = replace(
            workload,
            usage=assignment.usage,
            places=assignment.places,
            reserved=self._now,
            evicted=False,
            ready=False,
        )
        self._tree.hold(holder)
        self._closed.close(holder)
        self._queues.remove(workload.key, taken=assignment.usage)
        self._outcome.admitted.append(Admission(holder, assignment))
        self._look_again(cohorts.grow(assignment.usage))
        self._enter(node.name)

    def _preempt(self, nomination: Nomination, cohorts: CohortTree) -> None:
        node, workload, assignment = nomination.node, nomination.workload, nomination.found.assignment
        decision = Preemption(workload, assignment, nomination.found.victims)
        if self._spare(decision):
            self._outcome.spared.append(decision)
            message = f"{explain.message(assignment)}. Pending elastic workload(s) that shrink"
            self._park(workload, PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, message), assignment.usage, sticky=True)
            self._claim(node, assignment.usage, cohorts)
            return
        self._outcome.preemptions.append(decision)
        count = len(nomination.found.victims)
        message = f"{explain.message(assignment)}. Pending the preemption of {count} workload(s)"
        self._park(workload, PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, message), assignment.usage, sticky=True)
        for victim in nomination.found.victims:
            cohorts.victims.append(victim.workload)
            self._left += victim.workload.places
            self._tree.release(victim.workload)
            self._heads.changed(self._tree.queues[victim.workload.queue])
        node.add(assignment.usage)
        cohorts.claims.append((node, assignment.usage))
        if self._tree.ledger.in_use:
            self._claim_places(places_now(assignment, workload.podsets, self._flavors, self._tree.ledger) or ())
        cohorts.grow(assignment.usage)
        # Usage shrank as well, so even those may be better off whose nomination still holds.
        self._look_again(cohorts.fitting())

    def _reserve(self, nomination: Nomination, cohorts: CohortTree) -> None:
        """The head of a StrictFIFO queue cannot preempt: keep for it what it may have without."""
        node, assignment = nomination.node, nomination.found.assignment
        claim: Usage = {}
        if node.policy.preemption.within_cohort != "Any":
            claim = _reservation(node, assignment)
        self._park(nomination.workload, _note(assignment), claim, unplaced=nomination.found.unplaced)
        self._claim(node, claim, cohorts)

    def _claim(self, node: Node, usage: Usage, cohorts: CohortTree, places: tuple[Places, ...] = ()) -> None:
        node.add(usage)
        cohorts.claims.append((node, usage))
        self._claim_places(places)
        self._look_again(cohorts.grow(usage))

    def _look_again(self, nominations: Iterable[Nomination]) -> None:
        for nomination in nominations:
            self._enter(nomination.node.name)

    def _claim_places(self, places: tuple[Places, ...]) -> None:
        self._tree.ledger.take(places)
        self._claimed += places

    def _fits_now(self, node: Node, assignment: Assignment, cohorts: CohortTree) -> bool:
        """Whether it fits as things are: no victim has gone yet, and no other workload has what it waits for."""
        return (not cohorts.victims or self._has_quota_now(node, assignment.usage, cohorts)) and (
            not self._left or self._has_places_now(assignment)
        )

    def _has_places_now(self, assignment: Assignment) -> bool:
        ledger = self._tree.ledger
        ledger.give(self._claimed)
        ledger.take(self._left)
        fits = ledger.holds(self._flavors, assignment.places)
        ledger.give(self._left)
        ledger.take(self._claimed)
        return fits

    def _has_quota_now(self, node: Node, usage: Usage, cohorts: CohortTree) -> bool:
        for claimant, claim in cohorts.claims:
            claimant.remove(claim)
        self._count_victims(cohorts)
        fits = node.fits(usage)
        self._discount_victims(cohorts)
        for claimant, claim in cohorts.claims:
            claimant.add(claim)
        return fits

    def _without_victims(self, workload: WorkloadInfo, cohorts: CohortTree) -> Found:
        """What it could have now beside what others wait for, from another flavor perhaps."""
        self._count_victims(cohorts)
        self._tree.ledger.take(self._left)
        found = nominate(self._tree, workload, self._flavors, self._settings)
        self._tree.ledger.give(self._left)
        self._discount_victims(cohorts)
        return found

    def _count_victims(self, cohorts: CohortTree) -> None:
        for victim in cohorts.victims:
            self._tree.queues[victim.queue].add(victim.usage or {})

    def _discount_victims(self, cohorts: CohortTree) -> None:
        for victim in cohorts.victims:
            self._tree.queues[victim.queue].remove(victim.usage or {})

    def _park(
        self,
        workload: WorkloadInfo,
        note: PendingReason,
        claim: Usage,
        *,
        sticky: bool = False,
        blocker: str = "",
        unplaced: bool = False,
    ) -> None:
        self._queues.park(workload, note, claim, sticky=sticky, blocker=blocker, unplaced=unplaced)
        self._tell(workload, note)

    def _set_aside(self, workload: WorkloadInfo, note: PendingReason, *, unplaced: bool = False) -> None:
        self._queues.set_aside(workload, note, unplaced=unplaced)
        self._tell(workload, note)

    def _tell(self, workload: WorkloadInfo, note: PendingReason) -> None:
        self._outcome.pending.append(Pending(workload, note.reason, note.message))

    def _undo(self) -> None:
        self._tree.ledger.give(self._claimed)
        for cohorts in self._forest.values():
            for node, usage in cohorts.claims:
                node.remove(usage)
            for victim in cohorts.victims:
                self._tree.hold(victim)


def _recomputed(again: Nomination | None) -> Recomputation:
    if again is None:
        return Recomputation.SKIPPED
    return Recomputation.DEFERRED_FIT if again.found.fits else Recomputation.NEW_TARGETS


def _note(assignment: Assignment) -> PendingReason:
    return PendingReason(explain.cause(assignment) or "WaitingForQuota", explain.message(assignment))


def _reservation(node: Node, assignment: Assignment) -> Usage:
    """Of what a workload asks for, what its ClusterQueue may use without displacing a workload (upstream #805)."""
    claim = {}
    for fr, amount in assignment.usage.items():
        quota = node.quota(fr)
        limit = quota.nominal
        if assignment.level:
            limit = node.usage.get(fr, 0) + amount if quota.borrowing is None else quota.nominal + quota.borrowing
        if (kept := min(amount, limit - node.usage.get(fr, 0))) > 0:
            claim[fr] = kept
    return claim
