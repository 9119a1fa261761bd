"""Follows the Workload of one job, and where it stands in its queue."""

from dataclasses import dataclass, field

from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import JOB_UID_LABEL
from muster.insight.quotastate import QuotaState, by_owner, quota_state
from muster.insight.reader.queues import Visibility, list_or_none
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.informer import Informer
from muster.runtime.transport import TransportError

# While a job waits, its position is asked for this often; not told to those who are further back.
POSITION_SECONDS = 10.0
POSITION_LIMIT = 1000


def labels_of(job_uid: str) -> str:
    """Selects the Workloads of a job."""
    return f"{JOB_UID_LABEL}={job_uid}"


async def has_workloads(client: Client, namespace: str, job_uid: str) -> bool:
    """Whether Workloads can be followed: they are served, and the user may see them."""
    return await list_or_none(client, WORKLOAD, namespace, labels=labels_of(job_uid)) is not None


@dataclass(slots=True)
class QueueWatch:
    """Tells where a job stands. Its position is asked for when something changed, and now and then."""

    client: Client
    clock: Clock
    workloads: Informer[Workload]
    job_uid: str
    _visibility: Visibility = field(init=False)
    _asked: tuple[str, float] = ("", 0.0)  # for which version of the Workload, and when
    _position: int | None = None

    def __post_init__(self) -> None:
        self._visibility = Visibility(self.client)

    async def quota_state(self) -> QuotaState | None:
        """Where it stands now; None if it has no Workload."""
        workload = by_owner(self.workloads.all()).get(self.job_uid)
        if workload is None:
            return None
        found = quota_state(workload)
        if not found.waits:
            self._asked = ("", 0.0)
            return found
        version, now = workload.metadata.resource_version, self.clock.monotonic()
        if self._asked[0] != version or now - self._asked[1] >= POSITION_SECONDS:
            self._asked = version, now
            self._position = await self._ask(workload)
        return quota_state(workload, self._position)

    async def _ask(self, workload: Workload) -> int | None:
        meta = workload.metadata
        try:
            pending = await self._visibility.local(meta.namespace, workload.spec.queue_name, POSITION_LIMIT)
        except TransportError:
            return None  # whether the server is there is watched by the follower
        mine = (one for one in pending or () if one.metadata.name == meta.name)
        return next((one.position_in_cluster_queue + 1 for one in mine), None)
