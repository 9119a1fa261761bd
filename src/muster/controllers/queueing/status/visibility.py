"""List the workloads that wait in a queue for the visibility API, read from the queues at each request."""

from collections.abc import Iterable

from muster.api.kueue import Workload
from muster.api.kueue.visibility import PendingWorkload, PendingWorkloadsSummary
from muster.api.meta import ObjectMeta
from muster.controllers.queueing.cache import QueueingCache
from muster.queueing.pending.queues import Position


class Visibility:
    """The list of pending workloads. The cost of a request depends on the length of its result, not of the queue."""

    def __init__(self, cache: QueueingCache) -> None:
        self._cache = cache

    def in_cluster_queue(self, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        """Return a slice of a ClusterQueue's pending workloads, in order; None if there is no such queue.

        offset, limit: how many workloads to skip, and how many to return at most.
        """
        if name not in self._cache.tree.queues:
            return None
        return self._summarize(self._cache.queues.yield_pending(name, offset=offset, limit=limit))

    def in_local_queue(self, namespace: str, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        """Return a slice of a LocalQueue's pending workloads, in order; None if there is no such queue.

        offset, limit: how many workloads to skip, and how many to return at most.
        """
        key = f"{namespace}/{name}"
        queue = self._cache.local_queues.get(key)
        if queue is None:
            return None
        positions = self._cache.queues.pending_local(key, queue.spec.cluster_queue, offset=offset, limit=limit)
        return self._summarize(positions)

    def _summarize(self, positions: Iterable[Position]) -> PendingWorkloadsSummary:
        get = self._cache.workloads.get
        workloads = ((position, get(position.workload.whole)) for position in positions)
        # A workload that was just deleted may still be pending while the cache handles a burst of events.
        return PendingWorkloadsSummary(
            items=tuple(_make_item(position, obj) for position, obj in workloads if obj is not None)
        )


def _make_item(position: Position, obj: Workload) -> PendingWorkload:
    meta = obj.metadata
    return PendingWorkload(
        metadata=ObjectMeta(
            name=meta.name,
            namespace=meta.namespace,
            owner_references=meta.owner_references,
            creation_timestamp=meta.creation_timestamp,
        ),
        priority=obj.spec.priority or 0,
        local_queue_name=obj.spec.queue_name,
        position_in_cluster_queue=position.in_queue,
        position_in_local_queue=position.in_local,
    )
