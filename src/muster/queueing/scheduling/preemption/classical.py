"""Choose the workloads to preempt by classical preemption, or call fair preemption if fair sharing is on.

Victims are searched in three groups:

- workloads over which the incoming one has a hierarchical advantage: its requested quota is nearer to it than to them;
- workloads that borrow from the same Cohort;
- workloads of its own ClusterQueue.

Candidates are removed one by one until the workload fits, and then, in reverse, put back if it still fits. So the set
is minimal and deterministic. A workload stops being a candidate as soon as its ClusterQueue, or a Cohort between it and
the common ancestor, uses no more than its own quota of the contested resources.

The rules are Kueue's (Kueue KEP-83 preemption, Kueue KEP-1337 borrowWithinCohort, Kueue KEP-79 hierarchical cohorts).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from heapq import merge
from itertools import islice
from math import inf
from typing import Final

from msgspec import Struct

from muster.api.kueue.names import FLAVOR_MIGRATION_CAUSE
from muster.queueing.model import Assignment, FlavorResource, Mode, PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import FairSharing
from muster.queueing.scheduling.flavors import level_of
from muster.queueing.scheduling.preemption.candidates import AssumedAdmission, PreemptionRequest, Reason, Search, Victim
from muster.queueing.scheduling.preemption.fair import fair_victims
from muster.queueing.scheduling.preemption.thorough import STEPS, ThoroughSearch

__all__ = ["Preemptor", "Victim", "explain_preemption"]

_BECAUSE: Final[Mapping[Reason, str]] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "FlavorMigration": FLAVOR_MIGRATION_CAUSE,
}


# Usage, its contested part, whether topology matters, and whether topology domains are contested.
_SearchKey = tuple[frozenset[tuple[FlavorResource, int]], frozenset[FlavorResource], bool, bool]


class Preemptor:
    """The searches for victims for one workload in the current state. Each result is cached.

    fair: the settings of fair sharing; None if it is off.
    past: the past usage of LocalQueues, which orders candidates.
    protected: the keys of workloads that may not be preempted for it.
    """

    def __init__(
        self,
        tree: Tree,
        workload: WorkloadInfo,
        *,
        fair: FairSharing | None = None,
        past: Mapping[str, float] | None = None,
        protected: AbstractSet[str] = frozenset(),
    ) -> None:
        self._tree = tree
        self._workload = workload
        self._fair = fair
        self._past = past or {}
        self._protected = protected
        self._victims: dict[_SearchKey, tuple[Victim, ...]] = {}
        self.gave_up = ""  # why a search was stopped early; "" if all were complete

    def victims(self, assignment: Assignment, has_places: Callable[[], bool] | None = None) -> tuple[Victim, ...]:
        """Return the victims for this assignment; empty if no preemption would help.

        Workloads that hold contested quota are tried first. If their nodes are not suitable for the pods, all workloads
        that hold requested resources, or topology domains, are candidates.

        has_places: returns whether topology domains have room for the pods in the current state; None if no flavor has
        a topology.
        """
        contested = frozenset(
            FlavorResource(choice.flavor, resource)
            for podset in assignment.podsets
            for resource, choice in podset.flavors.items()
            if Mode.NO_FIT < choice.mode < Mode.FIT
        )
        victims = self._search(assignment.usage, contested, has_places)
        if victims or has_places is None:
            return victims
        requested = frozenset(fr for fr, amount in assignment.usage.items() if amount)
        return self._search(assignment.usage, requested, has_places, by_place=True)

    def oracle(self, fr: FlavorResource, amount: int) -> tuple[Mode, int]:
        """Return the mode and level that preemption could reach for this amount of one flavor and resource.

        The level is the level of borrowing without the victims.
        """
        queue = self._tree.queues[self._workload.queue]
        victims = self._search({fr: amount}, frozenset((fr,)))
        if not victims:
            return Mode.NO_CANDIDATES, level_of(queue, fr, amount)[0]
        with AssumedAdmission(self._tree, PreemptionRequest(self._workload, {}, frozenset())) as trial:
            for victim in victims:
                trial.take(victim)
            level, _ = level_of(queue, fr, amount)
        own = any(victim.workload.queue == queue.name for victim in victims)
        return Mode.PREEMPT if own else Mode.RECLAIM, level

    def _search(
        self,
        usage: Usage,
        contested: frozenset[FlavorResource],
        has_places: Callable[[], bool] | None = None,
        *,
        by_place: bool = False,
    ) -> tuple[Victim, ...]:
        key = frozenset(usage.items()), contested, has_places is not None, by_place
        if key not in self._victims:
            request = PreemptionRequest(
                self._workload, usage, contested, self._past, has_places, by_place, self._protected
            )
            search = _search(self._tree, request, self._fair)
            self._victims[key] = search.victims
            self.gave_up = self.gave_up or search.gave_up
        return self._victims[key]


def explain_preemption(tree: Tree, workload: WorkloadInfo, victim: Victim, *, job_uid: str = "") -> str:
    """Return the message of the victim's conditions.

    job_uid: the UID of the job of the incoming workload; "" if unknown.
    """
    if victim.migrates:
        return f"Evicted to accommodate a workload (UID: {workload.uid}) due to {_BECAUSE[victim.reason]}"
    return (
        f"Preempted to accommodate a workload (UID: {workload.uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'})"
        f" due to {_BECAUSE[victim.reason]};"
        f" preemptor path: {_format_path(tree, workload.queue)};"
        f" preemptee path: {_format_path(tree, victim.workload.queue)}"
    )


def _format_path(tree: Tree, name: str) -> str:
    """Return the path /root/.../queue."""
    nodes = [tree.queues[name], *tree.queues[name].ancestors()]
    return "".join(f"/{node.name}" for node in reversed(nodes))


def _search(tree: Tree, request: PreemptionRequest, fair: FairSharing | None) -> Search:
    if fair is not None:
        return fair_victims(tree, request, fair)
    search = _Classical(tree, request)
    result = Search()
    for borrowing in search.attempts():
        attempt = search.attempt(borrowing=borrowing)
        if attempt.victims:
            return attempt
        result = attempt if attempt.gave_up else result
    return result


class _Source(Struct, frozen=True):
    """A ClusterQueue with candidates.

    common: the lowest Cohort above it and the incoming workload; None for the workload's own ClusterQueue.
    advantage: whether the requested quota is nearer to the incoming workload than to the candidates.
    """

    queue: Node
    common: Node | None = None
    advantage: bool = False

    def is_reachable(self, request: PreemptionRequest) -> bool:
        """Return whether every node from the ClusterQueue up to the common Cohort still borrows."""
        node: Node | None = self.queue
        while self.common is not None and node is not self.common:
            assert node is not None, "the common Cohort is above"
            if not request.is_borrowing(node):
                return False
            node = node.parent
        return True


class _Classical:
    """A search for the victims of one request, by classical preemption."""

    def __init__(self, tree: Tree, request: PreemptionRequest) -> None:
        self._tree = tree
        self._request = request
        self._queue = tree.queues[request.workload.queue]
        self._rules = self._queue.policy.preemption
        self._own = _Source(self._queue)
        threshold = inf if self._rules.threshold is None else self._rules.threshold + 1
        # Below this priority a workload may be preempted even if the incoming workload then borrows.
        self._while_borrowing = min(request.workload.priority, threshold) if self._rules.while_borrowing else -inf
        # Whether workloads over which the incoming workload has no advantage (`_Source`) may be preempted at all.
        self._equals_count = self._rules.while_borrowing or self._is_under_nominal()
        others = [source for source in self._find_borrowers() if self._has_candidate(source)]
        self._nearer = [source for source in others if source.advantage]
        self._equal = [source for source in others if not source.advantage]

    def attempts(self) -> tuple[bool, ...]:
        """Return the attempts to find victims, in order: for each, whether the preemptor may borrow quota.

        If the preemptor does not borrow, more workloads of other ClusterQueues are candidates, including those of high
        priority.
        """
        if not (self._nearer or self._equal):
            return (True,) if self._has_candidate(self._own) else ()
        if not self._equals_count:
            return (True,)
        if not self._rules.while_borrowing and not self._nearer:
            return (False, True)
        return (True, False)

    def attempt(self, *, borrowing: bool) -> Search:
        """Return the victims of one attempt: the candidates, in their order, without which the workload fits.

        Candidates that turn out to be unnecessary are put back. If the usual order fails, other orders are tried. The
        tree is unchanged at the end.

        borrowing: whether the workload may borrow.
        """
        groups = [(self._nearer, inf), (self._equal, self._while_borrowing if borrowing else inf), ([self._own], inf)]
        with AssumedAdmission(self._tree, self._request) as trial:
            if trial.is_hopeless(self._list_holdings(groups), borrowing=borrowing):
                return Search()
            for source, candidate in self._order_candidates(groups):
                if source.is_reachable(self._request):
                    trial.take(Victim(candidate, self._choose_reason(source, candidate)))
                    if trial.fits(borrowing=borrowing):
                        return Search(trial.spare(borrowing=borrowing))
            victim_keys = {victim.workload.key for victim in trial.taken}
            trial.retake(())
            if all(candidate.key in victim_keys for _, candidate in self._order_candidates(groups)):
                return Search()
            return self._search_thoroughly(trial, groups, len(victim_keys), borrowing=borrowing)

    def _search_thoroughly(
        self,
        trial: AssumedAdmission,
        groups: Iterable[tuple[list[_Source], float]],
        victim_count: int,
        *,
        borrowing: bool,
    ) -> Search:
        """Try other orders of candidates, because removing one candidate can exclude others.

        victim_count: how many candidates could be removed in the usual order.
        """
        sources: dict[str, _Source] = {}
        victims = []
        limit = STEPS + victim_count  # the effort is in proportion to the first attempt
        stream = self._order_candidates(groups)
        for source, candidate in islice(stream, limit):
            sources[candidate.key] = source
            victims.append(Victim(candidate, self._choose_reason(source, candidate)))
        left_out = next(stream, None) is not None
        if not left_out and trial.is_hopeless(self._bound_holdings(groups, victims), borrowing=borrowing):
            return Search()

        def may_take(victim: Victim) -> bool:
            return sources[victim.workload.key].is_reachable(self._request)

        fits = partial(trial.fits, borrowing=borrowing)
        keep = partial(trial.spare, borrowing=borrowing)
        left_out = left_out or len(victims) > STEPS
        thorough = ThoroughSearch(trial, victims[:STEPS], may_take, fits, keep, left_out=left_out)
        return Search(thorough.run(), gave_up=thorough.gave_up)

    def _find_borrowers(self) -> Iterator[_Source]:
        """Yield the ClusterQueues that use more than their own quota, if it may be reclaimed; nearest Cohort first."""
        if self._rules.within_cohort == "Never":
            return
        advantage, rest = _split_by_quota(self._queue, self._request.usage)
        visited = self._queue
        for cohort in self._queue.ancestors():
            if advantage or self._equals_count:
                for queue in self._find_over_quota(cohort, visited):
                    yield _Source(queue, cohort, advantage)
            fits, rest = _split_by_quota(cohort, rest)
            advantage = advantage or fits
            visited = cohort

    def _find_over_quota(self, cohort: Node, visited: Node) -> Iterator[Node]:
        nodes = [cohort]
        while nodes:
            node = nodes.pop()
            if node.is_queue:
                yield node
            nodes.extend(child for child in reversed(self._request.borrowers(node)) if child is not visited)

    def _is_under_nominal(self) -> bool:
        """Return whether the preemptor's ClusterQueue is below its nominal quota of every contested resource.

        The preemptor itself does not count.
        """
        queue = self._queue
        return all(queue.usage.get(fr, 0) < queue.quota(fr).nominal for fr in self._request.contested)

    def _get_policy(self, source: _Source) -> PreemptionPolicy:
        return self._rules.within_queue if source is self._own else self._rules.within_cohort

    def _find_limit(self, source: _Source) -> float:
        return self._request.limit(self._get_policy(source))

    def _has_candidate(self, source: _Source) -> bool:
        """Return whether a ClusterQueue has a candidate for preemption.

        The sums by priority decide that, unless newer workloads of equal priority are candidates, too.
        """
        contested = None if self._request.by_place else self._request.contested
        if not source.queue.held.has_any_below(self._find_limit(source), contested):
            return False
        if self._get_policy(source) != "LowerOrNewerEqualPriority":
            return True
        return any(True for evicted in (True, False) for _ in self._find_candidates(source, inf, evicted=evicted))

    def _list_holdings(self, groups: Iterable[tuple[list[_Source], float]]) -> Iterator[tuple[Node, Usage]]:
        for sources, limit in groups:
            for source in sources:
                yield source.queue, source.queue.held.usage_below(min(limit, self._find_limit(source)))

    def _bound_holdings(
        self, groups: Iterable[tuple[list[_Source], float]], victims: Iterable[Victim]
    ) -> Iterator[tuple[Node, Usage]]:
        """Yield the most that candidates could free: a ClusterQueue frees no more quota when it no longer borrows.

        The last candidate of a ClusterQueue may free more than is borrowed. If several resources are contested, a
        ClusterQueue may still have candidates because of another resource, so all its candidates count.
        """
        holdings = self._list_holdings(groups)
        if len(self._request.contested) != 1:
            yield from holdings
            return
        (fr,) = self._request.contested
        largest: dict[str, int] = {}
        for victim in victims:
            workload = victim.workload
            largest[workload.queue] = max(largest.get(workload.queue, 0), (workload.usage or {}).get(fr, 0))
        for queue, usage in holdings:
            if queue is self._queue:
                yield queue, usage
                continue
            borrowed = queue.usage.get(fr, 0) - queue.subtree.get(fr, 0)
            most = max(0, borrowed - 1 + largest.get(queue.name, 0))
            yield queue, {**usage, fr: min(usage.get(fr, 0), most)}

    def _order_candidates(
        self, groups: Iterable[tuple[list[_Source], float]]
    ) -> Iterator[tuple[_Source, WorkloadInfo]]:
        """Yield all candidates in order, the already evicted ones first, so that pending evictions are used."""
        for evicted in (True, False):
            for sources, limit in groups:
                streams = [
                    self._find_candidates(source, limit, evicted=evicted)
                    for source in sources
                    if not evicted or source.queue.held.evicted
                ]
                yield from merge(*streams, key=lambda entry: self._request.order(entry[1]))

    def _find_candidates(
        self, source: _Source, limit: float, *, evicted: bool
    ) -> Iterator[tuple[_Source, WorkloadInfo]]:
        policy = self._get_policy(source)
        for candidate in self._request.candidates(source.queue, policy, evicted=evicted, limit=limit):
            if not source.is_reachable(self._request):
                return
            yield source, candidate

    def _choose_reason(self, source: _Source, candidate: WorkloadInfo) -> Reason:
        if source is self._own:
            return "InClusterQueue"
        if source.advantage or candidate.priority >= self._while_borrowing:
            return "InCohortReclamation"
        return "InCohortReclaimWhileBorrowing"


def _split_by_quota(node: Node, usage: Usage) -> tuple[bool, Usage]:
    """Return whether the additional usage stays within the node's quota, and how much would count in its parent."""
    rest = {fr: max(0, amount - node.local_available(fr)) for fr, amount in usage.items()}
    return not any(node.borrows(fr, amount) for fr, amount in usage.items()), rest
