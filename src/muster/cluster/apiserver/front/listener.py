"""A listener: it listens on addresses, gives each client a connection of its protocol, and stops gracefully.

Every HTTP server of Muster is a listener: the API server, and the webhooks, probes, metrics and logs that run next to a
real API server. The listener limits the clients, and the memory kept for them. The application decides about the
responses.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

from muster.cluster.apiserver.front.acceptor import Acceptor
from muster.cluster.apiserver.front.asgi import App
from muster.cluster.apiserver.front.connectionlimit import MAX_CONNECTIONS, ConnectionLimit, ConnectionSlot, FindPeer
from muster.cluster.apiserver.front.http1 import connection as http1
from muster.cluster.apiserver.front.http2 import connection as http2
from muster.cluster.apiserver.front.shared import Served, Shared, has_unsent_bytes
from muster.cluster.apiserver.front.unsent import MAX_UNSENT_BYTES, Unsent
from muster.cluster.apiserver.identity.credentials import HTTP2
from muster.cluster.memory import give_back

# A client that answers none of these probes has disconnected. Go's servers use the same values.
_TCP_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}
_LOOPBACK = ("127.0.0.1", "::1")
SETTLED_SECONDS = 1.0  # a client has received all of a response that was sent this long ago


class AddressUnusable(OSError):  # noqa: N818  (the name states the fact)
    """An address that the server cannot listen on. The message says which address, and why."""


class AddressTaken(AddressUnusable):
    """An address that another process listens on. The message says which address, and what to do."""


class Listener:
    """A server of HTTP/1.1, and of HTTP/2 for clients that choose it in the TLS handshake."""

    def __init__(
        self,
        application: App,
        context: ssl.SSLContext | None,
        stopping: Callable[[], None] = lambda: None,
        plain: App | None = None,
    ) -> None:
        """Make a listener without an address yet.

        context: the TLS context; None serves without TLS.
        stopping: called before connections are closed.
        plain: answers the clients on this machine that connect without TLS, while others must use TLS; None disconnects
        them.
        """
        self._application = application
        self._plain = plain
        self._context = context
        self._stopping = stopping
        self._connection_limit = ConnectionLimit(MAX_CONNECTIONS, _give_back_soon)
        unsent = Unsent(MAX_UNSENT_BYTES, _give_back_soon)
        self._shared = Shared(self._connection_limit, unsent, set(), set(), asyncio.Event())
        self._acceptors: list[Acceptor] = []

    async def start(self, host: str, port: int, option: str = "") -> int:
        """Listen on an address, and return the port. Raises `AddressUnusable`, `OSError`.

        port: 0 for any free port.
        option: see `bind_socket`.
        """
        return await self.listen(bind_socket(host, port, option))

    async def listen(self, address: socket.socket, find_peer: FindPeer | None = None) -> int:
        """Listen on a bound socket; return its port, or 0 for a local socket, which has no TLS. Raises `OSError`.

        find_peer: returns the user at the other end of a connection of a local socket.
        """
        is_local = address.family == socket.AF_UNIX
        context = None if is_local else self._context
        plain = self._make_plain_protocol if self._plain is not None else None
        acceptor = Acceptor(address, context, self._connection_limit, self._make_protocol, find_peer, plain)
        acceptor.open()
        self._acceptors.append(acceptor)
        return 0 if is_local else int(address.getsockname()[1])

    def _make_protocol(self, slot: ConnectionSlot, deadline: float) -> "ProtocolChoice":
        return ProtocolChoice(self._application, self._shared, slot, deadline)

    def _make_plain_protocol(self, slot: ConnectionSlot, deadline: float) -> "ProtocolChoice":
        assert self._plain is not None
        return ProtocolChoice(self._plain, self._shared, slot, deadline)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Accept no more requests, end all streams, and wait up to `grace_seconds` for the remaining responses."""
        for acceptor in self._acceptors:
            acceptor.close()
        self._stopping()
        connections = list(self._shared.connections)
        # An idle client may never close its side of the connection, so nothing waits for it.
        busy = set(filter(self._is_busy, connections))
        endless = {connection for connection in busy if connection.is_endless}
        for connection in connections:
            connection.shutdown()
        await self._wait_until_closed(busy, min(grace_seconds, 0.5))
        for connection in connections:
            connection.cut_streams()  # such as a log that a client follows
        await self._wait_until_closed(busy - endless, grace_seconds)
        for connection in connections:
            connection.abort()
        await asyncio.sleep(0)

    def _is_busy(self, connection: Served) -> bool:
        """Return whether a response is in progress, or was sent only a moment ago."""
        idle_since = connection.slot.idle_since
        settled = asyncio.get_running_loop().time() - SETTLED_SECONDS
        return idle_since is None or idle_since > settled or has_unsent_bytes(connection.transport)

    async def _wait_until_closed(self, connections: set[Served], seconds: float) -> None:
        """Wait until all of these connections are closed, at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not connections.isdisjoint(self._shared.connections):
                    self._shared.departed.clear()
                    await self._shared.departed.wait()


class ProtocolChoice(asyncio.Protocol):
    """The first protocol of a client after its TLS handshake. It passes the transport to the agreed HTTP version."""

    def __init__(self, application: App, shared: Shared, slot: ConnectionSlot, deadline: float) -> None:
        self._begun_with = application, shared, slot, deadline
        self._guest = slot

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Pass the transport to a connection of the agreed HTTP version."""
        peer = transport.get_extra_info("peername")
        self._guest.address = str(peer[0]) if peer else ""
        tls = transport.get_extra_info("ssl_object")
        self._guest.is_secure = tls is not None
        is_http2 = tls is not None and tls.selected_alpn_protocol() == HTTP2
        protocol = http2.Connection(*self._begun_with) if is_http2 else http1.Connection(*self._begun_with)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def bind_socket(host: str, port: int, option: str = "") -> socket.socket:
    """Return a socket bound to a host and a port, without listening yet. Raises `AddressUnusable`.

    host: an address, a host name, or "" for all addresses of the machine.
    option: the option by which the user chooses the port; "" if there is none.
    """
    is_dual = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ":" in host or is_dual else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these options, so that the kernel finds clients that vanished.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TCP_KEEPALIVE.items():
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if family == socket.AF_INET6:  # the address `::` alone leaves 0.0.0.0 to other processes
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not is_dual)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            advice = f"choose another port{f' with {option}' if option else ''} (0 takes any free one)"
            raise AddressTaken(f"{host}:{port} is taken by another process: stop it or {advice}") from None
        raise AddressUnusable(describe_bind_error(host, error)) from error
    return listener


def describe_bind_error(host: str, error: OSError) -> str:
    """Return why the server cannot listen on an address, and what to check if the machine does not have the address."""
    problem = f"cannot listen on {host or 'this machine'}: {error.strerror}"
    if error.errno != errno.EADDRNOTAVAIL:
        return problem
    if host in _LOOPBACK:
        return f"{problem}: the interface lo must be up and have {host} (ip address show lo)"
    return f"{problem}: this machine has no such address (ip address show)"


def _give_back_soon() -> None:
    """Return memory to the machine in a second, when the connections that used it are closed."""
    loop = asyncio.get_running_loop()
    loop.call_later(1.0, loop.run_in_executor, None, give_back)
