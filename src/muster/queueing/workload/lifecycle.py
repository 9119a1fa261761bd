"""What becomes of a Workload as time goes on: evictions, checks, timeouts, its end; everything but admission itself.

One look takes a workload as far as one write of its status can; deciding again on what was written changes nothing.
The rules and their order are those of Kueue's workload controller (which applies one a look), but for this:

- an admission check that wants another try evicts at once, it does not hold quota until it may be tried;
- a workload with a queue that is stopped or gone is not admitted just because its checks got ready;
- a check that is added to a queue, or fails, after admission does not make the workload less admitted;
- the time a workload may run begins anew when it is activated after having used it up.
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
from muster.queueing.conditions import drop, put, since, stamped
from muster.queueing.moments import later
from muster.queueing.workload import checks
from muster.queueing.workload.eviction import (
    backed_off,
    evict,
    full_reason,
    not_before,
    release,
    released_after_eviction,
    unadmitted,
)
from muster.queueing.workload.obstacles import QueueState, Saying, obstacle
from muster.queueing.workload.readiness import deadline

# Reasons of QuotaReserved=False that say nothing any more once a workload can be queued.
_STALE: Final = (DEACTIVATED, PENDING, INADMISSIBLE, WAITING)
_PENDING: Final = Saying(PENDING_EVALUATION, "Workload is pending evaluation in the scheduling queue")
_UNGATED: Final = Saying(PENDING_EVALUATION, "AdmissionGatedBy cleared, waiting for quota reservation")


class QueueingContext(Struct, frozen=True):
    """What the decision looks at beside the workload.

    local: its LocalQueue. queue: the ClusterQueue behind that, or the one whose quota it holds.
    checks: of the ClusterQueue (`checks.of_queue`).
    waiting: how long its pods may take to be ready (`readiness.settings_for`); None: that is not looked at.
    kept: how long it is kept after its end, in ns; None: as long as its job.
    """

    local: QueueState
    queue: QueueState
    checks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    waiting: WaitForPodsReady | None = None
    kept: int | None = None


class LifecyclePlan(Struct, frozen=True):
    """What to write about a workload, in this order.

    status: to be stored if it is another one than before.
    deactivate: set spec.active to false.
    finalize: take our finalizer away.
    delete: it has been kept for long enough.
    notes: events, once the rest is stored.
    wake_at: when to look again even if nothing changes.
    """

    status: WorkloadStatus
    deactivate: bool = False
    finalize: bool = False
    delete: bool = False
    notes: tuple[Note, ...] = ()
    wake_at: datetime | None = None

    def woken(self, at: datetime) -> "LifecyclePlan":
        """The plan with another look at that time at the latest."""
        return replace(self, wake_at=min(at, self.wake_at) if self.wake_at is not None else at)

    def noted(self, type: Literal["Normal", "Warning"], reason: str, message: str) -> "LifecyclePlan":
        """The plan with one more event."""
        return replace(self, notes=(*self.notes, Note(type, reason, message)))


def decide(workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Everything that is to be done about the workload now."""
    plan = _decided(workload, around, now)
    if _awaits_its_job(workload):
        plan = _without_job(plan, workload, around, now)
    before, after = workload.status.conditions, plan.status.conditions
    if after is before:
        return plan
    conditions = stamped(before, after, workload.metadata.generation)
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions))


def _decided(workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    plan, meta = LifecyclePlan(workload.status), workload.metadata
    if not meta.owner_references and (meta.deletion_timestamp is not None or meta.labels.get(JOB_UID_LABEL)):
        plan = replace(plan, finalize=RESOURCE_IN_USE_FINALIZER in meta.finalizers)
        if meta.deletion_timestamp is not None:
            return plan
        if not is_true(plan.status.conditions, FINISHED):
            plan = _set(plan, FINISHED, True, OWNER_NOT_FOUND, "The workload's owner no longer exists", now)
    if is_true(plan.status.conditions, FINISHED):
        return _ended(plan, workload, around.kept, now)
    if workload.spec.active and is_true(plan.status.conditions, DEACTIVATION_TARGET):
        return replace(plan, deactivate=True)
    if (again := checks.retry_at(plan.status.admission_checks)) is not None and again > now:
        plan = replace(plan, status=not_before(plan.status, again))
    plan = _requeued(plan, around, now) if workload.spec.active else _deactivated(plan, now)
    if not is_true(plan.status.conditions, QUOTA_RESERVED):
        return _waiting(plan, workload, around, now)
    if not is_true(plan.status.conditions, EVICTED):
        return _holding(plan, workload, around, now)
    return plan


def _awaits_its_job(workload: Workload) -> bool:
    """Whether a MultiKueue manager has sent it ahead of its job, which owns it before it starts."""
    meta = workload.metadata
    return MULTI_KUEUE_ORIGIN_LABEL in meta.labels and not meta.owner_references


def _without_job(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """One that is evicted gives its quota back at once: nothing of it has to stop first."""
    conditions = plan.status.conditions
    if not is_true(conditions, EVICTED) or not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, FINISHED):
        return plan
    status = released_after_eviction(plan.status, now)
    after = _decided(msgspec.structs.replace(workload, status=status), around, now)
    return replace(after, notes=(*plan.notes, *after.notes))


def _ended(plan: LifecyclePlan, workload: Workload, kept: int | None, now: datetime) -> LifecyclePlan:
    if kept is None:
        return plan
    until = later(since(find_true(plan.status.conditions, FINISHED), now), timedelta(microseconds=kept // 1000))
    if now < until:
        return plan.woken(until)
    plan = replace(plan, finalize=RESOURCE_IN_USE_FINALIZER in workload.metadata.finalizers)
    if workload.metadata.deletion_timestamp is not None:
        return plan
    gone = plan.noted("Normal", "Deleted", "Deleted finished workload due to elapsed retention")
    return replace(gone, delete=True)


def _set(plan: LifecyclePlan, type: str, value: bool, reason: str, message: str, now: datetime) -> LifecyclePlan:
    conditions = put(plan.status.conditions, type, value, reason, message, now)
    if conditions is plan.status.conditions:
        return plan
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions))


def _evicted(plan: LifecyclePlan, reason: str, message: str, now: datetime, cause: str = "") -> LifecyclePlan:
    held = plan.status.admission is not None
    plan = replace(plan, status=evict(plan.status, reason, message, now, cause))
    return plan.noted("Normal", EVICTED_DUE_TO + full_reason(reason, cause), message) if held else plan


# Before it is in the queue.


def _requeued(plan: LifecyclePlan, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """What made the workload wait is over."""
    if is_true(plan.status.conditions, QUOTA_RESERVED):
        return plan
    plan = _backoff(plan, now)
    requeued = find(plan.status.conditions, REQUEUED)
    if requeued is None or requeued.status == "True":
        return plan
    match requeued.reason:
        case reason if reason.startswith(DEACTIVATED):
            if reason == DEACTIVATED_DUE_TO + MAXIMUM_EXECUTION_TIME_EXCEEDED:
                status = msgspec.structs.replace(plan.status, accumulated_past_execution_time_seconds=None)
                plan = replace(plan, status=status)
            return _set(plan, REQUEUED, True, REACTIVATED, "The workload was reactivated", now)
        case reason if reason in (PODS_READY_TIMEOUT, ADMISSION_CHECK_EVICTION) and plan.wake_at is None:
            return _set(plan, REQUEUED, True, BACKOFF_FINISHED, "The workload backoff was finished", now)
        case reason if reason == LOCAL_QUEUE_STOPPED and around.local.stop == "None":
            message = "The LocalQueue was restarted after being stopped"
            return _set(plan, REQUEUED, True, LOCAL_QUEUE_RESTARTED, message, now)
        case reason if reason == CLUSTER_QUEUE_STOPPED and around.queue.stop == "None":
            message = "The ClusterQueue was restarted after being stopped"
            return _set(plan, REQUEUED, True, CLUSTER_QUEUE_RESTARTED, message, now)
    return plan


def _backoff(plan: LifecyclePlan, now: datetime) -> LifecyclePlan:
    """As long as there is a `requeueAt` it is not over."""
    state = plan.status.requeue_state
    if state is None or state.requeue_at is None:
        return plan
    if now < state.requeue_at:
        return plan.woken(state.requeue_at)
    state = msgspec.structs.replace(state, requeue_at=None)
    return replace(plan, status=msgspec.structs.replace(plan.status, requeue_state=state))


def _deactivated(plan: LifecyclePlan, now: datetime) -> LifecyclePlan:
    """A workload that is not active holds nothing, and begins anew should it be activated."""
    target = find(plan.status.conditions, DEACTIVATION_TARGET)
    if not is_true(plan.status.conditions, EVICTED):
        cause, message = "", DEACTIVATED_MESSAGE
        if target is not None:
            cause, message = target.reason, f"{message} due to {target.message}"
        plan = _evicted(plan, DEACTIVATED, message, now, cause)
    if target is None and plan.status.requeue_state is None:
        return plan
    conditions = drop(plan.status.conditions, DEACTIVATION_TARGET)
    return replace(plan, status=msgspec.structs.replace(plan.status, conditions=conditions, requeue_state=None))


def _waiting(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """Why it is not in the queue. Why it waits there is for admission to say.

    What is new there most often gets quota at once, and its checks with that: of those nothing is said before.
    """
    said = find(plan.status.conditions, QUOTA_RESERVED)
    saying = _saying(workload, said)
    if said is not None or saying is not None:
        plan = _listed(plan, around, now)
    if saying is None:
        lost = is_true(plan.status.conditions, ADMITTED)
        return replace(plan, status=unadmitted(plan.status, now)) if lost else plan
    plan = replace(plan, status=release(plan.status, saying.message, now, saying.reason))
    if saying.reason == ADMISSION_GATED and (said is None or said.reason != ADMISSION_GATED):
        return _gated(plan, workload)
    if saying == _UNGATED:
        return plan.noted("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return plan


def _saying(workload: Workload, said: Condition | None) -> Saying | None:
    """What QuotaReserved=False is to say; None leaves it as it is."""
    if not workload.spec.active:
        return Saying(DEACTIVATED, DEACTIVATED_MESSAGE)
    if said is not None and said.reason == ON_HOLD:
        return Saying(said.reason, said.message)
    if (gates := _gates(workload)) is not None:
        return gates
    if said is None:
        return None
    if said.reason == ADMISSION_GATED:
        return _UNGATED
    return _PENDING if said.reason in _STALE else None


def _gates(workload: Workload) -> Saying | None:
    """KEP-6915: as long as the annotation names gates, the workload is not queued."""
    names = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    return Saying(ADMISSION_GATED, f"Admission is gated by: {names}") if names else None


def _gated(plan: LifecyclePlan, workload: Workload) -> LifecyclePlan:
    names = workload.metadata.annotations[ADMISSION_GATED_BY]
    return plan.noted("Normal", ADMISSION_GATED, f"Workload admission is gated by: {names}")


def _listed(plan: LifecyclePlan, around: QueueingContext, now: datetime) -> LifecyclePlan:
    """With the checks that concern it."""
    if around.queue.stop is None:
        return plan
    states = plan.status.admission_checks
    listed = checks.synced(states, checks.wanted(around.checks, _flavors(plan.status.admission)), now)
    if listed is states:
        return plan
    return replace(plan, status=msgspec.structs.replace(plan.status, admission_checks=listed))


def _flavors(admission: Admission | None) -> set[str]:
    podsets = admission.pod_set_assignments if admission is not None else ()
    return {flavor for podset in podsets for flavor in podset.flavors.values()}


# While it holds quota.


def _holding(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    plan = _listed(plan, around, now)
    states = plan.status.admission_checks
    rejection, retry = checks.rejection(states), checks.retry(states)
    if not is_true(plan.status.conditions, ADMITTED):
        loss = _gates(workload) or obstacle(around.local, around.queue)
        if rejection is None and retry is None and loss is not None:
            return _dispossessed(plan, workload, loss, now)
        plan = _admitted(plan, now)
    if rejection is not None:
        plan = _set(plan, DEACTIVATION_TARGET, True, ADMISSION_CHECK_EVICTION, rejection, now)
        return plan.noted("Warning", "AdmissionCheckRejected", f"Deactivated due to {rejection}")
    if retry is not None:
        return _evicted(plan, ADMISSION_CHECK_EVICTION, retry, now)
    if is_true(plan.status.conditions, ADMITTED):
        return _running(plan, workload, around, now)
    return plan


def _dispossessed(plan: LifecyclePlan, workload: Workload, loss: Saying, now: datetime) -> LifecyclePlan:
    plan = replace(plan, status=release(plan.status, loss.message, now, loss.reason))
    return _gated(plan, workload) if loss.reason == ADMISSION_GATED else plan


def _admitted(plan: LifecyclePlan, now: datetime) -> LifecyclePlan:
    status = plan.status
    if not checks.all_ready(status.admission_checks):
        message = "The workload has not all checks ready"
        return _set(plan, ADMITTED, False, UNSATISFIED_ADMISSION_CHECKS, message, now)
    podsets = status.admission.pod_set_assignments if status.admission is not None else ()
    if any(podset.delayed_topology_request == "Pending" for podset in podsets):
        message = "There are pending delayed topology requests"
        return _set(plan, ADMITTED, False, PENDING_DELAYED_TOPOLOGY_REQUESTS, message, now)
    waited = (now - since(find(status.conditions, QUOTA_RESERVED), now)).total_seconds()
    queue = status.admission.cluster_queue if status.admission is not None else ""
    message = f"Admitted by ClusterQueue {queue}, wait time since reservation was {waited:.0f}s"
    return _set(plan, ADMITTED, True, ADMITTED, "The workload is admitted", now).noted("Normal", ADMITTED, message)


# While it runs.


def _running(plan: LifecyclePlan, workload: Workload, around: QueueingContext, now: datetime) -> LifecyclePlan:
    if around.local.stop == "HoldAndDrain":
        return _evicted(plan, LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped", now)
    if around.queue.stop == "HoldAndDrain":
        return _evicted(plan, CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped", now)
    late = _late(plan, workload, around.waiting, now) if around.waiting is not None else plan
    return _exhausted(late, workload, now) if late.status is plan.status else late


def _late(plan: LifecyclePlan, workload: Workload, waiting: WaitForPodsReady, now: datetime) -> LifecyclePlan:
    """KEP-349: its pods took too long to be ready."""
    limit = deadline(plan.status.conditions, workload.metadata.annotations, waiting)
    if limit is None:
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


def _exhausted(plan: LifecyclePlan, workload: Workload, now: datetime) -> LifecyclePlan:
    """KEP-3125: it has been running for as long as it may."""
    most = workload.spec.maximum_execution_time_seconds
    admitted = find_true(plan.status.conditions, ADMITTED)
    if most is None or admitted is None:
        return plan
    left = most - (plan.status.accumulated_past_execution_time_seconds or 0)
    end = later(since(admitted, now), timedelta(seconds=left))
    if now < end:
        return plan.woken(end)
    why = "exceeding the maximum execution time"
    plan = _set(plan, DEACTIVATION_TARGET, True, MAXIMUM_EXECUTION_TIME_EXCEEDED, why, now)
    return plan.noted("Warning", MAXIMUM_EXECUTION_TIME_EXCEEDED, f"The maximum execution time ({most}s) exceeded")
