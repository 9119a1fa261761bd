"""Reject pods that bypassed the scheduler and do not fit on the node. Pure. The messages are the kubelet's."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from muster.api.core import Pod
from muster.api.ours.podbounds import explain_excess
from muster.api.pods import pod_requests
from muster.api.values.quantity import Quantity, parse_amount

UNEXPECTED = "UnexpectedAdmissionError"


class Rejection(Struct, frozen=True):
    """The reason why a node rejects a pod, which then fails before it starts."""

    reason: str
    message: str


def check(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, Quantity]) -> Rejection | None:
    """Return why the node rejects the pod; None if the pod fits.

    others: the other pods on the node.
    """
    spec = pod.spec  # another cluster's server accepts a pod of any size
    if too_much := explain_excess(
        containers=len(spec.containers), init_containers=len(spec.init_containers), volumes=len(spec.volumes)
    ):
        return Rejection(UNEXPECTED, f"Pod was rejected: {too_much}")
    if spec.resource_claims:
        return make_unavailable_rejection("the node has no driver for resource claims")
    wanted = pod_requests(spec) | {"pods": 1}
    used: dict[str, int] = {}
    for other in others:
        for resource, number in (pod_requests(other.spec) | {"pods": 1}).items():
            used[resource] = used.get(resource, 0) + number
    for resource, number in wanted.items():
        capacity = parse_amount(resource, allocatable.get(resource, 0))
        if number and used.get(resource, 0) + number > capacity:
            return Rejection(
                f"OutOf{resource}",
                f"Pod was rejected: Node didn't have enough resource: {resource}, requested: {number}, "
                f"used: {used.get(resource, 0)}, capacity: {capacity}",
            )
    return None


def make_unavailable_rejection(message: str) -> Rejection:
    """Return the rejection of a pod that needs something that the node cannot provide. message: why."""
    return Rejection(UNEXPECTED, f"Pod was rejected: {message}")
