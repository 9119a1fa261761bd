"""Track whether the pods of jobs become ready in time, and when a late job is queued again.

The rules are the same as for workloads in a cluster (`queueing.workload`). Only jobs with a timeout are tracked.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.config import WaitForPodsReady
from muster.api.kueue import ClusterQueue, RequeueState, ResourceFlavor, WorkloadStatus
from muster.api.kueue.names import ADMITTED, PODS_READY
from muster.api.kueue.readiness import READY_ANNOTATION
from muster.api.meta import Condition
from muster.api.values import durations
from muster.queueing.conditions import put
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.workload.eviction import delay_requeue
from muster.queueing.workload.readiness import find_deadline, read_blocking, settings_for, with_readiness
from muster.simulation.engine.agenda import EventAgenda, Rank

Annotations = Mapping[str, str]


class Readiness(Struct):
    """The readiness of an admitted job's pods, and how often they were late.

    settings: the timeouts; None if the job has none.
    deadline: the time at which the job is evicted unless its pods are ready.
    ready_at: the time at which its pods are ready.
    """

    settings: WaitForPodsReady | None
    conditions: tuple[Condition, ...] = ()
    state: RequeueState | None = None
    deadline: datetime | None = None
    ready_at: float | None = None

    def admit(self, now: datetime) -> None:
        """Start to wait for the pods of a job.

        In a simulation a job starts when it is admitted, so it does not matter from which of the two times the timeout
        counts.
        """
        self.conditions = put((), ADMITTED, True, ADMITTED, "", now)
        self._set_deadline()

    def resume(self, conditions: tuple[Condition, ...]) -> None:
        """Continue to wait for the pods of a job that was admitted earlier.

        conditions: the conditions of its Workload.
        """
        self.conditions = conditions
        self._set_deadline()

    def turn(self, now: datetime, *, ready: bool) -> None:
        """Record that all pods are ready, or that some are no longer ready, and update the deadline."""
        self.conditions = with_readiness(self.conditions, ready, now)
        self._set_deadline()

    def release(self) -> None:
        """Record that the job is no longer admitted, and clear its deadline."""
        self.conditions, self.deadline, self.ready_at = (), None, None

    def back_off(self, now: datetime) -> datetime | None:
        """Count a late job; return the time until which it backs off before it is queued again.

        Returns None if it was late too often. The job must have a timeout.
        """
        assert self.settings is not None, "only a job with a time-out is late"
        status = delay_requeue(WorkloadStatus(requeue_state=self.state), self.settings, now)
        if status is None or status.requeue_state is None:
            return None
        # its count is kept, and its backoff ends when the job is queued again
        self.state = RequeueState(count=status.requeue_state.count)
        return status.requeue_state.requeue_at

    def _set_deadline(self) -> None:
        self.deadline = None
        if self.settings is not None:
            limit = find_deadline(self.conditions, {}, replace(self.settings, clock="Admitted"))
            self.deadline = None if limit is None else limit[0]


class TimeOuts:
    """The timeouts for ready pods: from the Configuration, and from annotations of queues, flavors and jobs.

    blocking: which workloads wait for the pods of others; None if none does.
    """

    def __init__(
        self,
        base: WaitForPodsReady | None,
        queues: Iterable[ClusterQueue],
        flavors: Iterable[ResourceFlavor],
        jobs: Iterable[Annotations],
    ) -> None:
        self._base = base
        self._queues = {one.metadata.name: one.metadata.annotations for one in queues}
        self._flavors = {one.metadata.name: one.metadata.annotations for one in flavors}
        self._of_jobs = any(READY_ANNOTATION in its for its in jobs)
        self.blocking = self._find_all_blocking()

    def _find_all_blocking(self) -> Blocking | None:
        everything = self._base is not None and self._base.block_admission
        of_queues, of_flavors = self._list_blocking(self._queues), self._list_blocking(self._flavors)
        blocks = everything or of_queues or of_flavors or self._of_jobs
        return Blocking(everything, of_queues, of_flavors) if blocks else None

    def set_queue(self, queue: ClusterQueue) -> None:
        """Replace the annotations of a ClusterQueue, and compute again which workloads wait for others."""
        self._queues[queue.metadata.name] = queue.metadata.annotations
        self.blocking = self._find_all_blocking()

    def find(self, job: Annotations, queue: str, flavors: Iterable[str]) -> WaitForPodsReady | None:
        """Return the timeouts for the pods of a job in a ClusterQueue with these flavors; None if it has none."""
        of_flavors = [self._flavors.get(name, {}) for name in flavors]
        return settings_for(self._base, job, self._queues.get(queue, {}), of_flavors)

    def find_blocking(self, job: Annotations) -> bool | None:
        """Return whether others wait for the pods of a job, from its annotation; None without the annotation."""
        return read_blocking(job[READY_ANNOTATION], self._base) if READY_ANNOTATION in job else None

    def _list_blocking(self, annotated: Mapping[str, Annotations]) -> Mapping[str, bool]:
        texts = ((name, its.get(READY_ANNOTATION)) for name, its in annotated.items())
        return {name: bool(read_blocking(text, self._base)) for name, text in texts if text is not None}


class ReadinessWatch:
    """The readiness of all admitted jobs that have a timeout for it, by key. Times are seconds from the start."""

    def __init__(
        self,
        time_outs: TimeOuts,
        agenda: EventAgenda,
        start: datetime,
        on_ready: Callable[[str], None],
        on_late: Callable[[str, datetime | None], None],
    ) -> None:
        """Start without jobs.

        on_ready: called when all pods of a job are ready.
        on_late: called if they are late, with the time until which the job backs off; None if it was late too often.
        """
        self._time_outs = time_outs
        self._agenda = agenda
        self._start = start
        self._on_ready = on_ready
        self._on_late = on_late
        self._jobs: dict[str, Readiness] = {}
        self._unplanned: dict[str, None] = {}  # jobs whose timeout may start at this time

    def admit(self, key: str, annotations: Annotations, queue: str, flavors: Iterable[str], now: float) -> None:
        """Track whether the pods of an admitted job are ready.

        Does nothing if there is no timeout and no job waits for the pods of others.
        """
        settings = self._time_outs.find(annotations, queue, flavors)
        if settings is None and self._time_outs.blocking is None:
            return
        job = self._jobs.setdefault(key, Readiness(settings))
        job.settings = settings
        job.admit(self._convert_to_datetime(now))
        self._unplanned[key] = None

    def take_up(
        self, key: str, annotations: Annotations, queue: str, flavors: Iterable[str], status: WorkloadStatus
    ) -> None:
        """Track a job of an existing cluster: its wait so far, if it was admitted, and how often it was late.

        Does nothing if there is nothing to wait for or to remember.
        """
        settings = self._time_outs.find(annotations, queue, flavors)
        if settings is not None or self._time_outs.blocking is not None or status.requeue_state is not None:
            conditions = tuple(one for one in status.conditions if one.type in (ADMITTED, PODS_READY))
            count = RequeueState(count=status.requeue_state.count) if status.requeue_state is not None else None
            job = self._jobs[key] = Readiness(settings, state=count)
            if is_true(conditions, ADMITTED):
                job.resume(conditions)
                self._unplanned[key] = None

    def begin(self, key: str, now: float, startup: float) -> None:
        """Record that all pods of a job have nodes. Does nothing if the job is not tracked.

        startup: the seconds until the pods are ready.
        """
        if (job := self._jobs.get(key)) is None:
            return
        job.ready_at = now + startup
        if startup == 0:
            self._become_ready(key, now)
            return
        self._agenda.plan(job.ready_at, Rank.END, partial(self._become_ready, key, job.ready_at))

    def is_late(self, key: str, at: float) -> bool:
        """Return whether a job is evicted before `at`, unless its pods are ready until then."""
        job = self._jobs.get(key)
        return job is not None and job.deadline is not None and self._convert_to_seconds(job.deadline) < at

    def find_timeout(self, key: str) -> float | None:
        """Return the seconds that the pods of a job may take until they are ready; None if it is not tracked."""
        job = self._jobs.get(key)
        return None if job is None or job.settings is None else job.settings.timeout / durations.SECOND

    def interrupt(self, key: str, now: float) -> None:
        """Record that a tracked job lost its nodes, so that its timeout may count again."""
        if (job := self._jobs.get(key)) is not None and job.conditions:
            job.ready_at = None
            job.turn(self._convert_to_datetime(now), ready=False)
            self._unplanned[key] = None

    def is_watched(self, key: str) -> bool:
        """Return whether a job is tracked."""
        return key in self._jobs

    def release(self, key: str) -> None:
        """Record that a tracked job is no longer admitted. Does nothing if the job is not tracked."""
        if (job := self._jobs.get(key)) is not None:
            job.release()

    def forget(self, key: str) -> None:
        """Stop tracking a job that has ended."""
        self._jobs.pop(key, None)

    def _become_ready(self, key: str, at: float) -> None:
        if (job := self._jobs.get(key)) is not None and job.ready_at == at and job.conditions:
            job.turn(self._convert_to_datetime(at), ready=True)
            self._on_ready(key)

    def plan_deadlines(self, now: float) -> None:
        """Plan the eviction of each job at its deadline, in case its pods are not ready by then.

        Only jobs whose wait started since the last call are planned. Most pods are ready immediately, and need no plan.
        """
        for key in self._unplanned:
            if (job := self._jobs.get(key)) is not None and job.deadline is not None:
                at = self._convert_to_seconds(job.deadline)
                self._agenda.plan(max(at, now), Rank.ARRIVAL, partial(self._expire, key, job.deadline))
        self._unplanned.clear()

    def _expire(self, key: str, deadline: datetime) -> None:
        if (job := self._jobs.get(key)) is not None and job.deadline == deadline:
            self._on_late(key, job.back_off(deadline))

    def _convert_to_seconds(self, moment: datetime) -> float:
        return (moment - self._start).total_seconds()

    def _convert_to_datetime(self, at: float) -> datetime:
        return self._start + timedelta(seconds=at)
