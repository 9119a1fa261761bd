"""The workloads that hold quota in one ClusterQueue, kept in the order in which they would be preempted.

With 100,000 of them, it will not do to look at each in order to find that none has a low enough priority: the order
makes the first victim the first element, and the sums by priority tell what preemption could free at the most.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from sortedcontainers import SortedKeyList

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo

Rank = tuple[bool, int, float, str]


def rank(workload: WorkloadInfo) -> Rank:
    """Who is preempted first: those already evicted, of low priority, whose reservation is young; then by UID.

    Without a known moment of the reservation it counts as the youngest.
    """
    since = workload.reserved.timestamp() if workload.reserved is not None else float("inf")
    return not workload.evicted, workload.priority, -since, workload.uid


class Holders:
    """An index; `Tree.hold` and `Tree.release` keep it. `evicted`: how many have been asked to go."""

    __slots__ = ("_order", "_usage", "evicted")

    def __init__(self) -> None:
        self.evicted = 0
        self._order = SortedKeyList(key=rank)
        self._usage: dict[int, dict[FlavorResource, int]] = {}

    def add(self, workload: WorkloadInfo) -> None:
        """It holds quota from now on."""
        self._order.add(workload)
        self.evicted += workload.evicted
        self._count(workload, 1)

    def discard(self, workload: WorkloadInfo) -> None:
        """It gave its quota back."""
        self._order.remove(workload)
        self.evicted -= workload.evicted
        self._count(workload, -1)

    def below(self, limit: float, *, evicted: bool) -> Iterator[WorkloadInfo]:
        """Those of a priority below the limit, either evicted already or not, in the order of `rank`."""
        live = not evicted
        if live or self.evicted:
            yield from self._order.irange_key((live,), (live, limit))

    def any_below(self, limit: float, frs: AbstractSet[FlavorResource]) -> bool:
        """Whether a workload of a priority below the limit holds any of this."""
        return any(priority < limit and not frs.isdisjoint(usage) for priority, usage in self._usage.items())

    def usage_below(self, limit: float) -> Usage:
        """What all of a priority below the limit hold together."""
        total: dict[FlavorResource, int] = {}
        for priority, usage in self._usage.items():
            if priority < limit:
                for fr, amount in usage.items():
                    total[fr] = total.get(fr, 0) + amount
        return total

    def _count(self, workload: WorkloadInfo, sign: int) -> None:
        usage = self._usage.setdefault(workload.priority, {})
        for fr, amount in (workload.usage or {}).items():
            usage[fr] = usage.get(fr, 0) + sign * amount
            if not usage[fr]:
                del usage[fr]
        if not usage:
            del self._usage[workload.priority]
