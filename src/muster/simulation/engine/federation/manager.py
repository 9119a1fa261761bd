"""A MultiKueue manager in virtual time. `multicluster.dispatch` decides, and the worker clusters execute its plans.

Requests take no time, so a workload that gets quota is cloned, admitted and started at the same time if there is room.
A worker cluster whose connection is lost keeps running; the manager sees and changes nothing there until it is
connected again.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from math import isfinite

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import find_true, is_true
from muster.api.config import Configuration
from muster.api.config.types import EARLIEST_START
from muster.api.kueue import ClusterQueue, Workload, WorkloadStatus
from muster.api.kueue.names import ADMISSION_CHECK_EVICTION, EVICTED, FINISHED, PREEMPTED, QUOTA_RESERVED
from muster.api.meta import ObjectMeta
from muster.controllers.decisionlog import DecisionLog
from muster.multicluster.dispatch.decide import decide
from muster.multicluster.dispatch.decisions import describe_dispatch
from muster.multicluster.dispatch.nominate import count_room
from muster.multicluster.dispatch.views import DispatchPlan, DispatchView, Remote, dispatch_settings
from muster.multicluster.links.activity import find_activity_of_clusters, list_outages
from muster.queueing.conditions import put
from muster.queueing.model import Assignment
from muster.queueing.moments import FIRST
from muster.queueing.workload import checks
from muster.queueing.workload.eviction import evict
from muster.simulation.engine.agenda import EventAgenda, Rank
from muster.simulation.engine.engine import Engine
from muster.simulation.engine.federation.prospects import Prospects, Sent
from muster.simulation.engine.federation.worker import WorkerEngine
from muster.simulation.engine.job import SimulatedJob
from muster.simulation.engine.site import Site
from muster.simulation.outcome.record import SimulationRecord, Waiting
from muster.simulation.scenario.model import Spec
from muster.simulation.scenario.reading import Reading


class Route(Struct, frozen=True):
    """The worker clusters for the workloads of a ClusterQueue.

    check: the ClusterQueue's AdmissionCheck.
    clusters: the names of the worker clusters, in order of preference.
    """

    check: str
    clusters: Sequence[str]


class _Dispatch(Struct):
    """A workload that has quota in the manager and is dispatched to worker clusters.

    workload: the workload without its status.
    status: the status that the manager stores.
    home: the name of the worker cluster that runs its job, or will run it; "" if that is not decided.
    wake_at: the time of the next decision, in seconds from the start; None if only a change can matter.
    """

    job: SimulatedJob
    route: Route
    workload: Workload
    status: WorkloadStatus
    home: str = ""
    wake_at: float | None = None


class ManagerEngine(Engine):
    """A simulated manager, which dispatches workloads to worker clusters.

    Jobs in queues without the admission check run in the manager itself.

    routes: the route of each ClusterQueue, by name.
    """

    def __init__(
        self,
        spec: Spec,
        site: Site,
        configuration: Configuration,
        agenda: EventAgenda,
        record: SimulationRecord,
        routes: Mapping[str, Route],
        decisions: DecisionLog | None = None,
    ) -> None:
        super().__init__(spec, site, configuration, agenda, record, decisions=decisions)
        self._routes = routes
        self._settings_of_dispatch = dispatch_settings(configuration.multi_kueue, FIRST)
        self._workers: dict[str, WorkerEngine] = {}
        self._dispatches: dict[str, _Dispatch] = {}
        self._lost_since: dict[str, datetime] = {}
        self._unseen: dict[str, None] = {}  # the keys of workloads to decide about
        self._busy: dict[str, WorkerEngine] = {}  # the workers that have something to decide
        self._waking: dict[str, None] = {}  # the keys of workloads to possibly decide about later
        by_start = configuration.multi_kueue.dispatcher_name == EARLIEST_START
        prospects = Prospects(self._find_queue_there, self._list_sent, self._forecaster.find_run_time)
        self._prospects = prospects if by_start else None

    def add_worker(self, worker: WorkerEngine, losses: Sequence[tuple[float, float]]) -> None:
        """Add a worker cluster.

        losses: the times at which the manager loses and regains the connection, in seconds from the start.
        """
        self._workers[worker.name] = worker
        for at, until in list_outages(losses):
            self._agenda.plan(at, Rank.END, partial(self._mark_lost, worker.name))
            if isfinite(until):
                self._agenda.plan(until, Rank.END, partial(self._mark_reached, worker.name))

    @property
    def workers(self) -> Sequence[WorkerEngine]:
        """The worker clusters."""
        return tuple(self._workers.values())

    def require_queues(self, reading: Reading, site: Site) -> None:
        """Raise `ScenarioError` if a LocalQueue of the work exists in none of the worker clusters of its route."""
        for number, work in enumerate(reading.scenario.spec.work):
            queue = site.templates[work.name].local_queue
            route = self._routes.get(self._local.get(queue, ""))
            if route is not None and not any(self._workers[name].has_queue(queue) for name in route.clusters):
                field = "queue" if work.queue else "template"
                why = f"no cluster that it is sent to has the LocalQueue {queue}"
                raise reading.source.error(f"spec.work[{number}].{field}", why)

    def on_clone(self, worker: WorkerEngine, key: str) -> None:
        """Record that the clone of a workload changed in a worker cluster.

        While the connection to the cluster is lost, the manager does not see the change.
        """
        self._busy[worker.name] = worker
        if worker.name not in self._lost_since:
            self._unseen[key] = None

    def settle(self) -> None:
        """Make decisions in the manager and its worker clusters until nothing is left to decide at this time.

        The use of quota in the worker clusters is recorded after that.
        """
        changed: dict[str, WorkerEngine] = {}
        while True:
            super().settle()
            while self._busy:
                name, worker = self._busy.popitem()
                changed[name] = worker
                worker.settle()
            if not self._unseen:
                break
            self._decide_changed()
        for key in self._waking:
            if (waiting := self._dispatches.get(key)) is not None and waiting.wake_at is not None:
                self._agenda.plan(waiting.wake_at, Rank.END, partial(self._wake, key, waiting.wake_at))
        self._waking.clear()
        for worker in changed.values():
            worker.record_uses()

    def _decide_changed(self) -> None:
        """Decide about the workloads whose clones changed. Workloads that need a home are decided about last.

        If any other workload changed, workloads that need a home wait until the next call. Until then, their clones may
        lose quota to the clone of a workload that got quota in the manager when another workload ended. A real manager
        has the same delay: it learns of a clone's quota from the worker, but of its own decisions immediately.
        """
        news = {key: one for key in self._unseen if (one := self._dispatches.get(key)) is not None}
        urgent = {key: None for key, one in news.items() if not self._needs_home(one)}
        self._unseen = {key: None for key in news if key not in urgent} if urgent else {}
        for key in urgent or news:
            if (one := self._dispatches.get(key)) is not None:
                self._decide_dispatch(key, one)

    def _needs_home(self, dispatch: _Dispatch) -> bool:
        """Return whether a workload has no home although a connected worker cluster has given its clone quota."""
        if dispatch.home or is_true(dispatch.status.conditions, EVICTED):
            return False
        names = [name for name in dispatch.route.clusters if name not in self._lost_since]
        clones = (self._workers[name].get(dispatch.job.workload.key) for name in names)
        return any(clone is not None and clone.assignment is not None for clone in clones)

    def _explain(self, job: SimulatedJob, lacking: dict[Hashable, str]) -> Waiting:
        one = self._dispatches.get(job.workload.key)
        if one is None:
            return super()._explain(job, lacking)
        if is_true(one.status.conditions, EVICTED):
            return Waiting(job.submission.name, f"it may still run in cluster {one.home}, which is lost", never=False)
        asked = [self._workers[name] for name in self._list_clusters(one) if self._workers[name].has(job.workload.key)]
        waits = [(worker.name, worker.explain(job.workload.key)) for worker in asked]
        why = "; ".join(f"cluster {name}: {wait.why}" for name, wait in waits)
        never = len(waits) == len(one.route.clusters) and all(wait.never for _, wait in waits)
        return Waiting(job.submission.name, why or "no cluster takes it", never=never)

    # Connections to worker clusters.

    def _mark_lost(self, name: str) -> None:
        self._lost_since[name], self._workers[name].is_lost = self._moment, True
        self._check_queues(name)
        for key, one in self._dispatches.items():
            if one.home == name or (not one.home and name in one.route.clusters):
                self._unseen[key] = None

    def _mark_reached(self, name: str) -> None:
        """Record that a worker cluster is connected again, and decide about all workloads that it has or could run.

        Clones of workloads that no longer exist are removed.
        """
        del self._lost_since[name]
        worker = self._workers[name]
        worker.is_lost = False
        self._check_queues(name)
        for key in worker.list_keys():
            if key in self._dispatches:
                self._unseen[key] = None
            else:
                worker.remove_clone(key)
                self._unseen.pop(key, None)  # it is decided about when it gets quota
        for key, one in self._dispatches.items():
            if not one.home and name in one.route.clusters:
                self._unseen[key] = None

    def _check_queues(self, cluster: str) -> None:
        """Update whether the queues that dispatch workloads to this cluster are active.

        Such a queue is active if the manager is connected to at least one of its clusters.
        """
        usable = {name: name not in self._lost_since for name in self._workers}
        for queue, route in self._routes.items():
            if cluster in route.clusters:
                active = find_activity_of_clusters(route.clusters, usable).active
                self._definitions.set_check(queue, self._queues, active=active)

    def _wake(self, key: str, at: float) -> None:
        one = self._dispatches.get(key)
        if one is not None and one.wake_at == at:
            self._unseen[key] = None

    # Workloads.

    def _grant(self, job: SimulatedJob, assignment: Assignment) -> None:
        route = self._routes.get(job.workload.queue)
        if route is None:
            super()._grant(job, assignment)
            return
        now, key = self._moment, job.workload.key
        status = WorkloadStatus(
            conditions=put((), QUOTA_RESERVED, True, QUOTA_RESERVED, "", now),
            admission_checks=checks.match_required_checks((), (route.check,), now),
        )
        self._dispatches[key] = _Dispatch(job, route, self._make_workload(job), status)
        self._unseen[key] = None

    def _make_workload(self, job: SimulatedJob) -> Workload:
        """Return the Workload of a job with its current number of pods."""
        spec, namespace = job.known.template.workload.spec, job.workload.namespace
        first, count = spec.pod_sets[0], job.workload.podsets[0].count
        if first.count != count:
            spec = replace(spec, pod_sets=(replace(first, count=count), *spec.pod_sets[1:]))
        name = job.workload.key.partition("/")[2]
        meta = ObjectMeta(name=name, namespace=namespace, uid=name, creation_timestamp=job.workload.created)
        return Workload(metadata=meta, spec=spec)

    def _evict(self, job: SimulatedJob, reason: str = PREEMPTED) -> None:
        one = self._dispatches.get(job.workload.key)
        if one is None:
            super()._evict(job, reason)
        elif not is_true(one.status.conditions, EVICTED):
            self._begin_eviction(one, reason, "Preempted")

    def _begin_eviction(self, dispatch: _Dispatch, reason: str, message: str) -> None:
        """Start to evict a workload: its quota is released once no worker cluster has its clone.

        That may be later, if the connection to its home is lost. The eviction and the lost work are recorded now, as in
        a cluster.
        """
        super()._evict_from_nodes(dispatch.job)
        dispatch.status = evict(dispatch.status, reason, message, self._moment)
        dispatch.job.workload = replace(dispatch.job.workload, evicted=True)
        self._tree.hold(dispatch.job.workload)
        self._unseen[dispatch.job.workload.key] = None

    def _evict_from_nodes(self, job: SimulatedJob) -> None:
        if not job.workload.evicted:  # otherwise `_begin_eviction` has recorded the eviction
            super()._evict_from_nodes(job)

    def _decide_dispatch(self, key: str, dispatch: _Dispatch) -> None:
        """Decide where a workload runs, as the manager's controller does after each change, and execute the plan.

        The decision is added to the log of decisions, if there is one.
        """
        view = self._make_view(key, dispatch)
        plan = decide(view, self._settings_of_dispatch, self._moment)
        if self._decisions is not None:
            for decision in describe_dispatch(view, plan, self._find_subject(dispatch.job.workload), self._moment):
                self._decisions.add(replace(decision, queue=dispatch.job.workload.queue))
        dispatch.wake_at = None if plan.wake_at is None else (plan.wake_at - self._start).total_seconds()
        if dispatch.wake_at is not None:
            self._waking[key] = None
        if plan.home != dispatch.home:  # the controller would store the home now, and use it in its next decision
            dispatch.home = plan.home
            self._unseen[key] = None
            return
        if plan.status is not dispatch.status:
            dispatch.status = plan.status
        self._carry_out(key, dispatch, plan)
        self._note_progress(key, dispatch, plan)

    def _make_view(self, key: str, dispatch: _Dispatch) -> DispatchView:
        workload = Workload(metadata=dispatch.workload.metadata, spec=dispatch.workload.spec, status=dispatch.status)
        remotes = tuple(
            self._estimate_start(dispatch, self._describe(key, name)) for name in self._list_clusters(dispatch)
        )
        # the status of the job at its home is copied immediately
        return DispatchView(workload, dispatch.route.check, dispatch.home, mirrored=True, remotes=remotes)

    def _estimate_start(self, dispatch: _Dispatch, remote: Remote) -> Remote:
        """Return a worker cluster with the estimated seconds until the job would start there, if the estimate matters.

        Otherwise return `remote` unchanged.
        """
        name = remote.cluster
        if (
            self._prospects is None
            or dispatch.home
            or name in dispatch.status.nominated_cluster_names
            or remote.lost_since
        ):
            return remote
        if not count_room(dispatch.status, self._settings_of_dispatch, self._moment):
            return remote  # this decision selects no cluster
        return replace(remote, seconds=self._prospects.estimate(dispatch.job, name, self._moment))

    def _find_queue_there(self, local_queue: str, cluster: str) -> ClusterQueue | None:
        return self._workers[cluster].describe_queue(local_queue)

    def _list_sent(self) -> Iterator[Sent]:
        return (Sent(one.job, one.home, one.status.nominated_cluster_names) for one in self._dispatches.values())

    def _list_clusters(self, dispatch: _Dispatch) -> list[str]:
        """Return the worker clusters of a workload's route, and its home if that is not among them."""
        clusters = list(dispatch.route.clusters)
        return clusters if not dispatch.home or dispatch.home in clusters else [*clusters, dispatch.home]

    def _describe(self, key: str, name: str) -> Remote:
        since = self._lost_since.get(name)
        return self._workers[name].describe(key) if since is None else Remote(name, lost_since=since, is_tried=True)

    def _carry_out(self, key: str, dispatch: _Dispatch, plan: DispatchPlan) -> None:
        if self._prospects is not None and plan.create:
            self._prospects.add(Sent(dispatch.job, "", plan.create), self._moment)
        for name in plan.create:
            self._workers[name].add_clone(dispatch.job, dispatch.workload)
        for name in dict.fromkeys((*plan.remove, *((plan.evict,) if plan.evict else ()))):
            if self._workers[name].has(key):
                self._workers[name].remove_clone(key)
        if plan.mirror and plan.mirror not in plan.remove and plan.mirror != plan.evict:
            self._workers[plan.mirror].start_job(key)

    def _note_progress(self, key: str, dispatch: _Dispatch, plan: DispatchPlan) -> None:
        """Record what a plan showed: that the job started or ended, or that the workload is evicted or queued again."""
        if is_true(dispatch.status.conditions, FINISHED):
            self._finish(key, dispatch)
            return
        clone = (
            self._workers[dispatch.home].get(key) if dispatch.home and dispatch.home not in self._lost_since else None
        )
        if clone is not None and clone.is_home and dispatch.job.started is None:
            dispatch.job.started = clone.job.started
        if (why := checks.retry(dispatch.status.admission_checks)) is not None:
            self._record_eviction(dispatch.job, ADMISSION_CHECK_EVICTION, why)
            self._begin_eviction(dispatch, ADMISSION_CHECK_EVICTION, why)
        elif plan.stopped and (evicted := find_true(dispatch.status.conditions, EVICTED)) is not None:
            del self._dispatches[key]
            super()._evict(dispatch.job, evicted.reason)

    def _finish(self, key: str, dispatch: _Dispatch) -> None:
        """End a workload that ended at its home, record this, and free its quota.

        Clones in disconnected worker clusters are removed when these are connected again.
        """
        clone = self._workers[dispatch.home].get(key)
        assert clone is not None, "it has ended at home"
        assert clone.ended_at is not None, "it has ended at home"
        del self._dispatches[key]
        del self._jobs[key]
        if dispatch.job.started is not None:
            self._forecaster.learn(dispatch.job, clone.ended_at - dispatch.job.started)
        self.record.end(dispatch.job.number, clone.ended_at, over_limit=clone.job.over_limit)
        self._workers[dispatch.home].remove_clone(key)
        self._release(dispatch.job.workload)
        self._queues.forgive(self._tree.queues[dispatch.job.workload.queue])

    @property
    def _moment(self) -> datetime:
        return self._start + timedelta(seconds=self.record.now)
