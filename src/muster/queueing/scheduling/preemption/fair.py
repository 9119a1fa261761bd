"""Choose the workloads to preempt under fair sharing, from the queues with the largest shares.

The search repeatedly descends from the root to the child with the highest share, and removes the next candidate of the
ClusterQueue that it reaches, if the rules allow it:

- a candidate of the workload's own ClusterQueue is always allowed;
- others are allowed if the incoming workload stays within the nominal quota of its ClusterQueue, or of a Cohort above
  it that is not above the candidate;
- otherwise the shares of the two sides, just below their lowest common Cohort, decide.

At the end, victims that are not needed are put back, if the rules still allow the remaining ones. `borrowWithinCohort`
does not apply, and with `reclaimWithinCohort: Never` only workloads of the own ClusterQueue are candidates.

The rules are Kueue's (Kueue KEP-1714 fair sharing).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice

from muster.queueing.model import PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.quota.trial import assume_usage
from muster.queueing.scheduling.childheap import ChildHeap, Key
from muster.queueing.scheduling.fairness import FairSharing, Share, Shares
from muster.queueing.scheduling.preemption.candidates import AssumedAdmission, PreemptionRequest, Search, Victim
from muster.queueing.scheduling.preemption.thorough import STEPS, ThoroughSearch


def fair_victims(tree: Tree, request: PreemptionRequest, fair: FairSharing) -> Search:
    """Choose the workloads to preempt for a request, by fair sharing; return no victims if none suffice."""
    policies = dict(_find_queues(tree, request))
    with AssumedAdmission(tree, request) as trial:
        holdings = {queue: queue.held.usage_below(request.limit(policy)) for queue, policy in policies.items()}
        if trial.is_hopeless(holdings.items()):
            return Search()
        search = _Search(tree.queues, trial, request, fair)
        streams = {
            queue: _CandidateStream(_find_candidates(request, queue, policy)) for queue, policy in policies.items()
        }
        if (search.apply_first_strategy(streams) or (len(fair.strategies) > 1 and search.apply_second_strategy())) and (
            victims := search.keep()
        ):
            return Search(victims)
        victim_keys = {victim.workload.key for victim in trial.taken}
        trial.retake(())
        if all(
            candidate.key in victim_keys
            for queue, policy in policies.items()
            for candidate in _find_candidates(request, queue, policy)
        ):
            return Search()
        if search.is_hopeless(holdings):
            return Search()
        share = max(1, STEPS // len(policies))  # the limit of each ClusterQueue's candidates
        candidates = []
        left_out = False
        for queue, policy in policies.items():
            stream = _find_candidates(request, queue, policy)
            candidates += [search.victim(queue, candidate) for candidate in islice(stream, share)]
            left_out = left_out or next(stream, None) is not None
        candidates.sort(key=lambda victim: request.order(victim.workload))
        thorough = ThoroughSearch(trial, candidates, search.may_take, trial.fits, search.keep, left_out=left_out)
        return Search(thorough.run(), gave_up=thorough.gave_up)


def _find_queues(tree: Tree, request: PreemptionRequest) -> Iterator[tuple[Node, PreemptionPolicy]]:
    """Yield the ClusterQueues with candidates, each with its policy.

    These are the workload's own ClusterQueue, and the ClusterQueues of the same tree that borrow a contested resource,
    that is, one that is short.
    """
    own = tree.queues[request.workload.queue]
    rules = own.policy.preemption
    if rules.within_queue != "Never":
        yield own, rules.within_queue
    if rules.within_cohort != "Never":
        for queue in _find_borrowers(own.root, request):
            if queue is not own:
                yield queue, rules.within_cohort


def _find_borrowers(root: Node, request: PreemptionRequest) -> Iterator[Node]:
    """Yield the ClusterQueues below the root that borrow a contested resource, in order."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_queue:
            yield node
            continue
        nodes.extend(reversed([child for child in request.borrowers(node) if child.is_queue]))
        nodes.extend(reversed(list(node.cohorts())))


def _find_candidates(request: PreemptionRequest, queue: Node, policy: PreemptionPolicy) -> Iterator[WorkloadInfo]:
    for evicted in (True, False):
        yield from request.candidates(queue, policy, evicted=evicted)


class _CandidateStream:
    """The remaining candidates of one ClusterQueue, in the order in which preemption considers them.

    head: the next candidate; None at the end.
    """

    __slots__ = ("_rest", "head")

    def __init__(self, candidates: Iterator[WorkloadInfo]) -> None:
        self._rest = candidates
        self.head = next(candidates, None)

    def pop(self) -> WorkloadInfo:
        """Remove and return the first candidate."""
        head = self.head
        assert head is not None, "a queue without candidates is not chosen"
        self.head = next(self._rest, None)
        return head


class _Targets:
    """The choice of the ClusterQueue of the next victim: from the root down, always the child with the highest share.

    A node without candidates is left out. So is a node that does not borrow, except the incoming workload's
    ClusterQueue and its ancestors: shares may differ below these. Usage only falls, so a node that is left out stays
    out. Of equal shares a Cohort comes before a ClusterQueue, and of two ClusterQueues the one with the first
    candidate.
    """

    def __init__(
        self, request: PreemptionRequest, own: Node, shares: Shares, streams: Mapping[Node, _CandidateStream]
    ) -> None:
        self._request = request
        self._root = own.root
        self._path = {own, *own.ancestors()}
        self._shares = shares
        self._streams = streams
        self._children = ChildHeap()
        self._closed: set[Node] = set()
        self._values: dict[Fraction, Fraction] = {}
        for queue in streams:
            self.update(queue)

    def next(self) -> Node | None:
        """Return the next ClusterQueue; None if none is left."""
        node: Node | None = self._root
        while node is not None and not node.is_queue:
            node = self._children.best(node) if node not in self._closed else None
        stream = self._streams.get(node) if node is not None else None
        return node if stream is not None and stream.head is not None else None

    def update(self, queue: Node) -> None:
        """Sort the nodes whose share changed with the usage of this ClusterQueue again."""
        for node in (queue, *queue.ancestors()):
            self._children.put(node, self._make_key(node))

    def close(self, cohort: Node) -> None:
        """Choose no more victims from below the Cohort."""
        self._closed.add(cohort)
        self.update(cohort)

    def _make_key(self, node: Node) -> Key | None:
        order: Key = (node.name,)
        if not node.is_queue:
            if node in self._closed or self._children.best(node) is None:
                return None
        elif (head := self._streams[node].head) is None:
            return None
        else:
            order = self._request.order(head)
        share = self._shares.of(node)
        if not share.borrowed and node not in self._path:
            return None
        # Many shares are equal. Comparing an object with itself needs no arithmetic.
        value = self._values.setdefault(share.value, -share.value)
        return not share.infinite, value, node.is_queue, order


class _Search:
    """A search for the victims of one request, by fair sharing. It changes the trial while it runs."""

    def __init__(
        self, queues: Mapping[str, Node], trial: AssumedAdmission, request: PreemptionRequest, fair: FairSharing
    ) -> None:
        self._queues = queues
        self._trial = trial
        self._request = request
        self._fair = fair
        self._own = trial.queue
        self._path = {trial.queue, *trial.queue.ancestors()}
        self._shares = Shares()
        self._within_quota = {node for node in self._path if fair.within_nominal and not request.is_borrowing(node)}
        self._refused: dict[Node, WorkloadInfo] = {}  # by ClusterQueue: its first protected candidate

    def apply_first_strategy(self, streams: Mapping[Node, _CandidateStream]) -> bool:
        """Remove candidates by the first strategy; return whether the workload then fits."""
        targets = _Targets(self._request, self._own, self._shares, streams)
        while (queue := targets.next()) is not None:
            victim: Victim | None
            if queue is self._own or self._is_entitled(queue):
                victim = self.victim(queue, streams[queue].pop())
            elif not self._has_claim(queue) and self._is_protected(queue, targets):
                self._refuse(queue, streams)
                continue
            else:
                candidate = self._find_unprotected(queue, streams[queue])
                victim = Victim(candidate, "InCohortFairSharing") if candidate is not None else None
            if victim is not None and self._take(victim):
                return True
            targets.update(queue)
        return False

    def apply_second_strategy(self) -> bool:
        """Remove, by the second strategy, one candidate of each ClusterQueue with a protected workload.

        Return whether the workload then fits.
        """
        streams = {queue: _CandidateStream(iter((candidate,))) for queue, candidate in self._refused.items()}
        targets = _Targets(self._request, self._own, self._shares, streams)
        while (queue := targets.next()) is not None:
            if self._is_protected(queue, targets):
                continue
            candidate = streams[queue].pop()
            mine, theirs = self._find_sides(queue)
            lower = self._shares.of(mine) < self._shares.of(theirs)
            if lower and self._take(Victim(candidate, "InCohortFairSharing")):
                return True
            targets.update(queue)
        return False

    def victim(self, queue: Node, candidate: WorkloadInfo) -> Victim:
        """Return the candidate as a victim, with its reason."""
        if queue is self._own:
            return Victim(candidate, "InClusterQueue")
        return Victim(candidate, "InCohortReclamation" if self._is_entitled(queue) else "InCohortFairSharing")

    def keep(self) -> tuple[Victim, ...]:
        """Put back the victims that are not needed, and return the remaining ones.

        Return no victims if the rules forbid the remaining ones alone. A victim of the preemptor's side that is put
        back makes the share of that side larger again, which may forbid other victims.
        """
        victim_count = len(self._trial.taken)
        needed = self._trial.spare()
        return needed if len(needed) == victim_count or self._may_take_all(needed) else ()

    def _may_take_all(self, victims: tuple[Victim, ...]) -> bool:
        self._trial.retake(())
        for victim in victims:
            if not self.may_take(victim):
                return False
            self._trial.take(victim)
        return True

    def may_take(self, victim: Victim) -> bool:
        """Return whether a candidate may be preempted in the current state.

        A candidate of another ClusterQueue must borrow, and the preemptor must be entitled to it, or a strategy must
        allow the preemption.
        """
        self._shares = Shares()
        queue = self._queues[victim.workload.queue]
        if queue is self._own:
            return True
        mine, theirs = self._find_sides(queue)
        if not all(self._shares.of(node).borrowed for node in self._list_nodes_up_to(queue, theirs)):
            return False
        if self._is_entitled(queue):
            return True
        share = self._shares.of(mine)
        if "LessThanInitialShare" in self._fair.strategies and share < self._shares.of(theirs):
            return True
        by_final = "LessThanOrEqualToFinalShare" in self._fair.strategies
        return by_final and share <= self._compute_share_without(queue, victim.workload, theirs)

    def is_hopeless(self, holdings: Mapping[Node, Usage]) -> bool:
        """Return whether the workload would not fit even without every candidate that the rules could ever allow.

        The rules do not allow a candidate if the preemptor's side has the larger share even without all its own
        candidates.
        """
        self._shares = Shares()
        least: dict[Node, Share] = {}
        hopeful = []
        for queue, usage in holdings.items():
            mine, theirs = self._find_sides(queue)
            if queue is not self._own and not self._has_claim(queue):
                if mine not in least:
                    least[mine] = self._compute_least_share(mine, holdings)
                if least[mine] > self._shares.of(theirs):
                    continue
            hopeful.append((queue, usage))
        return self._trial.is_hopeless(hopeful)

    def _compute_least_share(self, node: Node, holdings: Mapping[Node, Usage]) -> Share:
        inside = [(queue, usage) for queue, usage in holdings.items() if node in (queue, *queue.ancestors())]
        with assume_usage(less=inside):
            return self._shares.now(node)

    def _has_claim(self, queue: Node) -> bool:
        """Return whether the preemptor may reclaim quota from this ClusterQueue.

        It may if its ClusterQueue, or a Cohort on its own side of the tree, stays within its own quota.
        """
        mine, _ = self._find_sides(queue)
        return any(node in self._within_quota for node in self._list_nodes_up_to(self._own, mine))

    def _is_entitled(self, queue: Node) -> bool:
        """Return whether the preemptor may preempt any workload of this borrowing ClusterQueue, whatever the shares."""
        if self._own in self._within_quota:
            return True
        return self._has_claim(queue) and all(
            map(self._request.is_borrowing, self._list_nodes_up_to(queue, self._find_sides(queue)[1]))
        )

    @staticmethod
    def _list_nodes_up_to(queue: Node, top: Node) -> list[Node]:
        """Return a ClusterQueue and its ancestors up to `top`, both included."""
        nodes = [queue]
        while nodes[-1] is not top and nodes[-1].parent is not None:
            nodes.append(nodes[-1].parent)
        return nodes

    def _is_protected(self, queue: Node, targets: _Targets) -> bool:
        """Return whether the preemptor's side of the tree has a larger share than the candidate's side.

        If so, both strategies protect the candidates of that side, and the search ends there: the common Cohort is
        closed in `targets`. `queue` has the largest share of all candidates' sides, so no other side has a larger one.
        The preemptor's share cannot shrink any more, because its side has no candidates left.
        """
        mine, theirs = self._find_sides(queue)
        if self._shares.of(mine) <= self._shares.of(theirs):
            return False
        assert mine.parent is not None, "the sides are below a Cohort"
        targets.close(mine.parent)
        return True

    def _refuse(self, queue: Node, streams: Mapping[Node, _CandidateStream]) -> None:
        """Keep the first remaining candidate of each ClusterQueue below the common Cohort for the second strategy.

        Keep none if the preemptor's side (`_find_sides`) is only its own ClusterQueue, because the share of that side
        cannot shrink any more. The share of a larger side shrinks if the second strategy takes candidates of that side
        that the first strategy left. Then the rules may allow other victims.
        """
        mine, _ = self._find_sides(queue)
        if mine is self._own or mine.parent is None:
            return
        for other in mine.parent.queues():
            stream = streams.get(other)
            if stream is not None and stream.head is not None:
                self._refused.setdefault(other, stream.head)

    def _find_unprotected(self, queue: Node, stream: _CandidateStream) -> WorkloadInfo | None:
        """Remove candidates from the stream up to the first that the first strategy does not protect, and return that.

        Return None if there is none. The first protected candidate is kept for the second strategy.
        """
        mine, theirs = self._find_sides(queue)
        new = self._shares.of(mine)
        by_initial = self._fair.strategies[0] == "LessThanInitialShare"
        lower = new < self._shares.of(theirs)
        last: Usage | None = None
        while stream.head is not None:
            candidate = stream.pop()
            # The result is the same for the next candidate of the same usage.
            if (
                lower
                if by_initial
                else candidate.usage != last and new <= self._compute_share_without(queue, candidate, theirs)
            ):
                return candidate
            last = candidate.usage
            self._refused.setdefault(queue, candidate)
        return None

    def _take(self, victim: Victim) -> bool:
        self._shares.forget_shares(self._trial.take(victim))
        return self._trial.fits()

    def _find_sides(self, queue: Node) -> tuple[Node, Node]:
        """Return the two nodes just below the lowest common Cohort: the preemptor's side and the ClusterQueue's."""
        theirs = queue
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        mine = self._own
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return mine, theirs

    def _compute_share_without(self, queue: Node, candidate: WorkloadInfo, node: Node) -> Share:
        """Return the share of the node if the candidate were deleted."""
        queue.remove(candidate.usage or {})
        try:
            return self._shares.now(node)
        finally:
            queue.add(candidate.usage or {})
