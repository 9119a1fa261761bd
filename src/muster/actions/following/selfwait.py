"""Detect a program that waits for a job which in turn waits for the quota of the program's own job."""

from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
from muster.insight.quota.state import QuotaState, find_quota_state
from muster.insight.reader.jobs.records import record_named
from muster.insight.reader.listing.access import get_or_none, list_or_none
from muster.insight.reader.quota.workloads import labels_of
from muster.runtime.client import Client


async def find_only_holder(client: Client, namespace: str, job: str, waiting: QuotaState) -> str:
    """Return the ClusterQueue whose quota only the program's own job holds, if another job waits in its queue.

    job: the name of the job in which this program runs.
    waiting: the state of the other job.

    Returns "" if further jobs hold quota, or if the user may not read the objects. Raises `ApiError` (404 if the job
    does not exist) and `TransportError`.
    """
    uid = (await record_named(client, job, namespace)).metadata.uid
    for workload in await list_or_none(client, WORKLOAD, namespace, labels=labels_of(uid)) or ():
        state = find_quota_state(workload)
        if state.cluster_queue and state.queue == waiting.queue:
            queue = await get_or_none(client, CLUSTER_QUEUE, state.cluster_queue)
            if queue is not None and queue.status.reserving_workloads == 1:
                return state.cluster_queue
    return ""


def explain_own_wait(name: str, job: str, queue: str) -> str:
    """Return a sentence about a job that can never start if the program that submitted it waits for it.

    name: the name of the waiting job.
    job: the name of the job that holds all used quota of the ClusterQueue.
    queue: the name of the ClusterQueue.
    """
    return (
        f"{name} waits for quota of ClusterQueue {queue}, which only {job} uses, the job in which this program runs: "
        f"if {job} waits for {name}, neither ends; let {job} request less, or submit {name} from outside"
    )
