"""Estimate when a job would start in each worker cluster, for the dispatcher that chooses the earliest start.

The estimate is the same as a manager's (`multicluster.dispatch.earliest`). The load of the clusters is read once and
used for a while; jobs dispatched in the meantime are added to it, as in a manager (`multicluster.prospects`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.kueue import ClusterQueue
from muster.multicluster.dispatch.earliest import Ahead, Load, seconds_until_start
from muster.multicluster.prospects import KEPT_SECONDS, UNKNOWN_SECONDS
from muster.queueing.scheduling.estimate import RunTime, estimate_rest
from muster.simulation.engine.job import SimulatedJob

# The load is used for longer than in a manager, whose jobs arrive more slowly than the processor reads the load.
_KEPT_SECONDS_PER_JOB = 0.01

_EMPTY = Load()


class Sent(Struct, frozen=True):
    """A job that a manager dispatched to worker clusters.

    home: the cluster that runs the job or will run it; "" if it still waits in all of `clusters`.
    """

    job: SimulatedJob
    home: str
    clusters: Sequence[str]


class Prospects:
    """Estimates of when a manager's jobs would start in each worker cluster."""

    def __init__(
        self,
        find_queue: Callable[[str, str], ClusterQueue | None],
        list_sent: Callable[[], Iterable[Sent]],
        find_run_time: Callable[[SimulatedJob], RunTime],
    ) -> None:
        """Start without any known load.

        find_queue: returns the ClusterQueue behind a LocalQueue in a worker cluster, with its current status.
        list_sent: returns the manager's jobs in worker clusters.
        find_run_time: returns the expected run time of a job.
        """
        self._find_queue = find_queue
        self._list_sent = list_sent
        self._find_run_time = find_run_time
        self._loads: dict[tuple[str, str], Load] = {}  # by cluster, and LocalQueue in that cluster
        self._counted: set[tuple[str, str]] = set()  # pairs of a job's key and a cluster
        self._good_until: datetime | None = None

    def estimate(self, job: SimulatedJob, cluster: str, now: datetime) -> float | None:
        """Return the seconds until a job would start in a cluster if it were dispatched now; None if unknown."""
        queue = self._find_queue(job.workload.local_queue, cluster)
        if queue is None:
            return None
        self._read_loads(now)
        load = self._loads.get((cluster, job.workload.local_queue), _EMPTY)
        return seconds_until_start(_sum_amounts(job), queue, load, self._find_remaining_seconds(job, timedelta()))

    def add(self, sent: Sent, now: datetime) -> None:
        """Add a job to the load of its home, or to all its worker clusters if it has no home; only once for each."""
        for cluster in (sent.home,) if sent.home else sent.clusters:
            key = sent.job.workload.key, cluster
            if key in self._counted:
                continue
            self._counted.add(key)
            holds, ran = bool(sent.home), timedelta()
            if sent.home and sent.job.started is not None and sent.job.workload.reserved is not None:
                ran = now - sent.job.workload.reserved
            where = cluster, sent.job.workload.local_queue
            ahead = Ahead(_sum_amounts(sent.job), self._find_remaining_seconds(sent.job, ran), holds)
            self._loads[where] = self._loads.get(where, _EMPTY).add_workload(ahead)

    def _read_loads(self, now: datetime) -> None:
        if self._good_until is not None and now < self._good_until:
            return
        every = list(self._list_sent())
        self._good_until = now + timedelta(seconds=KEPT_SECONDS + _KEPT_SECONDS_PER_JOB * len(every))
        self._loads, self._counted = {}, set()
        for sent in every:
            self.add(sent, now)

    def _find_remaining_seconds(self, job: SimulatedJob, ran: timedelta) -> float:
        rest = estimate_rest(self._find_run_time(job), max(ran, timedelta()))
        return rest.time.total_seconds() if rest is not None else UNKNOWN_SECONDS


def _sum_amounts(job: SimulatedJob) -> Mapping[str, int]:
    """Return the amounts of a job's quota in the manager, by resource."""
    total = Counter[str]()
    for (_, resource), amount in (job.workload.usage or {}).items():
        total[resource] += amount
    return {resource: amount for resource, amount in total.items() if amount > 0}
