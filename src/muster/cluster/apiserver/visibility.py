"""Answer `pendingworkloads`: the waiting workloads of a queue, in order, as Kueue's visibility server lists them.

Nothing is stored. The controllers of the queues provide the answer; if they do not run here, the answer is 503.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from muster.api.kueue.visibility import (
    DEFAULT_PENDING_LIMIT,
    MAX_PENDING_LIMIT,
    VISIBILITY_GROUP,
    PendingWorkloadsSummary,
)
from muster.api.status import not_found, unavailable
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import parse_integer
from muster.runtime.transport import JSON, Response

_ACTIONS = tuple(f"{queues}.{VISIBILITY_GROUP}/pendingworkloads" for queues in ("clusterqueues", "localqueues"))


class PendingWorkloads(Protocol):
    """The engine's queues, as the API server reads them.

    Each method returns a part of the list; None if the queue does not exist.
    """

    def in_cluster_queue(self, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        """Return the workloads that wait in a ClusterQueue."""
        ...

    def in_local_queue(self, namespace: str, name: str, offset: int, limit: int) -> PendingWorkloadsSummary | None:
        """Return the workloads that wait in a LocalQueue."""
        ...


def pending_actions(pending: PendingWorkloads | None) -> Mapping[str, Callable[[Call], Awaitable[Response]]]:
    """Return the actions that list pending workloads, by name.

    pending: the engine's queues; with None, every answer is 503.
    """

    async def read(call: Call) -> Response:
        return _read(call, pending)

    return dict.fromkeys(_ACTIONS, read)


def _read(call: Call, pending: PendingWorkloads | None) -> Response:
    """Return the part of the list that the query requests. Raises `ApiError` (400, 404, 503)."""
    offset = max(parse_integer(call.request.query, "offset") or 0, 0)
    limit = min(max(parse_integer(call.request.query, "limit") or DEFAULT_PENDING_LIMIT, 0), MAX_PENDING_LIMIT)
    if pending is None:
        raise unavailable("the queue controllers do not run here, so the server cannot list pending workloads")
    if call.resource.kind.namespaced:
        summary = pending.in_local_queue(call.namespace, call.name, offset, limit)
    else:
        summary = pending.in_cluster_queue(call.name, offset, limit)
    if summary is None:
        raise not_found(f"{call.resource.singular}.{call.resource.kind.group}", call.name)
    return Response(200, call.view.kind.encode(summary), JSON)
