"""Cancel jobs, trials of sweeps, pod groups and CronJobs; delete jobs and CronJobs on request."""

from collections.abc import Iterable
from typing import Any

import msgspec

from muster.actions.errors import UserError
from muster.actions.jobs.conflicts import rewrite_object
from muster.actions.jobs.lookup import get_job
from muster.actions.jobs.podgroups import HAS_ENDED, Cancellation, cancel_pods, find_pods
from muster.actions.rights import Right, has_right
from muster.api.batch import CRON_JOB, JOB, CronJob, Job
from muster.api.jobset import JOB_SET, JobSet
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD
from muster.api.meta import controller_of
from muster.api.ours.trials import CANCELLED_ANNOTATION, Array, cancelled_of
from muster.api.status import ApiError, forbidden, require_uid
from muster.api.values.indexes import Indexes
from muster.insight.jobs.failures import shorten_indexes
from muster.insight.jobs.trials import rank_of_trial
from muster.insight.quota.state import find_owner_uid
from muster.insight.reader.engine import is_embedded
from muster.insight.reader.listing.access import get_or_none
from muster.insight.record import JobRecord
from muster.jobs.ending import make_job_failure, make_jobset_failure
from muster.jobs.job.conditions import CANCELLED, Verdict, find_announced_end, finish
from muster.runtime.client import Client
from muster.runtime.realclock import RealClock
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

_CANCELLED_ALREADY = Cancellation("has been cancelled already", HAS_ENDED.rest)
_STARTS_NO_MORE = Cancellation("cancelled: it starts no more jobs until it is released", "it and its jobs")


async def cancel(
    client: Client, name: str, namespace: str, *, delete: bool = False, kind: Kind[Any] | None = None, uid: str = ""
) -> str:
    """End a job gracefully, delete a pod group, or stop a CronJob; return the outcome with a hint about `--delete`.

    delete: whether to delete the job, or the CronJob with its jobs, as well.
    kind: the kind that has this name: CronJob, Job or JobSet; None for a job, or else a CronJob.
    uid: the UID of the job; "" for any job or CronJob of this name.

    Raises `ApiError`, `TransportError`.
    """
    done = await _cancel_named(client, name, namespace, delete=delete, kind=kind, uid=uid)
    return f"{done.outcome} (--delete removes {done.rest})" if done.rest else done.outcome


async def _cancel_named(
    client: Client, name: str, namespace: str, *, delete: bool, kind: Kind[Any] | None, uid: str
) -> Cancellation:
    if kind is CRON_JOB:
        return await cancel_cron_job(client, await client.get(CRON_JOB, name, namespace), delete=delete)
    try:
        return await cancel_job(client, name, namespace, delete=delete, kind=kind, uid=uid)
    except ApiError as error:
        may_be_cron_job = error.code == 404 and not uid and kind is None
        if not may_be_cron_job or (cron_job := await get_or_none(client, CRON_JOB, name, namespace)) is None:
            raise
    return await cancel_cron_job(client, cron_job, delete=delete)


async def cancel_job(
    client: Client, name: str, namespace: str, *, delete: bool = False, kind: Kind[Any] | None = None, uid: str = ""
) -> Cancellation:
    """End a job gracefully, or delete a pod group. A CronJob of the same name is not changed.

    delete: whether to delete the job as well.
    kind: Job or JobSet, if a list has shown it; None for any job of this name.
    uid: the UID of the job; "" for any job of this name.

    Raises `ApiError` (409 for another job of this name), `TransportError`.
    """
    try:
        return await _end_job(client, name, namespace, delete=delete, kind=kind, uid=uid)
    except ApiError as error:
        if error.code != 404 or kind is not None or (workload := await find_pods(client, namespace, name)) is None:
            raise
    require_uid(WORKLOAD.resource, name, find_owner_uid(workload), uid)
    return await cancel_pods(client, workload, also_finished=delete)


async def _end_job(
    client: Client, name: str, namespace: str, *, delete: bool, kind: Kind[Any] | None, uid: str
) -> Cancellation:
    """End a job gracefully; return the outcome, also if the job had ended already.

    In an embedded cluster the job's status gets a Failed condition. Its controller then ends the pods, and the node
    keeps their logs. In another cluster the logs disappear with the pods anyway, so the job is deleted.

    delete: whether to delete the job in an embedded cluster, too.

    Raises `ApiError`.
    """
    if delete or not await is_embedded(client):
        job = await get_job(client, name, namespace, uid, kind)
        await client.delete(job.kind, name, namespace, propagation="Foreground", uid=job.metadata.uid)
        return Cancellation("deleted" if delete else "cancelled")

    async def end(job: JobRecord) -> Cancellation:
        if job.is_cancelled:
            return _CANCELLED_ALREADY
        if job.end is not None:
            return HAS_ENDED
        try:
            await _mark_as_failed(client, job.source)
        except ApiError as error:
            if error.code != 403:
                raise
            advice = f"{error}, or remove the job with what it printed: muster cancel --delete {name}"
            raise ApiError(msgspec.structs.replace(error.status, message=advice)) from None
        return Cancellation("cancelled")

    return await rewrite_object(client, name, namespace, end, uid, kind)


async def cancel_trials(client: Client, name: str, namespace: str, indexes: str, *, uid: str = "") -> str:
    """Cancel some trials of a sweep, while its other trials continue; return the outcome as a phrase.

    indexes: the indexes of the trials, as in `3,5-7`.
    uid: the UID of the sweep; "" for any sweep of this name.

    The Job's controller ends the pods of the trials, and does not count them as failures. Nothing changes if the sweep
    or these trials have ended. Raises `ApiError`, `TransportError`, and `UserError` if another controller runs the
    sweep or a trial does not exist.
    """
    is_ours = await is_embedded(client)

    async def mark(job: JobRecord) -> str:
        ranks = Indexes.of(_parse_trials(job, indexes))
        if job.end is not None or job.is_cancelled:
            return "has ended already" if job.end is not None else "has been cancelled already"
        if not is_ours or job.manager or job.remote_counts is not None:
            raise UserError(f"{name}: only the Job controller of Muster cancels single trials, and another one runs it")
        open_ranks = ranks - job.ended_trials
        if not open_ranks:
            return f"keeps as it is: {_describe_trials(job, ranks)} ended already"
        cancelled = cancelled_of(job.metadata.annotations, job.wanted) | open_ranks
        patch = {"metadata": {"annotations": {CANCELLED_ANNOTATION: str(cancelled)}}}
        await client.patch_object(job.kind, job.source, patch)
        rest = ranks - open_ranks
        message = f"goes on without {_describe_trials(job, open_ranks)}"
        return f"{message}; {_describe_trials(job, rest)} ended already" if rest else message

    return await rewrite_object(client, name, namespace, mark, uid)


def _parse_trials(job: JobRecord, indexes: str) -> list[int]:
    """Return the ranks of the trials with these indexes. Raises `UserError`."""
    try:
        return [int(rank_of_trial(job, str(index))) for index in Array.parse(indexes)]
    except ValueError as error:
        raise UserError(str(error)) from None


def _describe_trials(job: JobRecord, ranks: Indexes) -> str:
    return f"{'trial' if len(ranks) == 1 else 'trials'} {shorten_indexes(str(job.indexes_of(ranks)))}"


async def cancel_cron_job(client: Client, cron_job: CronJob, *, delete: bool = False) -> Cancellation:
    """Suspend a CronJob and cancel its unfinished jobs, or delete the CronJob and its jobs.

    Raises `ApiError`, with code 403 before any change if the user may not cancel the CronJob's jobs.
    """
    name, namespace = cron_job.metadata.name, cron_job.metadata.namespace
    if delete:
        await client.delete(CRON_JOB, name, namespace, propagation="Foreground", uid=cron_job.metadata.uid)
        return Cancellation("deleted, with its jobs")
    await _require_right_to_jobs(client, cron_job)
    await client.patch_object(CRON_JOB, cron_job, {"spec": {"suspend": True}}, lock=False)
    # The jobs are listed again, because a job may have started since then, before the CronJob's status names it.
    for job in list_unfinished_jobs((await client.list(JOB, namespace)).items, cron_job):
        await _end_if_present(client, job)
    return _STARTS_NO_MORE


async def _require_right_to_jobs(client: Client, cron_job: CronJob) -> None:
    """Raise `ApiError` (403) if the user may not cancel the unfinished jobs of a CronJob.

    Does nothing if the CronJob has no unfinished jobs.
    """
    name, namespace = cron_job.metadata.name, cron_job.metadata.namespace
    jobs = list_unfinished_jobs((await client.list(JOB, namespace)).items, cron_job)
    if not jobs:
        return
    right = find_right_to_cancel(is_embedded=await is_embedded(client))
    if not await has_right(client, right, jobs[0].metadata.name, namespace):  # one job stands for all
        raise forbidden(
            f"the jobs of CronJob {name} cannot be cancelled, and it was left as it is: you cannot {right.verb} "
            f'resource "{right.part}" in API group "{right.kind.group}" in the namespace "{namespace}"'
        )


def find_right_to_cancel(*, is_embedded: bool) -> Right:
    """Return the right that a user needs to cancel a Job.

    is_embedded: whether the cluster is an embedded one.
    """
    return Right("patch", JOB, "status") if is_embedded else Right("delete", JOB)


async def _end_if_present(client: Client, job: Job) -> None:
    """End a Job if it still exists. Another Job with the same name is not changed. Raises `ApiError`."""
    meta = job.metadata
    try:
        await _end_job(client, meta.name, meta.namespace, delete=False, kind=JOB, uid=meta.uid)
    except ApiError as error:
        if error.code not in (404, 409):
            raise
        present = await client.find(JOB, meta.name, meta.namespace)
        if present is not None and present.metadata.uid == meta.uid:
            raise


def list_unfinished_jobs(jobs: Iterable[Job], cron_job: CronJob) -> list[Job]:
    """Return the unfinished Jobs of a CronJob, including those that a user created from its template.

    The CronJob's status does not list Jobs that a user created.

    jobs: all Jobs in the CronJob's namespace.
    """
    return [
        job
        for job in jobs
        if (owner := controller_of(job.metadata)) is not None
        and owner.uid == cron_job.metadata.uid
        and finish(job) is None
    ]


async def _mark_as_failed(client: Client, job: Job | JobSet) -> None:
    """Write the failed status that makes the controller end the job's pods.

    Raises `ApiError` (409) if a JobSet has changed since it was read.
    """
    if isinstance(job, JobSet):
        patch = make_jobset_failure(job, _CANCELLED_BY_USER, RealClock().now())
        await client.patch_object(JOB_SET, job, patch, subresource="status")
    elif find_announced_end(job) is None:
        patch = make_job_failure(job, _CANCELLED_BY_USER)
        await client.patch_object(JOB, job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")


_CANCELLED_BY_USER = Verdict(False, CANCELLED, "It was cancelled")
