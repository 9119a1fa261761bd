"""Decide the next steps for a job and its Workload (Kueue's job framework).

The Workload queues, and the job runs only while its Workload is admitted. The order of the rules is upstream's, with
two differences:

- Reporting ready or reclaimable pods never delays releasing quota.
- A Workload that holds quota is deleted only after all pods of the job have ended.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from muster.api.conditions import find_true, is_true
from muster.api.kueue import (
    WORKLOAD_PRIORITY_CLASS,
    PodSet,
    ReclaimablePod,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from muster.api.kueue.names import (
    ADMISSION_GATED_BY,
    ADMITTED,
    DEACTIVATED_DUE_TO,
    EVICTED,
    FAILED,
    FINISHED,
    OUT_OF_SYNC,
    PODS_READY,
    QUOTA_RESERVED,
    SUCCEEDED,
    WORKLOAD_SLICE_REPLACED,
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from muster.api.managed.dispatch import REFUSED_ANNOTATION, home_of
from muster.api.meta import Condition
from muster.queueing.conditions import find_last_change, put
from muster.queueing.elastic.growth import count_granted_pods, limit_granted_pods
from muster.queueing.jobframework.equivalence import are_equivalent
from muster.queueing.jobframework.matching import are_placed_alike, find_shrunk, fits, has_injected, match, needs_quota
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.queueing.jobframework.slices import REPLACED_MESSAGE, is_growing, sort_slices, waits_to_replace
from muster.queueing.workload.eviction import release_evicted
from muster.queueing.workload.readiness import with_readiness

NOT_ADMITTED = "Not admitted by cluster queue"
NOT_STARTED = "The job was resumed before it was admitted; it restarts on the nodes it was admitted to"
WORKLOAD_FINISHED = "Workload is finished"
WORKLOAD_DELETED = "Workload is deleted"
MISSING_WORKLOAD = "missing workload"
CANNOT_RESTORE = "Missing Workload; unable to restore pod templates"
NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"
RUNS_AGAIN = "Pods run again that had succeeded and given back their quota; the whole job queues again"
OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"


def _watch_all(_: Workload) -> bool:
    return True


class PairingRules(Struct, frozen=True):
    """The settings for pairing jobs with Workloads.

    watched: returns whether the condition PodsReady of a Workload is maintained.
    kept_deactivated: how long to keep a job whose Workload the engine has deactivated; None for no limit.
    """

    watched: Callable[[Workload], bool] = _watch_all
    kept_deactivated: timedelta | None = None


class PairingPlan(Struct, frozen=True):
    """The steps to take for a job, in this order; if all fields are empty, there are none.

    workload: the job's Workload.
    stop: the reason to suspend the job for; None not to suspend it.
    restore: the Workload from which to restore the job's pod templates.
    delete: Workloads that do not fit the job.
    replaced: slices that another Workload of the job has replaced, each with the status that marks it as finished.
    update: the spec to write to the Workload.
    annotations: the annotations to set, or to remove if the value is None.
    status: the status to write to the Workload.
    remove_finalizer: whether to remove the finalizer of the Workload.
    create: whether to create a Workload.
    start: whether to start the job with the fields of its Workload's admission.
    end_job: whether to end the job, because the time to keep it is over.
    lacks_priority: whether a step waits because the priority class that the job names does not exist yet.
    wake_at: when to decide again even if nothing changes; None if that is not needed.
    """

    workload: Workload | None = None
    stop: str | None = None
    restore: Workload | None = None
    delete: tuple[Workload, ...] = ()
    replaced: tuple[tuple[Workload, WorkloadStatus], ...] = ()
    update: WorkloadSpec | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    status: WorkloadStatus | None = None
    remove_finalizer: bool = False
    create: bool = False
    start: bool = False
    end_job: bool = False
    lacks_priority: bool = False
    wake_at: datetime | None = None

    @property
    def gives_back(self) -> bool:
        """Whether the plan releases quota.

        If so, the caller must first check that the job is still in the observed state.
        """
        if self.delete:
            return True
        if self.workload is None or is_true(self.workload.status.conditions, FINISHED):
            return False
        lowered = self.status is not None and self.status.admission != self.workload.status.admission
        return lowered or self.remove_finalizer


_DEFAULTS = PairingRules()


def decide(
    job: ObservedJob, workloads: Sequence[Workload], now: datetime, rules: PairingRules = _DEFAULTS
) -> PairingPlan:
    """Decide what to do about a job and its Workloads. Raises `QuantityError`.

    workloads: the job's Workloads, the oldest first.
    """
    slices = sort_slices(workloads)
    plan = _plan_paired(job, slices.current, now, rules)
    needless = slices.waiting if job.end is not None or _has_wanted_pods(job, plan.workload) else ()
    replaced = tuple((one, _finish(one, WORKLOAD_SLICE_REPLACED, REPLACED_MESSAGE, now)) for one in slices.replaced)
    return replace(plan, delete=(*plan.delete, *needless), replaced=replaced)


def _has_wanted_pods(job: ObservedJob, workload: Workload | None) -> bool:
    """Return whether, for each podset, at least as many pods are admitted as the job now wants."""
    have = count_granted_pods(workload) if workload is not None else {}
    return bool(have) and all(have.get(podset.name, 0) >= podset.count for podset in job.podsets)


def _plan_paired(job: ObservedJob, workloads: Sequence[Workload], now: datetime, rules: PairingRules) -> PairingPlan:
    """Plan the steps for a job with Workloads that may be paired with it, the best one first."""
    workload = match(job, workloads)
    if workload is None:
        return _plan_unmatched(job, tuple(workloads))
    plan = PairingPlan(workload, delete=tuple(other for other in workloads if other is not workload))
    conditions = workload.status.conditions
    if is_true(conditions, FINISHED):
        return replace(plan, remove_finalizer=True, stop=WORKLOAD_FINISHED if _is_running(job) else None)
    if workload.metadata.deletion_timestamp is not None:
        return _plan_deleted(job, plan, workload)
    if job.end is not None and job.composed and job.active:
        return plan  # other pods of the job are terminating
    if job.end is not None:
        return replace(plan, status=_finish(workload, SUCCEEDED if job.end.success else FAILED, job.end.message, now))
    if job.prebuilt and not fits(job, workload):
        stop = MISSING_WORKLOAD if not job.suspended else None
        return replace(plan, stop=stop, status=_finish(workload, OUT_OF_SYNC, OUT_OF_SYNC_MESSAGE, now))
    status = _report_job(job, workload, now, rules)
    if (evicted := find_true(conditions, EVICTED)) is not None:
        return _plan_evicted(job, plan, workload, status, evicted, now, rules)
    plan = _follow_job(job, _replace_status(plan, workload, status), workload)
    if is_true(conditions, ADMITTED):
        if job.lacks_injection:  # the job stops, and then restarts with the injected fields
            return replace(plan, stop=NOT_STARTED)
        return replace(plan, start=True) if job.suspended else plan
    if not job.suspended:
        return plan if job.elastic and is_growing(workload) else replace(plan, stop=NOT_ADMITTED)
    return _restore_templates(job, plan, workload)


def _is_running(job: ObservedJob) -> bool:
    return job.end is None and not job.suspended


def _plan_unmatched(job: ObservedJob, others: tuple[Workload, ...]) -> PairingPlan:
    """Plan the steps for a job without a matching Workload: stop the job if it runs, then create a Workload."""
    if job.end is not None:
        return PairingPlan()
    if not job.suspended:
        if job.prebuilt:
            return PairingPlan(stop=MISSING_WORKLOAD)
        if any(needs_quota(job, other) for other in others):
            return PairingPlan(stop=RUNS_AGAIN)
        return PairingPlan(stop=NO_MATCH if len(others) == 1 else CANNOT_RESTORE)
    if job.active or job.prebuilt:
        return PairingPlan()
    if others:
        original = others[0] if len(others) == 1 and has_injected(job, others[0]) else None
        return PairingPlan(delete=others, restore=original)
    return PairingPlan(create=job.priority is not None, lacks_priority=job.priority is None)


def _plan_deleted(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """Plan the steps for a job whose Workload a user deleted: stop the job, then queue it again with a new Workload."""
    if _is_running(job):
        return replace(plan, stop=WORKLOAD_DELETED)
    if (job.active or home_of(workload.metadata)) and job.end is None:
        return plan
    return replace(_restore_templates(job, plan, workload), remove_finalizer=True)


def _restore_templates(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """Return the plan with a step that removes the injected fields from the templates of a stopped job."""
    if job.active or job.end is not None or not has_injected(job, workload):
        return plan
    return replace(plan, restore=workload)


def _finish(workload: Workload, reason: str, message: str, now: datetime) -> WorkloadStatus:
    conditions = put(workload.status.conditions, FINISHED, True, reason, message, now)
    return msgspec.structs.replace(workload.status, conditions=conditions)


def _replace_status(plan: PairingPlan, workload: Workload, status: WorkloadStatus) -> PairingPlan:
    return plan if status == workload.status else replace(plan, status=status)


# Reports of the job's pods in the Workload's status.


def _report_job(job: ObservedJob, workload: Workload, now: datetime, rules: PairingRules) -> WorkloadStatus:
    status = _update_reclaimable(job, workload)
    if job.elastic and is_true(status.conditions, QUOTA_RESERVED):
        status = limit_granted_pods(status, {podset.name: podset.count for podset in job.podsets})
    if not rules.watched(workload):
        return status
    has_readiness = any(condition.type == PODS_READY for condition in status.conditions)
    if not has_readiness and not is_true(status.conditions, ADMITTED):
        return status  # readiness is not reported before the workload is admitted
    conditions = with_readiness(status.conditions, job.ready and not job.suspended, now)
    return status if conditions is status.conditions else msgspec.structs.replace(status, conditions=conditions)


def _update_reclaimable(job: ObservedJob, workload: Workload) -> WorkloadStatus:
    """Return the status with the number of the job's reclaimable pods, whose quota becomes free (Kueue KEP-78).

    While the workload holds quota, the number does not decrease: the API refuses that, and a job that restarts its pods
    may report fewer. For a podset of an elastic job that has shrunk, the number may decrease, and never exceeds the
    number of ended pods.
    """
    status = workload.status
    job_sizes = {podset.name: podset.count for podset in job.podsets}
    ended_pods = {one.name: one.count for one in job.reclaimable}
    known_pods = {one.name: one.count for one in status.reclaimable_pods}
    reserved = is_true(status.conditions, QUOTA_RESERVED)
    fewer = find_shrunk(job, workload)
    follows = job.elastic or not (reserved or has_injected(job, workload))
    pods = []
    for podset in workload.spec.pod_sets:
        size = job_sizes.get(podset.name, podset.count) if follows else podset.count
        count = ended_pods.get(podset.name, 0)
        if count:  # pods that partial admission left out need no quota either
            count = min(size, count + max(0, size - job_sizes.get(podset.name, size)))
        count = max(count, known_pods.get(podset.name, 0)) if reserved and podset.name not in fewer else count
        if count:
            pods.append(ReclaimablePod(name=podset.name, count=count))
    if tuple(pods) == status.reclaimable_pods:
        return status
    return msgspec.structs.replace(status, reclaimable_pods=tuple(pods))


# Eviction.


def _plan_evicted(
    job: ObservedJob,
    plan: PairingPlan,
    workload: Workload,
    status: WorkloadStatus,
    evicted: Condition,
    now: datetime,
    rules: PairingRules,
) -> PairingPlan:
    """Plan the steps for an evicted Workload: stop the job, then release the quota when no cluster runs its pods."""
    if not job.suspended:
        return replace(_replace_status(plan, workload, status), stop=evicted.message)
    if job.active or home_of(workload.metadata):
        return _replace_status(plan, workload, status)
    holds = is_true(status.conditions, QUOTA_RESERVED)
    if holds:
        status = release_evicted(status, now)
        status = _update_reclaimable(job, msgspec.structs.replace(workload, status=status))
    plan = _restore_templates(job, _replace_status(plan, workload, status), workload)
    if not holds:
        plan = _follow_job(job, plan, workload)
    by_us = not workload.spec.active and evicted.reason.startswith(DEACTIVATED_DUE_TO)
    if not by_us or rules.kept_deactivated is None:
        return plan
    until = find_last_change(evicted, now) + rules.kept_deactivated
    return replace(plan, end_job=True) if now >= until else replace(plan, wake_at=until)


# Updates of the Workload from its job.


def _follow_job(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """Return the plan with a step that updates the Workload's mutable spec fields and annotations from the job."""
    spec, reserved = workload.spec, is_true(workload.status.conditions, QUOTA_RESERVED)
    new_spec = spec
    if job.suspended and not reserved:
        new_spec = msgspec.structs.replace(new_spec, queue_name=job.queue)
        if not job.prebuilt and not has_injected(job, workload):
            new_spec = _rebuild_spec(new_spec, job)
    elif reserved and job.elastic:
        new_spec = _resize_spec(new_spec, job.podsets)
    promoted = not job.prebuilt and _is_promoted(job, workload, reserved=reserved)
    if promoted and job.priority is not None:
        new_spec = msgspec.structs.replace(new_spec, priority_class_ref=job.priority_class, priority=job.priority)
    return replace(
        plan,
        update=None if new_spec == spec else new_spec,
        annotations=_find_annotations(job, workload, new_spec),
        lacks_priority=promoted and job.priority is None,
    )


def _rebuild_spec(spec: WorkloadSpec, job: ObservedJob) -> WorkloadSpec:
    """Return the spec of a Workload without quota, with the podsets and maximum run time of its job.

    Equal podsets stay unchanged. Unlike in upstream's comparison, placement rules count here.
    """
    same = are_equivalent(job.podsets, spec.pod_sets) and are_placed_alike(job.podsets, spec.pod_sets)
    return msgspec.structs.replace(
        spec,
        pod_sets=spec.pod_sets if same else job.podsets,
        maximum_execution_time_seconds=job.maximum_execution_time_seconds,
    )


def _resize_spec(spec: WorkloadSpec, podsets: tuple[PodSet, ...]) -> WorkloadSpec:
    counts = {podset.name: podset.count for podset in podsets}
    resized = tuple(msgspec.structs.replace(one, count=counts.get(one.name, one.count)) for one in spec.pod_sets)
    return msgspec.structs.replace(spec, pod_sets=resized)


def _is_promoted(job: ObservedJob, workload: Workload, *, reserved: bool) -> bool:
    """Return whether the job now names another WorkloadPriorityClass than its Workload.

    If the class is the same, its value is not read again, because the Workload's own priority may have been changed
    since. While the Workload holds quota, a class cannot be added or removed. The PriorityClass of the pods never
    changes.
    """
    old, new = workload.spec.priority_class_ref, job.priority_class
    own_old = old is not None and old.kind == WORKLOAD_PRIORITY_CLASS.kind
    own_new = new is not None and new.kind == WORKLOAD_PRIORITY_CLASS.kind
    if new == old:
        return False
    if reserved:
        return own_old and own_new
    return own_old or (own_new and old is None)


def _find_annotations(job: ObservedJob, workload: Workload, new_spec: WorkloadSpec) -> dict[str, str | None]:
    have = workload.metadata.annotations
    changes: dict[str, str | None] = {key: text for key, text in job.annotations.items() if have.get(key) != text}
    if ADMISSION_GATED_BY in have and ADMISSION_GATED_BY not in job.annotations and not job.prebuilt:
        changes[ADMISSION_GATED_BY] = None
    if waits_to_replace(workload):  # the slice that this Workload was to replace has lost its quota
        changes[WORKLOAD_SLICE_REPLACEMENT_FOR] = None
    if REFUSED_ANNOTATION in have and new_spec.pod_sets != workload.spec.pod_sets:  # the cluster may accept that size
        changes[REFUSED_ANNOTATION] = None
    return changes
