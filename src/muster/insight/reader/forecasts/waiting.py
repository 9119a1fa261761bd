"""Read why a job waits: which workloads are ahead, what is missing, and when it starts.

This module imports the forecasts and the quota tree, which are not needed for a running job.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

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
    ClusterQueue,
    LocalQueue,
    Workload,
)
from muster.api.kueue.names import ADMISSION_GATED, MISCONFIGURED, QUOTA_RESERVED, WAITING_FOR_PODS_READY
from muster.api.kueue.visibility import PendingWorkload
from muster.gang.arrays import is_numpy_installed
from muster.gang.order.ends import end_of
from muster.insight.forecasts.forecast import Forecasts, Snapshot
from muster.insight.quota.lack import update_lack
from muster.insight.quota.state import QuotaState, find_quota_state
from muster.insight.reader.listing.access import get_or_none
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.missing import read_quota_room
from muster.insight.reader.listing.views import JOB_LINES, JOB_SET_LINES, NODE_LINES, POD_DEMANDS
from muster.insight.reader.visibility import Visibility
from muster.insight.record import records_of
from muster.insight.why import JobReadings
from muster.queueing.additions import Completion
from muster.queueing.quota.division import is_member
from muster.queueing.scheduling.estimate import Certainty, StartEstimate
from muster.runtime.objects import key_of

# The kinds that every forecast needs.
ADMITTED_BY = (CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, NAMESPACE, WORKLOAD)

# Forecasts from objects that stay the same are computed again after this time, because running jobs come closer to
# their ends. They are computed later if they are valid for longer.
_LIFETIME = timedelta(seconds=10)
# The kinds whose changes enter a forecast only after a while.
_CHANGING = (WORKLOAD, CLUSTER_QUEUE, LOCAL_QUEUE, JOB_LINES, JOB_SET_LINES, NODE_LINES, POD_DEMANDS)

# The reasons for which a workload waits even if quota becomes free.
_NO_NUMPY = "a forecast in a topology needs numpy: pip install 'muster-batch[server]'"
_NOT_BY_QUOTA = (ADMISSION_GATED, MISCONFIGURED, WAITING_FOR_PODS_READY)


async def read_wait(
    lists: Lists, facts: JobReadings, workload: Workload, stands: QuotaState, memo: Memo
) -> JobReadings:
    """Return the readings with why a workload waits: the workloads ahead, what is missing, and when it will start.

    If the start cannot be estimated, the estimate has the reason.

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
    pending = await visibility.list_of_cluster_queue(queue)
    if pending is None:
        pending = await visibility.list_of_local_queue(namespace, stands.queue)
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
    """Return the readings with the workload's position and the workloads ahead of it.

    If the list of pending workloads does not contain it, return the readings unchanged.
    """
    mine = workload.metadata.namespace, workload.metadata.name
    places = [(one.metadata.namespace, one.metadata.name) for one in pending]
    if mine not in places:
        return facts
    index = places.index(mine)
    position = pending[index].position_in_cluster_queue + 1
    return replace(facts, quota_state=find_quota_state(workload, position), ahead=pending[:index], waiting=len(pending))


async def _add_outlook(lists: Lists, facts: JobReadings, workload: Workload, queue: str, memo: Memo) -> JobReadings:
    added = await lists.completion(workload.metadata.namespace)
    completed = added.workload(workload)
    forecasts = await _read_forecasts(lists, added, completed, facts.now, memo)
    if forecasts is None:
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, lists.describe_lacking(*ADMITTED_BY)))
    snapshot = forecasts.snapshot
    if snapshot.topologies and not is_numpy_installed():
        return replace(facts, estimate=StartEstimate(None, Certainty.NONE, _NO_NUMPY))
    inputs = forecasts, facts.verdict.suffices, workload
    readings = memo.recall(
        "forecast", (workload.metadata.uid, queue), inputs, lambda: _forecast_start(forecasts, facts, completed, queue)
    )
    if forecasts.now != facts.now and (room := await read_quota_room(lists.client, memo)) is not None:
        # The ClusterQueues show a newer use of quota than kept forecasts.
        readings = {**readings, "needs": room.find_needs(workload, queue) or readings.get("needs", ())}
    # With several podsets, the sentence has only the lack of the first podset that did not fit, but `needs` has all.
    needs = readings.get("needs", ()) if len(workload.spec.pod_sets) == 1 else ()
    state = replace(facts.state, reason=update_lack(facts.state.reason, needs))
    return replace(facts, state=state, head=_explain_head(facts, snapshot), **readings)


async def _read_forecasts(
    lists: Lists, added: Completion, workload: Workload, now: datetime, memo: Memo
) -> Forecasts | None:
    """Return forecasts that include a Workload in its current state; None if the user may not see all that they need.

    The memo's forecasts are reused for a while although other jobs, pods and nodes have changed since.
    """
    make = await _prepare_snapshot(lists, added)
    if make is None:
        return None
    others = lists.list_objects(besides=_CHANGING)
    definitions = _list_definitions(await lists.of(CLUSTER_QUEUE) or (), await lists.of(LOCAL_QUEUE) or ())
    kept: _KeptForecasts | None = memo.find("forecasts", "", others)
    if kept is not None and kept.definitions == definitions and kept.forecasts.serves(workload, now):
        return kept.forecasts
    snapshot = memo.recall("snapshot", "", lists.list_objects(), make)
    if (
        kept is None
        or kept.forecasts.snapshot is not snapshot
        or not timedelta() <= now - kept.forecasts.now < _LIFETIME
    ):
        memo.retain("forecast", ())  # the estimates were made from earlier forecasts
        kept = _KeptForecasts(definitions, Forecasts(snapshot, workload.metadata.namespace, now))
        memo.keep("forecasts", "", others, kept)
    return kept.forecasts


class _KeptForecasts(NamedTuple):
    """The forecasts in a memo, with the definitions of the queues at that time."""

    definitions: Sequence[object]
    forecasts: Forecasts


def _list_definitions(cluster_queues: Iterable[ClusterQueue], local_queues: Iterable[LocalQueue]) -> list[object]:
    """Return the fields of queues that users define, without the counts in their statuses, which change often."""
    found: list[object] = [(one.metadata.uid, one.spec) for one in local_queues]
    for one in cluster_queues:
        conditions = [(condition.type, condition.status) for condition in one.status.conditions]
        found.append((one.metadata.uid, one.metadata.annotations, one.spec, conditions))
    return found


def _forecast_start(forecasts: Forecasts, facts: JobReadings, workload: Workload, queue: str) -> dict[str, Any]:
    """Return the fields of `JobReadings` that depend on other workloads: needs, holders, names and the estimate."""
    outlook = forecasts.find_outlook(queue)
    if not outlook.exists:
        return {"estimate": StartEstimate(None, Certainty.NONE, f"there is no ClusterQueue {queue}")}
    needs = outlook.find_needs(workload, queue)
    readings: dict[str, Any] = {
        "needs": needs,
        "holders": outlook.find_holders(needs, workload),
        "names": forecasts.names_by_uid,
        "owners": forecasts.snapshot.owners,
        "strict": outlook.is_strict(queue),
    }
    told = find_condition(workload.status.conditions, QUOTA_RESERVED)
    if told is not None and told.reason in _NOT_BY_QUOTA:
        return readings | {"estimate": StartEstimate(None, Certainty.NONE, told.message)}
    return readings if facts.verdict.suffices else readings | {"estimate": forecasts.estimate(queue, key_of(workload))}


def _explain_head(facts: JobReadings, snapshot: Snapshot) -> str:
    """Return why the first workload of the queue waits; "" if no other workload is ahead or it is not visible."""
    if not facts.ahead:
        return ""
    head = snapshot.by_key.get(key_of(facts.ahead[0]))
    return find_quota_state(head).reason if head is not None else ""


async def snapshot_of(lists: Lists, added: Completion, memo: Memo | None = None) -> Snapshot | None:
    """Return all objects on which admission depends; None if the user may not see them.

    added: the completion of the lists.
    memo: has an earlier snapshot, which is returned if all objects are the same; None to make a new one.
    """
    make = await _prepare_snapshot(lists, added)
    if make is None or memo is None:
        return make() if make is not None else None
    return memo.recall("snapshot", "", lists.list_objects(), make)


async def _prepare_snapshot(lists: Lists, added: Completion) -> Callable[[], Snapshot] | None:
    """Read all objects on which admission depends. Return a function that makes the snapshot.

    Return None if the user may not list one of the kinds.
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

    return make
