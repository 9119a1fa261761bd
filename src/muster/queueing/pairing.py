"""A job and its Workload: one is kept in step with the other (Kueue's job framework).

The job of any kind is seen as `JobFacts`. The Workload is what queues; the job only runs while its Workload is
admitted. The order of the rules is upstream's, but for this: what is told about the job (pods that are ready, pods
whose quota is free) never stands in the way of giving back quota.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from muster.api.core import Toleration
from muster.api.kueue import (
    PodSet,
    PodSetAssignment,
    PriorityClassRef,
    ReclaimablePod,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from muster.api.kueue.names import ADMITTED, EVICTED, FAILED, FINISHED, PODS_READY, QUOTA_RESERVED, SUCCEEDED
from muster.queueing.conditions import find_true, is_true, put
from muster.queueing.equivalence import equivalent
from muster.queueing.eviction import released_after_eviction
from muster.queueing.ready import with_readiness


@dataclass(frozen=True, slots=True)
class End:
    """How a job ended."""

    success: bool
    message: str


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as its Workload sees it.

    suspended: it makes no pods. active: pods of it run or are ending.
    ready: its pods are (KEP-349: ready + succeeded >= wanted).
    podsets: as it is now.
    reclaimable: pods that ended and need no quota any more.
    queue: the name of its LocalQueue; empty if it has none.
    elastic: it may change size while it runs.
    """

    suspended: bool
    active: bool
    ready: bool
    podsets: tuple[PodSet, ...]
    end: End | None = None
    reclaimable: tuple[ReclaimablePod, ...] = ()
    queue: str = ""
    priority_class: PriorityClassRef | None = None
    priority: int = 0
    maximum_execution_time_seconds: int | None = None
    elastic: bool = False


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """What is injected into the pods of a podset when its job starts, and taken away again when it stops."""

    name: str
    count: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in this order; nothing if all is empty.

    delete: Workloads that do not fit the job.
    finished: the Workload needs no finalizer any more.
    stop: suspend the job, and why.
    restore: take back what was injected into the job's pods, where it still is.
    create: a Workload is to be made. update: the Workload's spec is to be this.
    status: the Workload's status is to be this.
    start: the job may run, as its Workload says.
    """

    delete: tuple[Workload, ...] = ()
    finished: bool = False
    stop: str | None = None
    restore: bool = False
    create: bool = False
    update: WorkloadSpec | None = None
    status: WorkloadStatus | None = None
    start: bool = False


def decide(job: JobFacts, workloads: Sequence[Workload], now: datetime, *, watch_readiness: bool = True) -> Plan:
    """What to do about a job and the Workloads that belong to it; `watch_readiness`: PodsReady is kept."""
    workload = _match(job, workloads)
    others = tuple(other for other in workloads if other is not workload)
    if workload is None:
        return _without(job, others)
    plan = Plan(delete=others)
    status = workload.status
    if is_true(status.conditions, FINISHED):
        return replace(plan, finished=True, stop="Workload is finished" if _runs_on(job) else None)
    if job.end is not None:
        return replace(plan, status=_ended(status, job.end, now))
    status = _told(job, status, now) if watch_readiness else _reclaimed(job, status)
    if (evicted := find_true(status.conditions, EVICTED)) is not None:
        return _evicted(job, workload, plan, status, evicted.message, now)
    plan = _with_status(plan, workload, status)
    if (spec := _followed(job, workload)) is not None:
        return replace(plan, update=spec)
    admitted = is_true(status.conditions, ADMITTED)
    if job.suspended:
        return replace(plan, start=True) if admitted else replace(plan, restore=not job.active)
    return plan if admitted else replace(plan, stop="Not admitted by cluster queue")


def _runs_on(job: JobFacts) -> bool:
    return job.end is None and not job.suspended


def _without(job: JobFacts, others: tuple[Workload, ...]) -> Plan:
    """No Workload is the job's: a running job stops first, one is made once nothing of it runs."""
    if job.end is not None:
        return Plan(delete=others)
    if not job.suspended:
        return Plan(
            delete=others,
            stop="No matching Workload; restoring pod templates according to existent Workload"
            if others
            else "Missing Workload; unable to restore pod templates",
        )
    return Plan(delete=others, create=not job.active)


def _match(job: JobFacts, workloads: Sequence[Workload]) -> Workload | None:
    """The Workload that the job is kept in step with.

    The first that has the job's podsets. If none has, one without quota will do for a suspended job: it is changed.
    """
    for workload in workloads:
        if is_true(workload.status.conditions, FINISHED) or _fits(job, workload):
            return workload
    if job.suspended and job.end is None:
        return next((one for one in workloads if not is_true(one.status.conditions, QUOTA_RESERVED)), None)
    return None


def _fits(job: JobFacts, workload: Workload) -> bool:
    """Whether the Workload has the job's podsets: as they were admitted if it runs, in whatever size if elastic."""
    wanted = workload.spec.pod_sets
    reserved = workload.status.admission
    if not job.suspended and reserved is not None:
        wanted = tuple(map(_as_admitted, wanted, reserved.pod_set_assignments))
    admitted = reserved is not None
    if _same(job, wanted, admitted=admitted):
        return True
    # What was not started yet has the size that it was submitted with, whatever was admitted.
    return job.suspended and _same(job, workload.spec.pod_sets, admitted=admitted)


def _same(job: JobFacts, podsets: tuple[PodSet, ...], *, admitted: bool) -> bool:
    mine = tuple(map(_sized, job.podsets, podsets)) if job.elastic and len(podsets) == len(job.podsets) else job.podsets
    return equivalent(mine, podsets, admitted=admitted)


def _sized(mine: PodSet, theirs: PodSet) -> PodSet:
    return msgspec.structs.replace(mine, count=theirs.count)


def _as_admitted(podset: PodSet, assignment: PodSetAssignment) -> PodSet:
    count = podset.count if assignment.count is None else assignment.count
    return msgspec.structs.replace(podset, count=count)


def _ended(status: WorkloadStatus, end: End, now: datetime) -> WorkloadStatus:
    reason = SUCCEEDED if end.success else FAILED
    return msgspec.structs.replace(status, conditions=put(status.conditions, FINISHED, True, reason, end.message, now))


def _told(job: JobFacts, status: WorkloadStatus, now: datetime) -> WorkloadStatus:
    status = _reclaimed(job, status)
    ready = job.ready and not job.suspended
    known = any(condition.type == PODS_READY for condition in status.conditions)
    if not known and not is_true(status.conditions, ADMITTED):
        return status  # nothing is written about pods that nobody waits for yet
    conditions = with_readiness(status.conditions, ready, now)
    return status if conditions is status.conditions else msgspec.structs.replace(status, conditions=conditions)


def _reclaimed(job: JobFacts, status: WorkloadStatus) -> WorkloadStatus:
    """Pods that ended give their quota back; what was given back is never asked for again while quota is held."""
    if status.admission is None:
        return status if not status.reclaimable_pods else msgspec.structs.replace(status, reclaimable_pods=())
    old = {one.name: one.count for one in status.reclaimable_pods}
    new = {one.name: max(one.count, old.get(one.name, 0)) for one in job.reclaimable}
    merged = {name: count for name, count in (old | new).items() if count}
    if merged == old:
        return status
    pods = tuple(ReclaimablePod(name=name, count=count) for name, count in merged.items())
    return msgspec.structs.replace(status, reclaimable_pods=pods)


def _evicted(
    job: JobFacts, workload: Workload, plan: Plan, status: WorkloadStatus, message: str, now: datetime
) -> Plan:
    """The job stops; once nothing of it runs, the quota is free."""
    if not job.suspended:
        return replace(_with_status(plan, workload, status), stop=message)
    if job.active:
        return _with_status(plan, workload, status)
    if is_true(status.conditions, QUOTA_RESERVED):
        status = released_after_eviction(status, now)
    spec = _followed(job, workload) if workload.status.admission is None else None
    return replace(_with_status(plan, workload, status), restore=True, update=spec)


def _with_status(plan: Plan, workload: Workload, status: WorkloadStatus) -> Plan:
    return plan if status is workload.status else replace(plan, status=status)


def _followed(job: JobFacts, workload: Workload) -> WorkloadSpec | None:
    """The Workload's spec as the job is now, where it may follow; None if it need not."""
    spec = workload.spec
    if is_true(workload.status.conditions, QUOTA_RESERVED):
        if not job.elastic:
            return None
        counts = {podset.name: podset.count for podset in job.podsets}
        podsets = tuple(
            msgspec.structs.replace(podset, count=counts.get(podset.name, podset.count)) for podset in spec.pod_sets
        )
        return None if podsets == spec.pod_sets else msgspec.structs.replace(spec, pod_sets=podsets)
    if not job.suspended:
        return None
    same = equivalent(job.podsets, spec.pod_sets)
    wanted = msgspec.structs.replace(
        spec,
        pod_sets=spec.pod_sets if same else job.podsets,
        queue_name=job.queue,
        priority_class_ref=job.priority_class,
        priority=job.priority,
        maximum_execution_time_seconds=job.maximum_execution_time_seconds,
    )
    return None if wanted == spec else wanted
