"""The heads of a cycle: whose turn it is, and who has to be looked at again when usage changes.

Without fair sharing heads come by the level of borrowing, priority, time and UID; with it, by the tournament of shares.
In the first case a head that is entered again, or withdrawn, leaves its old entry behind; it is void.
"""

from dataclasses import dataclass, field
from datetime import datetime
from heapq import heappop, heappush

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo
from muster.queueing.pending.queue import needs
from muster.queueing.quota.tree import Node
from muster.queueing.scheduling.fairness import Tournament
from muster.queueing.scheduling.nomination import AdmissionSettings, Nomination, slack

_Key = tuple[int, int, datetime, str]


@dataclass(eq=False)
class CohortTree:
    """A tree of Cohorts, or a ClusterQueue alone, during a cycle.

    version: counts changes of usage. heads: the current nominations, by ClusterQueue. claims: what is kept from others
    until the end of the cycle. victims: who has to go, and is counted as gone.
    """

    version: int = 0
    heads: dict[str, Nomination] = field(default_factory=dict)
    claims: list[tuple[Node, Usage]] = field(default_factory=list)
    victims: list[WorkloadInfo] = field(default_factory=list)
    _grown: dict[FlavorResource, int] = field(default_factory=dict)
    _until: dict[FlavorResource, list[tuple[int, int, Nomination]]] = field(default_factory=dict)
    _improvable: dict[FlavorResource, dict[str, Nomination]] = field(default_factory=dict)
    _serial: int = 0

    def watch(self, nomination: Nomination) -> None:
        """Remember the head of a ClusterQueue, and up to which growth its nomination holds."""
        node = nomination.node
        self.heads[node.name] = nomination
        if not nomination.found.fits:
            return  # it is looked at again when its turn comes
        for fr, amount in nomination.found.assignment.usage.items():
            self._serial += 1
            limit = self._grown.get(fr, 0) + slack(node, fr, amount)
            heappush(self._until.setdefault(fr, []), (limit, self._serial, nomination))
        if nomination.improvable:
            for fr in needs(nomination.workload, node.policy):
                self._improvable.setdefault(fr, {})[node.name] = nomination

    def grow(self, usage: Usage) -> list[Nomination]:
        """Usage grew somewhere in the tree; whose nominations may not hold any more."""
        self.version += 1
        found: dict[str, Nomination] = {}
        for fr, amount in usage.items():
            grown = self._grown[fr] = self._grown.get(fr, 0) + amount
            until = self._until.get(fr, [])
            while until and until[0][0] < grown:
                self._collect(heappop(until)[2], found)
            for nomination in self._improvable.pop(fr, {}).values():
                self._collect(nomination, found)
        return list(found.values())

    def fitting(self) -> list[Nomination]:
        """All heads that fit."""
        return [nomination for nomination in self.heads.values() if nomination.found.fits]

    def _collect(self, nomination: Nomination, found: dict[str, Nomination]) -> None:
        name = nomination.node.name
        if self.heads.get(name) is nomination:
            found[name] = nomination


class Heads:
    """Who is next, over all trees."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self._tournament = Tournament((), settings.fair) if settings.fair is not None else None
        self._heap: list[tuple[_Key, int, Nomination]] = []
        self._current: dict[str, Nomination] = {}
        self._serial = 0

    def enter(self, nomination: Nomination) -> None:
        """The head of a ClusterQueue, in place of its former one."""
        self._current[nomination.node.name] = nomination
        if self._tournament is not None:
            self._tournament.enter(nomination.contender)
        else:
            self._serial += 1
            heappush(self._heap, (self._key(nomination), self._serial, nomination))

    def withdraw(self, queue: Node) -> None:
        """The ClusterQueue has no head."""
        self._current.pop(queue.name, None)
        if self._tournament is not None:
            self._tournament.leave(queue)

    def pop(self) -> Nomination | None:
        """Whose turn it is; None at the end."""
        if self._tournament is not None:
            winner = self._tournament.pop()
            return self._current.pop(winner.queue.name) if winner is not None else None
        while self._heap:
            nomination = heappop(self._heap)[2]
            if self._current.get(nomination.node.name) is nomination:
                return self._current.pop(nomination.node.name)
        return None

    def changed(self, queue: Node) -> None:
        """The usage of a ClusterQueue is another, and it is not that of who was popped last."""
        if self._tournament is not None:
            self._tournament.changed(queue)

    @staticmethod
    def _key(nomination: Nomination) -> _Key:
        workload = nomination.workload
        return nomination.found.assignment.level, -workload.priority, workload.queued, workload.uid
