"""Write the status of ClusterQueues, and remove the finalizer of deleted ones that are no longer in use.

The status shows whether a queue admits workloads, and how many workloads wait or hold quota.
"""

import msgspec

from muster.api.conditions import find
from muster.api.kueue import CLUSTER_QUEUE, ClusterQueue
from muster.api.kueue.names import ACTIVE
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.writing import maintain_finalizer, queue_after_burst, set_status
from muster.queueing.quota.status import queue_status, with_activity
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.events.recorder import Recorder
from muster.runtime.objects import make_reference

# A key that stands for all queues, because a change of quota changes the shares of others in the tree. No queue has
# this name.
_ALL = "*"


class ClusterQueueController(Reconciler):
    """The reconciler of ClusterQueues. It combines all changes of a ClusterQueue within a moment in one write."""

    name = "clusterqueue"

    def __init__(self, manager: Manager, cache: QueueingCache, recorder: Recorder) -> None:
        super().__init__(manager)
        self._cache = cache
        self._recorder = recorder
        cache.notifier.on_change(lambda queue, _local: self._queue_soon(queue))
        cache.cluster_queues.on_change(self._on_cluster_queue_changed)

    @property
    def _is_fair(self) -> bool:
        return self._cache.settings.fair is not None

    def _queue_soon(self, key: str) -> None:
        if key:
            queue_after_burst(self._controller.queue, key)

    def _on_cluster_queue_changed(self, old: ClusterQueue | None, new: ClusterQueue | None) -> None:
        if new is not None:
            self._queue_soon(new.metadata.name)
        if self._is_fair and (old is None or new is None or old.spec != new.spec):
            self._queue_soon(_ALL)

    async def _reconcile(self, key: str) -> Result:
        if key == _ALL:
            for name in self._cache.tree.queues:
                self._controller.queue.add(name)
            return None
        cache = self._cache
        queue, node, activity = cache.cluster_queues.get(key), cache.tree.queues.get(key), cache.activity(key)
        if queue is None or node is None or activity is None:
            return None
        if await maintain_finalizer(self._client, CLUSTER_QUEUE, queue, in_use=bool(node.workloads)):
            return None
        old = queue.status
        conditions = with_activity(old.conditions, activity, self._clock.now(), queue.metadata.generation)
        status = queue_status(old, node, sum(cache.queues.counts(key)), fair=self._is_fair)
        status = msgspec.structs.replace(status, conditions=conditions)
        await set_status(self._client, CLUSTER_QUEUE, queue, old, status)
        before = find(old.conditions, ACTIVE)
        if before is None or (before.status == "True") != activity.active:
            about = make_reference(CLUSTER_QUEUE, queue)
            self._recorder.event(about, "Normal" if activity.active else "Warning", activity.reason, activity.message)
        return None
