"""What becomes of a Workload as time and its surroundings change: everything but admission itself.

One look takes a workload as far as it can go, by the rules below in their order (upstream does one a look); what it
says is written at once. The order is that of Kueue's workload controller.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from muster.api.config import Configuration, WaitForPodsReady
from muster.api.kueue import Workload, WorkloadStatus
from muster.api.kueue.names import (
    ADMISSION_CHECK_EVICTION,
    ADMISSION_GATED,
    ADMISSION_GATED_BY,
    ADMITTED,
    BACKOFF_FINISHED,
    CLUSTER_QUEUE_RESTARTED,
    CLUSTER_QUEUE_STOPPED,
    DEACTIVATED,
    DEACTIVATED_DUE_TO,
    DEACTIVATION_TARGET,
    EVICTED,
    EVICTED_DUE_TO,
    FINISHED,
    LOCAL_QUEUE_RESTARTED,
    LOCAL_QUEUE_STOPPED,
    MAXIMUM_EXECUTION_TIME_EXCEEDED,
    PODS_READY_TIMEOUT,
    QUOTA_RESERVED,
    REACTIVATED,
    REQUEUED,
    REQUEUING_LIMIT_EXCEEDED,
    SUSPENDED,
    UNSATISFIED_ADMISSION_CHECKS,
)
from muster.queueing import checks
from muster.queueing.conditions import drop, find, find_true, is_true, put, since
from muster.queueing.eviction import backed_off, evict, release
from muster.queueing.model import QueueSpec, StopPolicy
from muster.queueing.ready import deadline


@dataclass(frozen=True, slots=True)
class Note:
    """An event about the workload, for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the decision looks at beside the workload.

    local_stop: of the LocalQueue; None if there is none.
    queue: the ClusterQueue; None if there is none.
    waiting: how long its pods may take to be ready (`ready.settings_for`); None: nobody looks.
    """

    local_stop: StopPolicy | None
    queue: QueueSpec | None
    settings: Configuration
    waiting: WaitForPodsReady | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write about a workload.

    status: to be stored if it is another one than before.
    deactivate: set spec.active to false.
    delete: it has been kept for long enough.
    notes: events, once the rest is stored.
    wake_at: when to look again even if nothing changes.
    """

    status: WorkloadStatus
    deactivate: bool = False
    delete: bool = False
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None

    def woken(self, at: datetime) -> "Plan":
        """The plan with another look at that time at the latest."""
        return replace(self, wake_at=min(at, self.wake_at) if self.wake_at is not None else at)


def decide(workload: Workload, around: Surroundings, now: datetime) -> Plan:
    """Everything that is to be done about the workload now."""
    plan = Plan(workload.status)
    if (finished := find_true(plan.status.conditions, FINISHED)) is not None:
        kept = around.settings.object_retention_policies.workloads.after_finished
        return _kept(plan, since(finished, now), kept, now)
    if workload.spec.active and is_true(plan.status.conditions, DEACTIVATION_TARGET):
        return replace(plan, deactivate=True)
    plan = _requeued(plan, around, now) if workload.spec.active else _deactivated(plan, around, now)
    plan = _gated(plan, workload, now)
    plan = _checked(plan, around, now)
    if is_true(plan.status.conditions, QUOTA_RESERVED) and not is_true(plan.status.conditions, EVICTED):
        plan = _holding(plan, workload, around, now)
    return plan


def _kept(plan: Plan, end: datetime, kept: int | None, now: datetime) -> Plan:
    if kept is None:
        return plan
    until = end + timedelta(microseconds=kept // 1000)
    return replace(plan, delete=True) if now >= until else plan.woken(until)


def _set(plan: Plan, type: str, value: bool, reason: str, message: str, now: datetime) -> Plan:
    conditions = put(plan.status.conditions, type, value, reason, message, now)
    if conditions is plan.status.conditions:
        return plan
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions))


def _evicted(plan: Plan, reason: str, message: str, now: datetime, cause: str = "") -> Plan:
    note = Note("Normal", EVICTED_DUE_TO + reason, message)
    return replace(plan, status=evict(plan.status, reason, message, now, cause), notes=(*plan.notes, note))


# Before it is in the queue.


def _requeued(plan: Plan, around: Surroundings, now: datetime) -> Plan:
    """What made the workload wait is over."""
    requeued = find(plan.status.conditions, REQUEUED)
    if requeued is None or requeued.status == "True":
        return plan
    match requeued.reason:
        case reason if reason == DEACTIVATED or reason.startswith(DEACTIVATED_DUE_TO):
            return _set(plan, REQUEUED, True, REACTIVATED, "The workload was reactivated", now)
        case reason if reason in (PODS_READY_TIMEOUT, ADMISSION_CHECK_EVICTION):
            return _backoff_finished(plan, now)
        case reason if reason == LOCAL_QUEUE_STOPPED and around.local_stop == "None":
            message = "The LocalQueue was restarted after being stopped"
            return _set(plan, REQUEUED, True, LOCAL_QUEUE_RESTARTED, message, now)
        case reason if reason == CLUSTER_QUEUE_STOPPED and around.queue is not None and around.queue.stop == "None":
            message = "The ClusterQueue was restarted after being stopped"
            return _set(plan, REQUEUED, True, CLUSTER_QUEUE_RESTARTED, message, now)
    return plan


def _backoff_finished(plan: Plan, now: datetime) -> Plan:
    state = plan.status.requeue_state
    if state is not None and state.requeue_at is not None:
        if now < state.requeue_at:
            return plan.woken(state.requeue_at)
        state = msgspec.structs.replace(state, requeue_at=None)
        plan = replace(plan, status=msgspec.structs.replace(plan.status, requeue_state=state))
    return _set(plan, REQUEUED, True, BACKOFF_FINISHED, "The workload backoff was finished", now)


def _deactivated(plan: Plan, around: Surroundings, now: datetime) -> Plan:
    """A workload that is not active holds nothing, and begins anew should it be activated."""
    target = find(plan.status.conditions, DEACTIVATION_TARGET)
    if not is_true(plan.status.conditions, EVICTED):
        reason, message, cause = DEACTIVATED, "The workload is deactivated", ""
        if target is not None:
            reason, cause = DEACTIVATED_DUE_TO + target.reason, target.reason
            message = f"{message} due to {target.message}"
        plan = _evicted(plan, reason, message, now, cause)
    status = plan.status
    if target is not None or status.requeue_state is not None:
        conditions = drop(status.conditions, DEACTIVATION_TARGET)
        status = msgspec.structs.replace(status, conditions=conditions, requeue_state=None)
        plan = replace(plan, status=status)
    evicted = find_true(status.conditions, EVICTED)
    by_us = evicted is not None and evicted.reason.startswith(DEACTIVATED_DUE_TO)
    kept = around.settings.object_retention_policies.workloads.after_deactivated_by_kueue
    return _kept(plan, since(evicted, now), kept, now) if by_us and status.admission is None else plan


def _gated(plan: Plan, workload: Workload, now: datetime) -> Plan:
    """KEP-6915: as long as the annotation names gates, the workload is not queued."""
    gates = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    if gates and not is_true(plan.status.conditions, QUOTA_RESERVED):
        return _set(plan, QUOTA_RESERVED, False, ADMISSION_GATED, f"Admission is gated by: {gates}", now)
    return plan


# Between the reservation and admission.


def _checked(plan: Plan, around: Surroundings, now: datetime) -> Plan:
    """The list of checks, and Admitted once all are ready."""
    status, reserved = plan.status, is_true(plan.status.conditions, QUOTA_RESERVED)
    if around.queue is not None and (reserved or around.queue.checks or status.admission_checks):
        states = checks.synced(status.admission_checks, checks.wanted(around.queue.checks, _flavors(status)), now)
        if states is not status.admission_checks:
            status = msgspec.structs.replace(status, admission_checks=states)
            plan = replace(plan, status=status)
    if not reserved or is_true(status.conditions, EVICTED):
        return plan
    if checks.all_ready(status.admission_checks) and not _delayed(status):
        admitted = _set(plan, ADMITTED, True, ADMITTED, "The workload is admitted", now)
        return replace(admitted, notes=(*plan.notes, _admitted_note(status, now))) if admitted is not plan else plan
    message = "The workload has not all checks ready"
    return _set(plan, ADMITTED, False, UNSATISFIED_ADMISSION_CHECKS, message, now)


def _flavors(status: WorkloadStatus) -> set[str] | None:
    if status.admission is None:
        return None
    return {flavor for podset in status.admission.pod_set_assignments for flavor in podset.flavors.values()}


def _delayed(status: WorkloadStatus) -> bool:
    podsets = status.admission.pod_set_assignments if status.admission is not None else ()
    return any(podset.delayed_topology_request == "Pending" for podset in podsets)


def _admitted_note(status: WorkloadStatus, now: datetime) -> Note:
    assert status.admission is not None, "quota is reserved"
    waited = int((now - since(find(status.conditions, QUOTA_RESERVED), now)).total_seconds())
    message = f"Admitted by ClusterQueue {status.admission.cluster_queue}, wait time since reservation was {waited}s"
    return Note("Normal", ADMITTED, message)


# While it holds quota.


def _holding(plan: Plan, workload: Workload, around: Surroundings, now: datetime) -> Plan:
    status = plan.status
    if (why := checks.rejection(status.admission_checks)) is not None:
        return _condemned(plan, ADMISSION_CHECK_EVICTION, why, "AdmissionCheckRejected", now)
    if (why := checks.retry(status.admission_checks)) is not None:
        counted = replace(plan, status=checks.retried(status))
        return _evicted(counted, ADMISSION_CHECK_EVICTION, why, now)
    stopped = _stopped(plan, around, now)
    if stopped is not plan:
        return stopped
    late = _late(plan, workload, around.waiting, now)
    if late.status is not status:
        return late
    return _exhausted(late, workload, now)


def _condemned(plan: Plan, reason: str, why: str, event: str, now: datetime) -> Plan:
    """To be deactivated: the next look does it."""
    plan = _set(plan, DEACTIVATION_TARGET, True, reason, why, now)
    return replace(plan, notes=(*plan.notes, Note("Warning", event, f"Deactivated due to {why}")))


def _stopped(plan: Plan, around: Surroundings, now: datetime) -> Plan:
    """KEP-1284. Hold: what is not admitted yet gives back; HoldAndDrain: everything does."""
    admitted = is_true(plan.status.conditions, ADMITTED)
    queue = around.queue.stop if around.queue is not None else "None"
    for stop, what, reason in (
        (around.local_stop or "None", "LocalQueue", LOCAL_QUEUE_STOPPED),
        (queue, "ClusterQueue", CLUSTER_QUEUE_STOPPED),
    ):
        if stop == "HoldAndDrain":
            return _evicted(plan, reason, f"The {what} is stopped", now)
        if stop == "Hold" and not admitted:
            return replace(plan, status=release(plan.status, f"The {what} is stopped", now, reason=SUSPENDED))
    return plan


def _late(plan: Plan, workload: Workload, waiting: WaitForPodsReady | None, now: datetime) -> Plan:
    """KEP-349: its pods took too long to be ready."""
    limit = deadline(plan.status.conditions, workload.metadata.annotations, waiting) if waiting is not None else None
    if limit is None or waiting is None:
        return plan
    at, cause = limit
    if now < at:
        return plan.woken(at)
    status = backed_off(plan.status, waiting, now)
    if status is None:
        why = "exceeding the maximum number of re-queuing retries"
        return _set(plan, DEACTIVATION_TARGET, True, REQUEUING_LIMIT_EXCEEDED, why, now)
    meta = workload.metadata
    message = f"Exceeded the PodsReady timeout {meta.namespace}/{meta.name}"
    return _evicted(replace(plan, status=status), PODS_READY_TIMEOUT, message, now, cause)


def _exhausted(plan: Plan, workload: Workload, now: datetime) -> Plan:
    """KEP-3125: it has been running for as long as it may."""
    most = workload.spec.maximum_execution_time_seconds
    admitted = find_true(plan.status.conditions, ADMITTED)
    if most is None or admitted is None:
        return plan
    left = timedelta(seconds=most - (plan.status.accumulated_past_execution_time_seconds or 0))
    end = since(admitted, now) + left
    if now < end:
        return plan.woken(end)
    why = "exceeding the maximum execution time"
    return _condemned(plan, MAXIMUM_EXECUTION_TIME_EXCEEDED, why, MAXIMUM_EXECUTION_TIME_EXCEEDED, now)
