"""Index functions with which the queueing controllers look up objects."""

from collections.abc import Iterable
from typing import Final

from muster.api.core import Pod
from muster.api.kueue import LocalQueue, Workload
from muster.api.kueue.names import WORKLOAD_ANNOTATION
from muster.runtime.objects import ignores_status

WORKLOADS_BY_LOCAL_QUEUE: Final = "workload-local-queue"
HOLDERS_BY_CLUSTER_QUEUE: Final = "workload-holds-quota-of"
LOCAL_QUEUES_BY_CLUSTER_QUEUE: Final = "local-queue-cluster-queue"
PODS_BY_WORKLOAD: Final = "topology-workload"


@ignores_status
def by_local_queue(workload: Workload) -> Iterable[str]:
    """Return the key of the LocalQueue in which the workload is or was queued."""
    return [f"{workload.metadata.namespace}/{workload.spec.queue_name}"]


def by_holding(workload: Workload) -> Iterable[str]:
    """Return the name of the ClusterQueue whose quota the workload holds; empty if it holds none."""
    return [workload.status.admission.cluster_queue] if workload.status.admission is not None else []


def by_cluster_queue(queue: LocalQueue) -> Iterable[str]:
    """Return the name of the ClusterQueue to which the LocalQueue sends its workloads."""
    return [queue.spec.cluster_queue]


@ignores_status
def by_workload(pod: Pod) -> Iterable[str]:
    """Return the key of the Workload that assigns the pod's topology domain."""
    name = pod.metadata.annotations.get(WORKLOAD_ANNOTATION)
    return [f"{pod.metadata.namespace}/{name}"] if name else []
