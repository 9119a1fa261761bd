"""What classical and fair preemption share: who asks, who may be displaced, and trying it out in the tree.

A `Trial` counts the incoming workload as admitted and takes others out, in the tree itself, and undoes both when it
ends, however it ends. That is cheaper than any copy of the tree and exact, for usage is a function of what the leaves
hold. With the incoming workload counted, it fits exactly when nothing it uses is available in a negative amount.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf
from types import TracebackType
from typing import Literal, Self

from msgspec import Struct, field

from muster.queueing.model import FlavorResource, PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.holders import Rank, rank
from muster.queueing.quota.tree import Node, Tree

Reason = Literal["InClusterQueue", "InCohortReclamation", "InCohortReclaimWhileBorrowing", "InCohortFairSharing"]


class Victim(Struct, frozen=True):
    """A workload that has to give back its quota, and why (the reason of its condition Preempted)."""

    workload: WorkloadInfo
    reason: Reason


class Request(Struct, frozen=True):
    """A workload that could only be admitted at the expense of others.

    usage: all that it would be given.
    contested: of what there is not enough; only who holds some of that is worth displacing.
    past: by LocalQueue, how much it used lately; orders the candidates of ClusterQueues with admission fair sharing.
    has_places: whether there is a place for its pods, too, as things stand; None: they go anywhere.
    """

    workload: WorkloadInfo
    usage: Usage
    contested: frozenset[FlavorResource]
    past: Mapping[str, float] = field(default_factory=dict)
    has_places: Callable[[], bool] | None = None

    def limit(self, policy: PreemptionPolicy) -> float:
        """The priority that candidates have to be below. LowerOrNewerEqualPriority asks for more: see `candidates`."""
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
        """Who may be displaced in the ClusterQueue under the policy, in order.

        Among equals, "newer" is by the moment that orders the queue, which an eviction moves.
        """
        holders = queue.held.below(min(limit, self.limit(policy)), evicted=evicted)
        if queue.policy.by_usage and self.past:
            holders = iter(sorted(holders, key=lambda holder: (-self.past.get(holder.local_queue, 0.0), rank(holder))))
        newer_only = policy == "LowerOrNewerEqualPriority"
        mine = self.workload
        for holder in holders:
            if newer_only and holder.priority == mine.priority and not mine.queued < holder.queued:
                continue
            if holder.key != mine.key and any((holder.usage or {}).get(fr) for fr in self.contested):
                yield holder

    def borrowing(self, node: Node) -> bool:
        """Whether the node uses more than its own of something contested."""
        return any(node.borrows(fr) for fr in self.contested)

    def borrowers(self, cohort: Node) -> list[Node]:
        """Of the nodes directly below the Cohort those that do, in order."""
        return cohort.borrowers(self.contested)

    def order(self, candidate: WorkloadInfo) -> tuple[bool, bool, Rank]:
        """Of candidates of different ClusterQueues: those of other ClusterQueues come before its own."""
        return not candidate.evicted, candidate.queue == self.workload.queue, rank(candidate)


class Trial:
    """The tree as if the incoming workload was admitted and some others were gone. Use it in a `with`."""

    def __init__(self, tree: Tree, request: Request) -> None:
        self._tree = tree
        self._usage = {fr: amount for fr, amount in request.usage.items() if amount > 0}
        self._has_places = request.has_places
        self.queue = tree.queues[request.workload.queue]
        self.taken: list[Victim] = []

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
        """Its quota is free; returns the ClusterQueue that it was taken from."""
        self.taken.append(victim)
        return self._take_away(victim)

    def fits(self, *, borrowing: bool = True) -> bool:
        """Whether the incoming workload has its quota, if need be borrowed, and places for its pods."""
        return self._has_quota(borrowing=borrowing) and (self._has_places is None or self._has_places())

    def _has_quota(self, *, borrowing: bool) -> bool:
        return all(self.queue.available(fr) >= 0 and (borrowing or not self.queue.borrows(fr)) for fr in self._usage)

    def hopeless(self, holdings: Iterable[tuple[Node, Usage]], *, borrowing: bool = True) -> bool:
        """Whether it would not even have its quota if all of these holdings were given back."""
        gone: list[tuple[Node, Usage]] = []
        try:
            for node, usage in holdings:
                node.remove(usage)
                gone.append((node, usage))
            return not self._has_quota(borrowing=borrowing)
        finally:
            for node, usage in gone:
                node.add(usage)

    def spare(self, *, borrowing: bool = True) -> tuple[Victim, ...]:
        """The victims that are really needed: in reverse, each that can be put back is; the last one cannot."""
        needed = self.taken[-1:]
        for victim in reversed(self.taken[:-1]):
            self._put_back(victim)
            if not self.fits(borrowing=borrowing):
                self._take_away(victim)
                needed.append(victim)
        self.taken = needed[::-1]
        return tuple(self.taken)

    def _take_away(self, victim: Victim) -> Node:
        queue = self._tree.queues[victim.workload.queue]
        queue.remove(victim.workload.usage or {})
        self._tree.ledger.give(victim.workload.places)
        return queue

    def _put_back(self, victim: Victim) -> None:
        self._tree.queues[victim.workload.queue].add(victim.workload.usage or {})
        self._tree.ledger.take(victim.workload.places)
