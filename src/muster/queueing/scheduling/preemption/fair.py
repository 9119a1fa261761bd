"""Whom to displace under fair sharing: those who have the largest share of what is lent.

Again and again the ClusterQueue to take from is found by going down from the root to the child with the highest share,
and its next candidate is taken if the rules allow: of its own ClusterQueue always; of others if the incoming workload
stays within nominal quota; else if the shares of the two sides, just below their lowest common Cohort, say so. In the
end those who can be spared are put back. `borrowWithinCohort` plays no part, and `reclaimWithinCohort: Never` leaves
the own ClusterQueue only.

The rules are Kueue's (KEP-1714 fair sharing).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from muster.queueing.model import PreemptionPolicy, Usage, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.childheap import ChildHeap, Key
from muster.queueing.scheduling.fairness import FairSharing, Share, Shares
from muster.queueing.scheduling.preemption.candidates import Request, Trial, Victim


def fair_victims(tree: Tree, request: Request, fair: FairSharing) -> tuple[Victim, ...]:
    """Who has to go; empty if no preemption would help."""
    policies = dict(_reachable(tree, request))
    with Trial(tree, request) as trial:
        holdings = ((queue, queue.held.usage_below(request.limit(policy))) for queue, policy in policies.items())
        if trial.hopeless(holdings):
            return ()
        search = _Search(trial, request, fair)
        lines = {queue: _Line(_candidates(request, queue, policy)) for queue, policy in policies.items()}
        if search.first(lines) or (len(fair.strategies) > 1 and search.second()):
            return trial.spare()
    return ()


def _reachable(tree: Tree, request: Request) -> Iterator[tuple[Node, PreemptionPolicy]]:
    """Its own ClusterQueue, and those of the same tree that borrow something contested; and what rule is for them."""
    own = tree.queues[request.workload.queue]
    rules = own.policy.preemption
    if rules.within_queue != "Never":
        yield own, rules.within_queue
    if rules.within_cohort != "Never":
        for queue in _borrowers(own.root, request):
            if queue is not own:
                yield queue, rules.within_cohort


def _borrowers(root: Node, request: Request) -> Iterator[Node]:
    """The ClusterQueues below that use more than their own of something contested, in order."""
    nodes = [root]
    while nodes:
        node = nodes.pop()
        if node.is_queue:
            yield node
            continue
        nodes.extend(reversed([child for child in request.borrowers(node) if child.is_queue]))
        nodes.extend(reversed(list(node.cohorts())))


def _candidates(request: Request, queue: Node, policy: PreemptionPolicy) -> Iterator[WorkloadInfo]:
    for evicted in (True, False):
        yield from request.candidates(queue, policy, evicted=evicted)


class _Line:
    """The candidates of one ClusterQueue; `head` is the next, None at the end."""

    __slots__ = ("_rest", "head")

    def __init__(self, candidates: Iterator[WorkloadInfo]) -> None:
        self._rest = candidates
        self.head = next(candidates, None)

    def pop(self) -> WorkloadInfo:
        """The first candidate, who leaves the queue of them."""
        head = self.head
        assert head is not None, "who has no candidates is not chosen"
        self.head = next(self._rest, None)
        return head


class _Targets:
    """From which ClusterQueue to take next: from the root down, always the child with the highest share.

    Left out is who has no candidates, and who does not borrow, unless it is on the way to the ClusterQueue of the
    incoming workload: there may be an imbalance below it. Usage only falls, so who is out stays out. Of equal shares a
    Cohort is before a ClusterQueue, and of two ClusterQueues the one with the first candidate.
    """

    def __init__(self, request: Request, own: Node, shares: Shares, lines: Mapping[Node, _Line]) -> None:
        self._request = request
        self._root = own.root
        self._path = {own, *own.ancestors()}
        self._shares = shares
        self._lines = lines
        self._children = ChildHeap()
        self._closed: set[Node] = set()
        self._values: dict[Fraction, Fraction] = {}
        for queue in lines:
            self.update(queue)

    def next(self) -> Node | None:
        """None if none is left."""
        node: Node | None = self._root
        while node is not None and not node.is_queue:
            node = self._children.best(node) if node not in self._closed else None
        line = self._lines.get(node) if node is not None else None
        return node if line is not None and line.head is not None else None

    def update(self, queue: Node) -> None:
        """Its line, or what it uses, is another."""
        for node in (queue, *queue.ancestors()):
            self._children.put(node, self._key(node))

    def close(self, cohort: Node) -> None:
        """No more victims are to be taken from below the Cohort."""
        self._closed.add(cohort)
        self.update(cohort)

    def _key(self, node: Node) -> Key | None:
        order: Key = (node.name,)
        if not node.is_queue:
            if node in self._closed or self._children.best(node) is None:
                return None
        elif (head := self._lines[node].head) is None:
            return None
        else:
            order = self._request.order(head)
        share = self._shares.of(node)
        if not share.borrowed and node not in self._path:
            return None
        # Many shares are equal: the same object is found equal at once, another one by arithmetic.
        value = self._values.setdefault(share.value, -share.value)
        return not share.infinite, value, node.is_queue, order


class _Search:
    """One search, in a trial."""

    def __init__(self, trial: Trial, request: Request, fair: FairSharing) -> None:
        self._trial = trial
        self._request = request
        self._fair = fair
        self._own = trial.queue
        self._path = {trial.queue, *trial.queue.ancestors()}
        self._shares = Shares()
        self._refused: dict[Node, WorkloadInfo] = {}  # of each ClusterQueue the first whom the first strategy protects

    def first(self, lines: Mapping[Node, _Line]) -> bool:
        """Take candidates by the first strategy; whether the workload fits then."""
        entitled = self._fair.within_nominal and not self._request.borrowing(self._own)
        targets = _Targets(self._request, self._own, self._shares, lines)
        while (queue := targets.next()) is not None:
            victim: Victim | None
            if queue is self._own or entitled:
                victim = Victim(lines[queue].pop(), "InClusterQueue" if queue is self._own else "InCohortReclamation")
            elif self._all_protected(queue, targets):
                self._refuse(queue, lines)
                continue
            else:
                candidate = self._unprotected(queue, lines[queue])
                victim = Victim(candidate, "InCohortFairSharing") if candidate is not None else None
            if victim is not None and self._take(victim):
                return True
            targets.update(queue)
        return False

    def second(self) -> bool:
        """Take, by the second strategy, one of each ClusterQueue where the first protects a workload."""
        lines = {queue: _Line(iter((candidate,))) for queue, candidate in self._refused.items()}
        targets = _Targets(self._request, self._own, self._shares, lines)
        while (queue := targets.next()) is not None:
            if self._all_protected(queue, targets):
                continue
            candidate = lines[queue].pop()
            mine, theirs = self._sides(queue)
            lower = self._shares.of(mine) < self._shares.of(theirs)
            if lower and self._take(Victim(candidate, "InCohortFairSharing")):
                return True
            targets.update(queue)
        return False

    def _all_protected(self, queue: Node, targets: _Targets) -> bool:
        """Whether the larger share is on the own side: then both strategies protect all on the other, for good.

        The ClusterQueue was chosen for its side's share, so no other side has a larger one, and the own side has no
        candidates left whose going could make its own share smaller.
        """
        mine, theirs = self._sides(queue)
        if self._shares.of(mine) <= self._shares.of(theirs):
            return False
        assert mine.parent is not None, "the sides are below a Cohort"
        targets.close(mine.parent)
        return True

    def _refuse(self, queue: Node, lines: Mapping[Node, _Line]) -> None:
        """Keep who is protected beside the own side for the second strategy, if that may still come to another result.

        For that the own side's share has to shrink, by candidates that were refused on it.
        """
        mine, _ = self._sides(queue)
        if mine is self._own or mine.parent is None:
            return
        for other in mine.parent.queues():
            line = lines.get(other)
            if line is not None and line.head is not None:
                self._refused.setdefault(other, line.head)

    def _unprotected(self, queue: Node, line: _Line) -> WorkloadInfo | None:
        """The next candidate whom the first strategy does not protect; those before are out of the queue."""
        mine, theirs = self._sides(queue)
        new = self._shares.of(mine)
        by_initial = self._fair.strategies[0] == "LessThanInitialShare"
        lower = new < self._shares.of(theirs)
        last: Usage | None = None
        while line.head is not None:
            candidate = line.pop()
            # The next of the same size has the same answer.
            if lower if by_initial else candidate.usage != last and new <= self._without(queue, candidate, theirs):
                return candidate
            last = candidate.usage
            self._refused.setdefault(queue, candidate)
        return None

    def _take(self, victim: Victim) -> bool:
        self._shares.changed(self._trial.take(victim))
        return self._trial.fits()

    def _sides(self, queue: Node) -> tuple[Node, Node]:
        """Just below the lowest common Cohort: the side of the incoming workload, and that of the ClusterQueue."""
        theirs = queue
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        mine = self._own
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return mine, theirs

    def _without(self, queue: Node, candidate: WorkloadInfo, node: Node) -> Share:
        """The share of the node if the candidate was gone."""
        queue.remove(candidate.usage or {})
        try:
            return self._shares.now(node)
        finally:
            queue.add(candidate.usage or {})
