"""Attach clients (`kubectl attach`) to the main process of a container.

If the container has an input or a terminal, the client connects to the socket of the container's shim, the process that
holds these streams. Otherwise the client receives the container's log as it grows.
"""

import asyncio
import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from muster.api.status import bad_request
from muster.cluster.nodeconnection import RESIZE, STDERR, STDIN, STDOUT
from muster.cluster.nodes import shims
from muster.cluster.nodes.container.logfiles import Reader
from muster.cluster.nodes.container.logs import POLL_SECONDS, Rendering
from muster.cluster.nodes.shim.attachment import DEAF, HEAD_BYTES, SOCKET, WRITER, encode_frame
from muster.cluster.nodes.shim.log import READ_BYTES
from muster.runtime.clock import Clock
from muster.runtime.containerlogs import Missing, split_runs

_CHANNELS = {b"stdout": STDOUT, b"stderr": STDERR}
_PIECE = 32 << 10


class Joined:
    """A client's connection to the shim that holds the streams of a container's process.

    Input and output close independently: output continues after the input is closed.
    """

    def __init__(self, connection: socket.socket, *, writes: bool, listens: bool) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._writes = writes
        self._listens = listens

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the output of the process from now on, until the process exits.

        An invalid frame also closes the output, because the user of the container may have replaced the shim's socket
        with another.
        """
        buffer = b""
        while data := await self._receive_data():
            buffer += data
            while len(buffer) >= HEAD_BYTES:
                size = int.from_bytes(buffer[1:HEAD_BYTES], "big")
                if size > READ_BYTES:
                    return
                end = HEAD_BYTES + size
                if len(buffer) < end:
                    break
                yield buffer[0], buffer[HEAD_BYTES:end]
                buffer = buffer[end:]

    async def begin(self) -> None:
        """Tell the shim whether this client writes to the input, reads the output, or both."""
        if not self._listens:
            await self._send(DEAF, b"")
        if self._writes:
            await self._send(WRITER, b"")

    async def write(self, data: bytes) -> None:
        """Write to the process's input; block while the process does not read. Do nothing if the client only reads."""
        if self._writes:
            for start in range(0, len(data), _PIECE):
                await self._send(STDIN, data[start : start + _PIECE])

    async def end_input(self) -> None:
        """Close the client's input. If the container has `stdinOnce`, that closes the process's input, too."""
        if self._writes:
            await self._send(STDIN, b"")

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the process's terminal; the shim ignores it for a container without a terminal."""
        await self._send(RESIZE, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait_for_end(self) -> int:
        """Return 0 at once. The container's status, not the attached stream, reports the exit code."""
        return 0

    async def _receive_data(self) -> bytes:
        try:
            return await self._loop.sock_recv(self._connection, _PIECE)
        except ConnectionError:
            return b""

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the process has ended; its output ends too
            await self._loop.sock_sendall(self._connection, encode_frame(channel, data))


class Followed:
    """A client's view of a process without an input: the process's log as it grows."""

    def __init__(self, directory: Path, reader: Reader, clock: Clock) -> None:
        self._directory = directory
        self._reader = reader
        self._clock = clock

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the logged output from now on, until the process exits."""
        while True:
            over = not shims.is_alive(self._directory)
            for block in self._reader.read():
                if isinstance(block, Missing):
                    yield STDERR, Rendering().feed(block)
                    continue
                for run in split_runs(block):
                    yield _CHANNELS[run.stream], run.text
                await self._clock.sleep(0)
            if over:
                return
            await self._clock.sleep(POLL_SECONDS)

    async def write(self, data: bytes) -> None:
        """Ignore the data: the process reads no input."""

    async def end_input(self) -> None:
        """Do nothing: there is no input."""

    async def resize(self, columns: int, rows: int) -> None:
        """Do nothing: there is no terminal."""

    async def wait_for_end(self) -> int:
        """Return 0 at once. The container's status, not the attached stream, reports the exit code."""
        return 0


@asynccontextmanager
async def join(directory: Path, *, writes: bool, listens: bool) -> AsyncIterator[Joined]:
    """Connect a client to the shim of a container's attempt. Raises `ApiError` (400) if the attempt has exited.

    directory: the attempt's directory.
    writes, listens: whether the client writes to the input and reads the output.
    """
    with socket.socket(socket.AF_UNIX) as connection:
        connection.setblocking(False)
        # A socket's path is limited to 108 bytes, and the directory's path may be longer.
        descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with _open_socket(descriptor) as target:
                await asyncio.get_running_loop().sock_connect(connection, f"/proc/self/fd/{target}")
        except OSError as error:
            raise bad_request(f"cannot attach to the container: {error.strerror}") from error
        finally:
            os.close(descriptor)
        joined = Joined(connection, writes=writes, listens=listens)
        await joined.begin()
        yield joined


@contextmanager
def _open_socket(directory: int) -> Iterator[int]:
    """Open the path of a shim's socket. Raises OSError if the path leads to anything else.

    The owner of the directory may put a link or another user's socket there.
    """
    descriptor = os.open(SOCKET, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode) or status.st_uid != os.fstat(directory).st_uid:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        yield descriptor
    finally:
        os.close(descriptor)


@asynccontextmanager
async def follow(directory: Path, clock: Clock) -> AsyncIterator[Followed]:
    """Return a context that follows the output of a container's attempt from now on."""
    reader = Reader(directory)
    reader.seek(0)
    try:
        yield Followed(directory, reader, clock)
    finally:
        reader.close()
