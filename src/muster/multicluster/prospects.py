"""Estimate how long a workload would wait in each worker cluster.

The earliest-start dispatcher sorts the clusters by this time. The other dispatchers only need to know which clusters
have room (0 s), so no run times are read for them. A dispatcher of another program needs no estimate.

The estimates are computed from caches of the workers' queues and of the manager's own workloads. A computed load is
cached for a moment, and workloads dispatched meanwhile are added to it. So of a thousand jobs at once, each counts the
jobs before it.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from muster.api.conditions import find, is_true
from muster.api.config.types import EARLIEST_START
from muster.api.kueue import ClusterQueue, Workload
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED
from muster.api.managed.dispatch import home_of
from muster.api.values.quantity import QuantityError
from muster.multicluster.dispatch.earliest import Ahead, Load, seconds_until_start, sum_requests
from muster.multicluster.dispatch.lead import HEAD_START, WITH_HEAD_STARTS, end, is_silent, renew
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Lead, Remote
from muster.multicluster.links.clusters import Fleet
from muster.queueing.conditions import find_last_change
from muster.queueing.scheduling import runtimes
from muster.runtime.clock import Clock
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of

# How long a load is cached: longer with more workloads, because reading ten thousand takes a fifth of a second.
KEPT_SECONDS, KEPT_SECONDS_PER_WORKLOAD = 1.0, 0.0005
# The assumed run time if none is known; then all workloads are assumed to run alike.
UNKNOWN_SECONDS = 3600.0
# A cluster that did not answer within a head start, or refused a clone, gets no head start for this time.
DOUBTED = timedelta(seconds=60)

_HOLDING = "multikueue-holding"
_EMPTY = Load()


class Prospects:
    """The estimated waits of a manager's workloads in its worker clusters, and the head starts of clusters.

    In its head start, a cluster has the only clone of a workload (see `dispatch.lead`).
    """

    def __init__(self, fleet: Fleet, workloads: Informer[Workload], clock: Clock, dispatcher: str) -> None:
        """Watch the queues of the fleet, unless the dispatcher is another program, which needs no estimates."""
        self._fleet, self._workloads, self._clock = fleet, workloads, clock
        self._by_start, self._lets_lead = dispatcher == EARLIEST_START, dispatcher in WITH_HEAD_STARTS
        self._past = runtimes.PastRuns()
        self._leads: dict[str, Lead] = {}
        self._admitted_at: dict[str, datetime] = {}  # when clusters last admitted a workload in a head start
        self._doubted: dict[str, datetime] = {}  # until when clusters get no head start
        self._loads: dict[tuple[str, str], Load] = {}  # the loads, by cluster and by the worker's ClusterQueue
        self._counted: set[tuple[str, str]] = set()  # by workload key and cluster
        self._good_until: float | None = None
        workloads.add_index(_HOLDING, _index_holding)
        if self._by_start or self._lets_lead:
            fleet.on_standing(self._follow)

    def _estimate_seconds(self, workload: Workload, cluster: str) -> float | None:
        """Return the seconds until a workload would start in a cluster if it went there now; None if unknown."""
        queue = self._find_queue(workload, cluster)
        if queue is None:
            return None
        self._read_loads()
        load = self._loads.get((cluster, queue.metadata.name), _EMPTY)
        try:
            return seconds_until_start(
                sum_requests(workload), queue, load, self._estimate_remaining_seconds(workload, timedelta())
            )
        except QuantityError:  # a worker may send anything
            return None

    def lead(self, key: str) -> Lead | None:
        """Return the head start of one worker cluster for a workload; None if there has been none in this process."""
        lead = self._leads.get(key)
        return renew(lead, self._admitted_at.get(lead.cluster)) if lead is not None else None

    def find_remotes(self, workload: Workload, remotes: Sequence[Remote]) -> tuple[Remote, ...]:
        """Return the worker clusters with the estimated seconds until the workload would start in each.

        Only clusters for which the decision needs the estimate get one. The workload must not have a home cluster yet.
        """
        if self._by_start:
            needed = [one.cluster not in workload.status.nominated_cluster_names for one in remotes]
        else:
            is_open = self._lets_lead and key_of(workload) not in self._leads and all(one.is_empty for one in remotes)
            needed = [is_open and not self._is_doubted(one.cluster) for one in remotes]
        return tuple(
            replace(one, seconds=self._estimate_seconds(workload, one.cluster)) if is_needed and one.chosen_for else one
            for one, is_needed in zip(remotes, needed, strict=True)
        )

    def follow_plan(self, view: DispatchView, plan: DispatchPlan) -> None:
        """Count the workload as waiting in the clusters that get a clone, and track its head start.

        A cluster that does not respond during its head start gets none for a while.
        """
        key, now = key_of(view.workload), self._clock.now()
        if view.lead is not None and plan.home == view.lead.cluster:
            self._admitted_at[plan.home] = now
        if plan.lead is None:
            self._leads.pop(key, None)
        elif plan.lead == view.lead:
            if is_silent(plan.lead, view.remotes, now):
                self._mark_doubtful(plan.lead.cluster, plan.lead.since + HEAD_START)
        else:
            self._leads[key] = plan.lead
        for cluster in plan.create if self._by_start or self._lets_lead else ():
            self._count(view.workload, cluster, now)

    def end_head_start(self, key: str, cluster: str) -> bool:
        """End the head start of a cluster that refuses the clone of a workload; return False if it had none."""
        lead = self._leads.get(key)
        if lead is None or lead.cluster != cluster:
            return False
        self._leads[key] = end(lead)
        self._mark_doubtful(cluster, self._clock.now())
        return True

    def forget(self, key: str) -> None:
        """Drop the facts about a deleted workload."""
        self._leads.pop(key, None)

    def _mark_doubtful(self, cluster: str, since: datetime) -> None:
        self._doubted[cluster] = max(since + DOUBTED, self._doubted.get(cluster, since))

    def _is_doubted(self, cluster: str) -> bool:
        """Return whether a cluster gets no head start now, because it recently refused or ignored a workload."""
        until = self._doubted.get(cluster)
        return until is not None and self._clock.now() < until

    def _follow(self, cluster: str) -> None:
        """Watch the queues of a cluster that is connected."""
        there = self._fleet.get(cluster)
        if there is not None:
            there.follow_queues()

    def _find_queue(self, workload: Workload, cluster: str) -> ClusterQueue | None:
        """Return the worker's ClusterQueue for the workload; None if it is unknown."""
        there = self._fleet.get(cluster)
        queues = there.follow_queues() if there is not None and there.lost_since is None else None
        if queues is None or not queues.known or queues.refusal:
            return None
        return next(iter(queues.behind([f"{workload.metadata.namespace}/{workload.spec.queue_name}"])), None)

    def _read_loads(self) -> None:
        moment = self._clock.monotonic()
        if self._good_until is not None and moment < self._good_until:
            return
        now = self._clock.now()
        workloads = self._workloads.all() if self._by_start else self._workloads.by(_HOLDING, "")
        self._good_until = moment + KEPT_SECONDS + KEPT_SECONDS_PER_WORKLOAD * len(workloads)
        self._past = runtimes.read_past_runs(workloads) if self._by_start else self._past
        self._loads, self._counted = {}, set()
        for workload in workloads:
            if _is_holding(workload):
                for cluster in self._find_clusters(workload):
                    self._count(workload, cluster, now)

    def _find_clusters(self, workload: Workload) -> Sequence[str]:
        """Return the clusters in which a workload has quota or waits for it."""
        if home := home_of(workload.metadata):
            return (home,)
        lead = self._leads.get(key_of(workload))
        return (lead.cluster,) if lead is not None else workload.status.nominated_cluster_names

    def _count(self, workload: Workload, cluster: str, now: datetime) -> None:
        queue, one = self._find_queue(workload, cluster), (key_of(workload), cluster)
        if queue is None or one in self._counted:
            return
        self._counted.add(one)
        holds = home_of(workload.metadata) == cluster
        ran = now - find_last_change(find(workload.status.conditions, ADMITTED), now) if holds else timedelta()
        try:
            ahead = Ahead(sum_requests(workload), self._estimate_remaining_seconds(workload, ran), holds)
        except QuantityError:
            return
        where = (cluster, queue.metadata.name)
        self._loads[where] = self._loads.get(where, _EMPTY).add_workload(ahead)

    def _estimate_remaining_seconds(self, workload: Workload, ran: timedelta) -> float:
        """Return how much longer a workload is estimated to run, from its limit and earlier runs."""
        if not self._by_start:
            return UNKNOWN_SECONDS
        from muster.queueing.scheduling.estimate import RunTime, estimate_rest  # only managers of clusters estimate

        limit = runtimes.find_time_limit(workload)
        run = RunTime(limit, self._past.find(runtimes.find_traits(workload), limit))
        rest = estimate_rest(run, max(ran, timedelta()))
        return rest.time.total_seconds() if rest is not None else UNKNOWN_SECONDS


def _is_holding(workload: Workload) -> bool:
    """Return whether a workload has quota in the manager and has not finished."""
    conditions = workload.status.conditions
    return is_true(conditions, QUOTA_RESERVED) and not is_true(conditions, FINISHED)


def _index_holding(workload: Workload) -> tuple[str, ...]:
    return ("",) if _is_holding(workload) else ()
