"""Read the pending workloads of queues from the visibility API, which a cluster may lack."""

from typing import Any

import msgspec

from muster.api.kueue import LOCAL_QUEUE
from muster.api.kueue.visibility import (
    MAX_PENDING_LIMIT,
    VISIBILITY_GROUP,
    VISIBILITY_VERSIONS,
    PendingWorkload,
    PendingWorkloadsSummary,
)
from muster.insight.reader.listing.access import UNSEEN
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring
from muster.runtime.transport import Request, UnreadableAnswerError


class Visibility(msgspec.Struct):
    """The visibility API of a cluster. The first request finds the version that the cluster serves."""

    client: Client
    _versions: list[str] = msgspec.field(default_factory=lambda: list(VISIBILITY_VERSIONS))

    async def list_of_local_queue(
        self, namespace: str, queue: str, limit: int = MAX_PENDING_LIMIT, offset: int = 0
    ) -> list[PendingWorkload] | None:
        """Return the pending workloads of a LocalQueue in order; None if the server does not show them to the user.

        limit, offset: how many to return at most, and how many to skip.
        """
        return await self._ask(f"namespaces/{namespace}/{LOCAL_QUEUE.plural}/{queue}", limit, offset)

    async def list_of_cluster_queue(
        self, queue: str, limit: int = MAX_PENDING_LIMIT, offset: int = 0
    ) -> list[PendingWorkload] | None:
        """Return the pending workloads of a ClusterQueue in order; None if the server does not show them to the user.

        limit, offset: how many to return at most, and how many to skip.
        """
        return await self._ask(f"clusterqueues/{queue}", limit, offset)

    async def find_positions(self, queues: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the positions, from 1, of all workloads that wait in LocalQueues, by their namespace and name.

        queues: the namespace and name of each LocalQueue.
        """
        position_by_key = {}
        for namespace, queue in sorted(queues):
            for one in await self.list_of_local_queue(namespace, queue) or ():
                position_by_key[namespace, one.metadata.name] = one.position_in_cluster_queue + 1
        return position_by_key

    async def _ask(self, path: str, limit: int, offset: int) -> list[PendingWorkload] | None:
        query = {"limit": str(limit)} | ({"offset": str(offset)} if offset else {})
        for version in tuple(self._versions):
            url = f"/apis/{VISIBILITY_GROUP}/{version}/{path}/pendingworkloads"
            with ignoring(*UNSEEN):
                answer = await self.client.raw(Request("GET", url, query))
                self._versions = [version]
                return list(_decode(answer.body).items)
        return None


def _decode(body: bytes) -> PendingWorkloadsSummary:
    try:
        document: dict[str, Any] = msgspec.json.decode(body)
        items = document.get("items") or []  # Go writes an empty list as null
        return msgspec.convert({"items": items}, PendingWorkloadsSummary)
    except (msgspec.DecodeError, AttributeError) as error:
        raise UnreadableAnswerError(f"the list of pending workloads is not as we know it: {error}") from error
