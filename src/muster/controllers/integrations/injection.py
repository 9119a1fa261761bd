"""Decide which values an admission injects into the pods of a job: its flavors' nodes, and values of checks. Pure.

If two values for the same key differ, the job can never start. Rule and message are upstream's.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from muster.api.core import PodTemplateSpec, Toleration
from muster.api.kueue import (
    CHECK_READY,
    PodSet,
    PodSetAssignment,
    PodSetTopologyRequest,
    PodSetUpdate,
    ResourceFlavor,
    Workload,
)
from muster.api.kueue.names import (
    CLUSTER_QUEUE_NAME_LABEL,
    ELASTIC_JOB,
    LOCAL_QUEUE_NAME_LABEL,
    POD_SET_LABEL,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
    WORKLOAD_SLICE_NAME,
)
from muster.api.status import not_found
from muster.queueing.jobframework.observedjob import PodSetInfo
from muster.queueing.jobframework.slices import slice_name

_LONGEST_LABEL = 63

FlavorOf = Callable[[str], ResourceFlavor | None]


class InjectionError(Exception):
    """A contradiction between two values to inject, so that the job can never start. The message is for users."""


def list_injected_values(
    workload: Workload, podsets: Sequence[PodSet], flavor_of: FlavorOf, *, queue_labels: bool = True
) -> tuple[PodSetInfo, ...]:
    """Return the values to inject into each podset of an admitted workload.

    Raises `InjectionError`, and `ApiError` (404) for an unknown flavor.

    podsets: the job's podsets before any injection.
    flavor_of: returns a flavor by its name, or raises `ApiError` (404).
    queue_labels: whether pods get labels with the names of their queues (upstream gate AssignQueueLabelsForPods).
    """
    admission = workload.status.admission
    assert admission is not None, "only admitted workloads start"
    queues = {CLUSTER_QUEUE_NAME_LABEL: admission.cluster_queue, LOCAL_QUEUE_NAME_LABEL: workload.spec.queue_name}
    # The name of a queue may be longer than the value of a label.
    labels = {key: name for key, name in queues.items() if queue_labels and len(name) <= _LONGEST_LABEL}
    # Podsets correspond by position, because a Workload that another program made may use other names.
    pairs = zip(workload.spec.pod_sets, podsets, strict=True)
    templates = {theirs.name: mine.template for theirs, mine in pairs}
    asking = {theirs.name for theirs in workload.spec.pod_sets if _asks_for_topology(theirs.topology_request)}
    podset_infos = []
    for assignment in admission.pod_set_assignments:
        template = templates[assignment.name]
        info = replace(info_of_flavors(assignment, labels, flavor_of), annotations=_make_slice_annotation(workload))
        if assignment.topology_assignment is not None:
            annotations = {**info.annotations, WORKLOAD_ANNOTATION: workload.metadata.name}
            if assignment.name not in asking:
                annotations[POD_SET_UNCONSTRAINED_TOPOLOGY] = "true"
            info = replace(info, annotations=annotations, gates=(TOPOLOGY_GATE,))
        for check in workload.status.admission_checks:
            update = next((one for one in check.pod_set_updates if one.name == assignment.name), None)
            if check.state == CHECK_READY and update is not None:
                info = _apply_update(info, update, f'in admission check "{check.name}": ')
        check_conflicts(info, template)
        podset_infos.append(info)
    return tuple(podset_infos)


def _make_slice_annotation(workload: Workload) -> dict[str, str]:
    """Return the annotation by which Kueue finds the pods of an elastic job, in case Kueue manages it later."""
    is_elastic = workload.metadata.annotations.get(ELASTIC_JOB) == "true"
    return {WORKLOAD_SLICE_NAME: slice_name(workload)} if is_elastic else {}


def _asks_for_topology(request: PodSetTopologyRequest | None) -> bool:
    """Return whether pods request a topology; a request for rank labels alone does not count."""
    return request is not None and any(
        way is not None for way in (request.required, request.preferred, request.unconstrained)
    )


def merge_tolerations(old: tuple[Toleration, ...], more: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Return the tolerations of both lists, without duplicates."""
    return (*old, *dict.fromkeys(one for one in more if one not in old))


def info_of_flavors(assignment: PodSetAssignment, labels: Mapping[str, str], flavor_of: FlavorOf) -> PodSetInfo:
    """Return the values that a podset gets from its flavors. Raises `ApiError` (404) for an unknown flavor."""
    selector: dict[str, str] = {}
    bears: tuple[Toleration, ...] = ()
    for _, name in sorted(assignment.flavors.items()):
        flavor = flavor_of(name)
        if flavor is None:
            raise not_found("resourceflavors.kueue.x-k8s.io", name)
        selector |= flavor.spec.node_labels
        bears = merge_tolerations(bears, flavor.spec.tolerations)
    return PodSetInfo(
        name=assignment.name,
        count=assignment.count or 0,
        labels={**labels, POD_SET_LABEL: assignment.name},
        annotations={},
        node_selector=selector,
        tolerations=bears,
    )


def _apply_update(info: PodSetInfo, update: PodSetUpdate, where: str) -> PodSetInfo:
    return replace(
        info,
        annotations=_merge_values(info.annotations, update.annotations, "annotations", where),
        labels=_merge_values(info.labels, update.labels, "labels", where),
        node_selector=_merge_values(info.node_selector, update.node_selector, "nodeSelector", where),
        tolerations=merge_tolerations(info.tolerations, update.tolerations),
    )


def check_conflicts(info: PodSetInfo, template: PodTemplateSpec) -> None:
    """Raise `InjectionError` if the pods' own fields contradict the injected values."""
    _merge_values(template.metadata.annotations, info.annotations, "annotations")
    _merge_values(template.metadata.labels, info.labels, "labels")
    _merge_values(template.spec.node_selector, info.node_selector, "nodeSelector")


def _merge_values(old: Mapping[str, str], new: Mapping[str, str], field: str, where: str = "") -> dict[str, str]:
    for key, value in sorted(new.items()):
        if old.get(key, value) != value:
            problem = f"conflict for {field}: conflict for key={key}, value1={old[key]}, value2={value}"
            raise InjectionError(f"{where}invalid admission check PodSetUpdate: {problem}")
    return {**old, **new}
