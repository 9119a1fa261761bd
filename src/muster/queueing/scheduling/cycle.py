"""Run the admission cycle: decide which workloads get quota now, which are preempted, and why the others wait.

A *head* is the first workload of a ClusterQueue that is worth a try. The cycle nominates the heads of all ClusterQueues
in the current state, serves the first in order, then the next, until no head can be served. The result and the order
equal those of a scheduler that admits one workload at a time (Kueue KEP-1714 and `scheduler.go`). But a head is
nominated again only if usage changed so far that its nomination may be invalid.

- A head that fits is admitted, and the next workload of its ClusterQueue becomes the head.
- A head that fits by preemption stays the head until its victims have terminated. Until it is admitted or can no longer
  be, its usage counts and the usage of its victims does not, in this cycle and in later ones. So no other workload uses
  the freed quota. A head that fits only because those victims terminate waits as well, and its quota is reserved.
- A head that does not fit is set aside, with its equivalence class, and the next workload becomes the head. In a
  StrictFIFO queue it stays the head. If it waits until preemption becomes possible, available quota is reserved for it.
- A head whose user has reached a limit of the ClusterQueue is set aside, in a StrictFIFO queue, too.
- The growth of a running workload (`growth.find_growth`) that does not fit is set aside in every queue, and no quota is
  reserved for it.
- If smaller elastic workloads suffice instead of a preemption, no workload is evicted. The head stays the head, and its
  quota is reserved.
- A head that fits, but has to wait until the pods of another workload are ready, stays the head, and its quota is
  reserved.

A head that needs preemption is nominated again when it is served. If its nomination changed, it is ordered again.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.kueue.names import WAITING_FOR_PREEMPTED_WORKLOADS
from muster.queueing.model import Assignment, FlavorSpec, Mode, PendingReason, Places, Usage, WorkloadInfo
from muster.queueing.pending.queue import Parked
from muster.queueing.pending.queues import Queues
from muster.queueing.pending.users import find_user_limit
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.quota.trial import assume_usage
from muster.queueing.scheduling import explain
from muster.queueing.scheduling.blocking import MESSAGE, BlockedScopes
from muster.queueing.scheduling.fairness import Contender
from muster.queueing.scheduling.heads import CohortTree, Heads
from muster.queueing.scheduling.migration import is_checked
from muster.queueing.scheduling.nomination import AdmissionSettings, BestAssignment, Nomination, may_improve, nominate
from muster.queueing.scheduling.preemption.candidates import Victim
from muster.queueing.topology.assigning import find_places_now

__all__ = ["AdmissionSettings", "CycleAdmission", "CycleOutcome", "CyclePreemption", "Pending", "Recomputation", "run"]

# Returns whether shrinking elastic workloads suffices, so that no workload needs to be evicted.
Spare = Callable[["CyclePreemption"], bool]

_DEFERRED = (
    "Workload has overlapping preemption targets with another workload, but will fit after these preemptions complete"
)


class CycleAdmission(Struct, frozen=True):
    """A workload that gets quota in this cycle, and its assignment."""

    workload: WorkloadInfo
    assignment: Assignment


class CyclePreemption(Struct, frozen=True):
    """A workload that needs preemption, and its victims.

    Some victims may already be evicted, or may be admitted in this same cycle.
    """

    workload: WorkloadInfo
    assignment: Assignment
    victims: tuple[Victim, ...]


def spare_none(decision: CyclePreemption) -> bool:  # noqa: ARG001  (a `Spare`)
    """Return False: the default of `spare`, for a cluster without elastic workloads, which spares no victims."""
    return False


class Pending(Struct, frozen=True):
    """A workload that was tried and waits."""

    workload: WorkloadInfo
    reason: str
    message: str


class Recomputation(StrEnum):
    """How an earlier preemption of the cycle changed the outcome for a later head with the same victims."""

    NEW_TARGETS = "new_targets"  # the head preempts other victims instead
    DEFERRED_FIT = "deferred_fit"  # the head fits after the common victims have terminated
    SKIPPED = "skipped"  # the head no longer fits


class CycleOutcome(Struct):
    """The decisions of a cycle, in order.

    spared: preemptions for which elastic workloads shrink instead.
    skips: by ClusterQueue, how many heads could have preempted if other heads had not been served first (metric
    `admission_cycle_preemption_skips`).
    recomputed: the ClusterQueues whose heads had victims in common with heads served earlier (metric
    `preemption_target_recomputations_total`).
    nominations: how many heads got flavors nominated.
    """

    admitted: list[CycleAdmission] = field(default_factory=list)
    preemptions: list[CyclePreemption] = field(default_factory=list)
    spared: list[CyclePreemption] = field(default_factory=list)
    pending: list[Pending] = field(default_factory=list)
    skips: dict[str, int] = field(default_factory=dict)
    recomputed: list[tuple[str, Recomputation]] = field(default_factory=list)
    nominations: int = 0


def run(
    tree: Tree,
    queues: Queues,
    flavors: Mapping[str, FlavorSpec],
    settings: AdmissionSettings,
    now: datetime,
    *,
    limit: float = inf,
    spare: Spare = spare_none,
) -> CycleOutcome:
    """Serve the heads of all ClusterQueues in which something changed; return the decisions.

    Admitted workloads leave the queues and their usage counts in the tree; otherwise the tree is unchanged. If
    `queues.untried` is not empty afterwards, call `run` again at once.

    limit: stop after about this many nominations, so that the caller can do other work in between. The next call has to
    nominate the heads again, so each call makes at least as many further nominations as there are heads.
    spare: returns whether shrinking elastic workloads suffices. It is called before any eviction, and reads the tree in
    the state after the earlier decisions.
    """
    return _Cycle(tree, queues, flavors, settings, now, spare).run(limit)


class _Reservation(Struct):
    """The quota that is reserved for the preemptor at the head of a ClusterQueue.

    holders: the victims that still hold quota.
    """

    node: Node
    parked: Parked
    holders: list[WorkloadInfo]

    @property
    def is_complete(self) -> bool:
        """Whether every victim still holds quota, as when the preemptor was last tried."""
        return len(self.holders) == len(self.parked.victims)


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
        self._closed = BlockedScopes(settings.blocking, tree.unready.values())
        self._heads = Heads(settings)
        self._forest: dict[Node, CohortTree] = {}
        self._away: set[str] = set()  # keys of victims, whose usage does not count for the rest of the cycle
        self._claimed: list[Places] = []  # topology domains reserved for heads that wait for victims
        self._left: list[Places] = []  # topology domains of victims, which count as free for the rest of the cycle
        self._outcome = CycleOutcome()
        self._most = inf  # the limit of nominations

    @property
    def _is_spent(self) -> bool:
        return self._outcome.nominations >= self._most

    def run(self, limit: float) -> CycleOutcome:
        """Decide about the heads until all are decided or the limit is reached; return the decisions.

        Changes of the tree are undone at the end, except admissions.

        limit: how many nominations may follow the first nomination of each head.
        """
        self._queues.advance(self._now)
        self._wake()
        heads = self._find_queues_to_try()
        more = max(limit, len(heads))
        self._most = len(heads) + more
        try:
            waiting = self._keep_reservations()
            for name in heads:
                if name not in waiting:
                    self._enter(name)
            # The order is known only when all heads are known. Without them, the next call continues to set heads
            # aside.
            if not self._is_spent:
                self._most = self._outcome.nominations + more
            while not self._is_spent and (nomination := self._heads.pop()) is not None:
                self._serve(nomination)
        finally:
            self._undo()
        self._wake()
        return self._outcome

    def _wake(self) -> None:
        """Retry each head whose blocker became ready or one of whose victims terminated.

        Also wake the workloads that could use quota which heads no longer claim.
        """
        for name, parked in list(self._queues.parked.items()):
            is_unblocked = parked.blocker and parked.blocker not in self._tree.unready
            if is_unblocked or any(self._tree.holder(victim) is None for victim in parked.victims):
                self._queues.retry(name)
        for name, freed in self._queues.take_lifted().items():
            if (node := self._tree.queues.get(name)) is not None:
                self._queues.flush(node, freed)

    def _find_queues_to_try(self) -> list[str]:
        """Return the ClusterQueues whose head has to be tried, and those in the same trees whose head claims quota."""
        names = [name for name in self._queues.untried if name in self._tree.queues]
        for name in names:
            self._forest.setdefault(self._tree.queues[name].root, CohortTree())
        if names and self._tree.ledger.in_use:
            # All trees share the nodes, so the topology domains kept for a preemptor count in every tree.
            for name, parked in self._queues.parked.items():
                if parked.places and name in self._tree.queues:
                    self._forest.setdefault(self._tree.queues[name].root, CohortTree())
        claiming = [
            name
            for name, parked in self._queues.parked.items()
            if parked.claim and name in self._tree.queues and self._tree.queues[name].root in self._forest
        ]
        return list(dict.fromkeys(names + claiming))

    def _keep_reservations(self) -> set[str]:
        """Count the quota reserved for preemptors as used by them, and admit preemptors whose victims have terminated.

        A reservation ends if a victim was finally not evicted, or if its preemptor would not fit even without the
        victims. Return the ClusterQueues whose head needs no further try.
        """
        reservations: list[_Reservation] = []
        for name, parked in sorted((name, parked) for name, parked in self._queues.parked.items() if parked.victims):
            node = self._tree.queues.get(name)
            if node is None or node.root not in self._forest or self._tree.is_in_circle(node):
                continue
            holders = [holder for key in parked.victims if (holder := self._tree.holder(key)) is not None]
            if all(holder.evicted for holder in holders):
                reservations.append(_Reservation(node, parked, holders))
        for reservation in reservations:
            for holder in reservation.holders:
                self._remove_victim(holder)
            self._reserve_for(reservation)
        untried = set(self._queues.untried)
        return {
            reservation.node.name
            for reservation in reservations
            if (reservation.is_complete and reservation.node.name not in untried) or self._redeem(reservation)
        }

    def _redeem(self, reservation: _Reservation) -> bool:
        """Admit a preemptor if it fits now; otherwise keep its quota reserved while its victims still hold theirs.

        Return whether the preemptor was admitted or keeps its reservation.
        """
        node, cohorts = reservation.node, self._get_cohort_tree(reservation.node)
        workload = self._queues.head(node.name)
        assert workload is not None, "the preemptor of a reservation is the head"
        if workload.family and any(holder.family == workload.family for holder in reservation.holders):
            self._renew(reservation, workload)  # both variants fit, but the job may have only one of them
            return True
        self._cancel(reservation)
        best = self._nominate_workload(node, workload).found
        if best.fits and not self._fits_now(node, best.assignment, cohorts):
            alternative = self._nominate_beside_victims(workload, cohorts)
            if not alternative.fits:
                if reservation.holders:
                    self._reserve_for(reservation)
                    self._renew(reservation, workload)
                return bool(reservation.holders)
            best = alternative
        if best.fits:
            self._admit_unless_blocked(node, workload, best.assignment, cohorts, sticky=True)
        return best.fits

    def _renew(self, reservation: _Reservation, workload: WorkloadInfo) -> None:
        parked, victims = reservation.parked, frozenset(holder.key for holder in reservation.holders)
        self._park(workload, parked.note, parked.claim, sticky=True, victims=victims, places=parked.places)

    def _reserve_for(self, reservation: _Reservation) -> None:
        reservation.node.add(reservation.parked.claim)
        self._get_cohort_tree(reservation.node).claims.append((reservation.node, reservation.parked.claim))
        self._claim_places(reservation.parked.places)

    def _find_victims(self, cohorts: CohortTree, assignment: Assignment) -> frozenset[str]:
        """Return the victims that must terminate before an assignment fits.

        They are in the assignment's tree. If topology domains are short, they may be in any tree.
        """
        return frozenset(self._away if assignment.places else (victim.key for victim in cohorts.victims))

    def _cancel(self, reservation: _Reservation) -> None:
        reservation.node.remove(reservation.parked.claim)
        self._get_cohort_tree(reservation.node).claims.remove((reservation.node, reservation.parked.claim))
        self._tree.ledger.give(reservation.parked.places)
        for places in reservation.parked.places:
            self._claimed.remove(places)

    def _remove_victim(self, victim: WorkloadInfo) -> None:
        """Count a victim as deleted for the rest of the cycle.

        Its topology domains count as free in the other trees, too.
        """
        if victim.key in self._away:
            return
        queue = self._tree.queues[victim.queue]
        self._away.add(victim.key)
        self._forest.setdefault(queue.root, CohortTree()).send_away(queue, victim)
        self._left += victim.places
        self._tree.release(victim)
        self._heads.note_usage_change(queue)

    def _get_cohort_tree(self, node: Node) -> CohortTree:
        return self._forest[node.root]

    def _enter(self, name: str) -> None:
        """Find the current head of a ClusterQueue, and add it to the cycle's heads in place of the former head."""
        node = self._tree.queues[name]
        cohorts = self._get_cohort_tree(node)
        nomination = self._find_head(node)
        if nomination is None:
            cohorts.heads.pop(name, None)
            self._heads.withdraw(node)
        else:
            cohorts.watch(nomination)
            self._heads.enter(nomination)

    def _find_head(self, node: Node) -> Nomination | None:
        """Return the nomination of the first workload of a ClusterQueue that can be served.

        Workloads before it that do not fit are set aside. When the limit of nominations is reached, return None for
        every queue. Then no further head is served, so the order is kept.
        """
        while not self._is_spent and (head := self._queues.head(node.name)) is not None:
            if self._tree.is_in_circle(node):
                self._park(head, PendingReason("Suspended", f"ClusterQueue {node.name} is inactive"), {})
                return None
            if (limit := find_user_limit(node, head)) is not None:
                self._set_aside(head, limit, limited=True)
                continue
            nomination = self._nominate_workload(node, head)
            best = nomination.found
            strict = node.policy.strict and not head.growth_of
            if best.is_possible or (strict and best.mode > Mode.NO_FIT):
                return nomination
            note = _explain(best)
            if strict:
                self._park(head, note, {}, unplaced=best.unplaced)
                return None
            self._set_aside(head, note, unplaced=best.unplaced)
        return None

    def _nominate_workload(self, node: Node, workload: WorkloadInfo) -> Nomination:
        self._outcome.nominations += 1
        protected = self._queues.protected_from(workload.key)
        best = nominate(self._tree, workload, self._flavors, self._settings, protected)
        contender = Contender(node, workload, best.assignment.usage, self._queues.is_sticky(workload.key))
        return Nomination(
            contender,
            best,
            may_improve(node, best.assignment),
            self._get_cohort_tree(node).version,
            self._tree.ledger.version,
        )

    def _serve(self, nomination: Nomination) -> None:
        """Decide about one head: admit it, preempt for it, or reserve quota for it.

        If its nomination may be outdated, nominate it again, and decide later.
        """
        node, cohorts = nomination.node, self._get_cohort_tree(nomination.node)
        best = nomination.found
        if nomination.ledger != self._tree.ledger.version and best.fits and best.assignment.places:
            self._enter(node.name)  # another workload may now be the head
            return
        if not best.fits and nomination.version != cohorts.version:
            self._enter(node.name)
            renewed = cohorts.heads.get(node.name)
            if renewed is not None and (renewed.workload is not nomination.workload or not renewed.found.is_possible):
                renewed = None
            if best.victims and renewed is None:
                self._outcome.skips[node.name] = self._outcome.skips.get(node.name, 0) + 1
            if any(self._tree.holder(victim.workload.key) is None for victim in best.victims):
                self._outcome.recomputed.append((node.name, _classify_recomputation(renewed)))
            return
        cohorts.heads.pop(node.name, None)
        if best.fits:
            self._serve_fitting(nomination, cohorts)
        elif best.victims:
            self._preempt(nomination, cohorts)
        else:
            self._reserve(nomination, cohorts)

    def _serve_fitting(self, nomination: Nomination, cohorts: CohortTree) -> None:
        """Admit a workload that fits. If it fits only after victims of others end, reserve its quota until then."""
        node, workload, assignment = nomination.node, nomination.workload, nomination.found.assignment
        if not self._fits_now(node, assignment, cohorts):
            alternative = self._nominate_beside_victims(workload, cohorts)
            if not alternative.fits:
                note = PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, _DEFERRED)
                if workload.growth_of:
                    self._set_aside(workload, note)
                    self._enter(node.name)
                    return
                self._claim_usage(node, assignment.usage, cohorts, assignment.places)
                self._park(
                    workload,
                    note,
                    assignment.usage,
                    sticky=True,
                    unplaced=bool(assignment.places),
                    victims=self._find_victims(cohorts, assignment),
                    places=assignment.places,
                )
                return
            assignment = alternative.assignment
        self._admit_unless_blocked(node, workload, assignment, cohorts)

    def _admit_unless_blocked(
        self, node: Node, workload: WorkloadInfo, assignment: Assignment, cohorts: CohortTree, *, sticky: bool = False
    ) -> None:
        """Admit a workload, or park it until the pods of another workload are ready."""
        if blocker := self._closed.blocker(workload, assignment.usage):
            self._claim_usage(node, assignment.usage, cohorts, assignment.places)
            note = PendingReason("WaitingForPodsReady", MESSAGE)
            self._park(workload, note, assignment.usage, sticky=sticky, blocker=blocker)
            return
        self._admit(node, workload, assignment, cohorts)

    def _admit(self, node: Node, workload: WorkloadInfo, assignment: Assignment, cohorts: CohortTree) -> None:
        holder = replace(
            workload,
            usage=assignment.usage,
            places=assignment.places,
            reserved=self._now,
            admitted=bool(workload.family) and not is_checked(node.policy, workload),
            evicted=False,
            ready=False,
        )
        self._tree.hold(holder)
        self._closed.close(holder)
        self._queues.remove(workload.key, usage=assignment.usage)
        self._outcome.admitted.append(CycleAdmission(holder, assignment))
        self._renominate(cohorts.grow(assignment.usage))
        self._enter(node.name)

    def _preempt(self, nomination: Nomination, cohorts: CohortTree) -> None:
        """Record a preemption, and reserve the quota and domains for its workload, which waits as the head (parked).

        If elastic workloads shrink instead, no workload is preempted.
        """
        node, workload, assignment = nomination.node, nomination.workload, nomination.found.assignment
        decision = CyclePreemption(workload, assignment, nomination.found.victims)
        migrates = nomination.found.migrates
        if not migrates and self._spare(decision):
            self._outcome.spared.append(decision)
            message = f"{explain.explain_wait(assignment)}. Pending elastic workload(s) that shrink"
            self._park(workload, PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, message), assignment.usage, sticky=True)
            self._claim_usage(node, assignment.usage, cohorts)
            return
        self._outcome.preemptions.append(decision)
        if not migrates:
            self._queues.displace(workload, (victim.workload for victim in decision.victims))
        kind = "migration" if migrates else "preemption"
        message = f"{explain.explain_wait(assignment)}. Pending the {kind} of {len(decision.victims)} workload(s)"
        for victim in nomination.found.victims:
            self._remove_victim(victim.workload)
        node.add(assignment.usage)
        cohorts.claims.append((node, assignment.usage))
        places: tuple[Places, ...] = ()
        if self._tree.ledger.in_use:
            places = find_places_now(assignment, workload.podsets, self._flavors, self._tree.ledger) or ()
            self._claim_places(places)
        self._park(
            workload,
            PendingReason(WAITING_FOR_PREEMPTED_WORKLOADS, message),
            assignment.usage,
            sticky=True,
            victims=frozenset(victim.workload.key for victim in nomination.found.victims),
            places=places,
        )
        cohorts.grow(assignment.usage)
        # Usage decreased as well, so a head may now get more than its nomination, even if that is still valid.
        self._renominate(cohorts.list_fitting())

    def _reserve(self, nomination: Nomination, cohorts: CohortTree) -> None:
        """Reserve available quota for the head of a StrictFIFO queue that does not fit and cannot preempt."""
        node, assignment = nomination.node, nomination.found.assignment
        claim: Usage = {}
        if node.policy.preemption.within_cohort != "Any":
            claim = _find_reservable(node, assignment)
        self._park(nomination.workload, _explain(nomination.found), claim, unplaced=nomination.found.unplaced)
        self._claim_usage(node, claim, cohorts)

    def _claim_usage(self, node: Node, usage: Usage, cohorts: CohortTree, places: tuple[Places, ...] = ()) -> None:
        node.add(usage)
        cohorts.claims.append((node, usage))
        self._claim_places(places)
        self._renominate(cohorts.grow(usage))

    def _renominate(self, nominations: Iterable[Nomination]) -> None:
        for nomination in nominations:
            self._enter(nomination.node.name)

    def _claim_places(self, places: tuple[Places, ...]) -> None:
        self._tree.ledger.take(places)
        self._claimed += places

    def _fits_now(self, node: Node, assignment: Assignment, cohorts: CohortTree) -> bool:
        """Return whether an assignment fits while the victims still hold their quota, ignoring claims."""
        return (not cohorts.victims or self._has_quota_now(node, assignment.usage, cohorts)) and (
            not self._left or self._has_places_now(assignment)
        )

    def _has_places_now(self, assignment: Assignment) -> bool:
        ledger = self._tree.ledger
        with ledger.assume(more=self._left, less=self._claimed):
            return ledger.holds(self._flavors, assignment.places)

    def _has_quota_now(self, node: Node, usage: Usage, cohorts: CohortTree) -> bool:
        with assume_usage(more=cohorts.freed.items(), less=cohorts.claims):
            return node.fits(usage)

    def _nominate_beside_victims(self, workload: WorkloadInfo, cohorts: CohortTree) -> BestAssignment:
        """Nominate a workload, perhaps with another flavor, while all claims count and all victims hold their quota."""
        with assume_usage(more=cohorts.freed.items()), self._tree.ledger.assume(more=self._left):
            return nominate(self._tree, workload, self._flavors, self._settings)

    def _park(
        self,
        workload: WorkloadInfo,
        note: PendingReason,
        claim: Usage,
        *,
        sticky: bool = False,
        blocker: str = "",
        unplaced: bool = False,
        victims: frozenset[str] = frozenset(),
        places: tuple[Places, ...] = (),
    ) -> None:
        self._queues.park(
            workload, note, claim, sticky=sticky, blocker=blocker, unplaced=unplaced, victims=victims, places=places
        )
        self._report(workload, note)

    def _set_aside(
        self, workload: WorkloadInfo, note: PendingReason, *, unplaced: bool = False, limited: bool = False
    ) -> None:
        self._queues.set_aside(workload, note, unplaced=unplaced, limited=limited)
        self._report(workload, note)

    def _report(self, workload: WorkloadInfo, note: PendingReason) -> None:
        self._outcome.pending.append(Pending(workload, note.reason, note.message))

    def _undo(self) -> None:
        self._tree.ledger.give(self._claimed)
        for cohorts in self._forest.values():
            for node, usage in cohorts.claims:
                node.remove(usage)
            for victim in cohorts.victims:
                self._tree.hold(victim)


def _classify_recomputation(renewed: Nomination | None) -> Recomputation:
    if renewed is None:
        return Recomputation.SKIPPED
    return Recomputation.DEFERRED_FIT if renewed.found.fits else Recomputation.NEW_TARGETS


def _explain(best: BestAssignment) -> PendingReason:
    if best.bar is not None:
        return best.bar
    message = explain.explain_wait(best.assignment)
    if best.gave_up:
        message += f". {best.gave_up}"
    return PendingReason(explain.find_reason(best.assignment) or "WaitingForQuota", message)


def _find_reservable(node: Node, assignment: Assignment) -> Usage:
    """Return how much of its requests a workload could get in its ClusterQueue without preemption (upstream #805)."""
    claim = {}
    for fr, amount in assignment.usage.items():
        quota = node.quota(fr)
        limit = quota.nominal
        if assignment.level:
            limit = node.usage.get(fr, 0) + amount if quota.borrowing is None else quota.nominal + quota.borrowing
        if (part := min(amount, limit - node.usage.get(fr, 0))) > 0:
            claim[fr] = part
    return claim
