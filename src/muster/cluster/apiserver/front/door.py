"""The door of one listening socket: it accepts connections, and begins TLS once a client has sent its first bytes.

A TLS handshake costs the event loop a millisecond or two, even if the client is refused afterwards. So the door begins
one handshake in each turn of the loop, and connected clients do not wait while two thousand others arrive. While the
crowd is full, the door accepts no more: clients wait in the kernel's backlog.
"""

import asyncio
import errno
import logging
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from muster.cluster.apiserver.front.crowd import Crowd, Guest

BACKLOG = 4096  # connections that wait to be accepted; the kernel bounds it by net.core.somaxconn
# From accept to the end of the first request's headers, TLS included; the value is kube-apiserver's. When thousands of
# clients connect to a slow machine, their handshakes take longer than 10 s. The crowd may evict silent clients sooner.
ENTER_SECONDS = 32.0
CLOSE_SECONDS = 10.0  # for the rest of the output, and for the client's TLS close
ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 1.0  # after the process ran out of files
FULL_SECONDS = 0.05  # while the crowd is full
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")

_CREDENTIALS = struct.Struct("iII")  # struct ucred: pid, uid, gid, as they were at connect()

log = logging.getLogger(__name__)

# Makes the protocol of a guest. The float is the deadline of the first headers, on the loop's clock.
Welcome = Callable[[Guest, float], asyncio.Protocol]


class Door:
    """The acceptor of one listening socket, owned by a `Listener`."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None, crowd: Crowd, welcome: Welcome) -> None:
        self._listener = listener
        self._context = context
        self._crowd = crowd
        self._welcome = welcome
        self._loop = asyncio.get_running_loop()
        self._outside: socket.socket | None = None  # accepted while the crowd was full
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}  # clients that have sent nothing yet
        self._speaking: deque[tuple[socket.socket, Guest, float]] = deque()  # clients that wait for their handshake
        self._greeting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def open(self) -> None:
        """Begin to accept clients. Raises `OSError`."""
        _warn_of_short_backlog()
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more clients, and disconnect those whose handshake is not over."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._listener)
        self._listener.close()
        if self._outside is not None:
            self._outside.close()
        for client in [*self._silent]:
            self._forget(client)
            client.close()
        for client, guest, _ in self._speaking:
            self._crowd.left(guest)
            client.close()
        self._speaking.clear()
        for task in self._greeting:
            task.cancel()

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                client = self._outside or self._listener.accept()[0]
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._run_short(error)
                    return
                continue  # the client hung up before it was accepted
            if not self._crowd.make_room(self._loop.time()):
                self._outside = client
                self._pause(FULL_SECONDS)
                return
            self._outside = None
            self._take_in(client)

    def _run_short(self, error: OSError) -> None:
        log.error("no connections are accepted for a moment: %s", error.strerror)
        self._pause(PAUSE_SECONDS)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listener)
        self._loop.call_later(seconds, self._go_on)

    def _go_on(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._listener, self._accept)
            self._accept()

    def _take_in(self, client: socket.socket) -> None:
        client.setblocking(False)
        now = self._loop.time()
        guest = Guest(client.close, now, peer=peer_of(client))
        guest.leave = partial(self._drop, client, guest)
        self._crowd.enter(guest)
        deadline = now + ENTER_SECONDS
        self._silent[client] = self._loop.call_at(deadline, guest.leave)
        self._loop.add_reader(client, self._speaks, client, guest, deadline)

    def _drop(self, client: socket.socket, guest: Guest) -> None:
        """Close the connection of a client that the crowd evicts, or that has sent nothing for too long."""
        self._crowd.left(guest)
        if client in self._silent:
            self._forget(client)
        client.close()

    def _forget(self, client: socket.socket) -> None:
        self._silent.pop(client).cancel()
        self._loop.remove_reader(client)

    def _speaks(self, client: socket.socket, guest: Guest, deadline: float) -> None:
        self._forget(client)
        if not self._speaking:
            self._loop.call_soon(self._next)
        self._speaking.append((client, guest, deadline - self._loop.time()))

    def _next(self) -> None:
        if not self._speaking:
            return
        client, guest, seconds_left = self._speaking.popleft()  # the time spent in this queue does not count
        if client.fileno() >= 0:  # the crowd may have evicted it meanwhile
            task = self._loop.create_task(self._greet(client, guest, max(seconds_left, 0.1)))
            guest.leave = task.cancel
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)
        if self._speaking:
            self._loop.call_soon(self._next)

    async def _greet(self, client: socket.socket, guest: Guest, seconds: float) -> None:
        """Do the TLS handshake, and hand the connection to its protocol."""
        # A failed handshake (no TLS, an unknown authority, a timeout) closes the connection; that is all the answer.
        with suppress(OSError):
            try:
                await self._loop.connect_accepted_socket(
                    partial(self._welcome, guest, self._loop.time() + seconds),
                    client,
                    ssl=self._context,
                    ssl_handshake_timeout=seconds if self._context else None,
                    ssl_shutdown_timeout=CLOSE_SECONDS if self._context else None,
                )
            except BaseException:
                self._crowd.left(guest)
                raise


def peer_of(client: socket.socket) -> int | None:
    """Return the id of the Unix user who connected a local socket; None for a socket of another kind."""
    if client.family != socket.AF_UNIX:
        return None
    _, uid, _ = _CREDENTIALS.unpack(client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return int(uid)


def _warn_of_short_backlog() -> None:
    with suppress(OSError, ValueError):
        if (most := int(_SOMAXCONN.read_text())) < BACKLOG:
            log.warning("net.core.somaxconn is %d: if more clients than that come at once, some are refused", most)
