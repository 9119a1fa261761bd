"""Start jobs that are deferred until a time or until other jobs end, as `muster.jobs.deferral.decide` decides.

A waiting job is reconciled when it changes, when a job that it waits for is created, ends or is deleted, and at its
begin time. All memory is a cache: the job's annotations contain its conditions, and which of them were met.

Jobs that wait for each other in a circle never start. The newest job of a circle closes it, so the search for circles
starts there and follows older jobs only. If a job's dependencies existed before it, as usual, there is nothing to
search.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from itertools import chain
from typing import Any

from muster.api.batch import JOB, Job
from muster.api.core import NAMESPACE
from muster.api.jobset import JOB_SET, JobSet
from muster.api.jobset import names as jobset_names
from muster.api.kinds import Kind
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.managed.surroundings import Settings
from muster.api.ours.deferral import MET_ANNOTATION, is_deferred, parse_deferral, parse_met
from muster.jobs.deferral import (
    GRACE,
    NEVER_SATISFIED,
    DeferralPlan,
    DependencyState,
    decide,
    find_circle,
    make_release,
)
from muster.jobs.ending import make_job_failure, make_jobset_failure
from muster.jobs.job.conditions import COMPLETE, Verdict, find_announced_end
from muster.jobs.job.conditions import finish as job_finish
from muster.jobs.jobset.terms import finish as jobset_finish
from muster.runtime.clockjumps import follow_jumps
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.informer import Informer
from muster.runtime.objects import key_of, make_reference
from muster.runtime.tasks import run_together
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

WORKERS = 4

_BY_DEPENDENCY = "deferral-dependency"

# The kinds of jobs that can wait for jobs, and for which jobs can wait.
DEFERRABLE: tuple[Kind[Any], ...] = (JOB, JOB_SET)


class DeferralController(Reconciler):
    """The reconciler of deferred jobs. A key `namespace/name` stands for all jobs of that name, of each kind.

    kinds: the kinds of `DEFERRABLE` that the engine may change.
    settings: the settings that say which jobs queue. The queue resumes such a job after its deferral ends.
    """

    name = "deferral-controller"

    def __init__(
        self, manager: Manager, recorder: Recorder, kinds: Iterable[Kind[Any]] = DEFERRABLE, *, settings: Settings
    ) -> None:
        super().__init__(manager, workers=WORKERS)
        self._recorder = recorder
        self._settings = settings
        self._namespaces = manager.informer(NAMESPACE)
        self._informers: dict[Kind[Any], Informer[Any]] = {
            kind: manager.informer(kind, indexes={_BY_DEPENDENCY: _list_dependencies}, optional=kind is JOB_SET)
            for kind in kinds
        }
        for informer in self._informers.values():
            self._controller.watch(informer, when=_may_wait)
            self._controller.watch(informer, self._list_keys_waiting_for, when=_comes_ends_or_goes)
            self._controller.watch(informer, self._list_all_awaited, when=_waits_for_more)  # may close a circle

    async def run(self) -> None:
        """Reconcile until `stop`, and all jobs again whenever the machine's clock jumps."""
        await run_together(super().run(), follow_jumps(self._clock, self._reconcile_all))

    def _reconcile_all(self) -> None:
        for job in chain.from_iterable(informer.all() for informer in self._informers.values()):
            if _waits(job):
                self._controller.queue.add(key_of(job))

    def _list_keys_waiting_for(self, job: Job | JobSet) -> list[str]:
        """Return the keys of the jobs that depend on this one."""
        return [key_of(one) for one in self._list_waiting_for(key_of(job))]

    def _list_waiting_for(self, key: str) -> Iterator[Job | JobSet]:
        return chain.from_iterable(informer.by(_BY_DEPENDENCY, key) for informer in self._informers.values())

    def _list_all_awaited(self, job: Job | JobSet) -> Collection[str]:
        """Return the keys of the jobs on which this job depends, directly or through others."""
        keys = dict.fromkeys(_list_dependencies(job))
        pending = list(keys)
        while pending:
            key = pending.pop()
            jobs = (informer.get(key) for informer in self._informers.values())
            new = {one for job in jobs if job is not None for one in _list_dependencies(job)} - keys.keys()
            keys |= dict.fromkeys(sorted(new))
            pending += new
        return keys

    async def _reconcile(self, key: str) -> Result:
        delays = [
            await self._attend(kind, job)
            for kind, informer in self._informers.items()
            if (job := informer.get(key)) is not None and _waits(job)
        ]
        return min((delay for delay in delays if delay is not None), default=None)

    async def _attend(self, kind: Kind[Any], job: Job | JobSet) -> float | None:
        """Carry out the plan for a deferred job: make it fail, let it start, or record its dependencies that are met.

        Return the seconds until the next decision; None if only a change of an object can require one.
        """
        plan = await self._decide(job)
        if plan.verdict is not None:
            await self._end(job, plan.verdict)
        elif plan.release:
            await self._release(kind, job)
        elif plan.met != parse_met(job.metadata.annotations):
            patch = {"metadata": {"annotations": {MET_ANNOTATION: ",".join(sorted(plan.met))}}}
            await self._client.patch_object(kind, job, patch)
        return None if plan.wake_at is None else max(0.0, (plan.wake_at - self._clock.now()).total_seconds())

    async def _decide(self, job: Job | JobSet) -> DeferralPlan:
        meta, now = job.metadata, self._clock.now()
        try:
            deferral = parse_deferral(meta.annotations)
        except ValueError as error:
            return DeferralPlan(verdict=Verdict(False, NEVER_SATISFIED, str(error)))
        met, created = parse_met(meta.annotations), meta.creation_timestamp or now
        names = [one.name for one in deferral.after if one.name not in met]
        states = {name: self._find_state_of(f"{meta.namespace}/{name}") for name in names}
        if now >= created + GRACE:
            for name in (name for name, state in states.items() if state is DependencyState.ABSENT):
                states[name] = await self._ask_for_state(name, meta.namespace)  # the cache may be stale
        circle = find_circle(meta.name, lambda name: self._list_older_waiting(f"{meta.namespace}/{name}", created))
        return decide(deferral, met, states, circle, created=created, now=now)

    def _find_state_of(self, key: str) -> DependencyState:
        return _find_state(job for informer in self._informers.values() if (job := informer.get(key)) is not None)

    async def _ask_for_state(self, name: str, namespace: str) -> DependencyState:
        jobs = [await self._client.find(kind, name, namespace) for kind in self._informers]
        return _find_state(job for job in jobs if job is not None)

    def _list_older_waiting(self, key: str, created: datetime) -> Iterator[str]:
        """Yield the names of the jobs that depend on the job `key` and were created no later than `created`."""
        for meta in (job.metadata for job in self._list_waiting_for(key)):
            if meta.creation_timestamp is None or meta.creation_timestamp <= created:
                yield meta.name

    async def _release(self, kind: Kind[Any], job: Job | JobSet) -> None:
        """Let a deferred job start: remove its gate, resume it unless a queue resumes it later, and record an event."""
        patch = make_release(job.metadata, queues=self._is_queued(job))
        await self._client.patch_object(kind, job, patch)
        self._recorder.event(
            make_reference(kind, job), "Normal", "Released", "All that the job waited for has happened"
        )

    def _is_queued(self, job: Job | JobSet) -> bool:
        """Return whether a queue will resume the job.

        That is so if the job's namespace is managed, and the job names a queue or is queued without naming one.
        """
        meta = job.metadata
        namespace = self._namespaces.get(meta.namespace)
        is_managed = self._settings.selects.matches(namespace.metadata.labels if namespace is not None else {})
        return is_managed and (QUEUE_NAME_LABEL in meta.labels or self._settings.without_queue)

    async def _end(self, job: Job | JobSet, verdict: Verdict) -> None:
        """Make a job that can never start fail. The job's own controller records the event."""
        if isinstance(job, JobSet):
            patch = make_jobset_failure(job, verdict, self._clock.now())
            await self._client.patch_object(JOB_SET, job, patch, subresource="status")
        else:
            patch = make_job_failure(job, verdict)
            await self._client.patch_object(JOB, job, patch, type=STRATEGIC_MERGE_PATCH, subresource="status")


def _find_state(jobs: Iterable[Job | JobSet]) -> DependencyState:
    """Return the state of the jobs with one name.

    There is usually one such job; if there are more, the first one counts.
    """
    job = next(iter(jobs), None)
    if job is None:
        return DependencyState.ABSENT
    end = _find_end(job)
    if end is None:
        return DependencyState.UNFINISHED
    return DependencyState.COMPLETED if end in (COMPLETE, jobset_names.COMPLETED) else DependencyState.FAILED


def _find_end(job: Job | JobSet) -> str | None:
    """Return the type of the terminal condition; None before the end."""
    end = jobset_finish(job) if isinstance(job, JobSet) else job_finish(job)
    return end.type if end is not None else None


def _waits(job: Job | JobSet) -> bool:
    meta = job.metadata
    if not is_deferred(meta.annotations) or meta.deletion_timestamp is not None or _find_end(job) is not None:
        return False
    return isinstance(job, JobSet) or find_announced_end(job) is None


def _list_dependencies(job: Job | JobSet) -> tuple[str, ...]:
    """Return the keys of the jobs that a job waits for; none for a job that does not wait."""
    meta = job.metadata
    if not _waits(job):
        return ()
    try:
        after = parse_deferral(meta.annotations).after
    except ValueError:
        return ()
    met = parse_met(meta.annotations)
    return tuple(f"{meta.namespace}/{one.name}" for one in after if one.name not in met)


def _may_wait(old: Job | JobSet | None, new: Job | JobSet | None) -> bool:  # noqa: ARG001  (as all are called)
    return new is not None and _waits(new)


def _waits_for_more(old: Job | JobSet | None, new: Job | JobSet | None) -> bool:
    """Return whether a change of an existing job added a dependency."""
    return old is not None and new is not None and not set(_list_dependencies(new)) <= set(_list_dependencies(old))


def _comes_ends_or_goes(old: Job | JobSet | None, new: Job | JobSet | None) -> bool:
    return old is None or new is None or _find_end(old) != _find_end(new)
