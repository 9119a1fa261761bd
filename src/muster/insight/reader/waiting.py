"""The reader of why a job waits: who is ahead, what is missing, and when it starts.

It loads the forecasts and the quota tree, which no answer about a running job needs.
"""

from datetime import timedelta
from typing import Any

from msgspec import structs
from msgspec.structs import replace

from muster.api.conditions import find as find_condition
from muster.api.core import NAMESPACE
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
from muster.api.kueue.names import ADMISSION_GATED, MISCONFIGURED, QUOTA_RESERVED, WAITING_FOR_PODS_READY
from muster.api.kueue.visibility import PendingWorkload
from muster.gang.arrays import is_numpy_installed
from muster.gang.order.ends import end_of
from muster.insight.forecasts.forecast import Outlook, Snapshot
from muster.insight.history.build import owner_of
from muster.insight.quota.lack import update_lack
from muster.insight.quota.state import QuotaState, find_quota_state
from muster.insight.reader.lists import Lists
from muster.insight.reader.listviews import JOB_LINES, JOB_SET_LINES, NODE_LINES, POD_DEMANDS
from muster.insight.reader.memo import Memo
from muster.insight.reader.queues import Visibility, get_or_none
from muster.insight.record import records_of
from muster.insight.why import JobReadings
from muster.queueing.additions import Completion
from muster.queueing.quota.division import is_member
from muster.queueing.scheduling.estimate import Certainty, StartEstimate
from muster.runtime.objects import key_of

# The kinds that every forecast needs.
ADMITTED_BY = (CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, NAMESPACE, WORKLOAD)

# A forecast from objects that stay the same is made anew after this time, as running jobs come closer to their ends.
_FORECAST_SECONDS = 10.0

# The reasons for which a workload waits even if quota becomes free.
_NO_NUMPY = "a forecast in a topology needs numpy: pip install 'muster-batch[server]'"
_NOT_BY_QUOTA = (ADMISSION_GATED, MISCONFIGURED, WAITING_FOR_PODS_READY)


async def read_wait(
    lists: Lists, facts: JobReadings, workload: Workload, stands: QuotaState, memo: Memo
) -> JobReadings:
    """Read why a workload waits: which workloads are ahead, what is missing, and when the workload will start.

    memo: results of earlier calls, for a caller whose lists follow a watch.
    """
    namespace = workload.metadata.namespace
    if not stands.queue:
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, "it names no queue"))
    local = await get_or_none(lists.client, LOCAL_QUEUE, stands.queue, namespace)
    if local is None:
        reason = f"there is no LocalQueue {stands.queue} in namespace {namespace}"
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, reason))
    queue = local.spec.cluster_queue
    if not queue:
        reason = f"LocalQueue {stands.queue} names no ClusterQueue"
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, reason))
    facts = replace(facts, cluster_queue=queue, stopped=await _find_stopped(lists, local))
    visibility = Visibility(lists.client)
    pending = await visibility.cluster(queue)
    if pending is None:
        pending = await visibility.local(namespace, stands.queue)
    return await _add_outlook(lists, _add_position(facts, workload, pending or []), workload, queue, memo)


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


def _add_position(facts: JobReadings, workload: Workload, pending: list[PendingWorkload]) -> JobReadings:
    """Return the facts with the position of the workload, if the list of pending workloads has it."""
    mine = workload.metadata.namespace, workload.metadata.name
    places = [(one.metadata.namespace, one.metadata.name) for one in pending]
    if mine not in places:
        return facts
    index = places.index(mine)
    position = pending[index].position_in_cluster_queue + 1
    return replace(facts, quota_state=find_quota_state(workload, position), ahead=pending[:index], waiting=len(pending))


async def _add_outlook(lists: Lists, facts: JobReadings, workload: Workload, queue: str, memo: Memo) -> JobReadings:
    added = await lists.completion(workload.metadata.namespace)
    snapshot = await snapshot_of(lists, added, memo)
    if snapshot is None:
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, lists.describe_lacking(*ADMITTED_BY)))
    if snapshot.topologies and not is_numpy_installed():
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, _NO_NUMPY))
    moment = int(facts.now.timestamp() / _FORECAST_SECONDS)
    inputs = facts.verdict.decides, workload, *lists.list_objects()
    readings = memo.recall(
        "forecast", (moment, queue), inputs, lambda: _forecast(snapshot, added, facts, workload, queue)
    )
    memo.retain("forecast", ((moment, queue),))  # each holds all objects of the cluster
    # With several podsets, the sentence counts only up to the one that did not fit, but `needs` counts all.
    needs = readings.get("needs", ()) if len(workload.spec.pod_sets) == 1 else ()
    state = structs.replace(facts.state, reason=update_lack(facts.state.reason, needs))
    return replace(facts, state=state, head=_explain_head(facts, snapshot), **readings)


def _forecast(
    snapshot: Snapshot, added: Completion, facts: JobReadings, workload: Workload, queue: str
) -> dict[str, Any]:
    """Return the readings about a waiting workload that other workloads decide, by field."""
    outlook = Outlook(snapshot, queue, workload.metadata.namespace, facts.now)
    if not outlook.known:
        return {"estimate": StartEstimate(None, Certainty.NONE, f"there is no ClusterQueue {queue}")}
    needs = outlook.find_needs(added.workload(workload), queue)
    readings: dict[str, Any] = {
        "needs": needs,
        "holders": outlook.find_holders(needs, workload),
        "names": {one.metadata.uid: outlook.names[key_of(one)] for one in snapshot.workloads},
        "owners": {(one.metadata.namespace, one.metadata.name): owner_of(one.metadata) for one in snapshot.workloads},
        "strict": outlook.is_strict(queue),
    }
    told = find_condition(workload.status.conditions, QUOTA_RESERVED)
    if told is not None and told.reason in _NOT_BY_QUOTA:
        return readings | {"estimate": StartEstimate(None, Certainty.NONE, told.message)}
    return readings if facts.verdict.decides else readings | {"estimate": outlook.estimate(key_of(workload))}


def _explain_head(facts: JobReadings, snapshot: Snapshot) -> str:
    """Return why the first workload of the queue waits, or "" if no other workload is ahead."""
    if not facts.ahead:
        return ""
    first = facts.ahead[0].metadata
    head = (
        one
        for one in snapshot.workloads
        if (one.metadata.namespace, one.metadata.name) == (first.namespace, first.name)
    )
    return next((find_quota_state(one).reason for one in head), "")


async def snapshot_of(lists: Lists, added: Completion, memo: Memo | None = None) -> Snapshot | None:
    """Return all objects on which admission depends, or None if the user may not see them.

    added: of the lists. memo: an earlier snapshot, which is returned while all objects are the same.
    """
    cluster_queues = await lists.of(CLUSTER_QUEUE)
    local_queues = await lists.of(LOCAL_QUEUE)
    flavors = await lists.of(RESOURCE_FLAVOR)
    namespaces = await lists.of(NAMESPACE)
    workloads = await lists.of(WORKLOAD)
    if cluster_queues is None or local_queues is None or flavors is None or namespaces is None or workloads is None:
        return None
    job_sets, jobs = await lists.of(JOB_SET_LINES), await lists.of(JOB_LINES) or ()
    topologies = await lists.of(TOPOLOGY) or [] if any(one.spec.topology_name for one in flavors) else []
    cohorts = await lists.of(COHORT) or []
    nodes = await lists.of(NODE_LINES) if topologies or any(map(is_member, cluster_queues)) else None
    pods = await lists.of(POD_DEMANDS) if topologies else None

    def make() -> Snapshot:
        records = records_of(job_sets, jobs)
        ends = {one.metadata.uid: end_of(one.metadata, one.deadline, started=0.0) for one in records}
        return Snapshot(
            cluster_queues=cluster_queues,
            local_queues=local_queues,
            cohorts=cohorts,
            flavors=flavors,
            namespaces=namespaces,
            workloads=[added.workload(one) for one in workloads],
            deadlines={
                one.metadata.uid: timedelta(seconds=one.deadline) for one in records if one.deadline is not None
            },
            expectations={
                uid: timedelta(seconds=end.at) for uid, end in ends.items() if end is not None and not end.is_enforced
            },
            topologies=topologies,
            nodes=nodes,
            pods=pods,
        )

    return make() if memo is None else memo.recall("snapshot", "", lists.list_objects(), make)
