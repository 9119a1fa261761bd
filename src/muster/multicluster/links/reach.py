"""Connect to worker clusters, and hold the settings that all workers of a manager share."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from msgspec import Struct

from muster.api.config.types import ClientConnection
from muster.api.kinds import Kind
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.pace import paced_as
from muster.runtime.ids import Random
from muster.runtime.limits import Limits
from muster.runtime.transport import Request, Transport, TransportError

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# Bookmarks arrive every minute: a stream that is silent for longer has lost its server.
STREAM_IDLE_SECONDS = 90.0
# If the loss of a worker must be detected sooner, the worker is pinged this many times within that time, but not more
# often than every `LEAST_PING_SECONDS`, and with at least `LEAST_ANSWER_SECONDS` to answer.
PINGS_WITHIN, LEAST_PING_SECONDS, LEAST_ANSWER_SECONDS = 4, 2.0, 5.0
# The maximum size of an answer in memory: a page of 100 objects of 160 kB.
MOST_BYTES = 16 << 20
# The limits for one kind; sizes as JSON, which takes some four times as much once decoded. A Workload has a hundred
# parts, a JobSet of many roles a few thousand; an API server stores no object of more than 1.5 MB, which may be twice
# that as JSON.
LIMITS = Limits(page=100, objects=200_000, size=256 << 20, parts=500_000, line=4 << 20, line_parts=60_000)


class Reach(Protocol):
    """A function that opens a transport to a worker."""

    def __call__(self, config: "ConnectionConfig", clock: Clock, random: Random, /) -> Transport:
        """Return a new transport. Raises `TransportError`."""
        ...


def over_https(config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
    """Return an HTTPS transport to a worker, as to any Kubernetes API server.

    The kubeconfig contains the credentials. Credential plugins are the administrator's and run in this process's
    environment.
    """
    from muster.runtime.kube.https import HttpsTransport  # the module loads slowly, and most clusters have no worker

    return HttpsTransport(
        config,
        clock,
        random,
        environ=os.environ if config.user.exec is not None else {},
        max_response_bytes=MOST_BYTES,
        stream_idle_seconds=STREAM_IDLE_SECONDS,
    )


def pace_reach(reach: Reach, limits: ClientConnection | None) -> Reach:
    """Return the function with a limit on the requests per second to each worker."""

    def pacing(config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
        return paced_as(reach(config, clock, random), clock, limits)

    return pacing


class Surroundings(Struct, frozen=True):
    """The settings that all workers of a manager share.

    origin: the value of the label that marks the manager's objects.
    kinds: the kinds of jobs that are mirrored; a worker need not serve them.
    ping_seconds: how often a worker is pinged; None if its watches reveal a loss in time.
    """

    origin: str
    kinds: Sequence[Kind[Any]]
    clock: Clock
    random: Random
    reach: Reach = over_https
    ping_seconds: float | None = None


def ping_seconds(lost_timeout_seconds: float) -> float | None:
    """Return the seconds between two pings of a worker; None if a silent stream reveals its loss in time.

    lost_timeout_seconds: how long a worker is lost before the manager gives it up.
    """
    seconds = max(lost_timeout_seconds / PINGS_WITHIN, LEAST_PING_SECONDS)
    return seconds if seconds < STREAM_IDLE_SECONDS else None


class _NoWay:
    """The transport to a cluster that cannot be reached."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    async def request(self, _request: Request) -> NoReturn:
        raise TransportError(self._problem)

    def stream(self, _request: Request) -> NoReturn:
        raise TransportError(self._problem)

    async def close(self) -> None:
        """Do nothing, because there is no connection."""


def make_unreachable(problem: str) -> Client:
    """Return a client whose every request fails with this problem as its message."""
    return Client(_NoWay(problem))
