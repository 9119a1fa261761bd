"""Keep the workloads that hold quota in one ClusterQueue in the order in which they would be preempted.

With 100,000 workloads, it takes too long to scan all only to find that none has a low enough priority. In this order
the first victim is the first element, and the sums by priority bound how much quota preemption could free.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from sortedcontainers import SortedKeyList

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo

Rank = tuple[bool, int, float, str]


def rank(workload: WorkloadInfo) -> Rank:
    """Return the sort key by which workloads are preempted, the lowest first.

    Evicted workloads come first, then low priority, then the newest reservation, then the UID. A reservation whose time
    is unknown counts as the newest.
    """
    since = workload.reserved.timestamp() if workload.reserved is not None else float("inf")
    return not workload.evicted, workload.priority, -since, workload.uid


class Holders:
    """The workloads that hold quota in a ClusterQueue, sorted by `rank`. `Tree.hold` and `Tree.release` update it.

    evicted: how many of the workloads are evicted and still hold their quota.
    """

    __slots__ = ("_order", "_usage", "evicted")

    def __init__(self) -> None:
        self.evicted = 0
        self._order = SortedKeyList(key=rank)
        self._usage: dict[int, dict[FlavorResource, int]] = {}

    def add(self, workload: WorkloadInfo) -> None:
        """Add a workload that now holds quota."""
        self._order.add(workload)
        self.evicted += workload.evicted
        self._add_to_sums(workload, 1)

    def discard(self, workload: WorkloadInfo) -> None:
        """Remove a workload that released its quota."""
        self._order.remove(workload)
        self.evicted -= workload.evicted
        self._add_to_sums(workload, -1)

    def below(self, limit: float, *, evicted: bool) -> Iterator[WorkloadInfo]:
        """Yield the workloads with a priority below the limit, in the order of `rank`.

        evicted: whether to yield the workloads that are being evicted, or the others.
        """
        live = not evicted
        if live or self.evicted:
            yield from self._order.irange_key((live,), (live, limit))

    def has_any_below(self, limit: float, frs: AbstractSet[FlavorResource] | None) -> bool:
        """Return whether a workload with a priority below the limit holds any of these quotas.

        frs: the flavors and resources to consider; None for any.
        """
        return any(
            priority < limit and (frs is None or not frs.isdisjoint(usage)) for priority, usage in self._usage.items()
        )

    def usage_below(self, limit: float) -> Usage:
        """Return the total usage of all workloads with a priority below the limit."""
        total: dict[FlavorResource, int] = {}
        for priority, usage in self._usage.items():
            if priority < limit:
                for fr, amount in usage.items():
                    total[fr] = total.get(fr, 0) + amount
        return total

    def _add_to_sums(self, workload: WorkloadInfo, sign: int) -> None:
        usage = self._usage.setdefault(workload.priority, {})
        for fr, amount in (workload.usage or {}).items():
            usage[fr] = usage.get(fr, 0) + sign * amount
            if not usage[fr]:
                del usage[fr]
        if not usage:
            del self._usage[workload.priority]
