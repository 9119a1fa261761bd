"""What a node refuses: pods that were put on it past the scheduler and do not fit. Pure. Words are the kubelet's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from muster.api.core import Pod
from muster.api.pods import pod_requests
from muster.api.values.quantity import Quantity, amount

UNEXPECTED = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod fails before it has begun."""

    reason: str
    message: str


def check(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, Quantity]) -> Rejection | None:
    """Whether the pod fits beside the others that this node runs."""
    wanted = pod_requests(pod.spec) | {"pods": 1}
    used: dict[str, int] = {}
    for other in others:
        for resource, number in (pod_requests(other.spec) | {"pods": 1}).items():
            used[resource] = used.get(resource, 0) + number
    for resource, number in wanted.items():
        capacity = amount(resource, allocatable.get(resource, 0))
        if number and used.get(resource, 0) + number > capacity:
            return Rejection(
                f"OutOf{resource}",
                f"Pod was rejected: Node didn't have enough resource: {resource}, requested: {number}, "
                f"used: {used.get(resource, 0)}, capacity: {capacity}",
            )
    return None


def unavailable(message: str) -> Rejection:
    """Something that the pod was promised is not there."""
    return Rejection(UNEXPECTED, f"Pod was rejected: {message}")
