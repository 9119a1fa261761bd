"""The HTTPS front: listens, makes a connection of every client, and lets go gracefully.

uvicorn is known here and in `http1` alone.
"""

import asyncio
import ctypes
import errno
import logging
import socket
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from muster.cluster.apiserver.front import http1
from muster.cluster.apiserver.front.application import Application
from muster.cluster.apiserver.front.crowd import MAX_CONNECTIONS, Crowd, Guest
from muster.cluster.apiserver.front.door import Door
from muster.cluster.apiserver.front.flow import Flow, Limits
from muster.cluster.apiserver.front.http2 import connection as http2
from muster.cluster.apiserver.front.shared import KEEP_ALIVE_SECONDS, Served, Shared, owes
from muster.cluster.apiserver.front.unsent import MAX_UNSENT_BYTES, Unsent
from muster.cluster.apiserver.identity.credentials import HTTP2
from muster.cluster.apiserver.identity.users import Authenticator
from muster.cluster.apiserver.pipeline import ApiServer

LIMITS = Limits()
# Who answers none of so many probes has gone; as with Go's servers.
_TCP_KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 9}
SETTLED_SECONDS = 1.0  # who got the last answer so long ago has taken all of it


class AddressUnusable(Exception):  # noqa: N818  (it says what is)
    """The server cannot listen there; the text says where, and why."""


class AddressTaken(AddressUnusable):
    """Another process listens there; the text says where and what to do."""


class HttpsFront:
    """Listens, and lets go gracefully."""

    def __init__(self, server: ApiServer, authenticator: Authenticator, context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._crowd = Crowd(MAX_CONNECTIONS)
        self._application = Application(server, authenticator, Flow(server.metrics, LIMITS))
        self._config = uvicorn.Config(
            self._application,
            http=http1.Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        self._state = ServerState()
        connections: Any = self._state.connections  # where uvicorn puts its own
        unsent = Unsent(MAX_UNSENT_BYTES)
        self._shared = Shared(self._crowd, unsent, connections, self._state.tasks, asyncio.Event())
        self._doors: list[Door] = []

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, which is a free one if 0 was asked for. Raises `AddressUnusable`, `OSError`."""
        return await self.listen(bound(host, port))

    async def listen(self, address: socket.socket) -> int:
        """Listen on an address that was taken before; returns the port. Raises `OSError`."""
        tune_allocator()
        # It warns of every request that makes no sense: any client could fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        if not self._config.loaded:
            self._config.load()
        door = Door(address, self._context, self._crowd, self._arrival)
        door.open()
        self._doors.append(door)
        return int(address.getsockname()[1])

    def _arrival(self, guest: Guest, deadline: float) -> "Arrival":
        return Arrival(partial(self._http1, guest, deadline), partial(self._http2, guest, deadline))

    def _http1(self, guest: Guest, deadline: float) -> asyncio.Protocol:
        connection = http1.Connection(self._config, self._state, {})
        connection.shared, connection.guest, connection.deadline = self._shared, guest, deadline
        return connection

    def _http2(self, guest: Guest, deadline: float) -> asyncio.Protocol:
        return http2.Connection(self._application, self._shared, guest, deadline)

    async def stop(self, grace_seconds: float = 5.0) -> None:
        """Take no more requests, end all streams, and wait so long for clients to take the answers under way."""
        for door in self._doors:
            door.close()
        self._server.stop()
        connections = list(self._shared.connections)
        # A client that only keeps its connection may not be there to say good-bye.
        busy = set(filter(self._is_busy, connections))
        endless = {connection for connection in busy if connection.is_endless}
        for connection in connections:
            connection.shutdown()
        await self._gone(busy, min(grace_seconds, 0.5))
        for connection in connections:
            connection.cut_streams()  # a log that is followed
        await self._gone(busy - endless, grace_seconds)
        for connection in connections:
            connection.abort()
        await asyncio.sleep(0)

    def _is_busy(self, connection: Served) -> bool:
        """Whether an answer is on its way, or has just arrived."""
        idle_since = connection.guest.idle_since
        settled = asyncio.get_running_loop().time() - SETTLED_SECONDS
        return idle_since is None or idle_since > settled or owes(connection.transport)

    async def _gone(self, connections: set[Served], seconds: float) -> None:
        """Wait until all of these have ended, but no longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not connections.isdisjoint(self._shared.connections):
                    self._shared.departed.clear()
                    await self._shared.departed.wait()


class Arrival(asyncio.Protocol):
    """A client whose TLS handshake is over: it gets the protocol that was agreed on in it."""

    def __init__(self, http1: Callable[[], asyncio.Protocol], http2: Callable[[], asyncio.Protocol]) -> None:
        self._http1, self._http2 = http1, http2

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """From now on it is the other's."""
        tls = transport.get_extra_info("ssl_object")
        protocol = self._http2() if tls is not None and tls.selected_alpn_protocol() == HTTP2 else self._http1()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)


def bound(host: str, port: int) -> socket.socket:
    """Take an address, or that of a host name, without listening yet. Raises `AddressUnusable`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What it accepts is as it is itself: a client that has gone without a word is noticed.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _TCP_KEEPALIVE.items():
            if hasattr(socket, option):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        if family == socket.AF_INET6:  # `::` leaves 0.0.0.0 to others
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            problem = f"{host}:{port} is taken by another process"
            raise AddressTaken(f"{problem}: stop it or choose another port (0 takes any free one)") from None
        raise AddressUnusable(f"cannot listen on {host}: {error.strerror}") from error
    return listener


def tune_allocator() -> None:
    """Let glibc keep big blocks instead of giving every list's memory back: that makes big lists three times faster."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 32 << 20)
        libc.mallopt(m_trim_threshold, 64 << 20)
