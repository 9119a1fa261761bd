"""Whom to displace so that a workload can have its quota: classical preemption, and the entry to both kinds.

Victims are looked for in three groups: those over whom the workload has a hierarchical advantage (it asks for quota
that is nearer to it than to them), those that borrow from the same Cohort, and those of its own ClusterQueue. They are
taken out one by one until it fits, and then, in reverse, put back where it still fits. So the set is minimal, and
deterministic. A candidate stops being one as soon as its ClusterQueue, or a Cohort between it and the common ancestor,
is back within its quota of what is contested.

The rules are Kueue's (KEP-83 preemption, KEP-1337 borrowWithinCohort, KEP-79 hierarchical cohorts).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from math import inf
from typing import Final

from msgspec import Struct

from muster.queueing.model import Assignment, FlavorResource, Mode, PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.flavors import level_of
from muster.queueing.scheduling.preemption.candidates import Reason, Request, Trial, Victim
from muster.queueing.scheduling.preemption.fair import fair_victims

__all__ = ["Preemptor", "Victim", "message"]

_BECAUSE: Final[Mapping[Reason, str]] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
}


# All that it would be given, what of it is contested, and whether its pods need places.
_Asked = tuple[frozenset[tuple[FlavorResource, int]], frozenset[FlavorResource], bool]


class Preemptor:
    """What a workload could have at the expense of others, as things stand; the same is searched for once.

    fair: fair sharing is on, with these settings. past: usage of LocalQueues (see `Request`).
    """

    def __init__(
        self,
        tree: Tree,
        workload: WorkloadInfo,
        *,
        fair: FairSharing | None = None,
        past: Mapping[str, float] | None = None,
    ) -> None:
        self._tree = tree
        self._workload = workload
        self._fair = fair
        self._past = past or {}
        self._found: dict[_Asked, tuple[Victim, ...]] = {}

    def victims(self, assignment: Assignment, has_places: Callable[[], bool] | None = None) -> tuple[Victim, ...]:
        """Who has to go for the workload to get this assignment; empty if no preemption would help.

        has_places: see `Request`.
        """
        contested = frozenset(
            FlavorResource(choice.flavor, resource)
            for podset in assignment.podsets
            for resource, choice in podset.flavors.items()
            if Mode.NO_FIT < choice.mode < Mode.FIT
        )
        return self._search(assignment.usage, contested, has_places)

    def oracle(self, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """Answers for the assignment of flavors what preemption for one flavor and resource alone would come to.

        How it would fit, and the level of borrowing once the victims are gone.
        """
        queue = self._tree.queues[self._workload.queue]
        found = self._search({fr: amount}, frozenset((fr,)))
        if not found:
            return Mode.NO_CANDIDATES, level_of(queue, fr, amount)[0]
        with Trial(self._tree, Request(self._workload, {}, frozenset())) as trial:
            for victim in found:
                trial.take(victim)
            level, _ = level_of(queue, fr, amount)
        own = any(victim.workload.queue == queue.name for victim in found)
        return Mode.PREEMPT if own else Mode.RECLAIM, level

    def _search(
        self,
        usage: Usage,
        contested: frozenset[FlavorResource],
        has_places: Callable[[], bool] | None = None,
    ) -> tuple[Victim, ...]:
        asked = frozenset(usage.items()), contested, has_places is not None
        if asked not in self._found:
            request = Request(self._workload, usage, contested, self._past, has_places)
            self._found[asked] = _search(self._tree, request, self._fair)
        return self._found[asked]


def message(tree: Tree, workload: WorkloadInfo, victim: Victim, *, job_uid: str = "") -> str:
    """What the victim's conditions say; `job_uid` is of the job that the incoming workload is for."""
    return (
        f"Preempted to accommodate a workload (UID: {workload.uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'})"
        f" due to {_BECAUSE[victim.reason]};"
        f" preemptor path: {_path(tree, workload.queue)}; preemptee path: {_path(tree, victim.workload.queue)}"
    )


def _path(tree: Tree, name: str) -> str:
    """/root/.../queue."""
    nodes = [tree.queues[name], *tree.queues[name].ancestors()]
    return "".join(f"/{node.name}" for node in reversed(nodes))


def _search(tree: Tree, request: Request, fair: FairSharing | None) -> tuple[Victim, ...]:
    if fair is not None:
        return fair_victims(tree, request, fair)
    search = _Classical(tree, request)
    for borrowing in search.attempts():
        if found := search.attempt(borrowing=borrowing):
            return found
    return ()


class _Source(Struct, frozen=True):
    """A ClusterQueue with candidates.

    common: the lowest Cohort that is over it and over the incoming workload; None for the workload's own ClusterQueue.
    advantage: the workload asks for quota that is nearer to it than to them.
    """

    queue: Node
    common: Node | None = None
    advantage: bool = False

    def reachable(self, request: Request) -> bool:
        """Whether everything from the ClusterQueue up to the common Cohort still uses more than its own."""
        node: Node | None = self.queue
        while self.common is not None and node is not self.common:
            assert node is not None, "the common Cohort is above"
            if not request.borrowing(node):
                return False
            node = node.parent
        return True


class _Classical:
    """The search for one request."""

    def __init__(self, tree: Tree, request: Request) -> None:
        self._tree = tree
        self._request = request
        self._queue = tree.queues[request.workload.queue]
        self._rules = self._queue.policy.preemption
        self._own = _Source(self._queue)
        threshold = inf if self._rules.threshold is None else self._rules.threshold + 1
        # Below this priority they may be displaced even by who then borrows.
        self._while_borrowing = min(request.workload.priority, threshold) if self._rules.while_borrowing else -inf
        # Whether those over whom it has no advantage could be displaced if only it did not borrow.
        self._equals_count = self._rules.while_borrowing or self._under_nominal()
        others = [source for source in self._borrowers() if self._any(source)]
        self._nearer = [source for source in others if source.advantage]
        self._equal = [source for source in others if not source.advantage]

    def attempts(self) -> tuple[bool, ...]:
        """Whether to let the workload borrow, in the order to try.

        Without borrowing more of the others are candidates, those of high priority too.
        """
        if not (self._nearer or self._equal):
            return (True,) if self._any(self._own) else ()
        if not self._equals_count:
            return (True,)
        if not self._rules.while_borrowing and not self._nearer:
            return (False, True)
        return (True, False)

    def attempt(self, *, borrowing: bool) -> tuple[Victim, ...]:
        """Take candidates out until the workload fits."""
        groups = [(self._nearer, inf), (self._equal, self._while_borrowing if borrowing else inf), ([self._own], inf)]
        with Trial(self._tree, self._request) as trial:
            if trial.hopeless(self._holdings(groups), borrowing=borrowing):
                return ()
            for source, candidate in self._sequence(groups):
                if source.reachable(self._request):
                    trial.take(Victim(candidate, self._reason(source, candidate)))
                    if trial.fits(borrowing=borrowing):
                        return trial.spare(borrowing=borrowing)
        return ()

    def _borrowers(self) -> Iterator[_Source]:
        """From the nearest Cohort to the root: the ClusterQueues below that use more than their own."""
        if self._rules.within_cohort == "Never":
            return
        advantage, rest = _fits_in_quota(self._queue, self._request.usage)
        visited = self._queue
        for cohort in self._queue.ancestors():
            if advantage or self._equals_count:
                for queue in self._over_quota(cohort, visited):
                    yield _Source(queue, cohort, advantage)
            fits, rest = _fits_in_quota(cohort, rest)
            advantage = advantage or fits
            visited = cohort

    def _over_quota(self, cohort: Node, visited: Node) -> Iterator[Node]:
        nodes = [cohort]
        while nodes:
            node = nodes.pop()
            if node.is_queue:
                yield node
            nodes.extend(child for child in reversed(self._request.borrowers(node)) if child is not visited)

    def _under_nominal(self) -> bool:
        """Whether its ClusterQueue has something of its own left of everything contested."""
        queue = self._queue
        return all(queue.usage.get(fr, 0) < queue.quota(fr).nominal for fr in self._request.contested)

    def _policy(self, source: _Source) -> PreemptionPolicy:
        return self._rules.within_queue if source is self._own else self._rules.within_cohort

    def _limit(self, source: _Source) -> float:
        return self._request.limit(self._policy(source))

    def _any(self, source: _Source) -> bool:
        """Whether a ClusterQueue has a candidate; only who is newer cannot be told from the sums."""
        if not source.queue.held.any_below(self._limit(source), self._request.contested):
            return False
        if self._policy(source) != "LowerOrNewerEqualPriority":
            return True
        return any(True for evicted in (True, False) for _ in self._candidates(source, inf, evicted=evicted))

    def _holdings(self, groups: Iterable[tuple[list[_Source], float]]) -> Iterator[tuple[Node, Usage]]:
        for sources, limit in groups:
            for source in sources:
                yield source.queue, source.queue.held.usage_below(min(limit, self._limit(source)))

    def _sequence(self, groups: Iterable[tuple[list[_Source], float]]) -> Iterator[tuple[_Source, WorkloadInfo]]:
        """All candidates in order: those evicted already come first, so that what is under way is used."""
        for evicted in (True, False):
            for sources, limit in groups:
                streams = [
                    self._candidates(source, limit, evicted=evicted)
                    for source in sources
                    if not evicted or source.queue.held.evicted
                ]
                yield from merge(*streams, key=lambda found: self._request.order(found[1]))

    def _candidates(self, source: _Source, limit: float, *, evicted: bool) -> Iterator[tuple[_Source, WorkloadInfo]]:
        policy = self._policy(source)
        for candidate in self._request.candidates(source.queue, policy, evicted=evicted, limit=limit):
            if not source.reachable(self._request):
                return
            yield source, candidate

    def _reason(self, source: _Source, candidate: WorkloadInfo) -> Reason:
        if source is self._own:
            return "InClusterQueue"
        if source.advantage or candidate.priority >= self._while_borrowing:
            return "InCohortReclamation"
        return "InCohortReclaimWhileBorrowing"


def _fits_in_quota(node: Node, usage: Usage) -> tuple[bool, Usage]:
    """Whether this much more stays within the quota of the node, and how much of it would count above."""
    rest = {fr: max(0, amount - node.local_available(fr)) for fr, amount in usage.items()}
    return not any(node.borrows(fr, amount) for fr, amount in usage.items()), rest
