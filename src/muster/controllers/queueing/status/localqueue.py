"""Write the status of LocalQueues: whether they are active, and their numbers of waiting and admitted workloads."""

from typing import cast

import msgspec

from muster.api.kueue import LOCAL_QUEUE, ClusterQueue, LocalQueue
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.fairusage import FairUsageController
from muster.controllers.queueing.writing import queue_after_burst, set_status
from muster.queueing.model import StopPolicy
from muster.queueing.pending.activity import local_activity
from muster.queueing.quota.status import local_status, with_activity
from muster.queueing.quota.tallies import WorkloadSums
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import key_of

_BY_CLUSTER_QUEUE = "cluster-queue"


class LocalQueueController(Reconciler):
    """The reconciler of LocalQueues. It combines all changes of a LocalQueue within a moment in one write."""

    name = "localqueue"

    def __init__(self, manager: Manager, cache: QueueingCache, usage: FairUsageController | None = None) -> None:
        """Create the controller.

        usage: the controller of past usage; None if admission fair sharing is off.
        """
        super().__init__(manager)
        self._cache = cache
        self._usage = usage
        self._queues = manager.informer(LOCAL_QUEUE, indexes={_BY_CLUSTER_QUEUE: _index_by_cluster_queue})
        cache.notifier.on_change(self._on_usage_changed)
        self._queues.on_change(lambda _old, new: self._queue_soon(key_of(new)) if new is not None else None)
        cache.cluster_queues.on_change(self._on_cluster_queue_changed)
        if usage is not None:
            usage.on_sample(self._queue_soon)

    def _queue_soon(self, key: str) -> None:
        queue_after_burst(self._controller.queue, key)

    def _on_usage_changed(self, queue: str, local_queue: str) -> None:
        """Queue one LocalQueue, or all LocalQueues of a ClusterQueue that itself changed."""
        if local_queue:
            self._queue_soon(local_queue)
        else:
            self._queue_all_of(queue)

    def _on_cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if old is not None and new is None:
            self._queue_all_of(old.metadata.name)

    def _queue_all_of(self, queue: str) -> None:
        for local in self._queues.by(_BY_CLUSTER_QUEUE, queue):
            self._queue_soon(key_of(local))

    async def _reconcile(self, key: str) -> Result:
        cache, local = self._cache, self._queues.get(key)
        if local is None:
            return None
        name, old = local.spec.cluster_queue, local.status
        node = cache.tree.queues.get(name)
        activity = local_activity(cast("StopPolicy", local.spec.stop_policy), cache.activity(name))
        status = local_status(
            old,
            node.tallies.of(key) if node is not None else WorkloadSums(),
            node.policy if node is not None else None,
            cache.queues.waiting_local(key, name),
        )
        conditions = with_activity(old.conditions, activity, self._clock.now(), local.metadata.generation)
        sharing = self._usage.make_status(local) if self._usage is not None else old.fair_sharing
        status = msgspec.structs.replace(status, conditions=conditions, fair_sharing=sharing)
        await set_status(self._client, LOCAL_QUEUE, local, old, status)
        return None


def _index_by_cluster_queue(local: LocalQueue) -> tuple[str]:
    return (local.spec.cluster_queue,)
