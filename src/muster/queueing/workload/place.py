"""Decide by a Workload's own fields whether it holds quota, waits for quota, or neither."""

from datetime import datetime

from msgspec import Struct

from muster.api.conditions import find, is_true
from muster.api.kueue import Workload
from muster.api.kueue.names import (
    ADMISSION_GATED_BY,
    CLUSTER_QUEUE_STOPPED,
    FINISHED,
    LOCAL_QUEUE_STOPPED,
    ON_HOLD,
    QUOTA_RESERVED,
    REQUEUED,
    WAITING_FOR_REPLACEMENT_PODS,
)
from muster.queueing.jobframework.slices import waits_to_replace
from muster.queueing.moments import NEVER

# A stopped queue itself holds back all its workloads, so the workloads that it evicted compete again as soon as it is
# released.
_QUEUE_STOPPED = (CLUSTER_QUEUE_STOPPED, LOCAL_QUEUE_STOPPED)


class Holds(Struct, frozen=True):
    """The state of a workload that holds quota of a ClusterQueue."""

    cluster_queue: str


class Waits(Struct, frozen=True):
    """The state of a workload that waits in its LocalQueue.

    until: the time before which admission may not try it; None if it may be tried now. After an eviction it is `NEVER`,
    until the workload is requeued.
    expected: when admission will probably try it; None if that is now.
    """

    until: datetime | None = None
    expected: datetime | None = None


Place = Holds | Waits | None


def place_of(workload: Workload) -> Place:
    """Return the state of a Workload: it holds quota, or it waits for quota.

    Return None if it has finished, is being deleted, or is on hold. The rule is upstream's `workload.IsAdmissible`,
    with one exception: a workload that a stopped queue evicted waits in that queue. Upstream requeues such workloads
    one by one after the release, and admits others before them, which they then preempt.
    """
    conditions, admission = workload.status.conditions, workload.status.admission
    leaving = workload.metadata.deletion_timestamp is not None and admission is None
    if leaving or is_true(conditions, FINISHED):
        return None
    reserved = find(conditions, QUOTA_RESERVED)
    if admission is not None and reserved is not None and reserved.status == "True":
        return Holds(admission.cluster_queue)
    is_on_hold = reserved is not None and reserved.reason == ON_HOLD
    gated = bool(workload.metadata.annotations.get(ADMISSION_GATED_BY)) or waits_to_replace(workload)
    if not workload.spec.active or is_on_hold or gated or is_true(conditions, WAITING_FOR_REPLACEMENT_PODS):
        return None
    requeued, state = find(conditions, REQUEUED), workload.status.requeue_state
    at = state.requeue_at if state is not None else None
    if requeued is not None and requeued.status == "False" and requeued.reason not in _QUEUE_STOPPED:
        return Waits(NEVER, at or NEVER)
    return Waits(at, at)
