"""Evict workloads: set the condition Evicted, and release the quota after all pods of the job have ended.

An eviction only sets the condition. The quota stays in use until the job has stopped (`release`), so that it is never
assigned twice.
"""

from datetime import datetime, timedelta

import msgspec

from muster.api.conditions import find, find_true, is_true
from muster.api.config import WaitForPodsReady
from muster.api.kueue import (
    GATE_CLOSED,
    PreemptionGateState,
    RequeueState,
    SchedulingStats,
    WorkloadSchedulingStatsEviction,
    WorkloadStatus,
)
from muster.api.kueue.names import (
    ADMITTED,
    BLOCKED_ON_PREEMPTION_GATES,
    DEACTIVATED,
    DEACTIVATED_DUE_TO,
    DEACTIVATED_MESSAGE,
    EVICTED,
    FLAVOR_MIGRATION,
    NO_RESERVATION,
    NODE_FAILURES,
    PENDING_EVALUATION,
    PODS_READY,
    PREEMPTED,
    QUOTA_RESERVED,
    REQUEUED,
)
from muster.queueing.conditions import find_last_change, put
from muster.queueing.workload import checks
from muster.queueing.workload.readiness import with_readiness

# From this exponent on, every wait has the maximum length.
_MAX_DOUBLINGS = 40


def full_reason(reason: str, cause: str = "") -> str:
    """Return the reason of the condition Evicted; for a deactivation, the reason includes the cause."""
    return DEACTIVATED_DUE_TO + cause if reason == DEACTIVATED and cause else reason


def evict(status: WorkloadStatus, reason: str, message: str, now: datetime, cause: str = "") -> WorkloadStatus:
    """Return the status of a workload with the condition Evicted set.

    Its checks are reset, its preemption gates closed, its clusters and lost nodes removed, and the eviction is counted.

    cause: the cause behind the reason; "" if there is none.
    """
    full = full_reason(reason, cause)
    conditions = put(status.conditions, EVICTED, True, full, message, now)
    if is_true(conditions, BLOCKED_ON_PREEMPTION_GATES):
        conditions = put(conditions, BLOCKED_ON_PREEMPTION_GATES, False, full, message, now)
    moment = now.replace(microsecond=0)
    return msgspec.structs.replace(
        status,
        conditions=conditions,
        admission_checks=checks.reset_checks(status.admission_checks, now),
        cluster_name=None,
        nominated_cluster_names=(),
        unhealthy_nodes=(),
        preemption_gates=tuple(
            PreemptionGateState(name=gate.name, position=GATE_CLOSED, last_transition_time=moment)
            for gate in status.preemption_gates
        ),
        scheduling_stats=_count_eviction(status.scheduling_stats, reason, cause),
    )


def _count_eviction(stats: SchedulingStats | None, reason: str, cause: str) -> SchedulingStats:
    evictions = stats.evictions if stats is not None else ()
    counts = {(one.reason, one.underlying_cause): one.count for one in evictions}
    counts[reason, cause] = counts.get((reason, cause), 0) + 1
    return SchedulingStats(
        evictions=tuple(
            WorkloadSchedulingStatsEviction(reason=reason, underlying_cause=cause, count=count)
            for (reason, cause), count in counts.items()
        )
    )


def release(status: WorkloadStatus, message: str, now: datetime, reason: str = PENDING_EVALUATION) -> WorkloadStatus:
    """Return the status with QuotaReserved=False for this reason, and without its admission.

    The same object is returned if nothing changes.
    """
    conditions = put(status.conditions, QUOTA_RESERVED, False, reason, message, now)
    if conditions is not status.conditions:
        status = msgspec.structs.replace(status, conditions=conditions)
    return remove_admission(status, now)


def remove_admission(status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    """Return the status with admission and readiness removed; the same object if nothing changes.

    The time for which the workload was admitted is kept.
    """
    conditions, past = status.conditions, status.accumulated_past_execution_time_seconds
    if (admitted := find_true(conditions, ADMITTED)) is not None:
        past = (past or 0) + max(0, int((now - find_last_change(admitted, now)).total_seconds()))
    conditions = put(conditions, ADMITTED, False, NO_RESERVATION, "The workload has no reservation", now)
    if find(conditions, PODS_READY) is not None:
        conditions = with_readiness(conditions, False, now)
    if conditions is status.conditions and status.admission is None:
        return status
    return msgspec.structs.replace(
        status, conditions=conditions, admission=None, accumulated_past_execution_time_seconds=past
    )


def release_evicted(status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    """Return the status of an evicted workload whose job has stopped, without quota.

    The cause of the eviction decides whether the workload requeues at once.
    """
    evicted = find_true(status.conditions, EVICTED)
    assert evicted is not None, "only evicted workloads are released"
    if evicted.reason.startswith(DEACTIVATED):
        status = release(status, DEACTIVATED_MESSAGE, now, DEACTIVATED)
    else:
        status = release(status, evicted.message, now)
    at_once = evicted.reason in (PREEMPTED, NODE_FAILURES, FLAVOR_MIGRATION)
    requeued = put(status.conditions, REQUEUED, at_once, evicted.reason, evicted.message, now)
    return msgspec.structs.replace(status, conditions=requeued)


def not_before(status: WorkloadStatus, at: datetime) -> WorkloadStatus:
    """Return the status with `requeueAt` set to this time. A later `requeueAt` stays."""
    state = status.requeue_state or RequeueState()
    if state.requeue_at is not None and state.requeue_at >= at:
        return status
    return msgspec.structs.replace(status, requeue_state=msgspec.structs.replace(state, requeue_at=at))


def delay_requeue(status: WorkloadStatus, settings: WaitForPodsReady, now: datetime) -> WorkloadStatus | None:
    """Return the status with the next `requeueAt`, after a delay that grows with each requeue (Kueue KEP-1282).

    Return None if the workload has used up all retries that the settings allow.
    """
    strategy = settings.requeuing_strategy
    state = status.requeue_state or RequeueState()
    count = (state.count or 0) + 1
    if strategy.backoff_limit_count is not None and count > strategy.backoff_limit_count:
        return None
    doubled = strategy.backoff_base_seconds * 2 ** min(count - 1, _MAX_DOUBLINGS)
    at = now.replace(microsecond=0) + timedelta(seconds=min(strategy.backoff_max_seconds, doubled))
    return not_before(msgspec.structs.replace(status, requeue_state=msgspec.structs.replace(state, count=count)), at)
