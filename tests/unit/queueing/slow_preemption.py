"""Preemption without regard for speed: every candidate is listed, sorted and tried. The fast one must equal it.

Candidates are really released from the tree, which no other test uses.
"""

from collections.abc import Callable
from functools import partial
from itertools import takewhile

from muster.queueing.model import Assignment, FlavorResource, Mode, WorkloadInfo
from muster.queueing.quota.tree import Node, Tree
from muster.queueing.scheduling.fairness import FairSharing, share

Result = list[tuple[str, str]]
Candidate = tuple[WorkloadInfo, Node | None, str, bool]  # with the common Cohort, and whether borrowing rules it out


class Slow:
    def __init__(self, tree: Tree, incoming: WorkloadInfo, assignment: Assignment) -> None:
        self.tree, self.incoming, self.usage = tree, incoming, assignment.usage
        self.own = tree.queues[incoming.queue]
        self.rules = self.own.policy.preemption
        self.contested = {
            FlavorResource(choice.flavor, resource)
            for podset in assignment.podsets
            for resource, choice in podset.flavors.items()
            if choice.mode is not Mode.FIT
        }
        self.taken: list[tuple[WorkloadInfo, str]] = []

    def over(self, node: Node) -> bool:
        return any(node.usage.get(fr, 0) > node.subtree.get(fr, 0) for fr in self.contested)

    def allowed(self, policy: str, other: WorkloadInfo) -> bool:
        if not any((other.usage or {}).get(fr) for fr in self.contested):
            return False
        mine = self.incoming
        newer = other.priority == mine.priority and mine.queued < other.queued
        lower = other.priority < mine.priority
        return {
            "Never": False,
            "LowerPriority": lower,
            "LowerOrNewerEqualPriority": lower or newer,
            "Any": True,
        }[policy]

    def order(self, other: WorkloadInfo):
        assert other.reserved is not None
        return (
            not other.evicted,
            other.queue == self.own.name,
            other.priority,
            -other.reserved.timestamp(),
            other.uid,
        )

    def take(self, other: WorkloadInfo, reason: str) -> None:
        self.tree.release(other)
        self.taken.append((other, reason))

    def fits(self, *, borrowing: bool) -> bool:
        return all(
            amount <= self.own.available(fr) and (borrowing or not self.own.borrows(fr, amount))
            for fr, amount in self.usage.items()
            if amount
        )

    def fill_back(self, fits: Callable[[], bool]) -> Result:
        for index in range(len(self.taken) - 2, -1, -1):
            self.tree.hold(self.taken[index][0])
            if fits():
                del self.taken[index]
            else:
                self.tree.release(self.taken[index][0])
        return [(other.uid, reason) for other, reason in self.taken]

    def search(
        self, candidates: list[WorkloadInfo], may_take: Callable[[WorkloadInfo], bool], fits: Callable[[], bool]
    ) -> bool:
        """Whether any order of taking candidates comes to a set without which the workload fits, and none less."""
        visited: set[frozenset[str]] = set()

        def extend() -> bool:
            for other in candidates:
                taken = frozenset(each.uid for each, _ in self.taken)
                if other.uid in taken or taken | {other.uid} in visited or not may_take(other):
                    continue
                visited.add(taken | {other.uid})
                self.take(other, "")
                if self.is_least(fits) if fits() else extend():
                    return True
                self.tree.hold(self.taken.pop()[0])
            return False

        return extend()

    def is_least(self, fits: Callable[[], bool]) -> bool:
        for other, _ in self.taken:
            self.tree.hold(other)
            enough = fits()
            self.tree.release(other)
            if enough:
                return False
        return True

    def restore(self) -> None:
        for other, _ in self.taken:
            self.tree.hold(other)
        self.taken = []


class SlowClassical(Slow):
    def lists(self) -> tuple[list[Candidate], list[Candidate], list[Candidate]]:
        """The far, the near and the own."""
        far: list[Candidate] = []
        near: list[Candidate] = []
        rest = dict(self.usage)
        advantage = not any(self.own.borrows(fr, amount) for fr, amount in rest.items())
        visited, node = self.own, self.own.parent
        while node is not None and self.rules.within_cohort != "Never":
            rest = {fr: max(0, amount - visited.local_available(fr)) for fr, amount in rest.items()}
            for queue in node.queues():
                between = self.between(queue, node)
                if visited in between or not all(self.over(each) for each in between):
                    continue
                for other in queue.workloads.values():
                    if self.allowed(self.rules.within_cohort, other):
                        (far if advantage else near).append((other, node, *self.kind(other, advantage)))
            advantage = advantage or not any(node.borrows(fr, amount) for fr, amount in rest.items())
            visited, node = node, node.parent
        own: list[Candidate] = [
            (other, None, "InClusterQueue", False)
            for other in self.own.workloads.values()
            if self.allowed(self.rules.within_queue, other)
        ]
        return far, near, own

    def kind(self, other: WorkloadInfo, advantage: bool) -> tuple[str, bool]:
        if advantage:
            return "InCohortReclamation", False
        threshold = self.rules.threshold
        below = other.priority < self.incoming.priority and (threshold is None or other.priority <= threshold)
        if self.rules.while_borrowing and below:
            return "InCohortReclaimWhileBorrowing", False
        return "InCohortReclamation", True

    def between(self, queue: Node, common: Node) -> list[Node]:
        return [queue, *takewhile(lambda node: node is not common, queue.ancestors())]

    def any_set(self) -> bool:
        """Whether there are victims that the rules allow to displace in some order."""
        groups = self.lists()
        for borrowing in self.attempts(*groups):
            known = {each[0].uid: each for group in groups for each in group}

            def may_take(other: WorkloadInfo, known=known, borrowing=borrowing) -> bool:
                _, common, _, ruled_out = known[other.uid]
                queue = self.tree.queues[other.queue]
                return common is None or (
                    not (borrowing and ruled_out) and all(map(self.over, self.between(queue, common)))
                )

            if self.search([each[0] for each in known.values()], may_take, partial(self.fits, borrowing=borrowing)):
                return True
        return False

    def attempts(self, far: list[Candidate], near: list[Candidate], own: list[Candidate]) -> list[bool]:
        forbidden = not self.rules.while_borrowing
        under = all(self.own.usage.get(fr, 0) < self.own.quota(fr).nominal for fr in self.contested)
        if not (far or near) or (forbidden and not under):
            return [True]
        if forbidden and not far:
            return [False, True]
        return [True, False]

    def run(self) -> Result:
        far, near, own = self.lists()
        for borrowing in self.attempts(far, near, own):
            for evicted in (True, False):
                for group in (far, near, own):
                    for other, common, reason, ruled_out in sorted(group, key=lambda each: self.order(each[0])):
                        if other.evicted is not evicted:
                            continue
                        if common is not None:
                            queue = self.tree.queues[other.queue]
                            if (borrowing and ruled_out) or not all(map(self.over, self.between(queue, common))):
                                continue
                        self.take(other, reason)
                        if self.fits(borrowing=borrowing):
                            return self.fill_back(partial(self.fits, borrowing=borrowing))
            self.restore()
        return []


class SlowFair(Slow):
    def any_set(self, fair: FairSharing) -> bool:
        """Whether there are victims that the rules allow to displace in some order."""
        candidates = self.begin(fair)
        return self.search(candidates, lambda other: self.may_take(other, fair), self.enough)

    def begin(self, fair: FairSharing) -> list[WorkloadInfo]:
        candidates = [other for other in self.own.workloads.values() if self.allowed(self.rules.within_queue, other)]
        for queue in self.own.root.queues():
            if queue is not self.own and self.over(queue):
                candidates += [
                    other for other in queue.workloads.values() if self.allowed(self.rules.within_cohort, other)
                ]
        candidates.sort(key=self.order)
        self.own.add(self.usage)
        path = [self.own, *self.own.ancestors()]
        self.within = [node for node in path if fair.within_nominal and not self.over(node)]
        return candidates

    def run(self, fair: FairSharing) -> Result:
        candidates = self.begin(fair)
        refused: list[WorkloadInfo] = []
        if self.first(candidates, fair.strategies[0], refused) or (len(fair.strategies) > 1 and self.second(refused)):
            taken = len(self.taken)
            needed = self.fill_back(self.enough)
            return needed if taken == len(needed) or self.legal(fair) else []
        return []

    def sides(self, queue: Node) -> tuple[list[Node], list[Node]]:
        """The nodes below the common Cohort: those over the workload, and those over the ClusterQueue."""
        path = [self.own, *self.own.ancestors()]
        common = next(node for node in queue.ancestors() if node in path)
        theirs = [queue, *takewhile(lambda node: node is not common, queue.ancestors())]
        return path[: path.index(common)], theirs

    def claims(self, queue: Node) -> bool:
        return any(node in self.within for node in self.sides(queue)[0])

    def entitled(self, queue: Node) -> bool:
        return self.own in self.within or (self.claims(queue) and all(map(self.over, self.sides(queue)[1])))

    def legal(self, fair: FairSharing) -> bool:
        """Whether each of those taken may be taken after those before it; all are, afterwards."""
        victims = list(self.taken)
        self.restore()
        for other, reason in victims:
            if not self.may_take(other, fair):
                return False
            self.take(other, reason)
        return True

    def may_take(self, other: WorkloadInfo, fair: FairSharing) -> bool:
        queue = self.tree.queues[other.queue]
        if queue is self.own:
            return True
        if not all(share(node).borrowed for node in self.sides(queue)[1]):
            return False
        return self.entitled(queue) or any(self.passes(strategy, other, queue) for strategy in fair.strategies)

    def enough(self) -> bool:
        self.own.remove(self.usage)
        try:
            return self.fits(borrowing=True)
        finally:
            self.own.add(self.usage)

    def first(self, candidates: list[WorkloadInfo], strategy: str, refused: list[WorkloadInfo]) -> bool:
        dropped: set[Node] = set()
        while (queue := self.pick(candidates, dropped)) is not None:
            for other in [other for other in candidates if other.queue == queue.name]:
                candidates.remove(other)
                if queue is self.own or self.entitled(queue):
                    reason = "InClusterQueue" if queue is self.own else "InCohortReclamation"
                elif self.passes(strategy, other, queue):
                    reason = "InCohortFairSharing"
                else:
                    refused.append(other)
                    continue
                self.take(other, reason)
                if self.enough():
                    return True
                break
        return False

    def second(self, refused: list[WorkloadInfo]) -> bool:
        dropped: set[Node] = set()
        while (queue := self.pick(refused, dropped)) is not None:
            other = next(other for other in refused if other.queue == queue.name)
            refused[:] = [each for each in refused if each.queue != queue.name]
            if self.passes("LessThanInitialShare", other, queue):
                self.take(other, "InCohortFairSharing")
                if self.enough():
                    return True
        return False

    def passes(self, strategy: str, other: WorkloadInfo, queue: Node) -> bool:
        mine, theirs = (side[-1] for side in self.sides(queue))
        new, old = share(mine), share(theirs)
        if strategy == "LessThanInitialShare":
            return new < old
        self.tree.release(other)
        after = share(theirs)
        self.tree.hold(other)
        return new <= after

    def pick(self, candidates: list[WorkloadInfo], dropped: set[Node]) -> Node | None:
        """Down from the root to the highest share; what was seen not to borrow is never looked at again."""
        path = [self.own, *self.own.ancestors()]
        node = self.own.root
        while not node.is_queue:
            children = []
            for child in node.children.values():
                mine = [other for other in candidates if other.queue == child.name] if child.is_queue else None
                if child not in dropped and ((not share(child).borrowed and child not in path) or mine == []):
                    dropped.add(child)
                if child not in dropped:
                    children.append((child, mine))
            if not children:
                if node is self.own.root:
                    return None
                dropped.add(node)
                node = self.own.root
                continue
            highest = max(share(child) for child, _ in children)
            children = [(child, mine) for child, mine in children if share(child) == highest]
            cohorts = [child for child, mine in children if mine is None]
            if cohorts:
                node = min(cohorts, key=lambda cohort: cohort.name)
            else:
                node = min(children, key=lambda each: min(self.order(other) for other in each[1] or []))[0]
        return node if any(other.queue == node.name for other in candidates) else None
