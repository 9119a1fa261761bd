"""Count the workloads that hold quota in a ClusterQueue, and their usage, by LocalQueue and by user.

Status and metrics read these sums for a thousand queues without visiting workloads. Invariant: the tallies equal a
recount of all workloads that hold quota.
"""

from muster.queueing.model import FlavorResource, Usage, WorkloadInfo


class WorkloadSums:
    """The sums over a set of workloads that hold quota.

    reserving: the number of workloads.
    reserved: the quota that they hold.
    admitted: the number of admitted workloads.
    used: the quota that the admitted workloads hold.
    size: the number of counted values, including the growths of elastic workloads.
    """

    __slots__ = ("admitted", "reserved", "reserving", "size", "used")

    def __init__(self) -> None:
        self.size = 0
        self.reserving = 0
        self.admitted = 0
        self.reserved: dict[FlavorResource, int] = {}
        self.used: dict[FlavorResource, int] = {}

    def count(self, workload: WorkloadInfo, sign: int) -> None:
        """Add a workload to the sums; with sign -1, remove it.

        A growth adds its quota, but does not count as a workload.
        """
        one = 0 if workload.growth_of else sign
        usage = workload.usage or {}
        self.size += sign
        self.reserving += one
        _add_usage(self.reserved, usage, sign)
        if workload.admitted:
            self.admitted += one
            _add_usage(self.used, usage, sign)


class Tallies:
    """The sums over the workloads of one ClusterQueue, which `Tree.hold` and `Tree.release` maintain.

    total: the sums over all its workloads.
    local: the sums by LocalQueue (`namespace/name`), without empty ones.
    owners: the sums by user.
    """

    __slots__ = ("local", "owners", "total")

    def __init__(self) -> None:
        self.total = WorkloadSums()
        self.local: dict[str, WorkloadSums] = {}
        self.owners: dict[str, WorkloadSums] = {}

    def add(self, workload: WorkloadInfo) -> None:
        """Add a workload that now holds quota."""
        self.total.count(workload, 1)
        self.local.setdefault(workload.local_queue, WorkloadSums()).count(workload, 1)
        self.owners.setdefault(workload.owner, WorkloadSums()).count(workload, 1)

    def discard(self, workload: WorkloadInfo) -> None:
        """Remove a workload that released its quota from all sums: total, of its LocalQueue, and of its user."""
        self.total.count(workload, -1)
        for tallies, name in ((self.local, workload.local_queue), (self.owners, workload.owner)):
            tally = tallies[name]
            tally.count(workload, -1)
            if not tally.size:
                del tallies[name]

    def of(self, local_queue: str) -> WorkloadSums:
        """Return the sums over the workloads of a LocalQueue."""
        return self.local.get(local_queue) or WorkloadSums()

    def of_owner(self, owner: str) -> WorkloadSums:
        """Return the sums over the workloads of a user."""
        return self.owners.get(owner) or WorkloadSums()


def _add_usage(total: dict[FlavorResource, int], usage: Usage, sign: int) -> None:
    for fr, amount in usage.items():
        amount_left = total.get(fr, 0) + sign * amount
        if amount_left:
            total[fr] = amount_left
        else:
            total.pop(fr, None)
