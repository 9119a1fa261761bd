"""Read all facts about one job, through the API of any cluster.

`investigate` reads the job, its pods and its Workload, and for a waiting job also the queues. `insight.why` and
`insight.forecasts` interpret the facts.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from muster.api.batch import JOB
from muster.api.conditions import find as find_condition
from muster.api.core import NAMESPACE, NODE, POD, Pod
from muster.api.jobset import JOB_SET
from muster.api.kueue import (
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    STOP_NONE,
    TOPOLOGY,
    WORKLOAD,
    LocalQueue,
    Workload,
)
from muster.api.kueue.names import (
    ADMISSION_GATED,
    MISCONFIGURED,
    QUOTA_RESERVED,
    WAITING_FOR_PODS_READY,
)
from muster.api.kueue.visibility import PendingWorkload
from muster.api.pods import why_unplaced
from muster.api.status import ApiError
from muster.gang.arrays import is_numpy_installed
from muster.gang.order.ends import end_of
from muster.insight.forecasts.forecast import Outlook, Snapshot
from muster.insight.history.build import owner_of
from muster.insight.jobs.deferral import describe_deferral
from muster.insight.jobs.obstacles import with_obstacle
from muster.insight.jobs.replacements import needs_replacements
from muster.insight.jobs.state import find_job_state, find_workload_state
from muster.insight.quota.state import QuotaState, find_quota_state, index_by_owner
from muster.insight.reader.clusters import clusters_of
from muster.insight.reader.history import recalled_job
from muster.insight.reader.jobs import plain_pods, pods_of, refused_pods, uncomposed
from muster.insight.reader.lists import Lists
from muster.insight.reader.queues import UNSEEN, Visibility, get_or_none
from muster.insight.reader.records import record_named
from muster.insight.record import JobRecord, records_of
from muster.insight.why import JobReadings
from muster.insight.why.apart import find_jobs_apart
from muster.queueing.additions import Completion
from muster.queueing.scheduling.estimate import Certainty, Estimate
from muster.runtime.client import Client
from muster.runtime.objects import key_of

T = TypeVar("T")

# The kinds that every forecast needs.
ADMITTED_BY = (CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, NAMESPACE, WORKLOAD)

# The reasons for which a workload waits even if quota becomes free.
_NO_NUMPY = "a forecast in a topology needs numpy: pip install 'muster-batch[server]'"
_NOT_BY_QUOTA = (ADMISSION_GATED, MISCONFIGURED, WAITING_FOR_PODS_READY)


@dataclass(frozen=True, slots=True)
class JobAndWorkload:
    """A job and its Workload. Both are None if neither exists.

    unseen: the error because of which no Workload is visible; None if they are visible.
    """

    job: JobRecord | None = None
    workload: Workload | None = None
    unseen: ApiError | None = None


async def find(client: Client, namespace: str, name: str) -> JobAndWorkload:
    """Return the job of a name with its Workload.

    Without such a job, return the Workload of that name, or the Workload whose owner has that name.

    Raises:
        ApiError: the user may see neither jobs nor Workloads.
    """
    job, hidden = await _read_or_refusal(record_named(client, name, namespace))
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


async def _read_or_refusal(read: Awaitable[T]) -> tuple[T | None, ApiError | None]:
    """Return the result of a read, or the error that says why the user may not see it.

    Raises:
        ApiError: the read fails for another reason.
    """
    try:
        return await read, None
    except ApiError as error:
        if error.reason not in UNSEEN:
            raise
        return None, error


async def investigate(client: Client, namespace: str, name: str, now: datetime) -> JobReadings | None:
    """Return the facts about the job or Workload of a name, or None if there is none."""
    read = await find(client, namespace, name)
    job, workload = read.job, read.workload
    stands = find_quota_state(workload) if workload is not None else None
    pods: list[Pod] = []
    if job is not None:
        pods = [pod for pod in (await client.list(POD, namespace, labels=job.pod_selector)).items if job.owns(pod)]
        job = await recalled_job(client, job, pods)
        state = find_job_state(job, pods, stands)
        if state.word == "Pending" and not pods:
            refused = await refused_pods(client, namespace)
            refusals = (refused[one.metadata.uid] for one in job.jobs if one.metadata.uid in refused)
            state = replace(state, reason=next(refusals, state.reason))
        if state.outside:
            state = state.with_refusal((await uncomposed(client, namespace)).get(job.metadata.uid, ""))
    elif workload is not None:
        pods = pods_of(workload, await plain_pods(client, namespace, [workload]))
        state = find_workload_state(workload, find_quota_state(workload), pods)
    else:
        return None
    unseen = str(read.unseen) if read.unseen is not None else ""
    facts = JobReadings(namespace=namespace, name=name, now=now, state=state, job=job, pods=pods, unseen=unseen)
    lists = Lists(client)
    if (kept_apart := next((pod for pod in pods if _is_kept_apart(pod)), None)) is not None:
        facts = replace(facts, apart=find_jobs_apart(kept_apart, await lists.of(POD) or pods))
    if state.waits:
        from muster.insight.forecasts.never import judge_job  # it takes a while to load
        from muster.insight.reader.room import survey

        subject = job if job is not None else workload
        assert subject is not None, "there is a job or a Workload"
        room = await survey(lists, namespace)
        told = with_obstacle(state, room.queues_by_name)
        facts = replace(facts, verdict=judge_job(subject, state, room), state=told)
    if (job is not None and job.remote_counts is not None) or (stands is not None and stands.cluster):
        facts = replace(facts, clusters=await clusters_of(client) or ())
    if workload is None or stands is None:
        return facts
    facts = replace(facts, workload=workload, quota_state=stands, cluster_queue=stands.cluster_queue)
    if needs_replacements(workload):  # such a workload waits in no queue
        return facts
    if not stands.waits or describe_deferral(job):
        return facts
    facts = await _waiting(lists, facts, workload, stands)
    assert facts.quota_state is not None, "it was read above"
    return replace(facts, quota_state=replace(facts.quota_state, reason=facts.state.reason))


def _is_kept_apart(pod: Pod) -> bool:
    """Return whether a scheduler found no node for the pod because of anti-affinity."""
    return not pod.spec.node_name and "anti-affinity rules" in why_unplaced([pod])


async def _waiting(lists: Lists, facts: JobReadings, workload: Workload, stands: QuotaState) -> JobReadings:
    """Return the facts about a waiting workload: the workloads ahead, the missing quota, and when it starts."""
    namespace = workload.metadata.namespace
    if not stands.queue:
        return replace(facts, estimate=Estimate(None, Certainty.NONE, "it names no queue"))
    local = await get_or_none(lists.client, LOCAL_QUEUE, stands.queue, namespace)
    if local is None:
        reason = f"there is no LocalQueue {stands.queue} in namespace {namespace}"
        return replace(facts, estimate=Estimate(None, Certainty.NONE, reason))
    queue = local.spec.cluster_queue
    if not queue:
        reason = f"LocalQueue {stands.queue} names no ClusterQueue"
        return replace(facts, estimate=Estimate(None, Certainty.NONE, reason))
    facts = replace(facts, cluster_queue=queue, stopped=await _find_stopped(lists, local))
    visibility = Visibility(lists.client)
    pending = await visibility.cluster(queue)
    if pending is None:
        pending = await visibility.local(namespace, stands.queue)
    return await _outlook(lists, _placed(facts, workload, pending or []), workload, queue)


async def _find_stopped(lists: Lists, local: LocalQueue) -> list[tuple[str, str]]:
    """Return the kind and name of each stopped queue: this LocalQueue, its ClusterQueue, or both."""
    cluster_queues = await lists.of(CLUSTER_QUEUE) or ()
    policies = [(LOCAL_QUEUE.kind, local.metadata.name, local.spec.stop_policy)]
    policies += [
        (CLUSTER_QUEUE.kind, one.metadata.name, one.spec.stop_policy)
        for one in cluster_queues
        if one.metadata.name == local.spec.cluster_queue
    ]
    return [(kind, name) for kind, name, policy in policies if policy != STOP_NONE]


def _placed(facts: JobReadings, workload: Workload, pending: list[PendingWorkload]) -> JobReadings:
    """Return the facts with the position of the workload, if the list of pending workloads contains it."""
    mine = workload.metadata.namespace, workload.metadata.name
    places = [(one.metadata.namespace, one.metadata.name) for one in pending]
    if mine not in places:
        return facts
    index = places.index(mine)
    position = pending[index].position_in_cluster_queue + 1
    return replace(facts, quota_state=find_quota_state(workload, position), ahead=pending[:index], waiting=len(pending))


async def _outlook(lists: Lists, facts: JobReadings, workload: Workload, queue: str) -> JobReadings:
    added = await lists.completion(workload.metadata.namespace)
    snapshot = await snapshot_of(lists, added)
    if snapshot is None:
        return replace(facts, estimate=Estimate(None, Certainty.NONE, lists.lacking(*ADMITTED_BY)))
    if snapshot.topologies and not is_numpy_installed():
        return replace(facts, estimate=Estimate(None, Certainty.NONE, _NO_NUMPY))
    outlook = Outlook(snapshot, queue, workload.metadata.namespace)
    if not outlook.known:
        return replace(facts, estimate=Estimate(None, Certainty.NONE, f"there is no ClusterQueue {queue}"))
    needs = outlook.find_needs(added.workload(workload), queue)
    names = {one.metadata.uid: outlook.names[key_of(one)] for one in snapshot.workloads}
    owners = {(one.metadata.namespace, one.metadata.name): owner_of(one.metadata) for one in snapshot.workloads}
    holders = outlook.find_holders(needs, workload)
    facts = replace(facts, needs=needs, holders=holders, names=names, owners=owners)
    facts = replace(facts, strict=outlook.is_strict(queue), head=_head(facts, snapshot))
    condition = find_condition(workload.status.conditions, QUOTA_RESERVED)
    if condition is not None and condition.reason in _NOT_BY_QUOTA:
        return replace(facts, estimate=Estimate(None, Certainty.NONE, condition.message))
    if facts.verdict.decides:
        return facts
    return replace(facts, estimate=outlook.estimate(key_of(workload), facts.now))


def _head(facts: JobReadings, snapshot: Snapshot) -> str:
    """Return why the workload at the head of the queue waits, or "" if no workload is ahead."""
    if not facts.ahead:
        return ""
    first = facts.ahead[0].metadata
    head = (
        one
        for one in snapshot.workloads
        if (one.metadata.namespace, one.metadata.name) == (first.namespace, first.name)
    )
    return next((find_quota_state(one).reason for one in head), "")


async def snapshot_of(lists: Lists, added: Completion) -> Snapshot | None:
    """Return all objects on which admission depends, or None if the user may not see them."""
    cluster_queues = await lists.of(CLUSTER_QUEUE)
    local_queues = await lists.of(LOCAL_QUEUE)
    flavors = await lists.of(RESOURCE_FLAVOR)
    namespaces = await lists.of(NAMESPACE)
    workloads = await lists.of(WORKLOAD)
    if cluster_queues is None or local_queues is None or flavors is None or namespaces is None or workloads is None:
        return None
    records = records_of(await lists.of(JOB_SET), await lists.of(JOB) or ())
    deadlines = {one.metadata.uid: timedelta(seconds=one.deadline) for one in records if one.deadline is not None}
    ends = {one.metadata.uid: end_of(one.metadata, one.deadline, started=0.0) for one in records}
    expectations = {uid: timedelta(seconds=end.at) for uid, end in ends.items() if end is not None and not end.sure}
    topologies = await lists.of(TOPOLOGY) or [] if any(one.spec.topology_name for one in flavors) else []
    return Snapshot(
        cluster_queues=cluster_queues,
        local_queues=local_queues,
        cohorts=await lists.of(COHORT) or [],
        flavors=flavors,
        namespaces=namespaces,
        workloads=[added.workload(one) for one in workloads],
        deadlines=deadlines,
        expectations=expectations,
        topologies=topologies,
        nodes=await lists.of(NODE) if topologies else None,
        pods=await lists.of(POD) if topologies else None,
    )
