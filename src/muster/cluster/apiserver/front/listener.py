"""Listens on addresses, makes a connection of every client, and lets go gracefully.

What serves HTTP here stands on this: the API server, and webhooks, probes, metrics and logs beside another one. The
application says what is answered; clients, and what is kept for them, are bounded alike for all.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from muster.cluster.apiserver.front.asgi import App
from muster.cluster.apiserver.front.crowd import MAX_CONNECTIONS, Crowd, Guest
from muster.cluster.apiserver.front.door import Door
from muster.cluster.apiserver.front.http1 import connection as http1
from muster.cluster.apiserver.front.http2 import connection as http2
from muster.cluster.apiserver.front.shared import Served, Shared, owes
from muster.cluster.apiserver.front.unsent import MAX_UNSENT_BYTES, Unsent
from muster.cluster.apiserver.identity.credentials import HTTP2
from muster.cluster.memory import give_back

# Who answers none of so many probes has gone; as with Go's servers.
_TCP_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}
SETTLED_SECONDS = 1.0  # who got the last answer so long ago has taken all of it


class AddressUnusable(OSError):  # noqa: N818  (it says what is)
    """The server cannot listen there; the text says where, and why."""


class AddressTaken(AddressUnusable):
    """Another process listens there; the text says where and what to do."""


class Listener:
    """A server of HTTP/1.1, and of HTTP/2 where a client asks for that in its TLS handshake."""

    def __init__(
        self, application: App, context: ssl.SSLContext | None, stopping: Callable[[], None] = lambda: None
    ) -> None:
        """context: None serves without TLS. stopping: called before connections are shut down."""
        self._application = application
        self._context = context
        self._stopping = stopping
        self._crowd = Crowd(MAX_CONNECTIONS, _give_back_soon)
        unsent = Unsent(MAX_UNSENT_BYTES, _give_back_soon)
        self._shared = Shared(self._crowd, unsent, set(), set(), asyncio.Event())
        self._doors: list[Door] = []

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for. Raises `AddressUnusable`, `OSError`."""
        return await self.listen(bound(host, port))

    async def listen(self, address: socket.socket) -> int:
        """Listen on an address that was taken before; returns the port. Raises `OSError`."""
        door = Door(address, self._context, self._crowd, self._welcome)
        door.open()
        self._doors.append(door)
        return int(address.getsockname()[1])

    def _welcome(self, guest: Guest, deadline: float) -> "Arrival":
        return Arrival(self._application, self._shared, guest, deadline)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Take no more requests, end all streams, and wait so long for clients to take the answers under way."""
        for door in self._doors:
            door.close()
        self._stopping()
        connections = list(self._shared.connections)
        # A client that only keeps its connection may not be there to say good-bye.
        busy = set(filter(self._is_busy, connections))
        endless = {connection for connection in busy if connection.is_endless}
        for connection in connections:
            connection.shutdown()
        await self._wait_until_closed(busy, min(grace_seconds, 0.5))
        for connection in connections:
            connection.cut_streams()  # a log that is followed
        await self._wait_until_closed(busy - endless, grace_seconds)
        for connection in connections:
            connection.abort()
        await asyncio.sleep(0)

    def _is_busy(self, connection: Served) -> bool:
        """Whether an answer is on its way, or has just arrived."""
        idle_since = connection.guest.idle_since
        settled = asyncio.get_running_loop().time() - SETTLED_SECONDS
        return idle_since is None or idle_since > settled or owes(connection.transport)

    async def _wait_until_closed(self, connections: set[Served], seconds: float) -> None:
        """Wait until all of these have ended, but no longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not connections.isdisjoint(self._shared.connections):
                    self._shared.departed.clear()
                    await self._shared.departed.wait()


class Arrival(asyncio.Protocol):
    """A client whose TLS handshake is over: it gets the protocol that was agreed on in it."""

    def __init__(self, application: App, shared: Shared, guest: Guest, deadline: float) -> None:
        self._begun_with = application, shared, guest, deadline
        self._guest = guest

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Hand the transport to the connection, for good."""
        peer = transport.get_extra_info("peername")
        self._guest.address = str(peer[0]) if peer else ""
        tls = transport.get_extra_info("ssl_object")
        is_http2 = tls is not None and tls.selected_alpn_protocol() == HTTP2
        protocol = http2.Connection(*self._begun_with) if is_http2 else http1.Connection(*self._begun_with)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def bound(host: str, port: int) -> socket.socket:
    """Take an address, or that of a host name, without listening yet; "" is all of them. Raises `AddressUnusable`."""
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host or is_dual else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What it accepts is as it is itself: a client that has gone without a word is noticed.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_KEEPALIVE.items():
            if hasattr(socket, option):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if family == socket.AF_INET6:  # `::` leaves 0.0.0.0 to others
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            problem = f"{host}:{port} is taken by another process"
            raise AddressTaken(f"{problem}: stop it or choose another port (0 takes any free one)") from None
        raise AddressUnusable(f"cannot listen on {host or 'this machine'}: {error.strerror}") from error
    return listener


def _give_back_soon() -> None:
    """Give memory back to the machine, once the connections that had it are closed."""
    loop = asyncio.get_running_loop()
    loop.call_later(1.0, loop.run_in_executor, None, give_back)
