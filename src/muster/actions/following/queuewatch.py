"""Follow the Workload of one job, and the job's position in its queue."""

from muster.api.kueue import WORKLOAD, Workload
from muster.insight.quota.state import QuotaState, find_quota_state, index_by_owner
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.quota.workloads import labels_of
from muster.insight.reader.visibility import Visibility
from muster.runtime.client import Client
from muster.runtime.informer import Informer
from muster.runtime.realclock import Clock
from muster.runtime.transport import TransportError

# The seconds between two reads of a waiting job's queue position, and the largest position that is shown.
POSITION_SECONDS = 10.0
POSITION_LIMIT = 1000


async def has_workloads(client: Client, namespace: str, job_uid: str) -> bool:
    """Return whether the server serves Workloads and the user may list them in the namespace."""
    return await list_or_none(client, WORKLOAD, namespace, labels=labels_of(job_uid)) is not None


class QueueWatch:
    """A watch on a job's state in its queue. The queue position is read after each change, and periodically."""

    def __init__(self, client: Client, clock: Clock, workloads: Informer[Workload], job_uid: str) -> None:
        self.clock, self.workloads, self.job_uid = clock, workloads, job_uid
        self._visibility = Visibility(client)
        self._asked = ("", 0.0)  # the resource version of the Workload, and the time of the last read
        self._position: int | None = None

    async def quota_state(self) -> QuotaState | None:
        """Return the current state of the job's Workload, with its queue position; None if the job has no Workload."""
        workload = index_by_owner(self.workloads.all()).get(self.job_uid)
        if workload is None:
            return None
        state = find_quota_state(workload)
        if not state.waits:
            self._asked = ("", 0.0)
            return state
        version, now = workload.metadata.resource_version, self.clock.monotonic()
        if self._asked[0] != version or now - self._asked[1] >= POSITION_SECONDS:
            self._asked = version, now
            self._position = await self._ask_position(workload)
        return find_quota_state(workload, self._position)

    async def _ask_position(self, workload: Workload) -> int | None:
        meta = workload.metadata
        try:
            pending = await self._visibility.list_of_local_queue(
                meta.namespace, workload.spec.queue_name, POSITION_LIMIT
            )
        except TransportError:
            return None  # the follower probes the server and reports this
        mine = (one for one in pending or () if one.metadata.name == meta.name)
        return next((one.position_in_cluster_queue + 1 for one in mine), None)
