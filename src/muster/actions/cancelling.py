"""Cancels jobs, pod groups and CronJobs, and deletes them if that is asked for."""

import msgspec

from muster.actions.choices import get_job
from muster.actions.conflicts import rewriting
from muster.actions.podgroups import cancel_pods, find_pods
from muster.api.batch import CRON_JOB, JOB, CronJob, Job
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.meta import controller_of
from muster.api.status import ApiError
from muster.insight.reader.queues import get_or_none, is_embedded
from muster.insight.record import CANCELLED, JobRecord
from muster.jobs.job.conditions import FAILED, FAILURE_TARGET, announced, finish
from muster.jobs.job.terms import managed_by
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.refusals import ignoring
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


async def cancel(client: Client, name: str, namespace: str, *, delete: bool = False) -> str:
    """End a job gracefully, delete a pod group, or stop a CronJob; return the outcome in a few words.

    delete: delete the job, or the CronJob with its jobs, too. Raises `ApiError`, `TransportError`.
    """
    try:
        return await _cancel_job(client, name, namespace, delete=delete)
    except ApiError as error:
        if error.code != 404:
            raise
        if (workload := await find_pods(client, namespace, name)) is not None:
            return await cancel_pods(client, workload, delete=delete)
        if (cron_job := await get_or_none(client, CRON_JOB, name, namespace)) is not None:
            return await _cancel_cron_job(client, cron_job, delete=delete)
        raise


async def _cancel_job(client: Client, name: str, namespace: str, *, delete: bool) -> str:
    """End a job gracefully, and return the outcome in a few words.

    In an embedded cluster the job gets the condition with which Kubernetes marks a failed job. Its controller then ends
    the pods, and the node keeps their logs. In any other cluster logs go with the pods, so the job is deleted.
    """
    if delete or not await is_embedded(client):
        job = await get_job(client, name, namespace)
        await client.delete(job.kind, name, namespace, propagation="Foreground", uid=job.metadata.uid)
        return "deleted" if delete else "cancelled"

    async def end(job: JobRecord) -> str:
        if job.is_cancelled:
            return "has been cancelled already (--delete removes what is known of it)"
        if job.end is not None:
            return "has ended already (--delete removes what is known of it)"
        try:
            await _mark_as_failed(client, job.source)
        except ApiError as error:
            if error.code != 403:
                raise
            advice = f"{error}, or remove the job with what it printed: muster cancel --delete {name}"
            raise ApiError(msgspec.structs.replace(error.status, message=advice)) from None
        return "cancelled"

    return await rewriting(client, name, namespace, end)


async def _cancel_cron_job(client: Client, cron_job: CronJob, *, delete: bool) -> str:
    """Suspend a CronJob and cancel the jobs that it runs, or delete all of them; return the outcome in a few words."""
    name, namespace = cron_job.metadata.name, cron_job.metadata.namespace
    if delete:
        await client.delete(CRON_JOB, name, namespace, propagation="Foreground", uid=cron_job.metadata.uid)
        return "deleted, with its jobs"
    await client.patch_object(CRON_JOB, cron_job, {"spec": {"suspend": True}}, lock=False)
    for job in (await client.list(JOB, namespace)).items:  # the status does not name a Job that a user made from it
        owner = controller_of(job.metadata)
        if owner is not None and owner.uid == cron_job.metadata.uid and finish(job) is None:
            with ignoring("NotFound"):
                await _cancel_job(client, job.metadata.name, namespace, delete=False)
    return "cancelled: it starts no more jobs until it is released (--delete removes it and its jobs)"


async def _mark_as_failed(client: Client, job: Job | JobSet) -> None:
    """Write the status that makes the controller end the job's pods.

    A Job fails after its pods have ended. A JobSet fails first, and its controller then deletes its Jobs. A Job that
    MultiKueue manages fails at once, because no controller in this cluster would end it.
    """
    if isinstance(job, JobSet):
        await _fail_jobset(client, job)
    elif announced(job) is None:
        types = (FAILURE_TARGET, FAILED) if managed_by(job) == MULTI_KUEUE_CONTROLLER else (FAILURE_TARGET,)
        conditions = [{"type": one, "status": "True", **_CANCELLED_BY_USER} for one in types]
        status = {"conditions": conditions} | (_WITHOUT_PODS if FAILED in types else {})
        patch = {"status": status}
        await client.patch_object(JOB, job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")


async def _fail_jobset(client: Client, jobset: JobSet) -> None:
    """Write the Failed condition of a JobSet.

    The patch replaces the whole list of conditions, so the request fails if the JobSet has changed meanwhile.
    """
    other_conditions = [msgspec.to_builtins(one) for one in jobset.status.conditions if one.type != names.FAILED]
    now = RealClock().now().isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": names.FAILED, "status": "True", "lastTransitionTime": now, **_CANCELLED_BY_USER}
    patch = {"status": {"conditions": [*other_conditions, condition], "terminalState": names.FAILED}}
    await client.patch_object(JOB_SET, jobset, patch, subresource="status")


_WITHOUT_PODS = {"active": None, "ready": None, "terminating": None, "uncountedTerminatedPods": None}
_CANCELLED_BY_USER = {"reason": CANCELLED, "message": "It was cancelled"}
