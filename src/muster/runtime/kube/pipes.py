"""Move bytes through the socket of a local server: blocking if no event loop runs, else by the loop."""

import socket
from typing import Protocol

from muster.runtime.eventloop import has_loop

_PIECE = 256 << 10


class Pipe(Protocol):
    """A connection to a local server.

    seconds: the time limit of one call; None for no limit.

    Methods raise `OSError`, `TimeoutError`.
    """

    async def send(self, data: bytes, seconds: float | None) -> None:
        """Send all of the data."""
        ...

    async def receive(self, seconds: float | None) -> bytes:
        """Return the next bytes; b"" after the server has closed the connection."""
        ...

    def is_quiet(self) -> bool:
        """Return whether the connection is idle: the server has neither closed it nor sent unexpected data."""
        ...

    def shut_down(self) -> None:
        """Shut the connection down. A pending call of `receive` then returns."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


async def open_pipe(path: str, seconds: float | None) -> Pipe:
    """Connect to the socket at a path. Raises `OSError`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        pipe = _LoopPipe(connection) if has_loop() else _BlockingPipe(connection)
        await pipe.connect(path, seconds)
    except BaseException:
        connection.close()
        raise
    return pipe


class _BasePipe:
    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def is_quiet(self) -> bool:
        self._socket.setblocking(False)  # with a timeout, Python itself would wait before each read
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def shut_down(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the server has closed it
            return

    def close(self) -> None:
        self._socket.close()


class _BlockingPipe(_BasePipe):
    """A pipe for a thread without an event loop. Each call blocks the thread."""

    async def connect(self, path: str, seconds: float | None) -> None:
        self._socket.settimeout(seconds)
        self._socket.connect(path)

    async def send(self, data: bytes, seconds: float | None) -> None:
        self._socket.settimeout(seconds)
        self._socket.sendall(data)

    async def receive(self, seconds: float | None) -> bytes:
        self._socket.settimeout(seconds)
        return self._socket.recv(_PIECE)


class _LoopPipe(_BasePipe):
    """A pipe for a running event loop."""

    def __init__(self, connection: socket.socket) -> None:
        import asyncio

        super().__init__(connection)
        connection.setblocking(False)
        self._limit, self._loop = asyncio.timeout, asyncio.get_running_loop()

    async def connect(self, path: str, seconds: float | None) -> None:
        async with self._limit(seconds):
            await self._loop.sock_connect(self._socket, path)

    async def send(self, data: bytes, seconds: float | None) -> None:
        async with self._limit(seconds):
            await self._loop.sock_sendall(self._socket, data)

    async def receive(self, seconds: float | None) -> bytes:
        async with self._limit(seconds):
            return await self._loop.sock_recv(self._socket, _PIECE)
