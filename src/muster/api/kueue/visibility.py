"""`visibility.kueue.x-k8s.io`: the workloads that wait in a queue, in their order; made on demand, never stored."""

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


# Read through `pendingworkloads` below a ClusterQueue or a LocalQueue of the group.
PENDING_WORKLOADS_SUMMARY = Kind(
    VISIBILITY_GROUP,
    VISIBILITY_VERSIONS[0],
    "PendingWorkloadsSummary",
    "pendingworkloads",
    PendingWorkloadsSummary,
)
