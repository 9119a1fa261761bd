"""What an admission injects into the pods of a job: its flavors' nodes, and what admission checks ask for. Pure.

Where two say different things about the same key the job can never start: upstream's rule, in its words.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from muster.api.core import PodTemplateSpec, Toleration
from muster.api.kueue import CHECK_READY, PodSet, PodSetAssignment, PodSetUpdate, ResourceFlavor, Workload
from muster.api.kueue.names import (
    CLUSTER_QUEUE_NAME_LABEL,
    LOCAL_QUEUE_NAME_LABEL,
    POD_SET_LABEL,
    POD_SET_UNCONSTRAINED_TOPOLOGY,
    TOPOLOGY_GATE,
    WORKLOAD_ANNOTATION,
)
from muster.api.status import not_found
from muster.queueing.jobframework.observed import PodSetInfo

_LONGEST_LABEL = 63

FlavorOf = Callable[[str], ResourceFlavor | None]


class InjectionError(Exception):
    """What is to be injected contradicts itself: the job can never start. The text is for the user."""


def infos(
    workload: Workload, podsets: Sequence[PodSet], flavor_of: FlavorOf, *, queue_labels: bool = True
) -> tuple[PodSetInfo, ...]:
    """For each podset of an admitted workload. Raises `InjectionError`, and `ApiError` (404) for an unknown flavor.

    podsets: as the job has them before anything is injected. flavor_of: the one of a name, if there is one.
    queue_labels: pods carry the names of their queues (upstream gate AssignQueueLabelsForPods).
    """
    admission = workload.status.admission
    assert admission is not None, "only admitted workloads start"
    queues = {CLUSTER_QUEUE_NAME_LABEL: admission.cluster_queue, LOCAL_QUEUE_NAME_LABEL: workload.spec.queue_name}
    # The name of a queue may be longer than the value of a label.
    labels = {key: name for key, name in queues.items() if queue_labels and len(name) <= _LONGEST_LABEL}
    # They correspond by position: a Workload that another program has made may call its podsets otherwise.
    pairs = zip(workload.spec.pod_sets, podsets, strict=True)
    templates = {theirs.name: mine.template for theirs, mine in pairs}
    asking = {theirs.name for theirs in workload.spec.pod_sets if theirs.topology_request is not None}
    found = []
    for assignment in admission.pod_set_assignments:
        template = templates[assignment.name]
        info = _of_flavors(assignment, labels, flavor_of)
        if assignment.topology_assignment is not None:
            annotations = {WORKLOAD_ANNOTATION: workload.metadata.name}
            if assignment.name not in asking:
                annotations[POD_SET_UNCONSTRAINED_TOPOLOGY] = "true"
            info = replace(info, annotations=annotations, gates=(TOPOLOGY_GATE,))
        for check in workload.status.admission_checks:
            update = next((one for one in check.pod_set_updates if one.name == assignment.name), None)
            if check.state == CHECK_READY and update is not None:
                info = _updated(info, update, f'in admission check "{check.name}": ')
        _check(info, template)
        found.append(info)
    return tuple(found)


def tolerations(old: tuple[Toleration, ...], more: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Both, each once."""
    return (*old, *dict.fromkeys(one for one in more if one not in old))


def _of_flavors(assignment: PodSetAssignment, labels: Mapping[str, str], flavor_of: FlavorOf) -> PodSetInfo:
    selector: dict[str, str] = {}
    bears: tuple[Toleration, ...] = ()
    for _, name in sorted(assignment.flavors.items()):
        flavor = flavor_of(name)
        if flavor is None:
            raise not_found("resourceflavors.kueue.x-k8s.io", name)
        selector |= flavor.spec.node_labels
        bears = tolerations(bears, flavor.spec.tolerations)
    return PodSetInfo(
        name=assignment.name,
        count=assignment.count or 0,
        labels={**labels, POD_SET_LABEL: assignment.name},
        annotations={},
        node_selector=selector,
        tolerations=bears,
    )


def _updated(info: PodSetInfo, update: PodSetUpdate, where: str) -> PodSetInfo:
    return replace(
        info,
        annotations=_merged(info.annotations, update.annotations, "annotations", where),
        labels=_merged(info.labels, update.labels, "labels", where),
        node_selector=_merged(info.node_selector, update.node_selector, "nodeSelector", where),
        tolerations=tolerations(info.tolerations, update.tolerations),
    )


def _check(info: PodSetInfo, template: PodTemplateSpec) -> None:
    """Raise `InjectionError` if the pods themselves ask for something else than what is injected."""
    _merged(template.metadata.annotations, info.annotations, "annotations")
    _merged(template.metadata.labels, info.labels, "labels")
    _merged(template.spec.node_selector, info.node_selector, "nodeSelector")


def _merged(old: Mapping[str, str], new: Mapping[str, str], what: str, where: str = "") -> dict[str, str]:
    for key, value in sorted(new.items()):
        if old.get(key, value) != value:
            problem = f"conflict for {what}: conflict for key={key}, value1={old[key]}, value2={value}"
            raise InjectionError(f"{where}invalid admission check PodSetUpdate: {problem}")
    return {**old, **new}
