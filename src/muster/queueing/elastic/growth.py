"""Elastic workloads: quota follows the size of a running Job up and down, without suspending it (KEP-77, our way).

Upstream makes another Workload for each size. Here one Workload follows its Job: its spec says how many pods are
wanted, its admission how many were granted. What is granted is lowered at once. What is missing queues as its `growth`,
for the same flavors, while the rest runs on.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from muster.api import kueue
from muster.api.conditions import is_true
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED
from muster.api.managed.dispatch import refusal_of
from muster.api.ours.elastic import is_elastic
from muster.api.pods import amounts
from muster.api.values.quantity import ResourceList, format_amount
from muster.queueing import convert
from muster.queueing.model import PodSet, WorkloadInfo
from muster.queueing.requests import scaled
from muster.queueing.topology.written import first

# What follows the key of a workload in that of its growth; no name has it.
_SUFFIX = "+"

_LAST = datetime.max.replace(tzinfo=UTC)

_PLAIN = convert.ConversionSettings()


def granted(workload: kueue.Workload) -> dict[str, int]:
    """How many pods of each podset may run; empty unless the workload is admitted."""
    admission = workload.status.admission
    if admission is None or not is_true(workload.status.conditions, ADMITTED):
        return {}
    wanted = {podset.name: podset.count for podset in workload.spec.pod_sets}
    return {one.name: _count(one, wanted) for one in admission.pod_set_assignments}


def grew(old: kueue.Workload, new: kueue.Workload) -> bool:
    """Whether an elastic workload that runs was given more pods."""
    if not is_elastic(new.metadata.annotations) or old.status.admission == new.status.admission:
        return False
    before, after = granted(old), granted(new)
    return any(after.get(name, 0) > count for name, count in before.items())


def afforded(workload: kueue.Workload) -> tuple[kueue.PodSet, ...]:
    """Its podsets; those of an elastic workload with quota no larger than what it was given that for."""
    wanted = {podset.name: podset.count for podset in workload.spec.pod_sets}
    if not is_elastic(workload.metadata.annotations):
        return workload.spec.pod_sets
    have = wanted | {one.name: _count(one, wanted) for one in _assignments(workload)}
    return tuple(
        msgspec.structs.replace(podset, count=min(podset.count, have[podset.name])) for podset in workload.spec.pod_sets
    )


def _assignments(workload: kueue.Workload) -> tuple[kueue.PodSetAssignment, ...]:
    admission = workload.status.admission
    return admission.pod_set_assignments if admission is not None else ()


def growth_key(key: str) -> str:
    """The key of the growth of a workload."""
    return key + _SUFFIX


def whole_key(key: str) -> str:
    """The key of the workload, of its own or of its growth."""
    return key.removesuffix(_SUFFIX)


def growth_by(workload: WorkloadInfo, podsets: tuple[PodSet, ...]) -> WorkloadInfo:
    """What waits beside a workload that runs. It displaces no workload and holds up none."""
    return replace(workload, key=growth_key(workload.key), growth_of=workload.key, podsets=podsets, usage=None)


def growth(workload: kueue.Workload, queue: str, settings: convert.ConversionSettings = _PLAIN) -> WorkloadInfo | None:
    """The pods that a running elastic workload is short of, as a workload that waits; None if it lacks none.

    Raises `QuantityError`.
    """
    conditions = workload.status.conditions
    if not is_elastic(workload.metadata.annotations) or is_true(conditions, EVICTED) or is_true(conditions, FINISHED):
        return None
    if refusal_of(workload) is not None:
        return None  # the pods would not come
    have = granted(workload)
    if have and any(one.topology_assignment is not None for one in _assignments(workload)):
        return None  # where the pods are was decided for all of them together
    missing = [
        msgspec.structs.replace(podset, count=podset.count - have[podset.name], min_count=None)
        for podset in workload.spec.pod_sets
        if podset.name in have and podset.count > have[podset.name]
    ]
    if not missing:
        return None
    spec = msgspec.structs.replace(workload.spec, pod_sets=tuple(missing))
    alone = msgspec.structs.replace(workload, spec=spec, status=kueue.WorkloadStatus())
    waiting = convert.workload(alone, queue, settings)
    assert workload.status.admission is not None, "something was granted"
    flavors = {one.name: one.flavors for one in workload.status.admission.pod_set_assignments}
    podsets = tuple(replace(podset, flavors=flavors[podset.name]) for podset in waiting.podsets)
    # Workloads that wait to start come before those that run already, among equals.
    return replace(growth_by(waiting, podsets), queued=_LAST)


def raised(status: kueue.WorkloadStatus, more: kueue.Admission) -> kueue.WorkloadStatus:
    """The status of a workload whose growth got quota. Raises `QuantityError`."""
    assert status.admission is not None, "what grows holds quota"
    extra = {one.name: one for one in more.pod_set_assignments}
    podsets = tuple(_sum(one, extra.get(one.name)) for one in status.admission.pod_set_assignments)
    return _with(status, status.admission, podsets)


def lowered(status: kueue.WorkloadStatus, wanted: Mapping[str, int]) -> kueue.WorkloadStatus:
    """The status with no more granted than is wanted of each podset; the same if that is so. Raises `QuantityError`."""
    if status.admission is None:
        return status
    assignments = status.admission.pod_set_assignments
    changed = tuple(_at_most(one, wanted.get(one.name, 0)) for one in assignments)
    return status if changed == assignments else _with(status, status.admission, changed)


def _with(
    status: kueue.WorkloadStatus, admission: kueue.Admission, podsets: tuple[kueue.PodSetAssignment, ...]
) -> kueue.WorkloadStatus:
    admission = msgspec.structs.replace(admission, pod_set_assignments=podsets)
    return msgspec.structs.replace(status, admission=admission)


def _count(assignment: kueue.PodSetAssignment, wanted: Mapping[str, int]) -> int:
    return wanted.get(assignment.name, 0) if assignment.count is None else assignment.count


def _at_most(assignment: kueue.PodSetAssignment, count: int) -> kueue.PodSetAssignment:
    if assignment.count is None or assignment.count <= count:
        return assignment
    usage, places = scaled(amounts(assignment.resource_usage), assignment.count, count), assignment.topology_assignment
    return msgspec.structs.replace(
        assignment,
        count=count,
        resource_usage=_written(usage),
        topology_assignment=first(places, count) if places is not None else None,
    )


def _sum(assignment: kueue.PodSetAssignment, more: kueue.PodSetAssignment | None) -> kueue.PodSetAssignment:
    if more is None:
        return assignment
    usage = amounts(assignment.resource_usage)
    for resource, amount in amounts(more.resource_usage).items():
        usage[resource] = usage.get(resource, 0) + amount
    count = (assignment.count or 0) + (more.count or 0)
    return msgspec.structs.replace(assignment, count=count, resource_usage=_written(usage))


def _written(usage: Mapping[str, int]) -> ResourceList:
    return {resource: format_amount(resource, amount) for resource, amount in usage.items()}
