"""Write the weighted share of each Cohort to its status, if fair sharing is on."""

from muster.api.kueue import COHORT, ClusterQueue, Cohort
from muster.controllers.queueing.cache import QueueingCache
from muster.controllers.queueing.writing import queue_after_burst, set_status
from muster.queueing.quota.status import cohort_status
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler

# A key that stands for all Cohorts, because the quota of one changes the shares of others. No Cohort has this name.
_ALL = "*"


class CohortController(Reconciler):
    """The reconciler of Cohorts. It combines all changes below a Cohort within a moment in one write."""

    name = "cohort"

    def __init__(self, manager: Manager, cache: QueueingCache) -> None:
        super().__init__(manager)
        self._cache = cache
        self._cohorts = manager.informer(COHORT)
        if cache.can_share_fairly:
            cache.notifier.on_change(lambda queue, _local: self._on_usage_changed(queue))
            cache.cluster_queues.on_change(self._on_spec_changed)
            self._cohorts.on_change(self._on_spec_changed)

    def _queue_soon(self, key: str) -> None:
        queue_after_burst(self._controller.queue, key)

    def _on_usage_changed(self, queue: str) -> None:
        """Queue all Cohorts above a ClusterQueue whose usage changed."""
        node = self._cache.tree.queues.get(queue)
        for above in node.ancestors() if node is not None else ():
            self._queue_soon(above.name)

    def _on_spec_changed(self, old: ClusterQueue | Cohort | None, new: ClusterQueue | Cohort | None) -> None:
        if old is None or new is None or old.spec != new.spec:
            self._queue_soon(_ALL)

    async def _reconcile(self, key: str) -> Result:
        if key == _ALL:
            for name in self._cache.tree.cohorts:
                self._controller.queue.add(name)
            return None
        cohort, node = self._cohorts.get(key), self._cache.tree.cohorts.get(key)
        if cohort is not None and node is not None and self._cache.settings.fair is not None:
            await set_status(self._client, COHORT, cohort, cohort.status, cohort_status(node))
        return None
