"""Read all facts about one job, through the API of any cluster.

`investigate` reads the job, its pods and its Workload, and for a waiting job also the queues. `insight.why` and
`insight.forecasts` interpret the facts.
"""

from collections.abc import Awaitable
from datetime import datetime
from typing import TypeVar

from msgspec import Struct, structs
from msgspec.structs import replace

from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.kueue import (
    WORKLOAD,
    Workload,
)
from muster.api.pods import why_unplaced
from muster.api.status import ApiError
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import find_job_state, find_workload_state
from muster.insight.quota.state import find_owner_uid, find_quota_state, index_by_owner
from muster.insight.reader.history.recorded import recall_job
from muster.insight.reader.jobs.pods import read_own_pods
from muster.insight.reader.jobs.records import record_named
from muster.insight.reader.jobs.rows import explain_missing_workloads, explain_refused_pods, plain_pods, pods_of
from muster.insight.reader.listing.access import UNSEEN, list_or_none
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import POD_LINES
from muster.insight.reader.quota.workloads import labels_of
from muster.insight.record import JobRecord
from muster.insight.why import JobReadings
from muster.runtime.client import Client

T = TypeVar("T")


class JobAndWorkload(Struct, frozen=True):
    """A job and its Workload. Both are None if neither exists.

    unseen: why no Workload is visible; None if they are visible.
    """

    job: JobRecord | None = None
    workload: Workload | None = None
    unseen: ApiError | None = None


def find_job_uid(job: JobRecord | None, workload: Workload | None) -> str:
    """Return the UID of a job, or else of the owner of its Workload; "" if there is neither."""
    if job is not None:
        return job.metadata.uid
    return find_owner_uid(workload) if workload is not None else ""


async def find(client: Client, namespace: str, name: str) -> JobAndWorkload:
    """Return the job of a name with its Workload.

    Without such a job, return the Workload of that name, or the Workload whose owner has that name; both are None if
    there is none. Raises `ApiError` if the user may see neither jobs nor Workloads.
    """
    job, hidden = await _read_or_refusal(record_named(client, name, namespace))
    if job is not None and (workload := await _find_labelled(client, job)) is not None:
        return JobAndWorkload(job, workload)
    listed, unseen = await _read_or_refusal(client.list(WORKLOAD, namespace))
    if hidden is not None and hidden.code == 403 and unseen is not None:
        raise hidden
    workloads = listed.items if listed is not None else []
    if job is not None:
        return JobAndWorkload(job, index_by_owner(workloads).get(job.metadata.uid), unseen)
    for workload in workloads:
        if name in (workload.metadata.name, *(owner.name for owner in workload.metadata.owner_references)):
            return JobAndWorkload(None, workload)
    return JobAndWorkload(unseen=unseen)


async def _find_labelled(client: Client, job: JobRecord) -> Workload | None:
    """Return the Workload whose label names the job.

    The result is None if there is none: a Workload that a user made before the job has no such label.
    """
    meta = job.metadata
    workloads = await list_or_none(client, WORKLOAD, meta.namespace, labels=labels_of(meta.uid)) or ()
    return index_by_owner(workloads).get(meta.uid)


async def _read_or_refusal(read: Awaitable[T]) -> tuple[T | None, ApiError | None]:
    """Return the result of a read and None; or None and the error, if the user may not read it.

    Raises:
        ApiError: the read fails for another reason.
    """
    try:
        return await read, None
    except ApiError as error:
        if error.reason not in UNSEEN:
            raise
        return None, error


async def investigate(
    client: Client,
    namespace: str,
    name: str,
    now: datetime,
    memo: Memo | None = None,
    *,
    kind: Kind[Pod] = POD_LINES,
) -> JobReadings | None:
    """Read all objects that explain the state of the job or Workload of a name; None if neither exists.

    Raises `ApiError` if the user may see neither jobs nor Workloads.

    memo: results of earlier calls, for a caller whose lists follow a watch.
    kind: the view of pods to read.
    """
    read = await find(client, namespace, name)
    job, workload = read.job, read.workload
    stands = find_quota_state(workload) if workload is not None else None
    pods: list[Pod] = []
    if job is not None:
        pods = await read_own_pods(client, job, kind)
        job = await recall_job(client, job, pods)
        state = find_job_state(job, pods, stands)
        if state.word == "Pending" and not pods:
            refused = await explain_refused_pods(client, namespace)
            refusals = (refused[one.metadata.uid] for one in job.jobs if one.metadata.uid in refused)
            state = structs.replace(state, reason=next(refusals, state.reason))
        if state.outside:
            state = state.with_refusal((await explain_missing_workloads(client, namespace)).get(job.metadata.uid, ""))
    elif workload is not None:
        pods = pods_of(workload, await plain_pods(client, namespace, [workload], kind))
        state = find_workload_state(workload, find_quota_state(workload), pods)
        if not pods:
            from muster.insight.reader.jobs.operators import explain_silent_operators  # few clusters run such jobs

            silence = await explain_silent_operators(client, namespace, [(workload, state)], now)
            state = state.with_silence(silence.get(workload.metadata.uid, ""))
    else:
        return None
    unseen = str(read.unseen) if read.unseen is not None else ""
    facts = JobReadings(namespace=namespace, name=name, now=now, state=state, job=job, pods=pods, unseen=unseen)
    lists = Lists(client)
    if (kept_apart := next((pod for pod in pods if _is_kept_apart(pod)), None)) is not None:
        from muster.insight.reader.jobs.apart import read_jobs_apart  # few pods have rules of affinity

        facts = replace(facts, apart=await read_jobs_apart(lists, kept_apart))
    if state.waits:
        from muster.insight.forecasts.never import judge_job  # importing it is slow
        from muster.insight.reader.forecasts.room import survey_room

        subject = job if job is not None else workload
        assert subject is not None, "there is a job or a Workload"
        room = await survey_room(lists, namespace, memo)
        told = with_obstacle(state, room.queues_by_name)
        facts = replace(facts, verdict=judge_job(subject, state, room), state=told)
    if (job is not None and job.remote_counts is not None) or (stands is not None and stands.cluster):
        from muster.insight.reader.clusters import clusters_of  # few jobs run in other clusters

        facts = replace(facts, clusters=await clusters_of(client) or ())
    if workload is None or stands is None:
        return facts
    facts = replace(facts, workload=workload, quota_state=stands, cluster_queue=stands.cluster_queue)
    if needs_replacements(workload):  # a workload that needs replacements waits in no queue
        return facts
    if not stands.waits or describe_deferral(job):
        return facts
    from muster.insight.reader.forecasts.waiting import read_wait  # it loads the forecasts

    facts = await read_wait(lists, facts, workload, stands, memo if memo is not None else Memo())
    assert facts.quota_state is not None, "it was read above"
    return replace(facts, quota_state=structs.replace(facts.quota_state, reason=facts.state.reason))


def _is_kept_apart(pod: Pod) -> bool:
    """Return whether the scheduler reports that anti-affinity rules keep the pod from nodes."""
    return not pod.spec.node_name and "anti-affinity rules" in why_unplaced([pod])
