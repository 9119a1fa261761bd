"""Decide about one CronJob, with the rules and messages of kube-controller-manager (pkg/controller/cronjob)."""

from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime, tzinfo

from msgspec.structs import replace

from muster.api.batch import CRON_JOB, JOB, SCHEDULED_TIMESTAMP, CronJob, CronJobSpec, CronJobStatus, Job
from muster.api.core import ObjectReference
from muster.api.meta import ObjectMeta
from muster.api.notes import Note
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.api.values.schedules import find_zone
from muster.jobs.cronjob.plan import CronJobPlan, Start
from muster.jobs.cronjob.timing import Timing, find_timing
from muster.jobs.job.conditions import COMPLETE, FAILED, finish

_STILL_ACTIVE = "Not starting job because prior execution is running and concurrency policy is Forbid"
_LATEST = datetime.max.replace(tzinfo=UTC)


def decide(
    cron_job: CronJob,
    jobs: Sequence[Job],
    *,
    now: datetime,
    zone: tzinfo | None = UTC,
    missing: Collection[str] = (),
    since: datetime | None = None,
) -> CronJobPlan:
    """Return the work to do for a CronJob.

    jobs: the Jobs that the CronJob controls.
    zone: the time zone of a schedule that names none; None for the time zone of the machine.
    missing: UIDs of active Jobs that the server no longer has.
    since: when the current schedule was written; None if that is unknown.
    """
    status, notes = _observe(cron_job.status, jobs, missing)
    rests = cron_job.spec.suspend or cron_job.metadata.deletion_timestamp is not None
    timing = Timing() if rests else find_timing(cron_job, now, zone, since)
    start = _plan_start(cron_job, status, jobs, timing.due) if timing.due is not None else None
    if start is not None:
        replaced = {job.metadata.uid for job in start.replaces}
        status = replace(status, active=tuple(each for each in status.active if each.uid not in replaced))
    elif timing.due is not None:
        notes = (*notes, Note("Normal", "JobAlreadyActive", _STILL_ACTIVE))
    unexpected = _list_unexpected(cron_job, jobs, start)
    return CronJobPlan(
        status,
        remove=_list_surplus(cron_job.spec, jobs),
        start=start,
        notes=(*notes, *timing.notes, *unexpected),
        wake_at=timing.following,
    )


def add_started(status: CronJobStatus, job: Job, at: datetime) -> CronJobStatus:
    """Return the status after the server created the Job of a start.

    The Job is added to the active Jobs unless it has ended.

    at: the time of the start, which becomes `lastScheduleTime`.
    """
    meta = job.metadata
    active = status.active
    if finish(job) is None and all(each.uid != meta.uid for each in active):
        reference = ObjectReference(
            kind=JOB.kind,
            api_version=JOB.api_version,
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
            resource_version=meta.resource_version,
        )
        active = (*active, reference)
    return replace(status, active=active, last_schedule_time=at)


def make_job(cron_job: CronJob, at: datetime) -> Job:
    """Return the Job for the start at `at`. Its name contains the minute, so that no start creates two Jobs.

    The Job's submitter is the submitter of the CronJob, whatever the template says.
    """
    meta, template = cron_job.metadata, cron_job.spec.job_template
    zone = find_zone(cron_job.spec.time_zone) if cron_job.spec.time_zone is not None else UTC
    annotations = {key: value for key, value in template.metadata.annotations.items() if key != SUBMITTER_ANNOTATION}
    if submitter := meta.annotations.get(SUBMITTER_ANNOTATION):
        annotations[SUBMITTER_ANNOTATION] = submitter
    scheduled = at.astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Job(
        metadata=ObjectMeta(
            name=f"{meta.name}-{int(at.timestamp()) // 60}",
            namespace=meta.namespace,
            labels=template.metadata.labels,
            annotations=annotations | {SCHEDULED_TIMESTAMP: scheduled},
            owner_references=(CRON_JOB.refer_to_controller(meta),),
        ),
        spec=template.spec,
    )


def _observe(
    status: CronJobStatus, jobs: Sequence[Job], missing: Collection[str]
) -> tuple[CronJobStatus, tuple[Note, ...]]:
    """Return the status updated from the Jobs, and the events about Jobs that ended or were deleted."""
    by_uid = {job.metadata.uid: job for job in jobs}
    active, notes = [], []
    for each in status.active:
        job = by_uid.get(each.uid)
        end = finish(job) if job is not None else None
        if end is not None:
            sentence = f"Saw completed job: {each.name}, condition: {end.type}"
            notes.append(Note("Normal", "SawCompletedJob", sentence))
        elif each.uid in missing:
            notes.append(Note("Normal", "MissingJob", f"Active job went missing: {each.name}"))
        else:
            active.append(each)
    ends = [job.status.completion_time for job in jobs if _has_ended(job, COMPLETE)]
    successes = [moment for moment in (status.last_successful_time, *ends) if moment is not None]
    last = max(successes, default=None)
    return replace(status, active=tuple(active), last_successful_time=last), tuple(notes)


def _plan_start(cron_job: CronJob, status: CronJobStatus, jobs: Sequence[Job], at: datetime) -> Start | None:
    """Return the Job to create for the start at `at`, and the running Jobs to delete first.

    Return None if the concurrency policy forbids the start because a Job still runs.
    """
    policy = cron_job.spec.concurrency_policy
    if policy == "Forbid" and status.active:
        return None
    active = {each.uid for each in status.active}
    replaces = (job for job in jobs if policy == "Replace" and job.metadata.uid in active)
    return Start(at, make_job(cron_job, at), tuple(replaces))


def _list_unexpected(cron_job: CronJob, jobs: Sequence[Job], start: Start | None) -> Iterator[Note]:
    """Yield events about running Jobs that the stored status does not list.

    The Job of the start that is planned now is not reported: a controller that was killed may have created it before it
    stored the status.
    """
    active_uids = {each.uid for each in cron_job.status.active}
    expected = start.job.metadata.name if start is not None else ""
    for job in jobs:
        meta = job.metadata
        runs = finish(job) is None and meta.deletion_timestamp is None
        if runs and meta.uid not in active_uids and meta.name != expected:
            sentence = f"Saw a job that the controller did not create or forgot: {meta.name}"
            yield Note("Warning", "UnexpectedJob", sentence)


def _list_surplus(spec: CronJobSpec, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the ended Jobs beyond the limits of the history, the oldest first."""
    limits = {COMPLETE: spec.successful_jobs_history_limit, FAILED: spec.failed_jobs_history_limit}
    surplus: list[Job] = []
    for condition, limit in limits.items():
        ended = [job for job in jobs if _has_ended(job, condition) and job.metadata.deletion_timestamp is None]
        ended.sort(key=lambda job: (job.status.start_time or _LATEST, job.metadata.name))
        surplus += ended[: max(0, len(ended) - limit)] if limit is not None else ()
    return tuple(surplus)


def _has_ended(job: Job, condition: str) -> bool:
    end = finish(job)
    return end is not None and end.type == condition
