"""Find what pods take of nodes beside the workloads with places, which count by their places, running or not."""

from muster.api.core import Pod
from muster.api.kueue.names import TOPOLOGY_ANNOTATIONS, WORKLOAD_ANNOTATION
from muster.api.pods import is_finished, pod_requests
from muster.gang.shapes import MOST, Amounts


def occupied(pod: Pod) -> Amounts | None:
    """Return what a pod takes of its node, as a node counts it; None if nothing, or if its workload's places count."""
    if not pod.spec.node_name or is_finished(pod) or _has_places(pod):
        return None
    requests = {resource: min(amount, MOST) for resource, amount in pod_requests(pod.spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | requests).items()))


def _has_places(pod: Pod) -> bool:
    annotations = pod.metadata.annotations
    return WORKLOAD_ANNOTATION in annotations and not TOPOLOGY_ANNOTATIONS.isdisjoint(annotations)
