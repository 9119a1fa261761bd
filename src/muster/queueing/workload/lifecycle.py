"""Decide the next state of a Workload: evictions, checks, timeouts and its end; everything except admission.

One call advances a workload as far as one write of its status can. Deciding again on the written status changes
nothing.

The rules and their order are those of Kueue's workload controller (which applies one at a time), with these
differences:

- An admission check that demands a retry evicts at once; the workload does not hold quota until the retry.
- A workload whose queue is stopped or deleted is not admitted when its checks become ready.
- A check that is added to a queue, or fails, after admission does not undo the admission.
- The execution time starts at 0 again when a workload is reactivated after it has used up the time.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.conditions import find, find_true, is_true
from muster.api.config import WaitForPodsReady
from muster.api.kueue import Admission, Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMISSION_CHECK_EVICTION,
    ADMISSION_GATED,
    ADMISSION_GATED_BY,
    ADMITTED,
    BACKOFF_FINISHED,
    BLOCKED_ON_PREEMPTION_GATES,
    CLUSTER_QUEUE_RESTARTED,
    CLUSTER_QUEUE_STOPPED,
    DEACTIVATED,
    DEACTIVATED_DUE_TO,
    DEACTIVATED_MESSAGE,
    DEACTIVATION_TARGET,
    EVICTED,
    EVICTED_DUE_TO,
    FINISHED,
    INADMISSIBLE,
    JOB_UID_LABEL,
    LOCAL_QUEUE_RESTARTED,
    LOCAL_QUEUE_STOPPED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    MULTI_KUEUE_ORIGIN_LABEL,
    ON_HOLD,
    OWNER_NOT_FOUND,
    PENDING,
    PENDING_DELAYED_TOPOLOGY_REQUESTS,
    PENDING_EVALUATION,
    PODS_READY_TIMEOUT,
    QUOTA_RESERVED,
    REACTIVATED,
    REQUEUED,
    REQUEUING_LIMIT_EXCEEDED,
    RESOURCE_IN_USE_FINALIZER,
    UNSATISFIED_ADMISSION_CHECKS,
    WAITING,
)
from muster.api.meta import Condition
from muster.api.notes import Note
from muster.queueing.conditions import describe_gates, drop, find_last_change, put, stamp_generation
from muster.queueing.model import PendingReason
from muster.queueing.moments import shift_moment
from muster.queueing.workload import checks
from muster.queueing.workload.eviction import (
    delay_requeue,
    evict,
    full_reason,
    not_before,
    release,
    release_evicted,
    remove_admission,
)
from muster.queueing.workload.obstacles import QueueState, find_drain, find_obstacle
from muster.queueing.workload.readiness import begin_readiness, find_deadline

# Reasons of QuotaReserved=False that are out of date when a workload can be queued.
_STALE: Final = (DEACTIVATED, PENDING, INADMISSIBLE, WAITING)
_PENDING: Final = PendingReason(PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue")
_UNGATED: Final = PendingReason(PENDING_EVALUATION, "AdmissionGatedBy cleared, waiting for quota reservation")


class QueueingContext(Struct, frozen=True):
    """The state of the cluster on which the decision about a workload depends.

    local: the LocalQueue of the workload.
    queue: the ClusterQueue of the LocalQueue, or the ClusterQueue whose quota the workload holds.
    checks: the checks of the ClusterQueue (`checks.of_queue`).
    waiting: the limits for how long the workload's pods may take to be ready (`readiness.settings_for`); None for no
    limit.
    kept: how long to keep the workload after its end, in nanoseconds; None to keep it as long as its job.
    role: the workload's role in ClusterQueues that try several flavors at once (`api.managed.variants`).
    """

    local: QueueState
    queue: QueueState
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    waiting: WaitForPodsReady | None = None
    kept: int | None = None
    role: Literal["", "parent", "variant"] = ""


class LifecyclePlan(Struct, frozen=True):
    """The writes for a workload, in this order.

    status: the status to write if it differs from the stored one.
    deactivate: whether to set spec.active to false.
    finalize: whether to remove Muster's finalizer.
    delete: whether to delete the workload, because the time to keep it is over.
    notes: the events to record after the other writes.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    """

    status: WorkloadStatus
    deactivate: bool = False
    finalize: bool = False
    delete: bool = False
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None

    def wake_no_later_than(self, at: datetime) -> "LifecyclePlan":
        """Return the plan, changed so that the next decision is made at this time at the latest."""
        return replace(self, wake_at=min(at, self.wake_at) if self.wake_at is not None else at)

    def add_event(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> "LifecyclePlan":
        """Return the plan with one more event to record."""
        return replace(self, notes=(*self.notes, Note(type, reason, message)))


def decide(workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Return the writes for the workload now, and when to decide again."""
    plan = _decide(workload, around, now)
    if _is_awaiting_job(workload):
        plan = _release_without_job(plan, workload, around, now)
    before, after = workload.status.conditions, plan.status.conditions
    if after is before:
        return plan
    conditions = stamp_generation(before, after, workload.metadata.generation)
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions))


def _decide(workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Return the plan for a Workload: its end, its deactivation, its requeuing, its wait, or its use of quota."""
    plan, meta = LifecyclePlan(workload.status), workload.metadata
    if not meta.owner_references and (meta.deletion_timestamp is not None or meta.labels.get(JOB_UID_LABEL)):
        plan = replace(plan, finalize=RESOURCE_IN_USE_FINALIZER in meta.finalizers)
        if meta.deletion_timestamp is not None:
            return plan
        if not is_true(plan.status.conditions, FINISHED):
            plan = _set_condition(plan, FINISHED, True, OWNER_NOT_FOUND, "The workload's owner no longer exists", now)
    if is_true(plan.status.conditions, FINISHED):
        return _expire(plan, workload, around.kept, now)
    if workload.spec.active and is_true(plan.status.conditions, DEACTIVATION_TARGET):
        return replace(plan, deactivate=True)
    if (retry_at := checks.retry_at(plan.status.admission_checks)) is not None and retry_at > now:
        plan = replace(plan, status=not_before(plan.status, retry_at))
    plan = _requeue_workload(plan, around, now) if workload.spec.active else _deactivate(plan, now)
    if not is_true(plan.status.conditions, QUOTA_RESERVED):
        return _explain_wait(plan, workload, around, now)
    if not is_true(plan.status.conditions, EVICTED):
        plan = _continue_holding(plan, workload, around, now)
    # When a backoff has ended, admission may reserve quota before its `requeueAt` is removed here.
    return plan if is_true(plan.status.conditions, EVICTED) else _end_backoff(plan, now)


def _is_awaiting_job(workload: Workload) -> bool:
    """Return whether a MultiKueue manager created the workload before its job, which will own the workload."""
    meta = workload.metadata
    return MULTI_KUEUE_ORIGIN_LABEL in meta.labels and not meta.owner_references


def _release_without_job(
    plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime
) -> LifecyclePlan:
    """Return the plan, releasing an evicted workload at once, because without a job there are no pods to stop."""
    conditions = plan.status.conditions
    if not is_true(conditions, EVICTED) or not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, FINISHED):
        return plan
    status = release_evicted(plan.status, now)
    after = _decide(msgspec.structs.replace(workload, status=status), around, now)
    return replace(after, notes=(*plan.notes, *after.notes))


def _expire(plan: LifecyclePlan, workload: Workload, retention: int | None, now: datetime) -> LifecyclePlan:
    if retention is None:
        return plan
    until = shift_moment(
        find_last_change(find_true(plan.status.conditions, FINISHED), now), timedelta(microseconds=retention // 1000)
    )
    if now < until:
        return plan.wake_no_later_than(until)
    plan = replace(plan, finalize=RESOURCE_IN_USE_FINALIZER in workload.metadata.finalizers)
    if workload.metadata.deletion_timestamp is not None:
        return plan
    noted = plan.add_event("Normal", "Deleted", "Deleted finished workload due to elapsed retention")
    return replace(noted, delete=True)


def _set_condition(
    plan: LifecyclePlan, type: str, value: bool, reason: str, message: str, now: datetime
) -> LifecyclePlan:
    conditions = put(plan.status.conditions, type, value, reason, message, now)
    if conditions is plan.status.conditions:
        return plan
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions))


def _evict(plan: LifecyclePlan, reason: str, message: str, now: datetime, cause: str = "") -> LifecyclePlan:
    had_quota = plan.status.admission is not None
    plan = replace(plan, status=evict(plan.status, reason, message, now, cause))
    return plan.add_event("Normal", EVICTED_DUE_TO + full_reason(reason, cause), message) if had_quota else plan


# Before the workload is queued.


def _requeue_workload(plan: LifecyclePlan, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Return the plan with the workload requeued, if the reason for its wait is over.

    Admission may give a workload quota before this, when its stopped queue is released.
    """
    if not is_true(plan.status.conditions, QUOTA_RESERVED):
        plan = _end_backoff(plan, now)
    requeued = find(plan.status.conditions, REQUEUED)
    if requeued is None or requeued.status == "True":
        return plan
    match requeued.reason:
        case reason if reason.startswith(DEACTIVATED):
            if reason == DEACTIVATED_DUE_TO + MAXIMUM_EXECUTION_TIME_EXCEEDED:
                status = msgspec.structs.replace(plan.status, accumulated_past_execution_time_seconds=None)
                plan = replace(plan, status=status)
            return _set_condition(plan, REQUEUED, True, REACTIVATED, "The workload was reactivated", now)
        case reason if reason in (PODS_READY_TIMEOUT, ADMISSION_CHECK_EVICTION) and plan.wake_at is None:
            return _set_condition(plan, REQUEUED, True, BACKOFF_FINISHED, "The workload backoff was finished", now)
        case reason if reason == LOCAL_QUEUE_STOPPED and around.local.stop == "None":
            message = "The LocalQueue was restarted after being stopped"
            return _set_condition(plan, REQUEUED, True, LOCAL_QUEUE_RESTARTED, message, now)
        case reason if reason == CLUSTER_QUEUE_STOPPED and around.queue.stop == "None":
            message = "The ClusterQueue was restarted after being stopped"
            return _set_condition(plan, REQUEUED, True, CLUSTER_QUEUE_RESTARTED, message, now)
    return plan


def _end_backoff(plan: LifecyclePlan, now: datetime) -> LifecyclePlan:
    """Return the plan without a `requeueAt` that has passed; for a later one, with the next decision by that time."""
    state = plan.status.requeue_state
    if state is None or state.requeue_at is None:
        return plan
    if now < state.requeue_at:
        return plan.wake_no_later_than(state.requeue_at)
    state = msgspec.structs.replace(state, requeue_at=None)
    return replace(plan, status=msgspec.structs.replace(plan.status, requeue_state=state))


def _deactivate(plan: LifecyclePlan, now: datetime) -> LifecyclePlan:
    """Return the plan that evicts an inactive workload, clears its backoff, and removes its DeactivationTarget."""
    target = find(plan.status.conditions, DEACTIVATION_TARGET)
    if not is_true(plan.status.conditions, EVICTED):
        cause, message = "", DEACTIVATED_MESSAGE
        if target is not None:
            cause, message = target.reason, f"{message} due to {target.message}"
        plan = _evict(plan, DEACTIVATED, message, now, cause)
    if target is None and plan.status.requeue_state is None:
        return plan
    conditions = drop(plan.status.conditions, DEACTIVATION_TARGET)
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions, requeue_state=None))


def _explain_wait(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Set the condition that says why the workload is not in the queue.

    Admission sets the reason for a wait in the queue.
    A new workload often gets quota, and passes its checks, immediately, so no reason is written before that.
    """
    condition = find(plan.status.conditions, QUOTA_RESERVED)
    saying = _find_pending_reason(workload, condition)
    if around.role == "parent" and saying in (_PENDING, _UNGATED):
        saying = None  # the controller of variants sets their reason
    if (condition is not None or saying is not None) and around.role != "parent":
        plan = _sync_checks(plan, around, now)
    if saying is None:
        was_admitted = is_true(plan.status.conditions, ADMITTED)
        return replace(plan, status=remove_admission(plan.status, now)) if was_admitted else plan
    plan = replace(plan, status=release(plan.status, saying.message, now, saying.reason))
    if saying.reason == ADMISSION_GATED and (condition is None or condition.reason != ADMISSION_GATED):
        return _note_gates(plan, workload)
    if saying == _UNGATED:
        return plan.add_event("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return plan


def _find_pending_reason(workload: Workload, condition: Condition | None) -> PendingReason | None:
    """Return the reason for QuotaReserved=False; None to leave the condition unchanged."""
    if not workload.spec.active:
        return PendingReason(DEACTIVATED, DEACTIVATED_MESSAGE)
    if condition is not None and condition.reason == ON_HOLD:
        return PendingReason(condition.reason, condition.message)
    if (gates := _find_gates(workload)) is not None:
        return gates
    if condition is None:
        return None
    if condition.reason == ADMISSION_GATED:
        return None if is_true(workload.status.conditions, BLOCKED_ON_PREEMPTION_GATES) else _UNGATED
    return _PENDING if condition.reason in _STALE else None


def _find_gates(workload: Workload) -> PendingReason | None:
    """Return the reason why a workload with admission gates is not queued (Kueue KEP-6915); None without gates."""
    names = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    return PendingReason(ADMISSION_GATED, describe_gates(names)) if names else None


def _note_gates(plan: LifecyclePlan, workload: Workload) -> LifecyclePlan:
    names = workload.metadata.annotations[ADMISSION_GATED_BY]
    return plan.add_event("Normal", ADMISSION_GATED, f"Workload admission is gated by: {names}")


def _sync_checks(plan: LifecyclePlan, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Set the checks in the status to the checks that apply to the workload; new ones are Pending."""
    if around.queue.stop is None:
        return plan
    states = plan.status.admission_checks
    synced = checks.match_required_checks(
        states, checks.list_required_checks(around.checks, _list_flavors(plan.status.admission)), now
    )
    if synced is states:
        return plan
    return replace(plan, status=msgspec.structs.replace(plan.status, admission_checks=synced))


def _list_flavors(admission: Admission | None) -> set[str]:
    podsets = admission.pod_set_assignments if admission is not None else ()
    return {flavor for podset in podsets for flavor in podset.flavors.values()}


# While the workload holds quota.


def _continue_holding(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Add to the plan of a Workload with quota: the effects of its checks, its admission, and its time limits."""
    if around.role == "parent":  # a parent has the checks of its admitted variant
        return _continue_running(plan, workload, around, now)
    plan = _sync_checks(plan, around, now)
    states = plan.status.admission_checks
    rejection, retry = checks.find_rejection(states), checks.retry(states)
    if not is_true(plan.status.conditions, ADMITTED):
        loss = _find_gates(workload) or find_obstacle(around.local, around.queue)
        if rejection is None and retry is None and loss is not None:
            return _release_reservation(plan, workload, loss, now)
        plan = _admit(plan, around, now)
    if rejection is not None:
        plan = _set_condition(plan, DEACTIVATION_TARGET, True, ADMISSION_CHECK_EVICTION, rejection, now)
        return plan.add_event("Warning", "AdmissionCheckRejected", f"Deactivated due to {rejection}")
    if retry is not None:
        return _evict(plan, ADMISSION_CHECK_EVICTION, retry, now)
    if is_true(plan.status.conditions, ADMITTED):
        return _continue_running(plan, workload, around, now)
    return plan


def _release_reservation(plan: LifecyclePlan, workload: Workload, loss: PendingReason, now: datetime) -> LifecyclePlan:
    plan = replace(plan, status=release(plan.status, loss.message, now, loss.reason))
    return _note_gates(plan, workload) if loss.reason == ADMISSION_GATED else plan


def _admit(plan: LifecyclePlan, around: QueueingContext, now: datetime) -> LifecyclePlan:
    status = plan.status
    if not checks.all_ready(status.admission_checks):
        message = "The workload has not all checks ready"
        return _set_condition(plan, ADMITTED, False, UNSATISFIED_ADMISSION_CHECKS, message, now)
    podsets = status.admission.pod_set_assignments if status.admission is not None else ()
    if any(podset.delayed_topology_request == "Pending" for podset in podsets):
        message = "There are pending delayed topology requests"
        return _set_condition(plan, ADMITTED, False, PENDING_DELAYED_TOPOLOGY_REQUESTS, message, now)
    waited = (now - find_last_change(find(status.conditions, QUOTA_RESERVED), now)).total_seconds()
    queue = status.admission.cluster_queue if status.admission is not None else ""
    message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited:.0f}s"
    plan = _set_condition(plan, ADMITTED, True, ADMITTED, "The workload is admitted", now)
    if around.waiting is not None:
        conditions = begin_readiness(plan.status.conditions, now)
        plan = replace(plan, status=replace(plan.status, conditions=conditions))
    return plan.add_event("Normal", ADMITTED, message)


# While the workload runs.


def _continue_running(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    if (drain := find_drain(around.local, around.queue)) is not None:
        return _evict(plan, drain.reason, drain.message, now)
    if around.role == "variant":  # the job belongs to the parent
        return plan
    late = _enforce_readiness(plan, workload, around.waiting, now) if around.waiting is not None else plan
    return _enforce_time_limit(late, workload, now) if late.status is plan.status else late


def _enforce_readiness(
    plan: LifecyclePlan, workload: Workload, waiting: WaitForPodsReady, now: datetime
) -> LifecyclePlan:
    """Evict a workload whose pods took too long to be ready (Kueue KEP-349).

    Deactivate the workload instead if it has used up its retries.
    """
    limit = find_deadline(plan.status.conditions, workload.metadata.annotations, waiting)
    if limit is None:
        return plan
    at, cause = limit
    if now < at:
        return plan.wake_no_later_than(at)
    status = delay_requeue(plan.status, waiting, now)
    if status is None:
        why = "exceeding the maximum number of re-queuing retries"
        return _set_condition(plan, DEACTIVATION_TARGET, True, REQUEUING_LIMIT_EXCEEDED, why, now)
    meta = workload.metadata
    message = f"Exceeded the PodsReady timeout {meta.namespace}/{meta.name}"
    return _evict(replace(plan, status=status), PODS_READY_TIMEOUT, message, now, cause)


def _enforce_time_limit(plan: LifecyclePlan, workload: Workload, now: datetime) -> LifecyclePlan:
    """Return the plan that deactivates a workload that has run for its maximum time (Kueue KEP-3125).

    Before that, the plan wakes at that time.
    """
    most = workload.spec.maximum_execution_time_seconds
    admitted = find_true(plan.status.conditions, ADMITTED)
    if most is None or admitted is None:
        return plan
    seconds_left = most - (plan.status.accumulated_past_execution_time_seconds or 0)
    end = shift_moment(find_last_change(admitted, now), timedelta(seconds=seconds_left))
    if now < end:
        return plan.wake_no_later_than(end)
    why = "exceeding the maximum execution time"
    plan = _set_condition(plan, DEACTIVATION_TARGET, True, MAXIMUM_EXECUTION_TIME_EXCEEDED, why, now)
    return plan.add_event("Warning", MAXIMUM_EXECUTION_TIME_EXCEEDED, f"The maximum execution time ({most}s) exceeded")
