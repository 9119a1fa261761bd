"""Keeps jobs and queues from starting, and lets them go on: one field of a Workload or a queue each."""

from muster.actions.choices import check_queue, no_job
from muster.actions.errors import UserError
from muster.actions.session import Session
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.status import ApiError
from muster.insight.quotastate import quota_state
from muster.insight.reader.job import find
from muster.insight.reader.queues import get_or_none
from muster.insight.record import JobRecord

_STOPPED = {
    "Hold": "stopped: nothing starts from it any more, what runs goes on",
    "HoldAndDrain": "stopped and drained: what runs is stopped and waits",
    "None": "resumed",
}


async def set_stop_policy(session: Session, name: str, policy: str, *, cluster: bool) -> str:
    """Stop or resume a queue; what happened, for people. Raises `ApiError`, `UserError`."""
    kind = CLUSTER_QUEUE if cluster else LOCAL_QUEUE
    namespace = "" if cluster else session.namespace
    try:
        await session.client.patch(kind, name, {"spec": {"stopPolicy": policy}}, namespace)
    except ApiError as error:
        if error.code == 404 and not cluster and await get_or_none(session.client, CLUSTER_QUEUE, name) is not None:
            raise UserError(
                f"there is no LocalQueue {name} in namespace {namespace}, but a ClusterQueue: --cluster means that"
            ) from error
        if error.code == 404 and not cluster:
            await check_queue(session.client, namespace, name)
        raise
    where = "" if cluster else f" (namespace {namespace})"
    return f"{kind.kind.lower()}/{name}{where} {_STOPPED[policy]}"


async def _found(session: Session, name: str) -> tuple[JobRecord | None, Workload | None]:
    """The job of that name and its Workload, or either.

    Raises `UserError` if there is neither, `ApiError` if the job queues and its Workload may not be seen:
    its queue would undo what is done to the job alone.
    """
    found = await find(session.client, session.namespace, name)
    if found.job is None and found.workload is None:
        raise UserError(await no_job(session.client, name, session.namespace))
    queues = found.job is not None and QUEUE_NAME_LABEL in found.job.metadata.labels
    if queues and found.unseen is not None and found.unseen.code == 403:
        raise found.unseen
    return found.job, found.workload


async def set_active(session: Session, name: str, *, active: bool) -> str:
    """Hold or release a job, by its Workload if it has one; what happened, for people."""
    job, workload = await _found(session, name)
    if (job is not None and job.end is not None) or (workload is not None and quota_state(workload).finished):
        return f"{name} has ended already"
    now = workload.spec.active if workload is not None else not (job is not None and job.suspended)
    if now == active:
        return f"{name} is {'not held' if active else 'held already'}"
    if workload is not None:
        patch = {"spec": {"active": active}}
        await session.client.patch(WORKLOAD, workload.metadata.name, patch, session.namespace)
        return f"{name} {'released: it queues again' if active else 'held: it does not run until it is released'}"
    assert job is not None, "one of the two was found"
    await session.client.patch(job.kind, name, {"spec": {"suspend": not active}}, session.namespace)
    return f"{name} {'resumed' if active else 'suspended: it does not run until it is released'}"
