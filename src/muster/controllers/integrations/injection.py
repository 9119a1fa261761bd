"""What an admission injects into the pods of a job: its flavors' nodes, and what admission checks ask for. Pure."""

from collections.abc import Mapping
from typing import TypeVar

from muster.api.core import Toleration
from muster.api.kueue import CHECK_READY, PodSetAssignment, ResourceFlavor, Workload
from muster.api.kueue.names import CLUSTER_QUEUE_NAME_LABEL, LOCAL_QUEUE_NAME_LABEL, POD_SET_LABEL
from muster.queueing.pairing import PodSetInfo

V = TypeVar("V")


class InjectionError(Exception):
    """What is to be injected contradicts itself: the job can never start. The text is for the user."""


def infos(workload: Workload, flavors: Mapping[str, ResourceFlavor]) -> tuple[PodSetInfo, ...]:
    """For each podset of an admitted workload. Raises `InjectionError`, and `KeyError` for an unknown flavor."""
    admission = workload.status.admission
    assert admission is not None, "only admitted workloads start"
    return tuple(
        _info(workload, podset.name, assignment, flavors)
        for podset, assignment in zip(workload.spec.pod_sets, admission.pod_set_assignments, strict=True)
    )


def _info(
    workload: Workload, name: str, assignment: PodSetAssignment, flavors: Mapping[str, ResourceFlavor]
) -> PodSetInfo:
    admission = workload.status.admission
    assert admission is not None
    labels = {
        POD_SET_LABEL: name,
        CLUSTER_QUEUE_NAME_LABEL: admission.cluster_queue,
        LOCAL_QUEUE_NAME_LABEL: workload.spec.queue_name,
    }
    annotations: dict[str, str] = {}
    selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    for flavor in dict.fromkeys(assignment.flavors.values()):
        spec = flavors[flavor].spec
        selector = _merged(selector, spec.node_labels, "nodeSelector")
        tolerations += [toleration for toleration in spec.tolerations if toleration not in tolerations]
    for check in workload.status.admission_checks:
        if check.state != CHECK_READY:
            continue
        for update in check.pod_set_updates:
            if update.name != name:
                continue
            labels = _merged(labels, update.labels, "labels")
            annotations = _merged(annotations, update.annotations, "annotations")
            selector = _merged(selector, update.node_selector, "nodeSelector")
            tolerations += [toleration for toleration in update.tolerations if toleration not in tolerations]
    count = assignment.count if assignment.count is not None else 0
    return PodSetInfo(name, count, labels, annotations, selector, tuple(tolerations))


def conflict(info: PodSetInfo, selector: Mapping[str, str]) -> str | None:
    """Why the pods of a podset cannot get what is injected; None if they can."""
    for key, value in info.node_selector.items():
        if selector.get(key, value) != value:
            return f"conflict for nodeSelector: conflict for key={key}, value1={selector[key]}, value2={value}"
    return None


def _merged(old: Mapping[str, V], new: Mapping[str, V], what: str) -> dict[str, V]:
    for key, value in new.items():
        if key in old and old[key] != value:
            raise InjectionError(f"conflict for {what}: conflict for key={key}, value1={old[key]}, value2={value}")
    return {**old, **new}
