"""Find the node capacity used by pods that belong to no workload with a topology assignment.

Workloads with a topology assignment count by their assignment, whether or not their pods run.
"""

from muster.api.core import Pod
from muster.api.kueue.names import TOPOLOGY_ANNOTATIONS, WORKLOAD_ANNOTATION
from muster.api.pods import is_finished, pod_requests
from muster.gang.shapes import MOST, Amounts


def read_occupied(pod: Pod) -> Amounts | None:
    """Return the amounts that a pod requests from its node.

    Return None if the pod has no node or has ended, or if a topology assignment of its workload counts it already.
    """
    if not pod.spec.node_name or is_finished(pod) or _has_places(pod):
        return None
    requests = {resource: min(amount, MOST) for resource, amount in pod_requests(pod.spec).items() if amount > 0}
    return tuple(sorted(({"pods": 1} | requests).items()))


def _has_places(pod: Pod) -> bool:
    annotations = pod.metadata.annotations
    return WORKLOAD_ANNOTATION in annotations and not TOPOLOGY_ANNOTATIONS.isdisjoint(annotations)
