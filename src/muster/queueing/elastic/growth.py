"""Grow and shrink the quota of an elastic workload with its running Job, without suspending it (Kueue KEP-77).

Upstream makes another Workload for each size. Here one Workload follows its Job: its spec has the desired number of
pods, its admission the granted number. Shrinking takes effect at once. To grow, the missing pods wait in the queue as a
workload of their own, the *growth*. A growth can only get the flavors of the running pods, which continue to run.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api import kueue
from muster.api.conditions import is_true
from muster.api.kueue.names import ADMITTED, EVICTED, FINISHED
from muster.api.managed.dispatch import refusal_of
from muster.api.ours.elastic import is_elastic
from muster.api.pods import parse_amounts
from muster.api.values.quantity import ResourceList, format_amount
from muster.queueing import convert
from muster.queueing.model import PodSet, WorkloadInfo
from muster.queueing.requests import scale_usage
from muster.queueing.topology.conversion import take_first

# The suffix of a growth's key; names of objects cannot contain it.
_SUFFIX = "+"

_LAST = datetime.max.replace(tzinfo=UTC)

_DEFAULTS = convert.ConversionSettings()
_NO_DEVICES: convert.Devices = {}


def count_granted_pods(workload: kueue.Workload) -> dict[str, int]:
    """Return how many pods of each podset are admitted; empty unless the workload is admitted."""
    admission = workload.status.admission
    if admission is None or not is_true(workload.status.conditions, ADMITTED):
        return {}
    sizes = {podset.name: podset.count for podset in workload.spec.pod_sets}
    return {one.name: _find_granted_count(one, sizes) for one in admission.pod_set_assignments}


def has_grown(old: kueue.Workload, new: kueue.Workload) -> bool:
    """Return whether the granted number of pods of a running elastic Workload has increased."""
    if not is_elastic(new.metadata.annotations) or old.status.admission == new.status.admission:
        return False
    before, after = count_granted_pods(old), count_granted_pods(new)
    return any(after.get(name, 0) > count for name, count in before.items())


def list_granted_podsets(workload: kueue.Workload) -> tuple[kueue.PodSet, ...]:
    """Return the podsets of a Workload, limited to the granted pods if the Workload is elastic and holds quota."""
    sizes = {podset.name: podset.count for podset in workload.spec.pod_sets}
    if not is_elastic(workload.metadata.annotations):
        return workload.spec.pod_sets
    have = sizes | {one.name: _find_granted_count(one, sizes) for one in _list_assignments(workload)}
    return tuple(
        msgspec.structs.replace(podset, count=min(podset.count, have[podset.name])) for podset in workload.spec.pod_sets
    )


def _list_assignments(workload: kueue.Workload) -> tuple[kueue.PodSetAssignment, ...]:
    admission = workload.status.admission
    return admission.pod_set_assignments if admission is not None else ()


def growth_key(key: str) -> str:
    """Return the key of the growth of the workload with this key."""
    return key + _SUFFIX


def whole_key(key: str) -> str:
    """Return the key of the workload.

    key: the key of the workload or of its growth.
    """
    return key.removesuffix(_SUFFIX)


def growth_by(workload: WorkloadInfo, podsets: tuple[PodSet, ...]) -> WorkloadInfo:
    """Return the growth of a running workload, as a waiting workload that requests these additional podsets.

    A growth neither preempts other workloads nor blocks them. Among equal priorities, it comes after all workloads that
    have not started.
    """
    asks = replace(workload, podsets=podsets, usage=None, queued=_LAST, family="", gated=False)
    return replace(asks, key=growth_key(workload.key), growth_of=workload.key)


def grow_by(workload: WorkloadInfo, pods: int, flavors: Mapping[str, str]) -> WorkloadInfo:
    """Return the growth of a running workload whose only podset gets this number of additional pods.

    flavors: the flavor of each resource of the running pods.
    """
    podset = replace(workload.podsets[0], count=pods, least=None, flavors=flavors)
    return growth_by(workload, (podset,))


def find_growth(
    workload: kueue.Workload,
    queue: str,
    settings: convert.ConversionSettings = _DEFAULTS,
    devices: convert.Devices = _NO_DEVICES,
) -> WorkloadInfo | None:
    """Return the growth of a running elastic Workload, which requests its missing pods.

    Return None if no pods are missing, or if the Workload is evicted, finished, refused in this size, or placed by
    topology.

    queue: the ClusterQueue of the Workload.

    Raises `QuantityError`.
    """
    conditions = workload.status.conditions
    if not is_elastic(workload.metadata.annotations) or is_true(conditions, EVICTED) or is_true(conditions, FINISHED):
        return None
    if refusal_of(workload) is not None:
        return None  # the cluster where the job runs has refused this size
    have = count_granted_pods(workload)
    if have and any(one.topology_assignment is not None for one in _list_assignments(workload)):
        return None  # topology domains were assigned for all pods together
    lacking = [
        msgspec.structs.replace(podset, count=podset.count - have[podset.name], min_count=None)
        for podset in workload.spec.pod_sets
        if podset.name in have and podset.count > have[podset.name]
    ]
    if not lacking:
        return None
    spec = msgspec.structs.replace(workload.spec, pod_sets=tuple(lacking))
    alone = msgspec.structs.replace(workload, spec=spec, status=kueue.WorkloadStatus())
    waiting = convert.convert_workload(alone, queue, settings, devices)
    assert workload.status.admission is not None, "a workload with granted pods has an admission"
    flavors = {one.name: one.flavors for one in workload.status.admission.pod_set_assignments}
    podsets = tuple(replace(podset, flavors=flavors[podset.name]) for podset in waiting.podsets)
    return growth_by(waiting, podsets)


def add_growth(status: kueue.WorkloadStatus, more: kueue.Admission) -> kueue.WorkloadStatus:
    """Return the status of a Workload with the admission of its growth added. Raises `QuantityError`.

    more: the admission of the growth.
    """
    assert status.admission is not None, "a growing workload holds quota"
    extra = {one.name: one for one in more.pod_set_assignments}
    podsets = tuple(_add_assignments(one, extra.get(one.name)) for one in status.admission.pod_set_assignments)
    return _replace_podsets(status, status.admission, podsets)


def limit_granted_pods(status: kueue.WorkloadStatus, desired_counts: Mapping[str, int]) -> kueue.WorkloadStatus:
    """Return the status with each podset's granted pods reduced to the desired number. Raises `QuantityError`.

    The same object is returned if nothing changes.

    desired_counts: the desired number of pods, by podset.
    """
    if status.admission is None:
        return status
    assignments = status.admission.pod_set_assignments
    changed = tuple(_limit_assignment(one, desired_counts.get(one.name, 0)) for one in assignments)
    return status if changed == assignments else _replace_podsets(status, status.admission, changed)


def make_resize_patch(old: kueue.WorkloadSpec, new: kueue.WorkloadSpec) -> list[dict[str, Any]]:
    """Return the JSON patch between two specs that differ only in pod counts; empty if they differ in other fields.

    A patch keeps fields of the templates that this version does not know.
    """
    counts = {podset.name: podset.count for podset in new.pod_sets}
    sized = tuple(msgspec.structs.replace(one, count=counts.get(one.name, one.count)) for one in old.pod_sets)
    if msgspec.structs.replace(old, pod_sets=sized) != new:
        return []
    return [
        {"op": "add", "path": f"/spec/podSets/{position}/count", "value": now.count}
        for position, (was, now) in enumerate(zip(old.pod_sets, sized, strict=True))
        if was.count != now.count
    ]


def _replace_podsets(
    status: kueue.WorkloadStatus, admission: kueue.Admission, podsets: tuple[kueue.PodSetAssignment, ...]
) -> kueue.WorkloadStatus:
    admission = msgspec.structs.replace(admission, pod_set_assignments=podsets)
    return msgspec.structs.replace(status, admission=admission)


def _find_granted_count(assignment: kueue.PodSetAssignment, sizes: Mapping[str, int]) -> int:
    return sizes.get(assignment.name, 0) if assignment.count is None else assignment.count


def _limit_assignment(assignment: kueue.PodSetAssignment, count: int) -> kueue.PodSetAssignment:
    if assignment.count is None or assignment.count <= count:
        return assignment
    usage, places = (
        scale_usage(parse_amounts(assignment.resource_usage), assignment.count, count),
        assignment.topology_assignment,
    )
    return msgspec.structs.replace(
        assignment,
        count=count,
        resource_usage=_format_usage(usage),
        topology_assignment=take_first(places, count) if places is not None else None,
    )


def _add_assignments(assignment: kueue.PodSetAssignment, more: kueue.PodSetAssignment | None) -> kueue.PodSetAssignment:
    if more is None:
        return assignment
    usage = parse_amounts(assignment.resource_usage)
    for resource, amount in parse_amounts(more.resource_usage).items():
        usage[resource] = usage.get(resource, 0) + amount
    count = (assignment.count or 0) + (more.count or 0)
    return msgspec.structs.replace(assignment, count=count, resource_usage=_format_usage(usage))


def _format_usage(usage: Mapping[str, int]) -> ResourceList:
    return {resource: format_amount(resource, amount) for resource, amount in usage.items()}
