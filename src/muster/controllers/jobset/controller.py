"""Reconcile JobSets: read caches, call `muster.jobs.jobset.decide`, write its plan.

A JobSet is reconciled when it or the counted fields of its Jobs change, but not before the caches show this
controller's own writes. Events of a big JobSet are gathered for a moment, so that many of them share one pass over all
its Jobs. All memory here is a cache: after a crash between any two writes, a new controller continues the work.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from functools import partial

from msgspec import Struct, field

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.config.types import JOBSET_NAMESPACE, GroupScheduling
from muster.api.core import PERSISTENT_VOLUME_CLAIM, POD, SERVICE, Service
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.notes import Note
from muster.controllers.decisionlog import DecisionLog
from muster.controllers.delays import BEGINNING_SECONDS, SHOW_SECONDS, STALE_SECONDS
from muster.controllers.jobset import owned
from muster.controllers.jobset.inplace import InPlaceRestarts
from muster.controllers.jobset.metrics import JobSetMetrics
from muster.controllers.jobset.release import Release
from muster.controllers.jobset.starting import Starting
from muster.controllers.jobset.upstream import LEASE_NAME, Upstream
from muster.controllers.jobset.writer import Writer
from muster.jobs.interruption import count_interruptions
from muster.jobs.job.conditions import SUCCESS_CRITERIA_MET, SUSPENDED
from muster.jobs.job.conditions import finish as job_finish
from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.decisions import describe_restart
from muster.jobs.jobset.plan import JobSetPlan
from muster.jobs.jobset.start.barrier import DEFAULT
from muster.jobs.jobset.start.group import is_failing
from muster.jobs.jobset.status import is_ready, says_it_runs, without_counts
from muster.jobs.jobset.suspend import without_suspension
from muster.jobs.jobset.terms import is_suspended, managed_by
from muster.jobs.jobset.ttl import find_expiry
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import Expectations
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, own_key
from muster.runtime.refusals import ignoring
from muster.runtime.writes import Refusal

WORKERS = 8

# How long the events of a JobSet are gathered, in seconds for each of its Jobs, so that reconciles cost a few percent
# of the time.
GATHER_SECONDS_PER_JOB = 0.0002
GATHER_SECONDS_MOST = 10.0


class _Memory(Struct):
    """The state that the controller keeps of a JobSet between two reconciles. All of it may be lost."""

    uid: str
    since: float  # when it was first reconciled
    jobs: int = 0
    waits: bool = False  # whether it waits for the caches
    stood_back: bool = False  # whether an event reported that another controller handles it
    expected: Expectations = field(default_factory=Expectations)
    refused: Counter[str] = field(default_factory=Counter)  # how often in a row the server refused a Job, by its name


class JobSetController(Reconciler):
    """The reconciler of the JobSets whose `managedBy` is `manages`. An absent `managedBy` means JobSet's own name.

    upstream: the namespace of JobSet's own controller.
    decisions: the log to which restarts are added.
    """

    name = "jobset-controller"

    def __init__(
        self,
        manager: Manager,
        recorder: Recorder,
        *,
        manages: str = names.CONTROLLER_NAME,
        start: GroupScheduling = DEFAULT,
        upstream: str = JOBSET_NAMESPACE,
        decisions: DecisionLog | None = None,
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._manages = manages
        self._decisions = DecisionLog() if decisions is None else decisions
        self._start = start
        self._release = Release(start, manager.random)
        self._starting = Starting(manager, self._release, self._controller.queue.add_after)
        self._in_place = InPlaceRestarts(manager, self._controller.queue.add_after)
        self._metrics = JobSetMetrics(manager.registry)
        self._writer = Writer(manager.client, recorder)
        self._upstream = Upstream(manager, upstream, self._queue_all)
        self._memories: dict[str, _Memory] = {}
        self._blocked: dict[str, set[str]] = {}  # by the key of a foreign Job, the JobSets that need its name
        self._jobsets = manager.informer(JOB_SET, indexes={owned.BY_SERVICE: owned.by_service}, optional=True)
        self._jobs = manager.informer(JOB, indexes={owned.BY_JOBSET: owned.by_jobset})
        self._pods = manager.informer(POD, indexes={owned.PODS_BY_JOBSET: owned.pods_by_jobset})
        self._services = manager.informer(SERVICE)
        self._claims = manager.informer(PERSISTENT_VOLUME_CLAIM)
        self._jobsets.on_change(self._on_jobset_changed)
        self._jobs.on_change(self._on_job_changed)
        self._services.on_change(self._on_service_changed)

    async def run(self) -> None:
        """Start the server that releases groups, and reconcile until `stop`."""
        await self._release.listen()
        await super().run()

    async def stop(self) -> None:
        """Stop reconciling after the running writes, and close the server that releases groups."""
        await super().stop()
        self._release.close()

    # Events to keys.

    def _on_jobset_changed(self, old: JobSet | None, new: JobSet | None) -> None:
        jobset = new if new is not None else old
        assert jobset is not None
        key = key_of(jobset)
        memory = self._find_memory(key, jobset.metadata.uid)
        if memory is None or old is None or new is None:
            self._controller.queue.add(key)
        elif memory.waits:
            self._wake_if_seen(key, memory, new)
        else:
            # Usually this is the controller's own status write. If more than counts changed, the next step must be
            # decided.
            self._controller.queue.add_after(
                key, _find_gathering_time(memory) if _differ_only_in_counts(old, new) else 0.0
            )

    def _on_job_changed(self, old: Job | None, new: Job | None) -> None:
        job = new if new is not None else old
        assert job is not None
        if new is None:
            for waiting in self._blocked.pop(key_of(job), ()):
                if waiting in self._memories:
                    self._memories[waiting].refused.pop(job.metadata.name, None)
                self._controller.queue.add(waiting)
        owner = owned.jobset_reference(job)
        if owner is None:
            return
        key = f"{job.metadata.namespace}/{owner.name}"
        memory, jobset = self._find_memory(key, owner.uid), self._jobsets.get(key)
        if memory is None or jobset is None:
            self._controller.queue.add(key)
            return
        memory.expected.saw(job.metadata.uid, new)
        if memory.waits:
            self._wake_if_seen(key, memory, jobset)
        elif old is None or new is None or _extract_counted_fields(old) != _extract_counted_fields(new):
            # A Job that has announced its success usually completes within a moment; the counts of its pods can wait.
            least = SHOW_SECONDS if new is not None and _is_about_to_succeed(new) else 0.0
            self._controller.queue.add_after(key, max(least, _find_gathering_time(memory)))

    def _on_service_changed(self, old: Service | None, new: Service | None) -> None:
        """Queue the JobSets that use a deleted Service, so that the Service is created again."""
        if old is not None and new is None:
            for jobset in self._jobsets.by(owned.BY_SERVICE, key_of(old)):
                self._controller.queue.add(key_of(jobset))

    def _queue_all(self) -> None:
        for jobset in self._jobsets.all():
            self._controller.queue.add(key_of(jobset))

    def _wake_if_seen(self, key: str, memory: _Memory, jobset: JobSet) -> None:
        if memory.expected.are_met(jobset, self._jobs.version):
            self._controller.queue.add(key)

    def _find_memory(self, key: str, uid: str) -> _Memory | None:
        memory = self._memories.get(key)
        return memory if memory is not None and memory.uid == uid else None

    # One JobSet.

    async def _reconcile(self, key: str) -> Result:
        """Reconcile one JobSet; return the seconds until its next reconcile, or None.

        Nothing is decided while JobSet's own controller works, or before the caches show all earlier writes.
        """
        if key == LEASE_NAME:
            return self._check_lease()
        jobset = self._jobsets.get(key)
        if jobset is None or jobset.metadata.deletion_timestamp is not None or managed_by(jobset) != self._manages:
            if (old_memory := self._memories.pop(key, None)) is not None:
                self._starting.forget(old_memory.uid)
            return await self._expire_ended_elsewhere(jobset) if jobset is not None else None
        memory = self._find_memory(key, jobset.metadata.uid)
        if memory is None:
            if (another := self._memories.get(key)) is not None:
                self._starting.forget(another.uid)
            memory = self._memories[key] = _Memory(jobset.metadata.uid, self._clock.monotonic())
        if (held := self._upstream.works()) is not None:
            self._yield_to_upstream(jobset, memory, *held)
            return None
        memory.stood_back = False
        jobs = self._jobs.by(owned.BY_JOBSET, own_key(jobset.metadata))
        memory.jobs = len(jobs)
        memory.expected.check_cache(jobs)
        memory.waits = not memory.expected.are_met(jobset, self._jobs.version)
        if memory.waits:
            return STALE_SECONDS
        if (
            not jobs
            and is_suspended(jobset)
            and (left := memory.since + BEGINNING_SECONDS - self._clock.monotonic()) > 0
        ):
            return left
        group = self._starting.find_started_pods(jobset)
        pods = self._in_place.count_restarts(jobset, jobs)
        failed = any(is_failing(job) for job in jobs)
        disturbed = self._pods.by(owned.PODS_BY_JOBSET, own_key(jobset.metadata)) if failed else ()
        plan = decide(
            jobset,
            jobs,
            now=self._clock.now(),
            group=group,
            start=self._start,
            pods=pods,
            refused=memory.refused,
            disturbed=disturbed,
        )
        await self._perform(jobset, plan, memory)
        if plan.expired:
            return await self._expire(jobset)
        if plan.more:
            return 0.0
        return max(0.0, (plan.wake_at - self._clock.now()).total_seconds()) if plan.wake_at else None

    def _check_lease(self) -> Result:
        """Queue all JobSets if the Lease of JobSet's own controller has expired; otherwise return when to check again.

        One special key in the queue stands for the Lease.
        """
        if (seconds := self._upstream.works()) is not None:
            return seconds[1]
        self._queue_all()
        return None

    def _yield_to_upstream(self, jobset: JobSet, memory: _Memory, why: str, seconds: float) -> None:
        if not memory.stood_back:
            memory.stood_back = True
            self._writer.record_event(
                jobset, Note("Normal", "LeftToUpstream", f"JobSet's own controller runs it: {why}")
            )
        self._controller.queue.add_after(LEASE_NAME, seconds)

    async def _perform(self, jobset: JobSet, plan: JobSetPlan, memory: _Memory) -> None:
        """Write the plan, the status last. Raises an error of a status write at once, and the first other at the end.

        The condition that says "resumed" is written first, and only if the JobSet is unchanged since the decision. So
        if the JobSet is suspended in the meantime, its quota is not released before its Jobs are suspended.
        """
        begins = not is_suspended(jobset) and not says_it_runs(jobset.status)
        if begins:
            await self._store(jobset, plan, memory)
        async with asyncio.TaskGroup() as group:
            expected, refused = memory.expected, memory.refused
            changing = group.create_task(self._writer.change(plan.change, expected, refused))
            tasks = [
                group.create_task(self._writer.delete(plan.delete, expected, refused)),
                group.create_task(
                    self._starting.perform(jobset, plan.start, partial(self._writer.record_event, jobset), expected)
                ),
                group.create_task(self._create_surroundings(jobset, plan)),
                changing,
                group.create_task(
                    self._writer.create(jobset, self._filter_free(jobset, plan.create, refused), expected, refused)
                ),
            ]
        errors = [error for task in tasks for error in task.result()]
        if is_suspended(jobset) and changing.result():
            plan = without_suspension(plan, jobset)
        if not begins:
            await self._store(jobset, plan, memory)
        if errors:
            raise errors[0]

    async def _create_surroundings(self, jobset: JobSet, plan: JobSetPlan) -> list[Refusal]:
        """Create the Service and the volume claims that the Jobs need; return the server's refusals."""
        errors: list[Refusal] = []
        if plan.service is not None and self._services.get(key_of(plan.service)) is None:
            errors += await self._writer.serve(jobset, plan.service)
        claims = [claim for claim in plan.claims if self._claims.get(key_of(claim)) is None]
        return errors + await self._writer.claim(jobset, claims)

    def _filter_free(self, jobset: JobSet, jobs: Sequence[Job], refused: Counter[str]) -> list[Job]:
        """Return the Jobs whose names are free; count the other Jobs as refused.

        They stay refused until the object with their name is deleted. An event names that object, unless it is being
        deleted.
        """
        free: list[Job] = []
        for job in jobs:
            key = key_of(job)
            other = self._jobs.get(key)
            if other is None:
                free.append(job)
                continue
            self._blocked.setdefault(key, set()).add(key_of(jobset))
            refused[job.metadata.name] += 1
            if other.metadata.deletion_timestamp is None:
                text = f'job "{job.metadata.name}" creation failed: another Job, not of this JobSet, has the name'
                self._writer.record_event(jobset, Note("Warning", "JobCreationFailed", text))
        return free

    async def _store(self, jobset: JobSet, plan: JobSetPlan, memory: _Memory) -> None:
        """Store the status if it changes. Record the change in metrics, in the log of decisions, and as events."""
        if plan.status == jobset.status:
            return
        await self._writer.store(jobset, plan.status, memory.expected)
        self._metrics.count_stored_status(jobset, plan.status, self._clock.now())
        if (restart := describe_restart(jobset, plan, self._clock.now())) is not None:
            self._decisions.add(restart)
        for note in plan.notes:
            self._writer.record_event(jobset, note)

    async def _expire_ended_elsewhere(self, jobset: JobSet) -> Result:
        """Delete a JobSet that ran in another cluster and has ended, if its TTL requests that.

        Return the seconds until its TTL ends; None if there is nothing to wait for.
        """
        at = find_expiry(jobset) if managed_by(jobset) == MULTI_KUEUE_CONTROLLER else None
        if at is None:
            return None
        remaining = (at - self._clock.now()).total_seconds()
        return remaining if remaining > 0 else await self._expire(jobset)

    async def _expire(self, jobset: JobSet) -> Result:
        """Delete the JobSet if it has expired by the server's state; otherwise return in how many seconds to try again.

        The cache may be stale: the JobSet's TTL may be longer now, or the JobSet may have been replaced.
        """
        meta = jobset.metadata
        with ignoring("NotFound"):
            fresh = await self._client.get(JOB_SET, meta.name, meta.namespace)
            at = find_expiry(fresh)
            if fresh.metadata.uid != meta.uid or at is None or at > self._clock.now():
                return 0.0 if at is None else max(0.0, (at - self._clock.now()).total_seconds())
            await self._client.delete(
                JOB_SET,
                meta.name,
                meta.namespace,
                propagation="Foreground",
                uid=meta.uid,
                resource_version=fresh.metadata.resource_version,
            )
        return None


def _find_gathering_time(memory: _Memory) -> float:
    return min(memory.jobs * GATHER_SECONDS_PER_JOB, GATHER_SECONDS_MOST)


def _differ_only_in_counts(old: JobSet, new: JobSet) -> bool:
    return _read_spec_version(old) == _read_spec_version(new) and without_counts(old.status) == without_counts(
        new.status
    )


def _read_spec_version(jobset: JobSet) -> tuple[object, ...]:
    """Return a value that changes when a user changes the JobSet."""
    meta = jobset.metadata
    return meta.generation, meta.deletion_timestamp is None, meta.annotations


def _is_about_to_succeed(job: Job) -> bool:
    """Return whether a Job has announced its success, and is not complete yet."""
    return is_true(job.status.conditions, SUCCESS_CRITERIA_MET) and job_finish(job) is None


def _extract_counted_fields(job: Job) -> tuple[object, ...]:
    """Return the fields of a Job that its JobSet counts or changes. Changes of other fields need no reconcile."""
    end = job_finish(job)
    return (
        job.metadata.generation,
        job.metadata.deletion_timestamp is None,
        job.metadata.labels,
        end.type if end is not None else "",
        is_failing(job),
        count_interruptions(job.status.conditions),
        is_ready(job),
        job.status.active > 0,
        job.status.start_time is None,
        job.status.failed_indexes,
        is_true(job.status.conditions, SUSPENDED),
    )
