"""Keep the heads of a cycle in order, and find the heads to nominate again when usage changes.

Preemptors that wait for their victims come first. Without fair sharing, the other heads are ordered by level of
borrowing, priority, time and UID; with fair sharing, by the tournament of shares.

Without fair sharing, a replaced or withdrawn head stays in the heap; `pop` skips it.
"""

from datetime import datetime
from heapq import heappop, heappush

from msgspec import Struct, field

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.pending.queue import needs
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import Tournament
from muster.queueing.scheduling.nomination import AdmissionSettings, Nomination, compute_slack

_Key = tuple[bool, int, int, datetime, str]


class CohortTree(Struct, eq=False):
    """The state of a tree of Cohorts, or of a ClusterQueue without a Cohort, during one cycle.

    version: the number of changes of usage so far.
    heads: the current nominations, by ClusterQueue.
    claims: the usage that heads claim, and that no other workload may use before the end of the cycle.
    victims: the workloads that are treated as deleted.
    freed: the usage of the victims, by ClusterQueue.
    """

    version: int = 0
    heads: dict[str, Nomination] = field(default_factory=dict)
    claims: list[tuple[Node, Usage]] = field(default_factory=list)
    victims: list[WorkloadInfo] = field(default_factory=list)
    freed: dict[Node, dict[FlavorResource, int]] = field(default_factory=dict)
    _grown: dict[FlavorResource, int] = field(default_factory=dict)
    _until: dict[FlavorResource, list[tuple[int, int, Nomination]]] = field(default_factory=dict)
    _improvable: dict[FlavorResource, dict[str, Nomination]] = field(default_factory=dict)
    _serial: int = 0

    def send_away(self, queue: Node, victim: WorkloadInfo) -> None:
        """Treat a victim of the ClusterQueue as deleted for the rest of the cycle."""
        self.victims.append(victim)
        freed = self.freed.setdefault(queue, {})
        for fr, amount in (victim.usage or {}).items():
            freed[fr] = freed.get(fr, 0) + amount

    def watch(self, nomination: Nomination) -> None:
        """Store the nomination of a ClusterQueue's head, and at which growth of usage `grow` returns it.

        A nomination that fits stays valid until usage in the tree has grown beyond the slack. An improvable one is made
        again after any growth of a flavor and resource that the workload needs, because a workload to preempt may
        appear there.
        """
        node = nomination.node
        self.heads[node.name] = nomination
        if not nomination.found.fits:
            return  # the head is nominated again anyway when it is served
        for fr, amount in nomination.found.assignment.usage.items():
            self._serial += 1
            limit = self._grown.get(fr, 0) + compute_slack(node, fr, amount)
            heappush(self._until.setdefault(fr, []), (limit, self._serial, nomination))
        if nomination.improvable:
            for fr in needs(nomination.workload, node.policy):
                self._improvable.setdefault(fr, {})[node.name] = nomination

    def grow(self, usage: Usage) -> list[Nomination]:
        """Record that usage increased somewhere in the tree; return the nominations that may now be invalid."""
        self.version += 1
        stale: dict[str, Nomination] = {}
        for fr, amount in usage.items():
            grown = self._grown[fr] = self._grown.get(fr, 0) + amount
            until = self._until.get(fr, [])
            while until and until[0][0] < grown:
                self._collect(heappop(until)[2], stale)
            for nomination in self._improvable.pop(fr, {}).values():
                self._collect(nomination, stale)
        return list(stale.values())

    def list_fitting(self) -> list[Nomination]:
        """Return the nominations of all heads in this tree that fit without preemption."""
        return [nomination for nomination in self.heads.values() if nomination.found.fits]

    def _collect(self, nomination: Nomination, stale: dict[str, Nomination]) -> None:
        name = nomination.node.name
        if self.heads.get(name) is nomination:
            stale[name] = nomination


class Heads:
    """The heads of all trees, in the order in which they are served."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._tournament = Tournament((), settings.fair) if settings.fair is not None else None
        self._heap: list[tuple[_Key, int, Nomination]] = []
        self._current: dict[str, Nomination] = {}
        self._serial = 0

    def enter(self, nomination: Nomination) -> None:
        """Add a nomination as the head of its ClusterQueue, replacing the former head."""
        self._current[nomination.node.name] = nomination
        if self._tournament is not None:
            self._tournament.enter(nomination.contender)
        else:
            self._serial += 1
            heappush(self._heap, (self._make_key(nomination), self._serial, nomination))

    def withdraw(self, queue: Node) -> None:
        """Withdraw the head of a ClusterQueue."""
        self._current.pop(queue.name, None)
        if self._tournament is not None:
            self._tournament.leave(queue)

    def pop(self) -> Nomination | None:
        """Remove and return the next head; None if no head is left."""
        if self._tournament is not None:
            winner = self._tournament.pop()
            return self._current.pop(winner.queue.name) if winner is not None else None
        while self._heap:
            nomination = heappop(self._heap)[2]
            if self._current.get(nomination.node.name) is nomination:
                return self._current.pop(nomination.node.name)
        return None

    def note_usage_change(self, queue: Node) -> None:
        """Update the order after the usage of a ClusterQueue changed for a reason other than the head popped last."""
        if self._tournament is not None:
            self._tournament.recompute_results(queue)

    @staticmethod
    def _make_key(nomination: Nomination) -> _Key:
        workload = nomination.workload
        first = not nomination.contender.preemptor
        return first, nomination.found.assignment.level, -workload.priority, workload.queued, workload.uid
