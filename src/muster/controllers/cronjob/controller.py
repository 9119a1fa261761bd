"""Reconcile CronJobs: read caches, call `muster.jobs.cronjob.decide`, write its plan.

A CronJob is reconciled when it changes, when one of its Jobs is created, ends or is deleted, and at its next start.
Delays use the monotonic clock, schedules the time of day. So when the time of day jumps, as after a machine's sleep,
all CronJobs are reconciled.

All memory is a cache, except for the time at which a schedule was changed. After a restart, the controller may
therefore start a Job for a time of the new schedule that lies between the last Job and the change.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo

from muster.api.batch import CRON_JOB, JOB, CronJob, CronJobStatus, Job
from muster.api.meta import controller_of
from muster.api.status import ApiError
from muster.controllers.cronjob.metrics import CronJobMetrics
from muster.controllers.cronjob.writer import Writer
from muster.jobs.cronjob.decide import add_started, decide
from muster.jobs.cronjob.plan import CronJobPlan
from muster.jobs.job.conditions import finish
from muster.runtime.clockjumps import follow_jumps
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.ownwrites import MutationCache
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import key_of, own_key, owner_key
from muster.runtime.tasks import run_together
from muster.runtime.transport import TransportError
from muster.runtime.writes import Refusal

WORKERS = 16

_BY_CRON_JOB = "cronjob-uid"


class CronJobController(Reconciler):
    """The reconciler of CronJobs.

    zone: the time zone of schedules that name none; None for the time zone of the machine.
    """

    name = "cronjob-controller"

    def __init__(self, manager: Manager, recorder: Recorder, zone: tzinfo | None = UTC) -> None:
        super().__init__(manager, workers=WORKERS)
        self._zone = zone
        self._changed: dict[str, datetime] = {}  # when the schedule was changed, by key
        self._removed: set[str] = set()  # UIDs of deleted Jobs that are still in the cache
        self._writer = Writer(manager.client, recorder, CronJobMetrics(manager.registry))
        self._cron_jobs = manager.informer(CRON_JOB)
        self._jobs = manager.informer(JOB, indexes={_BY_CRON_JOB: _index_by_cron_job})
        self._latest = MutationCache(self._cron_jobs.get)
        self._cron_jobs.on_change(self._on_cron_job_changed)
        self._jobs.on_change(self._on_job_changed)
        self._controller.watch(self._jobs, _find_cron_job_key, when=_has_come_ended_or_gone)

    async def run(self) -> None:
        """Reconcile until `stop`, and all CronJobs again whenever the machine's clock jumps."""
        await run_together(super().run(), follow_jumps(self._clock, self._reconcile_all))

    def _reconcile_all(self) -> None:
        for cron_job in self._cron_jobs.all():
            self._controller.queue.add(key_of(cron_job))

    def _on_cron_job_changed(self, old: CronJob | None, new: CronJob | None) -> None:
        cron_job = new if new is not None else old
        assert cron_job is not None
        key = key_of(cron_job)
        is_news = self._latest.is_news(key, new)
        if old is None or new is None:
            self._changed.pop(key, None)
        elif _schedule_of(old) != _schedule_of(new):
            self._changed[key] = self._clock.now()
        if is_news:
            self._controller.queue.add(key)

    def _on_job_changed(self, old: Job | None, new: Job | None) -> None:
        if old is not None and new is None:
            self._removed.discard(old.metadata.uid)

    async def _reconcile(self, key: str) -> Result:
        cron_job = self._latest.get(key)
        if cron_job is None:
            return None
        owned = self._jobs.by(_BY_CRON_JOB, own_key(cron_job.metadata))
        jobs = [job for job in owned if job.metadata.uid not in self._removed]
        missing = await self._find_missing(cron_job, jobs)
        now, since = self._clock.now(), self._changed.get(key)
        plan = decide(cron_job, jobs, now=now, zone=self._zone, missing=missing, since=since)
        await self._perform(cron_job, plan)
        return None if plan.wake_at is None else max(0.0, (plan.wake_at - self._clock.now()).total_seconds())

    async def _find_missing(self, cron_job: CronJob, jobs: Sequence[Job]) -> frozenset[str]:
        """Return the UIDs of Jobs in the CronJob's status that are deleted or belong to another owner.

        The API server is queried for them, because a Job may be too new for the cache.
        """
        uids = {job.metadata.uid for job in jobs}
        missing = set()
        for active in cron_job.status.active:
            if active.uid not in uids:
                job = await self._client.find(JOB, active.name, cron_job.metadata.namespace)
                is_own = job is not None and _index_by_cron_job(job) == (own_key(cron_job.metadata),)
                if job is None or job.metadata.uid != active.uid or not is_own:
                    missing.add(active.uid)
        return frozenset(missing)

    async def _perform(self, cron_job: CronJob, plan: CronJobPlan) -> None:
        """Write the plan, and record its events.

        Raises at once if a Job to replace cannot be deleted or the status cannot be stored. Raises the first error of
        other deletions or of the creation at the end.
        """
        errors = await self._remove(cron_job, plan.remove)
        status, start = plan.status, plan.start
        if start is not None:
            if refusals := await self._remove(cron_job, start.replaces):
                raise refusals[0]
            try:
                job = await self._writer.create(cron_job, start)
            except (ApiError, TransportError) as error:
                errors.append(error)
            else:
                status = add_started(status, job, start.at) if job is not None else status
        await self._store(cron_job, status)
        for note in plan.notes:
            self._writer.record_event(cron_job, note)
        if errors:
            raise errors[0]

    async def _remove(self, cron_job: CronJob, jobs: Sequence[Job]) -> list[Refusal]:
        """Delete Jobs, remember which deleted Jobs the cache still holds, and return the server's refusals."""
        refusals = []
        for job in jobs:
            refusal = await self._writer.remove(cron_job, job)
            if refusal is not None:
                refusals.append(refusal)
            elif (cached := self._jobs.get(key_of(job))) is not None and cached.metadata.uid == job.metadata.uid:
                self._removed.add(job.metadata.uid)
        return refusals

    async def _store(self, cron_job: CronJob, status: CronJobStatus) -> None:
        if status != cron_job.status:
            self._latest.wrote(await self._writer.store(cron_job, status))


def _schedule_of(cron_job: CronJob) -> tuple[str, str | None]:
    """Return the fields of a CronJob that define when it starts Jobs."""
    return cron_job.spec.schedule, cron_job.spec.time_zone


def _index_by_cron_job(job: Job) -> tuple[str, ...]:
    """Return the key of the CronJob that controls a Job, for the index `_BY_CRON_JOB`; empty for other Jobs."""
    owner = controller_of(job.metadata)
    is_owned = owner is not None and CRON_JOB.is_of(owner)
    return (owner_key(job.metadata.namespace, owner.uid),) if owner is not None and is_owned else ()


def _find_cron_job_key(job: Job) -> tuple[str, ...]:
    owner = controller_of(job.metadata)
    return (f"{job.metadata.namespace}/{owner.name}",) if owner is not None and CRON_JOB.is_of(owner) else ()


def _has_come_ended_or_gone(old: Job | None, new: Job | None) -> bool:
    return old is None or new is None or (finish(old) is None) != (finish(new) is None)
