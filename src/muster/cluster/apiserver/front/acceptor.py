"""Accept the connections of one listening socket, and start TLS after a client has sent its first bytes.

A TLS handshake costs the event loop a millisecond or two, even if the client is refused afterwards. So the acceptor
starts one handshake in each iteration of the loop, and connected clients do not wait while two thousand others arrive.
The users of a local socket take turns, so that a user who opens a thousand connections delays only these. At the limit
of connections the acceptor accepts no more: clients wait in the kernel's backlog.
"""

import asyncio
import errno
import logging
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from pathlib import Path

from muster.cluster.apiserver.front.connectionlimit import ConnectionLimit, ConnectionSlot, FindPeer
from muster.runtime.control.lanes import Lanes

BACKLOG = 4096  # connections that wait to be accepted; the kernel bounds it by net.core.somaxconn
# From accept to the end of the first request's headers, TLS included; the value is kube-apiserver's. When thousands of
# clients connect to a slow machine, their handshakes take longer than 10 s. Silent clients may be evicted sooner.
ENTER_SECONDS = 32.0
CLOSE_SECONDS = 10.0  # for the rest of the output, and for the client's TLS close
ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 1.0  # after the process ran out of files
FULL_SECONDS = 0.05  # at the limit of connections
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")

_TLS_HANDSHAKE = b"\x16"  # the type of the first record of TLS
_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid, as they were at connect()

log = logging.getLogger(__name__)

# Makes the protocol of a connection. The float is the deadline of the first headers, on the loop's clock.
ConnectionFactory = Callable[[ConnectionSlot, float], asyncio.Protocol]


class Acceptor:
    """The acceptor of new clients on one listening socket. A `Listener` owns it."""

    def __init__(
        self,
        listener: socket.socket,
        context: ssl.SSLContext | None,
        connection_limit: ConnectionLimit,
        make_connection: ConnectionFactory,
        find_peer: FindPeer | None = None,
        make_plain_connection: ConnectionFactory | None = None,
    ) -> None:
        """Make an acceptor.

        context: the TLS context; None for a socket without TLS.
        find_peer: returns the API user for the Unix user of a local socket; None for other sockets.
        make_plain_connection: makes connections for clients on this machine that start without TLS; None disconnects
        them.
        """
        self._listener = listener
        self._context = context
        self._connection_limit = connection_limit
        self._make_connection = make_connection
        self._find_peer = find_peer
        self._make_plain_connection = make_plain_connection
        self._loop = asyncio.get_running_loop()
        self._over_limit: socket.socket | None = None  # accepted at the limit of connections
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}  # clients that have sent nothing yet
        # Clients that have sent bytes and wait for their handshake, with the seconds left for it; by user, if known.
        self._handshake_queue: Lanes[tuple[socket.socket, ConnectionSlot, float]] = Lanes()
        # The handshakes, each with its client until it starts, because a task that is cancelled before never runs.
        self._handshakes: dict[asyncio.Task[None], socket.socket | None] = {}
        self._is_closed = False

    def open(self) -> None:
        """Start to accept clients. Raises `OSError`."""
        _warn_of_short_backlog()
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Stop accepting clients, and disconnect clients whose handshake is not complete."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._over_limit is not None:
            self._over_limit.close()
        for client in [*self._silent]:
            self._forget(client)
            client.close()
        while waiting := self._handshake_queue.pop(lambda _: True):
            client, slot, _ = waiting
            self._connection_limit.release(slot)
            client.close()
        for task in self._handshakes:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client = self._over_limit or self._listener.accept()[0]
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._pause_for_descriptors(error)
                    return
                continue  # the client hung up before it was accepted
            if not self._connection_limit.make_room(self._loop.time()):
                self._over_limit = client
                self._pause(FULL_SECONDS)
                return
            self._over_limit = None
            self._admit(client)

    def _pause_for_descriptors(self, error: OSError) -> None:
        log.error("no connections are accepted for a moment: %s", error.strerror)
        self._pause(PAUSE_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)
            self._accept()

    def _admit(self, client: socket.socket) -> None:
        client.setblocking(False)
        now = self._loop.time()
        slot = ConnectionSlot(client.close, now, peer=peer_of(client), find_peer=self._find_peer)
        slot.close = partial(self._drop, client, slot)
        self._connection_limit.enter(slot)
        deadline = now + ENTER_SECONDS
        self._silent[client] = self._loop.call_at(deadline, slot.close)
        self._loop.add_reader(client, self._on_first_bytes, client, slot, deadline)

    def _drop(self, client: socket.socket, slot: ConnectionSlot) -> None:
        """Close the connection of a client that is evicted, or that has sent nothing for too long."""
        self._connection_limit.release(slot)
        if client in self._silent:
            self._forget(client)
        client.close()

    def _forget(self, client: socket.socket) -> None:
        self._silent.pop(client).cancel()
        self._loop.remove_reader(client)

    def _on_first_bytes(self, client: socket.socket, slot: ConnectionSlot, deadline: float) -> None:
        self._forget(client)
        if not self._handshake_queue:
            self._loop.call_soon(self._begin_handshake)
        self._handshake_queue.add((slot.peer,), (client, slot, deadline - self._loop.time()))

    def _begin_handshake(self) -> None:
        """Start the handshake of the next waiting client, and schedule the one after it in the next iteration."""
        waiting = self._handshake_queue.pop(lambda waiting: waiting[0].fileno() >= 0)  # not evicted meanwhile
        if waiting is not None:
            client, slot, seconds_left = waiting  # the time spent in this queue does not count
            task = self._loop.create_task(self._shake_hands(client, slot, max(seconds_left, 0.1)))
            slot.close = task.cancel
            self._handshakes[task] = client
            task.add_done_callback(partial(self._end_handshake, slot))
        if self._handshake_queue:
            self._loop.call_soon(self._begin_handshake)

    def _end_handshake(self, slot: ConnectionSlot, task: asyncio.Task[None]) -> None:
        """Forget a finished handshake. Disconnect the client if the task was cancelled before it ran."""
        client = self._handshakes.pop(task)
        if client is not None:
            self._connection_limit.release(slot)
            client.close()

    async def _shake_hands(self, client: socket.socket, slot: ConnectionSlot, seconds: float) -> None:
        """Do the TLS handshake, and pass the connection to its protocol.

        seconds: the time left for the handshake.
        """
        task = asyncio.current_task()
        assert task is not None, "it runs in a task of its own"
        # A failed handshake (no TLS, an unknown authority, a timeout) closes the connection without an answer.
        with suppress(OSError):
            try:
                context, make = self._context, self._make_connection
                if context is not None and self._make_plain_connection is not None and is_plain_and_local(client):
                    context, make = None, self._make_plain_connection
                self._handshakes[task] = None  # from here on the loop closes the client
                await self._loop.connect_accepted_socket(
                    partial(make, slot, self._loop.time() + seconds),
                    client,
                    ssl=context,
                    ssl_handshake_timeout=seconds if context else None,
                    ssl_shutdown_timeout=CLOSE_SECONDS if context else None,
                )
            except BaseException:
                self._connection_limit.release(slot)
                raise


def is_plain_and_local(client: socket.socket) -> bool:
    """Return whether a client on this machine has started to send data without TLS. Raises `OSError`."""
    if not ip_address(client.getpeername()[0]).is_loopback:
        return False
    first = client.recv(1, socket.MSG_PEEK)
    return bool(first) and first != _TLS_HANDSHAKE


def peer_of(client: socket.socket) -> int | None:
    """Return the ID of the Unix user who connected to a local socket; None for any other kind of socket."""
    if client.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def _warn_of_short_backlog() -> None:
    with suppress(OSError, ValueError):
        if (most := int(_SOMAXCONN.read_text())) < BACKLOG:
            log.warning("net.core.somaxconn is %d: if more clients than that come at once, some are refused", most)
