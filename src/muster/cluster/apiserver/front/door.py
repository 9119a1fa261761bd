"""Lets clients in: accepts connections, and begins TLS, where it is spoken, with those whose client says something.

A TLS handshake costs the event loop a millisecond or two, also with a client that is then refused. So one is begun in
each turn of the loop, and clients that are connected already do not wait for two thousand who come at once. While there
is no room, no more are accepted: they wait in the kernel's line.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from muster.cluster.apiserver.front.crowd import Crowd, Guest

BACKLOG = 4096  # connections that wait to be accepted; the kernel bounds it by net.core.somaxconn
# From the connection to the end of the first request's headers, TLS included; kube-apiserver's. Where thousands come at
# once to a slow machine, their handshakes alone take longer than 10 s; silent ones give way to others in any case.
ENTER_SECONDS = 32.0
CLOSE_SECONDS = 10.0  # for what is left to send, and the client's goodbye
ACCEPTED_AT_ONCE = 64
PAUSE_SECONDS = 1.0  # when the process may open no more files
FULL_SECONDS = 0.05  # when there is no room
_SOMAXCONN = Path("/proc/sys/net/core/somaxconn")

log = logging.getLogger(__name__)

# Makes the protocol for a guest, whose first headers must be there at a time of the loop's clock.
Welcome = Callable[[Guest, float], asyncio.Protocol]


class Door:
    """Listens on one socket."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None, crowd: Crowd, welcome: Welcome) -> None:
        self._listener = listener
        self._context = context
        self._crowd = crowd
        self._welcome = welcome
        self._loop = asyncio.get_running_loop()
        self._outside: socket.socket | None = None  # it is accepted, and there is no room
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}  # whose clients have said nothing yet
        self._speaking: deque[tuple[socket.socket, Guest, float]] = deque()  # with whom TLS is to begin
        self._greeting: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def open(self) -> None:
        """Begin to accept. Raises `OSError`."""
        _warn_of_short_backlog()
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self._loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no more, and let go of those who are not in."""
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
                continue  # the client has gone
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
        guest = Guest(client.close, now)
        guest.leave = partial(self._drop, client, guest)
        self._crowd.enter(guest)
        deadline = now + ENTER_SECONDS
        self._silent[client] = self._loop.call_at(deadline, guest.leave)
        self._loop.add_reader(client, self._speaks, client, guest, deadline)

    def _drop(self, client: socket.socket, guest: Guest) -> None:
        """It has to go, or has said nothing for too long."""
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
        client, guest, seconds_left = self._speaking.popleft()  # for the time in the line the client is not to blame
        if client.fileno() >= 0:  # it may have had to go meanwhile
            task = self._loop.create_task(self._greet(client, guest, max(seconds_left, 0.1)))
            guest.leave = task.cancel
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)
        if self._speaking:
            self._loop.call_soon(self._next)

    async def _greet(self, client: socket.socket, guest: Guest, seconds: float) -> None:
        """The TLS handshake; then the protocol has the connection."""
        # Who speaks no TLS, knows another authority, is too slow or hangs up hears of it by the end of the connection.
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


def _warn_of_short_backlog() -> None:
    with suppress(OSError, ValueError):
        if (most := int(_SOMAXCONN.read_text())) < BACKLOG:
            log.warning("net.core.somaxconn is %d: if more clients than that come at once, some are refused", most)
