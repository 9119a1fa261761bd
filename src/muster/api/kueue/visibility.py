"""`visibility.kueue.x-k8s.io`: the pending workloads of a queue, in their order; computed on demand, never stored."""

from typing import Final

from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
from muster.api.meta import ObjectMeta, Struct

VISIBILITY_GROUP: Final = "visibility.kueue.x-k8s.io"
VISIBILITY_VERSIONS: Final = ("v1beta2", "v1beta1")  # the preferred one first; they are alike
DEFAULT_PENDING_LIMIT: Final = 1000
MAX_PENDING_LIMIT: Final = 100_000


class PendingWorkload(Struct, omit_defaults=False):
    """A workload that waits.

    metadata: its name, namespace, owners and creation time.
    priority: its priority.
    local_queue_name: the LocalQueue that it was submitted to.
    position_in_cluster_queue: how many of the ClusterQueue are before it.
    position_in_local_queue: how many of the LocalQueue are before it.
    """

    metadata: ObjectMeta = ObjectMeta()
    priority: Required[Int32] = 0
    local_queue_name: Required[str] = ""
    position_in_cluster_queue: Required[Int32] = 0
    position_in_local_queue: Required[Int32] = 0


class PendingWorkloadsSummary(Struct, omit_defaults=False):
    """The workloads that wait in a queue.

    metadata: empty.
    items: the workloads, in the order in which they are considered.
    """

    metadata: ObjectMeta = ObjectMeta()
    items: tuple[PendingWorkload, ...] = ()


class PendingWorkloadOptions(Struct):
    """Which part of the list is asked for.

    offset: how many to leave out at the beginning.
    limit: how many at most.
    """

    offset: int = 0
    limit: int = DEFAULT_PENDING_LIMIT


class ClusterQueue(Struct):
    """A ClusterQueue, as far as this group knows it; below it are the workloads that wait in it.

    metadata: its name.
    pending_workloads_summary: the workloads that wait.
    """

    metadata: ObjectMeta = ObjectMeta()
    pending_workloads_summary: PendingWorkloadsSummary = PendingWorkloadsSummary()


class LocalQueue(Struct):
    """A LocalQueue, as far as this group knows it; below it are the workloads that wait in it.

    metadata: its name and namespace.
    pending_workloads_summary: the workloads that wait.
    """

    metadata: ObjectMeta = ObjectMeta()
    pending_workloads_summary: PendingWorkloadsSummary = PendingWorkloadsSummary()


def cluster_queues(version: str) -> Kind[ClusterQueue]:
    """Return the kind of ClusterQueues in one of the versions."""
    return Kind(VISIBILITY_GROUP, version, "ClusterQueue", "clusterqueues", ClusterQueue, namespaced=False)


def local_queues(version: str) -> Kind[LocalQueue]:
    """Return the kind of LocalQueues in one of the versions."""
    return Kind(VISIBILITY_GROUP, version, "LocalQueue", "localqueues", LocalQueue)


def summaries(version: str) -> Kind[PendingWorkloadsSummary]:
    """Return the kind of `pendingworkloads` below a queue, in one of the versions."""
    return Kind(VISIBILITY_GROUP, version, "PendingWorkloadsSummary", "pendingworkloads", PendingWorkloadsSummary)
