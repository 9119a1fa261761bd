"""A job and its Workload: one is kept in step with the other (Kueue's job framework).

The Workload is what queues; the job only runs while its Workload is admitted. The order of the rules is upstream's, but
for this: what is told about the job (pods that are ready, pods whose quota is free) never stands in the way of giving
back quota, and a Workload that holds quota goes only once nothing of the job runs.
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
    WORKLOAD_SLICE_REPLACEMENT_FOR,
)
from muster.api.managed.dispatch import REFUSED_ANNOTATION, home_of
from muster.api.meta import Condition
from muster.queueing.conditions import put, since
from muster.queueing.elastic.growth import lowered
from muster.queueing.jobframework.equivalence import equivalent
from muster.queueing.jobframework.matching import asks_back, fits, injected, match, placed_alike, shrunk
from muster.queueing.jobframework.observed import ObservedJob
from muster.queueing.jobframework.slices import waits_to_replace
from muster.queueing.workload.eviction import released_after_eviction
from muster.queueing.workload.readiness import with_readiness

NOT_ADMITTED = "Not admitted by cluster queue"
NOT_STARTED = "Resumed before it was admitted; it starts anew on what it was admitted with"
WORKLOAD_FINISHED = "Workload is finished"
WORKLOAD_DELETED = "Workload is deleted"
MISSING_WORKLOAD = "missing workload"
CANNOT_RESTORE = "Missing Workload; unable to restore pod templates"
NO_MATCH = "No matching Workload; restoring pod templates according to existent Workload"
RUNS_AGAIN = "Pods run again that had succeeded and given their quota back; it queues again whole"
OUT_OF_SYNC_MESSAGE = "The prebuilt workload is out of sync with its user job"


def _everything(_: Workload) -> bool:
    return True


class PairingRules(Struct, frozen=True):
    """What the settings say.

    watched: whether the condition PodsReady of a Workload is kept.
    kept_deactivated: how long a job is kept whose Workload the engine has deactivated; None: for ever.
    """

    watched: Callable[[Workload], bool] = _everything
    kept_deactivated: timedelta | None = None


class PairingPlan(Struct, frozen=True):
    """What to do, in this order; nothing if all is empty.

    workload: the one that is the job's.
    stop: suspend the job, and why.
    restore: make the job's pods again what they are in this Workload.
    delete: Workloads that do not fit the job.
    update, annotations, status: the Workload's spec and status are to be this; annotations to set, or (None) to remove.
    let_go: the Workload needs no finalizer any more.
    create: a Workload is to be made.
    start: the job may run, as its Workload says.
    end_job: the job has been kept for long enough.
    lacks_priority: something waits for the priority class that the job names.
    wake_at: when to look again even if nothing changes.
    """

    workload: Workload | None = None
    stop: str | None = None
    restore: Workload | None = None
    delete: tuple[Workload, ...] = ()
    update: WorkloadSpec | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    status: WorkloadStatus | None = None
    let_go: bool = False
    create: bool = False
    start: bool = False
    end_job: bool = False
    lacks_priority: bool = False
    wake_at: datetime | None = None

    @property
    def gives_back(self) -> bool:
        """Whether quota becomes free because of what the job was seen to be: that has to be still so."""
        if self.delete:
            return True
        if self.workload is None or is_true(self.workload.status.conditions, FINISHED):
            return False
        lowered = self.status is not None and self.status.admission != self.workload.status.admission
        return lowered or self.let_go


_USUAL = PairingRules()


def decide(job: ObservedJob, workloads: Sequence[Workload], now: datetime, rules: PairingRules = _USUAL) -> PairingPlan:
    """What to do about a job and the Workloads that belong to it, the oldest first. Raises `QuantityError`."""
    workload = match(job, workloads)
    if workload is None:
        return _unmatched(job, tuple(workloads))
    plan = PairingPlan(workload, delete=tuple(other for other in workloads if other is not workload))
    conditions = workload.status.conditions
    if is_true(conditions, FINISHED):
        return replace(plan, let_go=True, stop=WORKLOAD_FINISHED if _runs_on(job) else None)
    if workload.metadata.deletion_timestamp is not None:
        return _going(job, plan, workload)
    if job.end is not None and job.composed and job.active:
        return plan  # the rest of it is stopping
    if job.end is not None:
        return replace(plan, status=_finished(workload, SUCCEEDED if job.end.success else FAILED, job.end.message, now))
    if job.prebuilt and not fits(job, workload):
        stop = MISSING_WORKLOAD if not job.suspended else None
        return replace(plan, stop=stop, status=_finished(workload, OUT_OF_SYNC, OUT_OF_SYNC_MESSAGE, now))
    status = _told(job, workload, now, rules)
    if (evicted := find_true(conditions, EVICTED)) is not None:
        return _evicted(job, plan, workload, status, evicted, now, rules)
    plan = _followed(job, _with_status(plan, workload, status), workload)
    if is_true(conditions, ADMITTED):
        if job.lacks_injection:  # it stops, and starts on the nodes whose quota it has
            return replace(plan, stop=NOT_STARTED)
        return replace(plan, start=True) if job.suspended else plan
    if not job.suspended:
        return replace(plan, stop=NOT_ADMITTED)
    return _restored(job, plan, workload)


def _runs_on(job: ObservedJob) -> bool:
    return job.end is None and not job.suspended


def _unmatched(job: ObservedJob, others: tuple[Workload, ...]) -> PairingPlan:
    """No Workload is the job's: a running job stops first, and one is made once nothing of it runs."""
    if job.end is not None:
        return PairingPlan()
    if not job.suspended:
        if job.prebuilt:
            return PairingPlan(stop=MISSING_WORKLOAD)
        if any(asks_back(job, other) for other in others):
            return PairingPlan(stop=RUNS_AGAIN)
        return PairingPlan(stop=NO_MATCH if len(others) == 1 else CANNOT_RESTORE)
    if job.active or job.prebuilt:
        return PairingPlan()
    if others:
        original = others[0] if len(others) == 1 and injected(job, others[0]) else None
        return PairingPlan(delete=others, restore=original)
    return PairingPlan(create=job.priority is not None, lacks_priority=job.priority is None)


def _going(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """The Workload was deleted by a user: the job stops, and queues again with another one."""
    if _runs_on(job):
        return replace(plan, stop=WORKLOAD_DELETED)
    if (job.active or home_of(workload.metadata)) and job.end is None:
        return plan
    return replace(_restored(job, plan, workload), let_go=True)


def _restored(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """What was injected into a stopped job is taken away again."""
    if job.active or job.end is not None or not injected(job, workload):
        return plan
    return replace(plan, restore=workload)


def _finished(workload: Workload, reason: str, message: str, now: datetime) -> WorkloadStatus:
    conditions = put(workload.status.conditions, FINISHED, True, reason, message, now)
    return msgspec.structs.replace(workload.status, conditions=conditions)


def _with_status(plan: PairingPlan, workload: Workload, status: WorkloadStatus) -> PairingPlan:
    return plan if status == workload.status else replace(plan, status=status)


# What is told about the job.


def _told(job: ObservedJob, workload: Workload, now: datetime, rules: PairingRules) -> WorkloadStatus:
    status = _reclaimed(job, workload)
    if job.elastic and is_true(status.conditions, QUOTA_RESERVED):
        status = lowered(status, {podset.name: podset.count for podset in job.podsets})
    if not rules.watched(workload):
        return status
    known = any(condition.type == PODS_READY for condition in status.conditions)
    if not known and not is_true(status.conditions, ADMITTED):
        return status  # nothing is written about pods that are not waited for yet
    conditions = with_readiness(status.conditions, job.ready and not job.suspended, now)
    return status if conditions is status.conditions else msgspec.structs.replace(status, conditions=conditions)


def _reclaimed(job: ObservedJob, workload: Workload) -> WorkloadStatus:
    """Pods that ended give their quota back (KEP-78).

    While quota is held it is not asked for again: the API refuses that, and a kind that starts its pods anew may count
    fewer. A podset of an elastic job that has shrunk does have fewer, and never more than have ended.
    """
    status = workload.status
    asked = {podset.name: podset.count for podset in job.podsets}
    ended = {one.name: one.count for one in job.reclaimable}
    known = {one.name: one.count for one in status.reclaimable_pods}
    reserved = is_true(status.conditions, QUOTA_RESERVED)
    fewer = shrunk(job, workload)
    follows = job.elastic or not (reserved or injected(job, workload))
    pods = []
    for podset in workload.spec.pod_sets:
        size = asked.get(podset.name, podset.count) if follows else podset.count
        count = ended.get(podset.name, 0)
        if count:  # pods that were left out by partial admission have nothing to do either
            count = min(size, count + max(0, size - asked.get(podset.name, size)))
        count = max(count, known.get(podset.name, 0)) if reserved and podset.name not in fewer else count
        if count:
            pods.append(ReclaimablePod(name=podset.name, count=count))
    if tuple(pods) == status.reclaimable_pods:
        return status
    return msgspec.structs.replace(status, reclaimable_pods=tuple(pods))


# Eviction.


def _evicted(
    job: ObservedJob,
    plan: PairingPlan,
    workload: Workload,
    status: WorkloadStatus,
    evicted: Condition,
    now: datetime,
    rules: PairingRules,
) -> PairingPlan:
    """The job stops; once nothing of it runs, here or in another cluster, the quota is free."""
    if not job.suspended:
        return replace(_with_status(plan, workload, status), stop=evicted.message)
    if job.active or home_of(workload.metadata):
        return _with_status(plan, workload, status)
    holds = is_true(status.conditions, QUOTA_RESERVED)
    if holds:
        status = released_after_eviction(status, now)
        status = _reclaimed(job, msgspec.structs.replace(workload, status=status))
    plan = _restored(job, _with_status(plan, workload, status), workload)
    if not holds:
        plan = _followed(job, plan, workload)
    by_us = not workload.spec.active and evicted.reason.startswith(DEACTIVATED_DUE_TO)
    if not by_us or rules.kept_deactivated is None:
        return plan
    until = since(evicted, now) + rules.kept_deactivated
    return replace(plan, end_job=True) if now >= until else replace(plan, wake_at=until)


# The Workload follows its job.


def _followed(job: ObservedJob, plan: PairingPlan, workload: Workload) -> PairingPlan:
    """The Workload's spec and annotations as the job is now, where they may follow."""
    spec, reserved = workload.spec, is_true(workload.status.conditions, QUOTA_RESERVED)
    wanted = spec
    if job.suspended and not reserved:
        wanted = msgspec.structs.replace(wanted, queue_name=job.queue)
        if not job.prebuilt and not injected(job, workload):
            wanted = _rebuilt(wanted, job)
    elif reserved and job.elastic:
        wanted = _resized(wanted, job.podsets)
    promoted = not job.prebuilt and _is_promoted(job, workload, reserved=reserved)
    if promoted and job.priority is not None:
        wanted = msgspec.structs.replace(wanted, priority_class_ref=job.priority_class, priority=job.priority)
    return replace(
        plan,
        update=None if wanted == spec else wanted,
        annotations=_annotated(job, workload, wanted),
        lacks_priority=promoted and job.priority is None,
    )


def _rebuilt(spec: WorkloadSpec, job: ObservedJob) -> WorkloadSpec:
    """Of a Workload without quota: the job's podsets, also where upstream's comparison sees no difference."""
    same = equivalent(job.podsets, spec.pod_sets) and placed_alike(job.podsets, spec.pod_sets)
    return msgspec.structs.replace(
        spec,
        pod_sets=spec.pod_sets if same else job.podsets,
        maximum_execution_time_seconds=job.maximum_execution_time_seconds,
    )


def _resized(spec: WorkloadSpec, podsets: tuple[PodSet, ...]) -> WorkloadSpec:
    counts = {podset.name: podset.count for podset in podsets}
    resized = tuple(msgspec.structs.replace(one, count=counts.get(one.name, one.count)) for one in spec.pod_sets)
    return msgspec.structs.replace(spec, pod_sets=resized)


def _is_promoted(job: ObservedJob, workload: Workload, *, reserved: bool) -> bool:
    """Whether the job names another WorkloadPriorityClass than its Workload has.

    Of the same class nothing is read again: the Workload's own priority may have been changed since. While quota is
    held, a class cannot come or go; and the PriorityClass of its pods is for ever.
    """
    old, new = workload.spec.priority_class_ref, job.priority_class
    own_old = old is not None and old.kind == WORKLOAD_PRIORITY_CLASS.kind
    own_new = new is not None and new.kind == WORKLOAD_PRIORITY_CLASS.kind
    if new == old:
        return False
    if reserved:
        return own_old and own_new
    return own_old or (own_new and old is None)


def _annotated(job: ObservedJob, workload: Workload, wanted: WorkloadSpec) -> dict[str, str | None]:
    have = workload.metadata.annotations
    changes: dict[str, str | None] = {key: text for key, text in job.annotations.items() if have.get(key) != text}
    if ADMISSION_GATED_BY in have and ADMISSION_GATED_BY not in job.annotations and not job.prebuilt:
        changes[ADMISSION_GATED_BY] = None
    if waits_to_replace(workload):  # what it was to replace holds nothing any more
        changes[WORKLOAD_SLICE_REPLACEMENT_FOR] = None
    if REFUSED_ANNOTATION in have and wanted.pod_sets != workload.spec.pod_sets:  # this may be granted
        changes[REFUSED_ANNOTATION] = None
    return changes
