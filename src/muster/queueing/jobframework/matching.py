"""Find the Workload of a job: the Workload whose podsets are the job's podsets.

Upstream's comparison of podsets (`equivalence`) is coarse on purpose. A running job has the admitted size, a waiting
job the size in its spec. Either size matches, because the job changes between them in several writes.
"""

from collections.abc import Sequence

import msgspec

from muster.api.conditions import is_true
from muster.api.kueue import PodSet, PodSetAssignment, Workload
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED, POD_SET_LABEL, QUOTA_RESERVED
from muster.queueing.jobframework.equivalence import are_equivalent
from muster.queueing.jobframework.observedjob import ObservedJob
from muster.queueing.topology.conversion import request_of


def match(job: ObservedJob, workloads: Sequence[Workload]) -> Workload | None:
    """Return the Workload that belongs to the job; None if there is none.

    - A job that has ended, or that names a prebuilt Workload, gets the first Workload.
    - Any other job gets the first Workload that has finished, or that fits the job and may keep its quota.
    - If there is none and the job is suspended, the job gets a Workload without quota, which is then updated.
    """
    if job.end is not None or job.prebuilt:
        return workloads[0] if workloads else None
    for workload in workloads:
        if is_true(workload.status.conditions, FINISHED):
            return workload
        if fits(job, workload) and not _has_moved(job, workload) and not needs_quota(job, workload):
            return workload
    if not job.suspended:
        return None
    return next((one for one in workloads if not is_true(one.status.conditions, QUOTA_RESERVED)), None)


def fits(job: ObservedJob, workload: Workload) -> bool:
    """Return whether the Workload has the job's podsets and execution time limit.

    For an elastic job, the numbers of pods may differ.
    """
    spec, reserved = workload.spec, workload.status.admission
    if spec.maximum_execution_time_seconds != job.maximum_execution_time_seconds:
        return False
    admitted = is_true(workload.status.conditions, ADMITTED)
    mine = _resize(job.podsets, spec.pod_sets) if job.elastic else job.podsets
    if reserved is not None and not job.elastic:
        if are_equivalent(mine, list_granted_podsets(workload), admitted=admitted):
            return True
        if not job.suspended:
            return False
    return are_equivalent(mine, spec.pod_sets, admitted=admitted)


def list_granted_podsets(workload: Workload) -> tuple[PodSet, ...]:
    """Return the podsets of a Workload; if the Workload holds quota, with the admitted number of pods."""
    reserved = workload.status.admission
    assignments = {one.name: one for one in (reserved.pod_set_assignments if reserved is not None else ())}
    return tuple(_resize_as_admitted(podset, assignments.get(podset.name)) for podset in workload.spec.pod_sets)


def has_injected(job: ObservedJob, workload: Workload) -> bool:
    """Return whether the job's pod templates still contain the fields that an admission injected."""
    template_marks = [POD_SET_LABEL in podset.template.metadata.labels for podset in workload.spec.pod_sets]
    job_marks = [POD_SET_LABEL in podset.template.metadata.labels for podset in job.podsets]
    return len(template_marks) == len(job_marks) and any(
        now and not before for now, before in zip(job_marks, template_marks, strict=True)
    )


def needs_quota(job: ObservedJob, workload: Workload) -> bool:
    """Return whether a job again runs pods whose quota was already released because they had ended.

    Such a job must restart, because other workloads may use that quota now.
    """
    conditions = workload.status.conditions
    if not job.composed or not is_true(conditions, QUOTA_RESERVED) or is_true(conditions, EVICTED):
        return False
    ended, fewer = {one.name: one.count for one in job.reclaimable}, find_shrunk(job, workload)
    return any(ended.get(one.name, 0) < one.count for one in workload.status.reclaimable_pods if one.name not in fewer)


def find_shrunk(job: ObservedJob, workload: Workload) -> frozenset[str]:
    """Return the podsets of an elastic job that now want fewer pods than were admitted or reclaimed."""
    if not job.elastic:
        return frozenset()
    admission, sizes = workload.status.admission, {podset.name: podset.count for podset in job.podsets}
    held = [(one.name, one.count or 0) for one in (admission.pod_set_assignments if admission is not None else ())]
    back = [(one.name, one.count) for one in workload.status.reclaimable_pods]
    return frozenset(name for name, count in held + back if count > sizes.get(name, 0))


def are_placed_alike(one: Sequence[PodSet], other: Sequence[PodSet]) -> bool:
    """Return whether both lists of podsets have equal placement rules, which upstream's comparison ignores."""
    return [_read_placement(podset) for podset in one] == [_read_placement(podset) for podset in other]


def _read_placement(podset: PodSet) -> object:
    spec = podset.template.spec
    # Kueue sets the labels of ranks even without a topology request, and then ignores them.
    request = podset.topology_request if request_of(podset.topology_request) is not None else None
    return spec.node_selector, spec.affinity, spec.tolerations, request


def _has_moved(job: ObservedJob, workload: Workload) -> bool:
    """Return whether a suspended job names another queue than the one whose quota it holds during its checks."""
    conditions = workload.status.conditions
    waiting = is_true(conditions, QUOTA_RESERVED) and not is_true(conditions, ADMITTED)
    return job.suspended and waiting and workload.spec.queue_name != job.queue


def _resize(mine: tuple[PodSet, ...], theirs: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
    if len(mine) != len(theirs):
        return mine
    return tuple(msgspec.structs.replace(own, count=other.count) for own, other in zip(mine, theirs, strict=True))


def _resize_as_admitted(podset: PodSet, assignment: PodSetAssignment | None) -> PodSet:
    """Return a podset with the admitted number of pods, if it allows partial admission; else unchanged."""
    if assignment is None or assignment.count is None or podset.min_count is None:
        return podset
    return msgspec.structs.replace(podset, count=assignment.count)
