"""Clients at a container's own process: over its shim's socket if it has an input or a terminal, else by its log."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from muster.api.status import bad_request
from muster.cluster.nodeconnection import RESIZE, STDERR, STDIN, STDOUT
from muster.cluster.nodes import shims
from muster.cluster.nodes.container.logs import POLL_SECONDS, Reader, Rendering
from muster.cluster.nodes.shim.attachment import DEAF, HEAD_BYTES, SOCKET, WRITER, frame
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import Missing, runs

_OF_STREAMS = {b"stdout": STDOUT, b"stderr": STDERR}
_PIECE = 32 << 10


class Joined:
    """A process, by way of its shim. Each direction fails for itself: its last words come when it reads no more."""

    def __init__(self, connection: socket.socket, *, writes: bool, listens: bool) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._writes = writes
        self._listens = listens

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes from now on, until it has ended."""
        held = b""
        while data := await self._receive():
            held += data
            while len(held) >= HEAD_BYTES:
                end = HEAD_BYTES + int.from_bytes(held[1:HEAD_BYTES], "big")
                if len(held) < end:
                    break
                yield held[0], held[HEAD_BYTES:end]
                held = held[end:]

    async def begin(self) -> None:
        """Say what this client is there for."""
        if not self._listens:
            await self._send(DEAF, b"")
        if self._writes:
            await self._send(WRITER, b"")

    async def write(self, data: bytes) -> None:
        """To its input; waits while it does not read."""
        if self._writes:
            for start in range(0, len(data), _PIECE):
                await self._send(STDIN, data[start : start + _PIECE])

    async def end_input(self) -> None:
        """Write no more. Whether the input ends with that is the container's choice (stdinOnce)."""
        if self._writes:
            await self._send(STDIN, b"")

    async def resize(self, columns: int, rows: int) -> None:
        """Its terminal, if it has one, has this size now."""
        await self._send(RESIZE, struct.pack("HHHH", rows, columns, 0, 0))

    async def ended(self) -> int:
        """How the container ends is told by its status, not to who is attached."""
        return 0

    async def _receive(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._connection, _PIECE)
        except ConnectionError:
            return b""

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # it has ended; its output says so too
            await self._loop.sock_sendall(self._connection, frame(channel, data))


class Followed:
    """A process without input, by what it writes to its log: whole lines."""

    def __init__(self, directory: Path, reader: Reader, clock: Clock) -> None:
        self._directory = directory
        self._reader = reader
        self._clock = clock

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What is written from now on, until it has ended."""
        while True:
            over = not shims.is_alive(self._directory)
            for block in self._reader.read():
                if isinstance(block, Missing):
                    yield STDERR, Rendering().feed(block)
                    continue
                for run in runs(block):
                    yield _OF_STREAMS[run.stream], run.text
                await self._clock.sleep(0)
            if over:
                return
            await self._clock.sleep(POLL_SECONDS)

    async def write(self, data: bytes) -> None:
        """It is not read."""

    async def end_input(self) -> None:
        """There never was any."""

    async def resize(self, columns: int, rows: int) -> None:
        """There is no terminal."""

    async def ended(self) -> int:
        """How the container ends is told by its status, not to who is attached."""
        return 0


@asynccontextmanager
async def join(directory: Path, *, writes: bool, listens: bool) -> AsyncIterator[Joined]:
    """Attach to the shim of an attempt: to its input, its output, or both. Raises `ApiError` (400) if it has ended."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        # Paths of sockets are short, those of directories need not be.
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            await asyncio.get_running_loop().sock_connect(connection, f"/proc/self/fd/{descriptor}/{SOCKET}")
        except OSError as error:
            raise bad_request(f"cannot attach to the container: {error.strerror}") from error
        finally:
            os.close(descriptor)
        joined = Joined(connection, writes=writes, listens=listens)
        await joined.begin()
        yield joined


@asynccontextmanager
async def follow(directory: Path, clock: Clock) -> AsyncIterator[Followed]:
    """Follow the output of an attempt from now on."""
    reader = Reader(directory)
    reader.seek(0)
    try:
        yield Followed(directory, reader, clock)
    finally:
        reader.close()
