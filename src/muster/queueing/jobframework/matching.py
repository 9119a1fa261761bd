"""Which Workload is a job's: the one that asks for the pods that the job has.

Upstream's comparison of podsets (`equivalence`) sees little on purpose. A job that runs has the size that was admitted,
one that waits that of the spec; either will do, for the one becomes the other in several writes.
"""

from collections.abc import Sequence

import msgspec

from muster.api.conditions import is_true
from muster.api.kueue import PodSet, PodSetAssignment, Workload
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED, POD_SET_LABEL, QUOTA_RESERVED
from muster.queueing.jobframework.equivalence import equivalent
from muster.queueing.jobframework.observed import ObservedJob


def match(job: ObservedJob, workloads: Sequence[Workload]) -> Workload | None:
    """The Workload that the job is kept in step with.

    A job that has ended, and one whose Workload was made by another program, take what there is. Otherwise it is the
    first that fits. If none does, one without quota will do for a suspended job: it is changed.
    """
    if job.end is not None or job.prebuilt:
        return workloads[0] if workloads else None
    for workload in workloads:
        if is_true(workload.status.conditions, FINISHED):
            return workload
        if fits(job, workload) and not _moved(job, workload) and not asks_back(job, workload):
            return workload
    if not job.suspended:
        return None
    return next((one for one in workloads if not is_true(one.status.conditions, QUOTA_RESERVED)), None)


def fits(job: ObservedJob, workload: Workload) -> bool:
    """Whether the Workload has the job's podsets and its longest time; of an elastic job in whatever size."""
    spec, reserved = workload.spec, workload.status.admission
    if spec.maximum_execution_time_seconds != job.maximum_execution_time_seconds:
        return False
    admitted = is_true(workload.status.conditions, ADMITTED)
    mine = _in_size_of(job.podsets, spec.pod_sets) if job.elastic else job.podsets
    if reserved is not None and not job.elastic:
        assignments = {one.name: one for one in reserved.pod_set_assignments}
        granted = tuple(_as_admitted(podset, assignments.get(podset.name)) for podset in spec.pod_sets)
        if equivalent(mine, granted, admitted=admitted):
            return True
        if not job.suspended:
            return False
    return equivalent(mine, spec.pod_sets, admitted=admitted)


def injected(job: ObservedJob, workload: Workload) -> bool:
    """Whether the job's pods still carry what an admission put there."""
    own = [POD_SET_LABEL in podset.template.metadata.labels for podset in workload.spec.pod_sets]
    now = [POD_SET_LABEL in podset.template.metadata.labels for podset in job.podsets]
    return len(own) == len(now) and any(marked and not before for marked, before in zip(now, own, strict=True))


def asks_back(job: ObservedJob, workload: Workload) -> bool:
    """Whether pods that had ended run again, whose quota was given back: others may have it, so the job starts anew."""
    conditions = workload.status.conditions
    if not job.composed or not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, EVICTED):
        return False
    ended, fewer = {one.name: one.count for one in job.reclaimable}, shrunk(job, workload)
    return any(ended.get(one.name, 0) < one.count for one in workload.status.reclaimable_pods if one.name not in fewer)


def shrunk(job: ObservedJob, workload: Workload) -> frozenset[str]:
    """The podsets of an elastic job that are smaller now than what they hold, or gave back."""
    if not job.elastic:
        return frozenset()
    admission, sizes = workload.status.admission, {podset.name: podset.count for podset in job.podsets}
    held = [(one.name, one.count or 0) for one in (admission.pod_set_assignments if admission is not None else ())]
    back = [(one.name, one.count) for one in workload.status.reclaimable_pods]
    return frozenset(name for name, count in held + back if count > sizes.get(name, 0))


def placed_alike(one: Sequence[PodSet], other: Sequence[PodSet]) -> bool:
    """Whether the pods may run on the same nodes: what upstream's comparison leaves out."""
    return [_placement(podset) for podset in one] == [_placement(podset) for podset in other]


def _placement(podset: PodSet) -> object:
    spec = podset.template.spec
    return spec.node_selector, spec.affinity, spec.tolerations, podset.topology_request


def _moved(job: ObservedJob, workload: Workload) -> bool:
    """Whether the job went to another queue while it waited for admission checks with the quota of the first."""
    conditions = workload.status.conditions
    waiting = is_true(conditions, QUOTA_RESERVED) and not is_true(conditions, ADMITTED)
    return job.suspended and waiting and workload.spec.queue_name != job.queue


def _in_size_of(mine: tuple[PodSet, ...], theirs: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    if len(mine) != len(theirs):
        return mine
    return tuple(msgspec.structs.replace(own, count=other.count) for own, other in zip(mine, theirs, strict=True))


def _as_admitted(podset: PodSet, assignment: PodSetAssignment | None) -> PodSet:
    """A podset that could be admitted in part, with as many pods as it was."""
    if assignment is None or assignment.count is None or podset.min_count is None:
        return podset
    return msgspec.structs.replace(podset, count=assignment.count)
