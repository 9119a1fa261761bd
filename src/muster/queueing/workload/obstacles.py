"""What takes a reservation away with which nothing has been started yet: a queue on the way that stopped or is gone."""

from typing import NamedTuple

from msgspec import Struct

from muster.api.kueue.names import MISCONFIGURED, SUSPENDED
from muster.queueing.model import StopPolicy


class Saying(NamedTuple):
    """Of the condition QuotaReserved=False."""

    reason: str
    message: str


class QueueState(Struct, frozen=True):
    """A LocalQueue or a ClusterQueue on a workload's way to quota.

    stop: its stop policy; None if there is no such queue.
    """

    name: str
    stop: StopPolicy | None = None
    terminating: bool = False


def obstacle(local: QueueState, queue: QueueState) -> Saying | None:
    """The first that is in the way (KEP-1284 for those that are stopped)."""
    return _of("LocalQueue", local) or _of("ClusterQueue", queue)


def _of(kind: str, queue: QueueState) -> Saying | None:
    if queue.stop is None or queue.terminating:
        return Saying(MISCONFIGURED, f"{kind} {queue.name} is terminating or missing")
    return Saying(SUSPENDED, f"{kind} {queue.name} is stopped") if queue.stop != "None" else None
