"""Build the clone of a workload for a worker cluster (Kueue's `cloneForCreate`). Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from muster.api.conditions import is_true
from muster.api.kueue import PodSet, Workload, WorkloadSpec
from muster.api.kueue.names import JOB_UID_LABEL, MULTI_KUEUE_ORIGIN_LABEL, QUOTA_RESERVED
from muster.api.managed.dispatch import HOME_ANNOTATION
from muster.api.meta import ObjectMeta
from muster.api.ours.elastic import is_elastic
from muster.api.values.quantity import QuantityError
from muster.queueing.elastic.growth import list_granted_podsets
from muster.queueing.jobframework.equivalence import are_equivalent


def make_clone(workload: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """Return the clone to create. It has no owner, because its job is created later, if at all.

    workload: the whole document, so that the clone keeps fields that this manager does not know.
    origin: the value of the label that marks this manager's objects.
    """
    meta = workload["metadata"]
    labels = {name: value for name, value in meta.get("labels", {}).items() if name != JOB_UID_LABEL}
    annotations = {name: value for name, value in meta.get("annotations", {}).items() if name != HOME_ANNOTATION}
    copied = {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "labels": labels | {MULTI_KUEUE_ORIGIN_LABEL: origin},
        "annotations": annotations,
    }
    return {"metadata": copied, "spec": workload["spec"]}


def is_ours(meta: ObjectMeta, origin: str) -> bool:
    """Return whether an object in a worker has the origin label of this manager."""
    return meta.labels.get(MULTI_KUEUE_ORIGIN_LABEL) == origin


def is_another(workload: Workload, there: Workload) -> bool:
    """Return whether a clone differs from its workload so much that it must be replaced.

    `make_resize_patch` and `make_priority_patch` can only change its size and priority, and a clone that is not elastic
    cannot get more pods once it has quota. The podsets are compared as upstream compares a job with its workload,
    because a worker sets its own defaults in other fields.
    """
    here = workload.spec
    if here is there.spec:  # in a simulation both are the same object
        return False
    if (here.queue_name, here.maximum_execution_time_seconds) != (
        there.spec.queue_name,
        there.spec.maximum_execution_time_seconds,
    ):
        return True
    try:
        if not are_equivalent(_remove_counts(here.pod_sets), _remove_counts(there.spec.pod_sets), admitted=True):
            return True
    except QuantityError:  # a worker may send anything
        return True
    if is_elastic(workload.metadata.annotations) or not is_true(there.status.conditions, QUOTA_RESERVED):
        return False
    return any(mine > its for mine, its in _pair_counts(here.pod_sets, there.spec.pod_sets))


def has_changed(workload: Workload, there: Workload) -> bool:
    """Return whether a clone has another size or priority than its workload."""
    return bool(make_priority_patch(workload.spec, there.spec) or make_resize_patch(workload, there))


def make_priority_patch(here: WorkloadSpec, there: WorkloadSpec) -> list[dict[str, Any]]:
    """Return the JSON patch that gives a clone the priority of its workload; [] if it already has that priority.

    here, there: the specs of the workload and of the clone.
    """
    patch: list[dict[str, Any]] = []
    if here.priority is not None and here.priority != there.priority:
        patch.append({"op": "add", "path": "/spec/priority", "value": here.priority})
    if here.priority_class_ref is not None and here.priority_class_ref != there.priority_class_ref:
        patch.append({"op": "add", "path": "/spec/priorityClassRef", "value": here.priority_class_ref})
    return patch


def make_resize_patch(workload: Workload, there: Workload) -> list[dict[str, Any]]:
    """Return the JSON patch that gives a clone the size for which the workload has quota; [] if it already has it.

    there: the clone.
    """
    return [
        {"op": "add", "path": f"/spec/podSets/{i}/count", "value": mine}
        for i, (mine, its) in enumerate(_pair_counts(list_granted_podsets(workload), there.spec.pod_sets))
        if mine != its
    ]


def needs_growth(workload: Workload, there: Workload) -> bool:
    """Return whether a clone with quota has fewer pods than its workload, so that the clone needs more quota."""
    larger = any(mine > its for mine, its in _pair_counts(list_granted_podsets(workload), there.spec.pod_sets))
    return larger and is_true(there.status.conditions, QUOTA_RESERVED)


def count_lacking(workload: Workload, there: Workload) -> int:
    """Return how many pods of an elastic workload have quota in the manager but not yet in the worker."""
    if not is_elastic(workload.metadata.annotations):
        return 0
    return sum(
        max(0, mine - its) for mine, its in _pair_counts(list_granted_podsets(workload), list_granted_podsets(there))
    )


def _pair_counts(here: Sequence[PodSet], there: Sequence[PodSet]) -> list[tuple[int, int]]:
    return [(mine.count, its.count) for mine, its in zip(here, there, strict=True)]


def _remove_counts(podsets: Sequence[PodSet]) -> list[PodSet]:
    return [replace(podset, count=0) for podset in podsets]
