"""How many workloads hold quota in a ClusterQueue and in each of its LocalQueues, and how much: sums, kept as they go.

Status and metrics show these numbers for a thousand queues, again and again; none of them looks at the workloads for
it. Invariant: the tallies are what counting all holders anew would give.
"""

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo


class Tally:
    """Of some workloads that hold quota.

    reserving: how many. reserved: what they hold. admitted, used: the same of those that are admitted.
    size: how many values are counted, with those that elastic workloads grow by.
    """

    __slots__ = ("admitted", "reserved", "reserving", "size", "used")

    def __init__(self) -> None:
        self.size = 0
        self.reserving = 0
        self.admitted = 0
        self.reserved: dict[FlavorResource, int] = {}
        self.used: dict[FlavorResource, int] = {}

    def count(self, workload: WorkloadInfo, sign: int) -> None:
        """One more, or with -1 one less. What an elastic workload grows by is not a workload more."""
        one = 0 if workload.growth_of else sign
        usage = workload.usage or {}
        self.size += sign
        self.reserving += one
        _count(self.reserved, usage, sign)
        if workload.admitted:
            self.admitted += one
            _count(self.used, usage, sign)


class Tallies:
    """Of one ClusterQueue; `Tree.hold` and `Tree.release` keep it.

    total: of all its workloads. local: by LocalQueue (`namespace/name`), where it is not empty.
    """

    __slots__ = ("local", "total")

    def __init__(self) -> None:
        self.total = Tally()
        self.local: dict[str, Tally] = {}

    def add(self, workload: WorkloadInfo) -> None:
        """It holds quota from now on."""
        self.total.count(workload, 1)
        self.local.setdefault(workload.local_queue, Tally()).count(workload, 1)

    def discard(self, workload: WorkloadInfo) -> None:
        """It gave its quota back."""
        self.total.count(workload, -1)
        tally = self.local[workload.local_queue]
        tally.count(workload, -1)
        if not tally.size:
            del self.local[workload.local_queue]

    def of(self, local_queue: str) -> Tally:
        """Of a LocalQueue."""
        return self.local.get(local_queue) or Tally()


def _count(total: dict[FlavorResource, int], usage: Usage, sign: int) -> None:
    for fr, amount in usage.items():
        left = total.get(fr, 0) + sign * amount
        if left:
            total[fr] = left
        else:
            total.pop(fr, None)
