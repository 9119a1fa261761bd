"""Define the common parts of classical and fair preemption: the request, its candidates, and trials in the tree.

An `AssumedAdmission` counts the incoming workload as admitted and removes candidates, in the tree itself. At its end,
with or without an error, it undoes both. A trial is cheaper than a copy of the tree, and exact, because usage is a
function of the usage of the leaves. With the incoming workload counted, it fits exactly if no amount available to it is
negative.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from math import inf
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct, field

from muster.queueing.model import FlavorResource, PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.holders import Rank, rank
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.quota.trial import assume_usage

Reason = Literal[
    "InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing", "FlavorMigration"
]


class Victim(Struct, frozen=True):
    """A workload to preempt, and the reason of its condition Preempted.

    The reason FlavorMigration is not a reason of that condition: the victim is a variant that a better variant
    replaces.
    """

    workload: WorkloadInfo
    reason: Reason

    @property
    def migrates(self) -> bool:
        """Whether the victim's job continues in another flavor."""
        return self.reason == "FlavorMigration"


class Search(Struct, frozen=True):
    """The result of a search for victims.

    victims: the workloads to preempt; empty if no preemption would help.
    gave_up: a sentence that says why the search was stopped early; "" if it was complete.
    """

    victims: tuple[Victim, ...] = ()
    gave_up: str = ""


class PreemptionRequest(Struct, frozen=True):
    """A workload that could only be admitted by preemption.

    usage: the usage that it would have.
    contested: the flavors and resources that are short; preempting a workload that holds none of them does not help.
    past: the past usage of LocalQueues, which orders the candidates of ClusterQueues with admission fair sharing.
    has_places: returns whether topology domains have room for its pods in the current state; None if it has no
    topology.
    by_place: whether workloads in topology domains are candidates, too, whatever quota they hold.
    protected: keys of workloads that may not be preempted for it, whatever the rules allow.
    """

    workload: WorkloadInfo
    usage: Usage
    contested: frozenset[FlavorResource]
    past: Mapping[str, float] = field(default_factory=dict)
    has_places: Callable[[], bool] | None = None
    by_place: bool = False
    protected: AbstractSet[str] = frozenset()

    def limit(self, policy: PreemptionPolicy) -> float:
        """Return the priority below which a workload may be a candidate under the policy.

        Under LowerOrNewerEqualPriority, candidates of equal priority must also be newer; `candidates` checks that.
        """
        limits: dict[PreemptionPolicy, float] = {
            "Never": -inf,
            "LowerPriority": self.workload.priority,
            "LowerOrNewerEqualPriority": self.workload.priority + 1,
            "Any": inf,
        }
        return limits[policy]

    def candidates(
        self, queue: Node, policy: PreemptionPolicy, *, evicted: bool, limit: float = inf
    ) -> Iterator[WorkloadInfo]:
        """Yield the workloads of the ClusterQueue that may be preempted under the policy, in order.

        evicted: whether to yield the workloads that are already being evicted, or the others.
        limit: the priority below which their priority must be.

        Among equal priorities, "newer" compares the time that orders the queue, which an eviction changes.
        """
        holders = queue.held.below(min(limit, self.limit(policy)), evicted=evicted)
        if queue.policy.by_usage and self.past:
            holders = iter(sorted(holders, key=lambda holder: (-self.past.get(holder.local_queue, 0.0), rank(holder))))
        newer_only = policy == "LowerOrNewerEqualPriority"
        mine = self.workload
        for holder in holders:
            if newer_only and holder.priority == mine.priority and not mine.queued < holder.queued:
                continue
            if holder.key == mine.key or holder.key in self.protected:
                continue
            if any((holder.usage or {}).get(fr) for fr in self.contested) or (self.by_place and holder.places):
                yield holder

    def is_borrowing(self, node: Node) -> bool:
        """Return whether the node borrows any contested flavor and resource."""
        return any(node.borrows(fr) for fr in self.contested)

    def borrowers(self, cohort: Node) -> list[Node]:
        """Return the nodes directly below the Cohort that borrow a contested resource, in order."""
        return cohort.borrowers(self.contested)

    def order(self, candidate: WorkloadInfo) -> tuple[bool, bool, Rank]:
        """Return the sort key of a candidate. Candidates of other ClusterQueues come before those of its own."""
        return not candidate.evicted, candidate.queue == self.workload.queue, rank(candidate)


class AssumedAdmission:
    """The tree as if the incoming workload were admitted and some victims were deleted. Use it in a `with` block."""

    def __init__(self, tree: Tree, request: PreemptionRequest) -> None:
        self._tree = tree
        self._usage = {fr: amount for fr, amount in request.usage.items() if amount > 0}
        self._has_places = request.has_places
        self.queue = tree.queues[request.workload.queue]
        self.taken: list[Victim] = []
        self.moves = 0  # how many times a victim was removed or put back

    def __enter__(self) -> Self:
        self.queue.add(self._usage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for victim in self.taken:
            self._put_back(victim)
        self.queue.remove(self._usage)

    def take(self, victim: Victim) -> Node:
        """Free the quota of a victim, and record the victim for `undo`; return its ClusterQueue."""
        self.taken.append(victim)
        return self._take_away(victim)

    def undo(self) -> None:
        """Put back the victim that was removed last."""
        self._put_back(self.taken.pop())

    def fits(self, *, borrowing: bool = True) -> bool:
        """Return whether the incoming workload fits by quota, borrowed if allowed, and by topology."""
        return self._has_quota(borrowing=borrowing) and (self._has_places is None or self._has_places())

    def _has_quota(self, *, borrowing: bool) -> bool:
        return all(self.queue.available(fr) >= 0 and (borrowing or not self.queue.borrows(fr)) for fr in self._usage)

    def is_hopeless(self, holdings: Iterable[tuple[Node, Usage]], *, borrowing: bool = True) -> bool:
        """Return whether the workload would lack quota even without all of these usages.

        holdings: the usages, each with its ClusterQueue.
        """
        with assume_usage(less=holdings):
            return not self._has_quota(borrowing=borrowing)

    def spare(self, *, borrowing: bool = True) -> tuple[Victim, ...]:
        """Put back every victim without which the workload still fits, the last removed first.

        Return the victims that remain removed. The victim removed last always remains.
        """
        needed = self.taken[-1:]
        for victim in reversed(self.taken[:-1]):
            self._put_back(victim)
            if not self.fits(borrowing=borrowing):
                self._take_away(victim)
                needed.append(victim)
        self.taken = needed[::-1]
        return tuple(self.taken)

    def retake(self, victims: Iterable[Victim]) -> None:
        """Put back all removed victims, and remove these victims instead."""
        for victim in self.taken:
            self._put_back(victim)
        self.taken = []
        for victim in victims:
            self.take(victim)

    def _take_away(self, victim: Victim) -> Node:
        self.moves += 1
        queue = self._tree.queues[victim.workload.queue]
        queue.remove(victim.workload.usage or {})
        self._tree.ledger.give(victim.workload.places)
        return queue

    def _put_back(self, victim: Victim) -> None:
        self.moves += 1
        self._tree.queues[victim.workload.queue].add(victim.workload.usage or {})
        self._tree.ledger.take(victim.workload.places)
