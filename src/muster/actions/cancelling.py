"""Ends jobs."""

import msgspec

from muster.actions.choices import get_job
from muster.actions.conflicts import rewriting
from muster.api.batch import JOB, Job
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.status import ApiError
from muster.insight.reader.queues import is_embedded
from muster.insight.record import CANCELLED, JobRecord
from muster.jobs.job.conditions import FAILED, FAILURE_TARGET, announced
from muster.jobs.job.terms import managed_by
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


async def cancel(client: Client, name: str, namespace: str, *, delete: bool = False) -> str:
    """End a job gracefully; what has become of it, in a word or two. Raises `ApiError`, `TransportError`.

    In a cluster of ours it is marked as failed, in the words in which Kubernetes says it: its controller then ends its
    pods, and the node keeps what they printed. Elsewhere logs go with the pods, and the job is deleted.
    """
    if delete or not await is_embedded(client):
        job = await get_job(client, name, namespace)
        await client.delete(job.kind, name, namespace, propagation="Foreground", uid=job.metadata.uid)
        return "deleted" if delete else "cancelled"

    async def end(job: JobRecord) -> str:
        if job.end is not None:
            return "has ended already (--delete removes what is known of it)"
        try:
            await _mark(client, job.source)
        except ApiError as error:
            if error.code != 403:
                raise
            advice = f"{error}, or remove the job with what it printed: muster cancel --delete {name}"
            raise ApiError(msgspec.structs.replace(error.status, message=advice)) from None
        return "cancelled"

    return await rewriting(client, name, namespace, end)


async def _mark(client: Client, job: Job | JobSet) -> None:
    """The pods of a Job end first, then it fails; a JobSet fails, and therefore its Jobs go.

    So does the copy of a Job that runs in another cluster: no controller here would end it.
    """
    if isinstance(job, JobSet):
        await _fail(client, job)
    elif announced(job) is None:
        types = (FAILURE_TARGET, FAILED) if managed_by(job) == MULTI_KUEUE_CONTROLLER else (FAILURE_TARGET,)
        conditions = [{"type": one, "status": "True", **_SAID} for one in types]
        status = {"conditions": conditions} | (_AT_REST if FAILED in types else {})
        patch = {"status": status}
        await client.patch_object(JOB, job, patch, lock=False, type=STRATEGIC_MERGE_PATCH, subresource="status")


async def _fail(client: Client, jobset: JobSet) -> None:
    """A list is replaced as a whole, so nothing may have changed in it."""
    others = [msgspec.to_builtins(one) for one in jobset.status.conditions if one.type != names.FAILED]
    now = RealClock().now().isoformat(timespec="seconds").replace("+00:00", "Z")
    condition = {"type": names.FAILED, "status": "True", "lastTransitionTime": now, **_SAID}
    patch = {"status": {"conditions": [*others, condition], "terminalState": names.FAILED}}
    await client.patch_object(JOB_SET, jobset, patch, subresource="status")


_AT_REST = {"active": None, "ready": None, "terminating": None, "uncountedTerminatedPods": None}
_SAID = {"reason": CANCELLED, "message": "It was cancelled"}
