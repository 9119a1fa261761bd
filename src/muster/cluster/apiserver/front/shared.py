"""The state that all connections of a server share, and the protocol by which the listener closes each of them."""

import asyncio
import select
from typing import Any, Protocol

from msgspec import Struct

from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot
from muster.cluster.apiserver.front.unsent import Unsent
from muster.cluster.apiserver.identity.certificates import load_certificate, user_of
from muster.cluster.apiserver.identity.users import User

KEEP_ALIVE_SECONDS = 180  # clients close idle connections themselves, after 90 s or less
MAX_HEADER_BYTES = 64 * 1024  # the limit of a request's headers
HEADER_SECONDS = 10.0  # from the first byte to the end of the headers


class Served(Protocol):
    """A connection of any version of HTTP, as the listener needs it."""

    slot: ConnectionSlot

    @property
    def is_endless(self) -> bool:
        """Whether responses are in progress, and each ends only when the client or the server stops it."""
        ...

    @property
    def transport(self) -> asyncio.Transport:
        """The transport that the connection writes to."""
        ...

    def shutdown(self) -> None:
        """Accept no more requests, and close after the responses to the accepted requests."""
        ...

    def cut_streams(self) -> None:
        """Break off the responses that have no end of their own."""
        ...

    def abort(self) -> None:
        """Close the connection at once."""
        ...


class Shared(Struct, frozen=True):
    """The state shared by the connections of one listener.

    connections: the open connections.
    tasks: the tasks of current requests, which the set keeps alive.
    departed: set when a connection has closed.
    """

    connection_limit: ConnectionLimit
    unsent: Unsent
    connections: set[Served]
    tasks: "set[asyncio.Task[Any]]"
    departed: asyncio.Event

    def remove_connection(self, connection: Served) -> None:
        """Remove a closed connection, and every reference to it.

        The last reference frees the TLS buffers at once. The garbage collector would free them much later.
        """
        self.connection_limit.release(connection.slot)
        connection.slot.close = _do_nothing
        self.connections.discard(connection)
        self.departed.set()


def _do_nothing() -> None:
    """Do nothing: the `close` of a closed connection."""


def identify_client(transport: asyncio.BaseTransport, slot: ConnectionSlot) -> User | None:
    """Return the user that the client certificate names; None without a certificate or a name in it.

    Set `slot.certified_until` to the time when the certificate expires.
    """
    tls = transport.get_extra_info("ssl_object")
    certificate = load_certificate(tls.getpeercert(binary_form=True) or b"") if tls is not None else None
    if certificate is None:
        return None
    slot.certified_until = certificate.not_valid_after_utc
    return user_of(certificate)


def has_unsent_bytes(transport: asyncio.Transport) -> bool:
    """Return whether the transport has written bytes that the client has not received."""
    if transport.get_write_buffer_size():
        return True
    # The write buffer leaves out the buffer of TLS, which fills only when the kernel takes no more.
    socket = transport.get_extra_info("socket")
    if socket is None:  # the client has disconnected
        return False
    line = select.poll()
    line.register(socket, select.POLLOUT)
    return not line.poll(0)
