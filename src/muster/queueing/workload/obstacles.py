"""Find the queue, among a workload's LocalQueue and ClusterQueue, that is stopped or missing.

A workload that is not admitted yet then loses its reservation. If the queue is drained, running workloads are evicted.
"""

from msgspec import Struct

from muster.api.kueue.names import CLUSTER_QUEUE_STOPPED, LOCAL_QUEUE_STOPPED, MISCONFIGURED, SUSPENDED
from muster.queueing.model import PendingReason, StopPolicy


class QueueState(Struct, frozen=True):
    """A workload's LocalQueue or ClusterQueue.

    stop: its stop policy; None if there is no such queue.
    """

    name: str
    stop: StopPolicy | None = None
    terminating: bool = False


def find_obstacle(local: QueueState, queue: QueueState) -> PendingReason | None:
    """Return why a stopped or missing queue keeps a workload from getting quota; None if neither queue does.

    The LocalQueue is checked first. Source for stopped queues: Kueue KEP-1284.
    """
    return _find_in("LocalQueue", local) or _find_in("ClusterQueue", queue)


def find_drain(local: QueueState, queue: QueueState) -> PendingReason | None:
    """Return why a drained queue evicts a running workload (Kueue KEP-1284); None if neither queue is drained."""
    if local.stop == "HoldAndDrain":
        return PendingReason(LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped")
    if queue.stop == "HoldAndDrain":
        return PendingReason(CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped")
    return None


def _find_in(kind: str, queue: QueueState) -> PendingReason | None:
    if queue.stop is None or queue.terminating:
        return PendingReason(MISCONFIGURED, f"{kind} {queue.name} is terminating or missing")
    return PendingReason(SUSPENDED, f"{kind} {queue.name} is stopped") if queue.stop != "None" else None
