"""Change the time limit, the queue and the priority of a waiting or running job.

All changes of one call are a single write, so they are applied atomically.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from muster.actions.choices import check_own_queue, priority_classes
from muster.actions.errors import UserError
from muster.actions.jobs.conflicts import rewrite_object
from muster.actions.server.session import Session
from muster.actions.submission.workers import has_timer
from muster.api.batch import CRON_JOB, Job
from muster.api.kueue.names import PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.insight.reader.listing.access import get_or_none
from muster.insight.record import JobRecord
from muster.insight.text import format_span


class Alteration(Struct, frozen=True):
    """The settings to change in a job. None or "" leaves a setting unchanged.

    time_limit: the maximum run time of each attempt, in seconds.
    priority: the name of a WorkloadPriorityClass.
    force: whether to set the time limit even if it has passed already, which ends the current attempt immediately.
    """

    time_limit: int | None = None
    queue: str = ""
    priority: str = ""
    force: bool = False


async def alter(session: Session, name: str, alteration: Alteration, now: datetime, *, uid: str = "") -> list[str]:
    """Change the settings of a job; return one sentence for each changed setting.

    uid: the UID of the job; "" for any job of this name.

    Raises `ApiError`, `TransportError`, `UserError`.
    """
    if alteration.queue:
        await check_own_queue(session.client, session.namespace, alteration.queue)
    if (await priority_classes(session.client, alteration.priority))["priority"]:
        raise UserError(
            f"{alteration.priority} is a PriorityClass, which is part of the pods of a job and fixed; "
            "give a WorkloadPriorityClass"
        )

    async def write(job: JobRecord) -> list[str]:
        if complaint := find_obstacle(job, alteration, now):
            raise UserError(complaint)
        await session.client.edit_object(job.kind, job.source, make_edits(job, alteration))
        return describe(job, alteration)

    try:
        return await rewrite_object(session.client, name, session.namespace, write, uid)
    except ApiError as error:
        if error.code == 404 and await get_or_none(session.client, CRON_JOB, name, session.namespace) is not None:
            raise UserError(
                f"{name} is a CronJob, which muster alter does not change: kubectl edit cronjob {name}"
            ) from None
        raise


def find_obstacle(job: JobRecord, alteration: Alteration, now: datetime) -> str:
    """Return the reason why the job cannot be altered this way; "" if it can, or if `force` overrides the objection."""
    name = job.metadata.name
    if job.end is not None or job.is_cancelled:
        return f"{name} has ended already" if job.end is not None else f"{name} has been cancelled already"
    return _find_obstacle_to_time(job, alteration, now) or _find_obstacle_to_queueing(job, alteration)


def _find_obstacle_to_time(job: JobRecord, alteration: Alteration, now: datetime) -> str:
    limit, name = alteration.time_limit, job.metadata.name
    if limit is None:
        return ""
    if job.array is not None:
        return f"{name} is a sweep: the time limit of a trial is part of its pod, and fixed when it is submitted"
    if job.remote_counts is not None:
        return f"{name} runs in another cluster, which keeps the time limit that the job was submitted with"
    starts = [one.status.start_time for one in job.jobs if one.status.start_time is not None]
    has_run = int((now - min(starts)).total_seconds()) if starts and not job.suspended else 0
    if has_run >= limit and not alteration.force:
        return (
            f"{name} has run for {format_span(has_run)}, so that a limit of {format_span(limit)} ends it at once; "
            "--force if that is meant"
        )
    return ""


def _find_obstacle_to_queueing(job: JobRecord, alteration: Alteration) -> str:
    name, labels = job.metadata.name, job.metadata.labels
    queue, priority_class = labels.get(QUEUE_NAME_LABEL, ""), labels.get(PRIORITY_CLASS_LABEL, "")
    wait_first = f"let it wait first: muster hold {name}, alter it, muster release {name}"
    if alteration.queue and alteration.queue != queue and not job.suspended:
        place = f"on quota of queue {queue}" if queue else "without a queue"
        return f"{name} runs {place}, and changes its queue only while it waits; {wait_first}"
    if alteration.priority and not (queue or alteration.queue):
        return f"{name} waits in no queue, where its priority would count"
    if alteration.priority and not priority_class and not job.suspended:
        return f"{name} runs, and was submitted without a WorkloadPriorityClass; {wait_first}"
    return ""


def make_edits(job: JobRecord, alteration: Alteration) -> list[dict[str, Any]]:
    """Return the JSON patch that applies the alteration to the job's object; empty if nothing changes."""
    labels = {QUEUE_NAME_LABEL: alteration.queue, PRIORITY_CLASS_LABEL: alteration.priority}
    new_labels = {**job.metadata.labels, **{label: value for label, value in labels.items() if value}}
    values: dict[str, Any] = {}
    if new_labels != job.metadata.labels:
        values["/metadata/labels"] = new_labels
    if alteration.time_limit is not None:
        values |= dict.fromkeys(_list_limit_paths(job), alteration.time_limit)
    return [{"op": "add", "path": path, "value": value} for path, value in values.items()]


def _list_limit_paths(job: JobRecord) -> list[str]:
    """Return the JSON pointers of the job's time limit: one in a Job, one per role in a JobSet."""
    if isinstance(job.source, Job):
        return ["/spec/activeDeadlineSeconds"]
    roles = range(len(job.source.spec.replicated_jobs))
    return [f"/spec/replicatedJobs/{at}/template/spec/activeDeadlineSeconds" for at in roles]


def describe(job: JobRecord, alteration: Alteration) -> list[str]:
    """Return one sentence for each setting that the alteration changes, with the previous value."""
    name, labels = job.metadata.name, job.metadata.labels
    sentences = []
    if alteration.time_limit is not None:
        before = "no time limit" if job.deadline is None else format_span(job.deadline)
        sentences.append(f"{name}: time limit {format_span(alteration.time_limit)} (was {before})")
        if _has_timer(job):
            sentences.append(f"{name}: its --signal comes when it would have come before, as each worker waits for it")
    if alteration.queue:
        sentences.append(f"{name}: {_describe_label('queue', alteration.queue, labels, QUEUE_NAME_LABEL)}")
    if alteration.priority:
        sentences.append(f"{name}: {_describe_label('priority', alteration.priority, labels, PRIORITY_CLASS_LABEL)}")
    return sentences


def _has_timer(job: JobRecord) -> bool:
    return any(has_timer(container.command) for template in job.templates for container in template.spec.containers)


def _describe_label(noun: str, value: str, labels: Mapping[str, str], label: str) -> str:
    return f"{noun} {value} (was {labels.get(label) or 'none'})"
