"""Follow whether the pods of jobs get ready in time, and when a job that was late is queued again.

The rules are those of the workloads of a cluster (`queueing.workload`). Only jobs that have a time-out are followed.
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
from muster.queueing.conditions import put
from muster.queueing.scheduling.blocking import Blocking
from muster.queueing.workload.eviction import delay_requeue
from muster.queueing.workload.readiness import find_deadline, read_blocking, settings_for, with_readiness
from muster.simulation.engine.agenda import EventAgenda, Rank

Annotations = Mapping[str, str]


class Readiness(Struct):
    """Whether the pods of an admitted job are ready, and how often they were late.

    settings: None if the job has no time limit for that. deadline: when the job is evicted unless its pods are ready.
    ready_at: when its pods are ready.
    """

    settings: WaitForPodsReady | None
    conditions: tuple[Condition, ...] = ()
    state: RequeueState | None = None
    deadline: datetime | None = None
    ready_at: float | None = None

    def admit(self, now: datetime) -> None:
        """Begin to wait for the pods of a job.

        In a simulation a job starts when it is admitted, so it does not matter from which of the two the limit counts.
        """
        self.conditions = put((), ADMITTED, True, ADMITTED, "", now)
        self._set_deadline()

    def resume(self, conditions: tuple[Condition, ...]) -> None:
        """Continue to wait for the pods of a job that was admitted earlier. conditions: those of its Workload."""
        self.conditions = conditions
        self._set_deadline()

    def turn(self, now: datetime, *, ready: bool) -> None:
        """Record that all pods are ready, or that some are no longer ready, and set the deadline by that."""
        self.conditions = with_readiness(self.conditions, ready, now)
        self._set_deadline()

    def release(self) -> None:
        """Record that the job is not admitted any more: it has no deadline."""
        self.conditions, self.deadline, self.ready_at = (), None, None

    def back_off(self, now: datetime) -> datetime | None:
        """Count that a job was late, and return until when it waits before it is queued again.

        Return None if it was late too often. The job must have a time limit.
        """
        assert self.settings is not None, "only a job with a time-out is late"
        status = delay_requeue(WorkloadStatus(requeue_state=self.state), self.settings, now)
        if status is None or status.requeue_state is None:
            return None
        # Its count stays, and its time is over once the job is queued again.
        self.state = RequeueState(count=status.requeue_state.count)
        return status.requeue_state.requeue_at

    def _set_deadline(self) -> None:
        self.deadline = None
        if self.settings is not None:
            limit = find_deadline(self.conditions, {}, replace(self.settings, clock="Admitted"))
            self.deadline = None if limit is None else limit[0]


class TimeOuts:
    """The time limits for pods to become ready: of the Configuration, and in annotations of queues, flavors and jobs.

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
        """Return the time limits for the pods of a job in a ClusterQueue with these flavors; None if it has none."""
        of_flavors = [self._flavors.get(name, {}) for name in flavors]
        return settings_for(self._base, job, self._queues.get(queue, {}), of_flavors)

    def find_blocking(self, job: Annotations) -> bool | None:
        """Return whether others wait for the pods of a job, as its annotation says; None if it says nothing."""
        return read_blocking(job[READY_ANNOTATION], self._base) if READY_ANNOTATION in job else None

    def _list_blocking(self, annotated: Mapping[str, Annotations]) -> Mapping[str, bool]:
        texts = ((name, its.get(READY_ANNOTATION)) for name, its in annotated.items())
        return {name: bool(read_blocking(text, self._base)) for name, text in texts if text is not None}


class ReadinessWatch:
    """The readiness of all admitted jobs that have a time limit for it, by key. Times are seconds from the start."""

    def __init__(
        self,
        time_outs: TimeOuts,
        agenda: EventAgenda,
        start: datetime,
        on_ready: Callable[[str], None],
        on_late: Callable[[str, datetime | None], None],
    ) -> None:
        """Start without jobs.

        on_ready: called once all pods of a job are ready. on_late: called if they are not in time, with the time until
        which the job backs off; None if it was late too often.
        """
        self._time_outs = time_outs
        self._agenda = agenda
        self._start = start
        self._on_ready = on_ready
        self._on_late = on_late
        self._jobs: dict[str, Readiness] = {}
        self._unplanned: dict[str, None] = {}  # those whose time-out may begin at this moment

    def admit(self, key: str, annotations: Annotations, queue: str, flavors: Iterable[str], now: float) -> None:
        """From its admission on, watch whether the pods of a job are ready.

        Do nothing if there is no time limit and no job waits for the pods of others.
        """
        settings = self._time_outs.find(annotations, queue, flavors)
        if settings is None and self._time_outs.blocking is None:
            return
        job = self._jobs.setdefault(key, Readiness(settings))
        job.settings = settings
        job.admit(self._moment(now))
        self._unplanned[key] = None

    def take_up(
        self, key: str, annotations: Annotations, queue: str, flavors: Iterable[str], status: WorkloadStatus
    ) -> None:
        """Watch a job of another cluster, with its wait so far if it was admitted, and how often it was late.

        Do nothing if there is nothing to wait for or to remember.
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
        """Record that all pods of a job have nodes. startup: after how many seconds they are ready.

        Do nothing if the job is not watched.
        """
        if (job := self._jobs.get(key)) is None:
            return
        job.ready_at = now + startup
        if startup == 0:
            self._become_ready(key, now)
            return
        self._agenda.plan(job.ready_at, Rank.END, partial(self._become_ready, key, job.ready_at))

    def interrupt(self, key: str, now: float) -> None:
        """Record that a watched job lost its nodes, so that its time limit may count again."""
        if (job := self._jobs.get(key)) is not None and job.conditions:
            job.ready_at = None
            job.turn(self._moment(now), ready=False)
            self._unplanned[key] = None

    def is_watched(self, key: str) -> bool:
        """Return whether a job is watched."""
        return key in self._jobs

    def release(self, key: str) -> None:
        """Record that a job is not admitted any more, if it is watched."""
        if (job := self._jobs.get(key)) is not None:
            job.release()

    def forget(self, key: str) -> None:
        """Stop watching a job that has ended."""
        self._jobs.pop(key, None)

    def _become_ready(self, key: str, at: float) -> None:
        if (job := self._jobs.get(key)) is not None and job.ready_at == at and job.conditions:
            job.turn(self._moment(at), ready=True)
            self._on_ready(key)

    def plan_deadlines(self, now: float) -> None:
        """Plan the eviction of each job at its deadline, if it still waits for its pods to be ready.

        Only jobs whose wait began since the last call count: most of them are ready at the same time, and need no plan.
        """
        for key in self._unplanned:
            if (job := self._jobs.get(key)) is not None and job.deadline is not None:
                at = (job.deadline - self._start).total_seconds()
                self._agenda.plan(max(at, now), Rank.ARRIVAL, partial(self._expire, key, job.deadline))
        self._unplanned.clear()

    def _expire(self, key: str, deadline: datetime) -> None:
        if (job := self._jobs.get(key)) is not None and job.deadline == deadline:
            self._on_late(key, job.back_off(deadline))

    def _moment(self, at: float) -> datetime:
        return self._start + timedelta(seconds=at)
