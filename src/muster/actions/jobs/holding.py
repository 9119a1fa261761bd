"""Hold and release jobs, CronJobs and queues by changing one field of a Workload, a CronJob or a queue."""

from msgspec import Struct

from muster.actions.choices import check_queue
from muster.actions.errors import UserError
from muster.actions.jobs.lookup import explain_missing_job
from muster.actions.server.session import Session
from muster.api.batch import CRON_JOB, JOB, CronJob
from muster.api.conditions import is_true
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, STOP_NONE, WORKLOAD, Workload
from muster.api.kueue.names import QUEUE_NAME_LABEL, QUOTA_RESERVED
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError, require_uid
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.quota.queues import describe_resume
from muster.insight.quota.state import find_quota_state
from muster.insight.reader.jobs.job import find, find_job_uid
from muster.insight.reader.listing.access import get_or_none
from muster.insight.record import JobRecord
from muster.jobs.deferral import make_release
from muster.runtime.client import Client

_STOPPED = {
    "Hold": "stopped: its waiting jobs do not start, and its running jobs continue",
    "HoldAndDrain": "stopped and drained: its running jobs stop, and wait",
}


class _QueueSpec(Struct, frozen=True, rename="camel"):
    stop_policy: str = STOP_NONE


class _Queue(Struct, frozen=True):
    """A ClusterQueue or LocalQueue, reduced to the fields that stop it."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _QueueSpec = _QueueSpec()


async def set_stop_policy(session: Session, name: str, policy: str, *, cluster: bool, uid: str = "") -> str:
    """Set the stop policy of a queue, which holds, drains or resumes it; return the outcome as a sentence.

    cluster: whether the queue is a ClusterQueue.
    uid: the UID of the queue; "" for any queue of this name.

    Raises `ApiError` (404 for a missing ClusterQueue, 409 for another queue), and `UserError` for a missing LocalQueue.
    """
    kind = (CLUSTER_QUEUE if cluster else LOCAL_QUEUE).seen_as(_Queue)
    namespace = "" if cluster else session.namespace
    where = "" if cluster else f" (namespace {namespace})"
    queue = f"{kind.kind.lower()}/{name}{where}"
    try:
        before = await session.client.get(kind, name, namespace)
        require_uid(kind.resource, name, before.metadata.uid, uid)
        if policy == STOP_NONE and before.spec.stop_policy == STOP_NONE:
            return f"{queue} is not stopped{await _find_other_stopped(session, name, cluster=cluster)}"
        await session.client.patch_object(kind, before, {"spec": {"stopPolicy": policy}}, lock=False)
    except ApiError as error:
        if error.code == 404 and not cluster and await get_or_none(session.client, CLUSTER_QUEUE, name) is not None:
            raise UserError(
                f"there is no LocalQueue {name} in namespace {namespace}, "
                "but a ClusterQueue has that name: add --cluster"
            ) from error
        if error.code == 404 and not cluster:
            await check_queue(session.client, namespace, name)
        raise
    if policy == STOP_NONE:
        return f"{queue} resumed{await _find_other_stopped(session, name, cluster=cluster)}"
    return f"{queue} {_STOPPED[policy]}; start it again with: {describe_resume(name, cluster=cluster)}"


async def _find_other_stopped(session: Session, name: str, *, cluster: bool) -> str:
    """Return a remark about a stopped queue of the other kind with the same name; "" if there is none."""
    kind = LOCAL_QUEUE if cluster else CLUSTER_QUEUE
    other = await get_or_none(session.client, kind.seen_as(_Queue), name, session.namespace if cluster else "")
    if other is None or other.spec.stop_policy == STOP_NONE:
        return ""
    return f"; {kind.kind} {name} is stopped: {describe_resume(name, cluster=not cluster)}"


async def _find_job_and_workload(session: Session, name: str, uid: str) -> tuple[JobRecord | None, Workload | None]:
    """Return the job with this name and its Workload; either is None if it does not exist.

    Raises `ApiError` (409) if the job has another UID. Also raises `ApiError` if the job is queued and the user may not
    read its Workload, because the queue would undo a change of the job alone.
    """
    readings = await find(session.client, session.namespace, name)
    if found := find_job_uid(readings.job, readings.workload):
        require_uid(JOB.resource, name, found, uid)
    queues = readings.job is not None and QUEUE_NAME_LABEL in readings.job.metadata.labels
    if queues and readings.unseen is not None and readings.unseen.code == 403:
        raise readings.unseen
    return readings.job, readings.workload


async def set_active(session: Session, name: str, *, active: bool, uid: str = "") -> str:
    """Hold or release a job, through its Workload if it has one, or a CronJob; return the outcome as a sentence.

    uid: the UID of the job; "" for any job or CronJob of this name.

    Raises `ApiError` (409 for another job), `UserError`.
    """
    job, workload = await _find_job_and_workload(session, name, uid)
    if job is None and workload is None:
        if uid or (cron_job := await get_or_none(session.client, CRON_JOB, name, session.namespace)) is None:
            raise UserError(await explain_missing_job(session.client, name, session.namespace))
        return await set_starting(session.client, cron_job, starting=active)
    if (job is not None and job.end is not None) or (workload is not None and find_quota_state(workload).finished):
        return f"{name} has ended already"
    deferral = describe_deferral(job) if workload is None or workload.spec.active else ""
    if job is not None and active and deferral:
        patch = make_release(job.metadata, queues=QUEUE_NAME_LABEL in job.metadata.labels)
        await session.client.patch_object(job.kind, job.source, patch, lock=False)
        return f"{name} released: it starts without waiting"
    is_active = workload.spec.active if workload is not None else not (job is not None and job.suspended)
    if is_active == active:
        return f"{name} is {'not held' if active else 'held already'}" + (f": it {deferral}" if deferral else "")
    if workload is not None:
        patch = {"spec": {"active": active}}
        await session.client.patch_object(WORKLOAD, workload, patch, lock=False)
        if active:
            return f"{name} released: it queues again"
        ends = ", and its workers end now" if is_true(workload.status.conditions, QUOTA_RESERVED) else ""
        return f"{name} held: it does not run until it is released{ends}"
    assert job is not None, "one of the two was found"
    await session.client.patch_object(job.kind, job.source, {"spec": {"suspend": not active}}, lock=False)
    return f"{name} {'resumed' if active else 'suspended: it does not run until it is released'}"


async def set_starting(client: Client, cron_job: CronJob, *, starting: bool) -> str:
    """Suspend or resume a CronJob; return the outcome as a sentence. Raises `ApiError`."""
    name = cron_job.metadata.name
    if bool(cron_job.spec.suspend) != starting:
        return f"{name} is {'not held' if starting else 'held already'}"
    await client.patch_object(CRON_JOB, cron_job, {"spec": {"suspend": not starting}}, lock=False)
    return f"{name} {'released: it starts jobs again' if starting else 'held: it starts no jobs until it is released'}"
