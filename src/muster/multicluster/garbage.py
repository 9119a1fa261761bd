"""Remove leftovers from workers: clones and jobs of workloads that no longer exist in the manager.

A deletion does not reach a worker that is unreachable at that time. Objects without the manager's origin label are
never deleted.
"""

from collections.abc import Iterator

from muster.api.kueue import WORKLOAD
from muster.api.status import ApiError
from muster.multicluster.errands import await_all_steps
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.sanitizing import in_one_line
from muster.multicluster.removal import remove
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.objects import split_key
from muster.runtime.transport import TransportError

# A worker that deletes slowly must not block the others; each gets a bounded number of requests at once.
WORKERS, MOST_AT_ONCE = 4, 16
# An orphan whose pods are terminating is checked again after this time.
AGAIN_SECONDS = 5.0


class GarbageCollector(Reconciler):
    """The controller that removes the leftovers of each connected cluster at an interval. A `Manager` runs it."""

    name = "multikueue-gc"

    def __init__(self, manager: Manager, fleet: Fleet, interval_seconds: float) -> None:
        super().__init__(manager, workers=WORKERS)
        self._fleet = fleet
        self._interval = interval_seconds
        self._workloads = manager.informer(WORKLOAD)
        fleet.on_standing(lambda name: self._controller.queue.add_after(name, self._interval))

    async def _reconcile(self, key: str) -> Result:
        cluster = self._fleet.get(key)
        if cluster is None or cluster.lost_since is not None:
            return None  # the cluster is checked once it is connected
        left = iter(sorted(cluster.keys()))
        try:
            again = await await_all_steps(self._collect(cluster, left) for _ in range(MOST_AT_ONCE))
        except (ApiError, TransportError) as error:
            raise in_one_line(error) from None
        return self._interval if again is None else min(again, self._interval)

    async def _collect(self, cluster: RemoteCluster, keys: Iterator[str]) -> Result:
        """Remove the leftovers of these workloads one by one.

        Return the seconds until the next check; None if nothing remains.
        """
        again = None
        for key in keys:
            if await self._is_gone(key) and not await remove(
                cluster.client, cluster.jobs_of(key), cluster.workload(key)
            ):
                again = AGAIN_SECONDS
        return again

    async def _is_gone(self, key: str) -> bool:
        """Return whether the workload no longer exists.

        Ask the manager's server, because the cache may be stale.
        """
        cached = self._workloads.get(key)
        if cached is not None and cached.metadata.deletion_timestamp is None:
            return False
        namespace, name = split_key(key)
        workload = await self._client.find(WORKLOAD, name, namespace)
        return workload is None or workload.metadata.deletion_timestamp is not None
