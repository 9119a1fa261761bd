"""What all connections of a server share, and how each is closed when the server stops."""

import asyncio
import select
from dataclasses import dataclass
from typing import Any, Protocol

from muster.cluster.apiserver.front.crowd import Crowd, Guest
from muster.cluster.apiserver.front.unsent import Unsent
from muster.cluster.apiserver.identity.certificates import user_of_der
from muster.cluster.apiserver.identity.users import User

KEEP_ALIVE_SECONDS = 180  # clients let go of idle connections after 90 s and less
MAX_HEADER_BYTES = 64 * 1024  # of a request
HEADER_SECONDS = 10.0  # from the first byte to the end of the headers


class Served(Protocol):
    """A connection."""

    guest: Guest

    @property
    def is_endless(self) -> bool:
        """Whether none of the answers under way has an end."""
        ...

    @property
    def transport(self) -> asyncio.Transport:
        """Where it is written to."""
        ...

    def shutdown(self) -> None:
        """Take no more requests, and close once those that are there are answered."""
        ...

    def cut_streams(self) -> None:
        """Cut off what would go on without an end."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


@dataclass(frozen=True, slots=True)
class Shared:
    """`tasks` are requests that are worked on; `departed` is set when a connection has ended."""

    crowd: Crowd
    unsent: Unsent
    connections: set[Served]
    tasks: "set[asyncio.Task[Any]]"
    departed: asyncio.Event

    def left(self, connection: Served) -> None:
        """A connection has ended: the collector, which comes late, must not be the one to free its TLS buffers."""
        self.crowd.left(connection.guest)
        connection.guest.leave = _nothing
        self.connections.discard(connection)
        self.departed.set()


def _nothing() -> None:
    """Do nothing: a connection that has closed has left already."""


def known_by(transport: asyncio.BaseTransport) -> User | None:
    """Whom the client certificate names."""
    tls = transport.get_extra_info("ssl_object")
    certificate = tls.getpeercert(binary_form=True) if tls is not None else None
    return user_of_der(certificate) if certificate else None


def owes(transport: asyncio.Transport) -> bool:
    """Whether there is something written that has not left yet."""
    if transport.get_write_buffer_size():
        return True
    # TLS has a buffer of its own, which is not counted there: it fills when the kernel takes no more.
    socket = transport.get_extra_info("socket")
    if socket is None:  # the client has gone
        return False
    line = select.poll()
    line.register(socket, select.POLLOUT)
    return not line.poll(0)
