"""How worker clusters are reached, and what all those of a manager have in common."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from msgspec import Struct

from muster.api.config.types import ClientConnection
from muster.api.kinds import Kind
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.limits import Limits
from muster.runtime.pace import paced_as
from muster.runtime.transport import Request, Transport, TransportError

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# Bookmarks come every minute: a stream that is silent for longer has no server at its other end.
STREAM_IDLE_SECONDS = 90.0
# As much of an answer is kept in memory: a page of 100 objects of 160 kB.
MOST_BYTES = 16 << 20
# Of one kind; as JSON, which takes some four times as much once it is read. A Workload has a hundred parts, a JobSet of
# many roles a few thousand; an API server stores no object of more than 1.5 MB, which may be twice that as JSON.
LIMITS = Limits(page=100, objects=200_000, size=256 << 20, parts=500_000, line=4 << 20, line_parts=60_000)


class Reach(Protocol):
    """How a worker is reached."""

    def __call__(self, config: "ConnectionConfig", clock: Clock, random: Random, /) -> Transport:
        """A transport of its own. Raises `TransportError`."""
        ...


def over_https(config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
    """As any Kubernetes API server is.

    A kubeconfig has its credentials in it. Plugins are the administrator's, and have our environment.
    """
    from muster.runtime.kube.https import HttpsTransport  # it takes long to load, and most clusters have no worker

    return HttpsTransport(
        config,
        clock,
        random,
        environ=os.environ if config.user.exec is not None else {},
        max_response_bytes=MOST_BYTES,
        stream_idle_seconds=STREAM_IDLE_SECONDS,
    )


def paced(reach: Reach, said: ClientConnection | None) -> Reach:
    """The same, with as many requests a second to each worker as are said."""

    def pacing(config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
        return paced_as(reach(config, clock, random), clock, said)

    return pacing


class Surroundings(Struct, frozen=True):
    """What all workers of a manager have in common.

    origin: value of the label that marks what is the manager's.
    kinds: of the jobs that are mirrored; a worker need not serve them.
    """

    origin: str
    kinds: Sequence[Kind[Any]]
    clock: Clock
    random: Random
    reach: Reach = over_https


class _NoWay:
    """The transport of a cluster that cannot be reached."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    async def request(self, _request: Request) -> NoReturn:
        raise TransportError(self._problem)

    def stream(self, _request: Request) -> NoReturn:
        raise TransportError(self._problem)

    async def close(self) -> None:
        """There is nothing to let go of."""


def unreachable(problem: str) -> Client:
    """The client of such a cluster: every request fails, and says why."""
    return Client(_NoWay(problem))
