"""Estimate how long a workload would wait in each worker cluster, for the earliest-start dispatcher.

The estimates are computed from caches of the workers' queues and of the manager's own workloads. A computed load is
kept for a moment, and workloads dispatched meanwhile are added to it. So of a thousand jobs at once, each counts those
before it.
"""

from datetime import datetime, timedelta

from muster.api.conditions import find, is_true
from muster.api.kueue import ClusterQueue, Workload
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED
from muster.api.managed.dispatch import home_of
from muster.api.values.quantity import QuantityError
from muster.multicluster.clusters import Fleet
from muster.multicluster.dispatch.earliest import Ahead, Load, seconds_until_start, size
from muster.queueing.conditions import since
from muster.queueing.scheduling import runtimes
from muster.queueing.scheduling.estimate import RunTime, remaining
from muster.runtime.clock import Clock
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of

# How long a load is kept: longer with more workloads, as reading ten thousand takes a fifth of a second.
KEPT_SECONDS, KEPT_SECONDS_PER_WORKLOAD = 1.0, 0.0005
# The assumed run time if none is known; then all workloads are assumed to run alike.
UNKNOWN_SECONDS = 3600.0

_EMPTY = Load()


class Prospects:
    """The estimates for a manager's workloads in its fleet."""

    def __init__(self, fleet: Fleet, workloads: Informer[Workload], clock: Clock) -> None:
        self._fleet, self._workloads, self._clock = fleet, workloads, clock
        self._past = runtimes.PastRuns()
        self._loads: dict[tuple[str, str], Load] = {}  # by cluster and the worker's ClusterQueue
        self._counted: set[tuple[str, str]] = set()  # by workload key and cluster
        self._good_until: float | None = None
        fleet.on_standing(self._follow)

    def seconds(self, workload: Workload, cluster: str) -> float | None:
        """Return the seconds until a workload would start in a cluster if it went there now; None if unknown."""
        queue = self._find_queue(workload, cluster)
        if queue is None:
            return None
        self._read_loads()
        load = self._loads.get((cluster, queue.metadata.name), _EMPTY)
        try:
            return seconds_until_start(
                size(workload), queue, load, self._remaining_seconds(self._run_time(workload), timedelta())
            )
        except QuantityError:  # a worker may send anything
            return None

    def sent(self, workload: Workload, cluster: str) -> None:
        """Count a workload as waiting in the cluster from now on."""
        self._count(workload, cluster, self._clock.now())

    def _follow(self, cluster: str) -> None:
        there = self._fleet.get(cluster)
        if there is not None:
            there.queues()

    def _find_queue(self, workload: Workload, cluster: str) -> ClusterQueue | None:
        """Return the worker's ClusterQueue that the workload would wait in."""
        there = self._fleet.get(cluster)
        queues = there.queues() if there is not None and there.lost_since is None else None
        if queues is None or not queues.known or queues.refusal:
            return None
        return next(iter(queues.behind([f"{workload.metadata.namespace}/{workload.spec.queue_name}"])), None)

    def _read_loads(self) -> None:
        moment = self._clock.monotonic()
        if self._good_until is not None and moment < self._good_until:
            return
        now, workloads = self._clock.now(), self._workloads.all()
        self._good_until = moment + KEPT_SECONDS + KEPT_SECONDS_PER_WORKLOAD * len(workloads)
        self._past, self._loads, self._counted = runtimes.read_past_runs(workloads), {}, set()
        for workload in workloads:
            status = workload.status
            if is_true(status.conditions, QUOTA_RESERVED) and not is_true(status.conditions, FINISHED):
                home = home_of(workload.metadata)
                for cluster in (home,) if home else status.nominated_cluster_names:
                    self._count(workload, cluster, now)

    def _count(self, workload: Workload, cluster: str, now: datetime) -> None:
        queue, one = self._find_queue(workload, cluster), (key_of(workload), cluster)
        if queue is None or one in self._counted:
            return
        self._counted.add(one)
        holds = home_of(workload.metadata) == cluster
        ran = now - since(find(workload.status.conditions, ADMITTED), now) if holds else timedelta()
        try:
            ahead = Ahead(size(workload), self._remaining_seconds(self._run_time(workload), ran), holds)
        except QuantityError:
            return
        where = (cluster, queue.metadata.name)
        self._loads[where] = self._loads.get(where, _EMPTY).joined(ahead)

    def _run_time(self, workload: Workload) -> RunTime:
        """Return the estimated run time of a workload, from its limit and earlier runs."""
        limit = runtimes.limit(workload)
        return RunTime(limit, self._past.find(runtimes.find_traits(workload), limit))

    def _remaining_seconds(self, run: RunTime, ran: timedelta) -> float:
        rest = remaining(run, max(ran, timedelta()))
        return rest.time.total_seconds() if rest is not None else UNKNOWN_SECONDS
