"""Eviction: a workload is told to give its quota back; it is released once nothing of its job runs any more.

Evicting only says so. The quota stays taken until the job has stopped (`release`), so that it is never given twice.
"""

from datetime import datetime, timedelta

import msgspec

from muster.api.config import WaitForPodsReady
from muster.api.kueue import (
    CHECK_PENDING,
    RequeueState,
    SchedulingStats,
    WorkloadSchedulingStatsEviction,
    WorkloadStatus,
)
from muster.api.kueue.names import (
    ADMITTED,
    EVICTED,
    NO_RESERVATION,
    NODE_FAILURES,
    PENDING,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
)
from muster.queueing.conditions import find_true, put, since


def evict(status: WorkloadStatus, reason: str, message: str, now: datetime, cause: str = "") -> WorkloadStatus:
    """The status of a workload that has to give back what it holds. `cause` is what is behind the reason."""
    return msgspec.structs.replace(
        status,
        conditions=put(status.conditions, EVICTED, True, reason, message, now),
        admission_checks=tuple(
            msgspec.structs.replace(
                check,
                state=CHECK_PENDING,
                last_transition_time=now.replace(microsecond=0),
                message=f"Reset to Pending after eviction. Previously: {check.state}",
                pod_set_updates=(),
            )
            if check.state != CHECK_PENDING
            else check
            for check in status.admission_checks
        ),
        cluster_name=None,
        nominated_cluster_names=(),
        unhealthy_nodes=(),
        scheduling_stats=_counted(status.scheduling_stats, reason, cause),
    )


def _counted(stats: SchedulingStats | None, reason: str, cause: str) -> SchedulingStats:
    evictions = stats.evictions if stats is not None else ()
    counts = {(one.reason, one.underlying_cause): one.count for one in evictions}
    counts[reason, cause] = counts.get((reason, cause), 0) + 1
    return SchedulingStats(
        evictions=tuple(
            WorkloadSchedulingStatsEviction(reason=reason, underlying_cause=cause, count=count)
            for (reason, cause), count in counts.items()
        )
    )


def release(status: WorkloadStatus, message: str, now: datetime, reason: str = PENDING) -> WorkloadStatus:
    """The status of a workload that holds nothing any more; how long it was admitted is remembered."""
    conditions = put(status.conditions, QUOTA_RESERVED, False, reason, message, now)
    past = status.accumulated_past_execution_time_seconds
    if (admitted := find_true(conditions, ADMITTED)) is not None:
        past = (past or 0) + max(0, int((now - since(admitted, now)).total_seconds()))
        conditions = put(conditions, ADMITTED, False, NO_RESERVATION, "The workload has no reservation", now)
    return msgspec.structs.replace(
        status, conditions=conditions, admission=None, accumulated_past_execution_time_seconds=past
    )


def released_after_eviction(status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    """`release` of an evicted workload whose job has stopped: whether it may queue again at once depends on why."""
    evicted = find_true(status.conditions, EVICTED)
    assert evicted is not None, "only evicted workloads give back"
    status = release(status, evicted.message, now)
    at_once = evicted.reason in (PREEMPTED, NODE_FAILURES)
    requeued = put(status.conditions, REQUEUED, at_once, evicted.reason, evicted.message, now)
    return msgspec.structs.replace(status, conditions=requeued)


def backed_off(status: WorkloadStatus, settings: WaitForPodsReady, now: datetime) -> WorkloadStatus | None:
    """The status of a workload that has to wait before it is considered again, longer each time (KEP-1282).

    None if it has been given all the chances that the settings allow. A wait is never made shorter.
    """
    strategy = settings.requeuing_strategy
    state = status.requeue_state or RequeueState()
    count = (state.count or 0) + 1
    if strategy.backoff_limit_count is not None and count > strategy.backoff_limit_count:
        return None
    # The exponent is bounded: beyond it every wait is the longest.
    seconds = min(strategy.backoff_max_seconds, strategy.backoff_base_seconds * 2 ** min(count - 1, 40))
    at = (now + timedelta(seconds=seconds)).replace(microsecond=0)
    if state.requeue_at is not None and state.requeue_at > at:
        at = state.requeue_at
    return msgspec.structs.replace(status, requeue_state=RequeueState(count=count, requeue_at=at))
