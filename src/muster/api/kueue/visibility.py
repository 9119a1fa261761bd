"""`visibility.kueue.x-k8s.io`: the pending workloads of a queue in order, computed on demand and never stored."""

from typing import Final

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct

VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS: Final = ("v1beta2", "v1beta1")  # the preferred version first; both have the same fields
DEFAULT_PENDING_LIMIT: Final = 1000
MAX_PENDING_LIMIT: Final = 100_000


class PendingWorkload(Struct, omit_defaults=False):
    """A workload that waits.

    metadata: its name, namespace, owners and creation time.
    priority: its priority.
    local_queue_name: the LocalQueue of the workload.
    position_in_cluster_queue: the number of workloads of the ClusterQueue ahead of it.
    position_in_local_queue: the number of workloads of the LocalQueue ahead of it.
    """

    metadata: ObjectMeta = ObjectMeta()
    priority: Required[Int32] = 0
    local_queue_name: Required[str] = ""
    position_in_cluster_queue: Required[Int32] = 0
    position_in_local_queue: Required[Int32] = 0


class PendingWorkloadsSummary(Struct, omit_defaults=False):
    """The workloads that wait in a queue.

    metadata: empty.
    items: the workloads in the order of admission attempts.
    """

    metadata: ObjectMeta = ObjectMeta()
    items: tuple[PendingWorkload, ...] = ()


class ClusterQueue(Struct):
    """The ClusterQueue in this API group, with the subresource of its pending workloads.

    metadata: its name.
    pending_workloads_summary: the workloads that wait.
    """

    metadata: ObjectMeta = ObjectMeta()
    pending_workloads_summary: PendingWorkloadsSummary = PendingWorkloadsSummary()


class LocalQueue(Struct):
    """The LocalQueue in this API group, with the subresource of its pending workloads.

    metadata: its name and namespace.
    pending_workloads_summary: the workloads that wait.
    """

    metadata: ObjectMeta = ObjectMeta()
    pending_workloads_summary: PendingWorkloadsSummary = PendingWorkloadsSummary()


def cluster_queues(version: str) -> Kind[ClusterQueue]:
    """Return the kind of ClusterQueues in a version."""
    return Kind(VISIBILITY_GROUP, version, "ClusterQueue", "clusterqueues", ClusterQueue, namespaced=False)


def local_queues(version: str) -> Kind[LocalQueue]:
    """Return the kind of LocalQueues in a version."""
    return Kind(VISIBILITY_GROUP, version, "LocalQueue", "localqueues", LocalQueue)


def kind_of_summaries(version: str) -> Kind[PendingWorkloadsSummary]:
    """Return the kind of the subresource `pendingworkloads` of a queue in a version."""
    return Kind(VISIBILITY_GROUP, version, "PendingWorkloadsSummary", "pendingworkloads", PendingWorkloadsSummary)
