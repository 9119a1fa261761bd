"""Join the writes to a connection in one iteration of the event loop, so that they are sent together."""

import asyncio
from collections.abc import Callable
from typing import Any

CORKED_BYTES = 64 * 1024  # more than this is written at once, in pieces of this size


class _Gone(asyncio.Transport):
    """A stand-in for the transport of a disconnected client. It ignores every call."""

    def is_closing(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> None:
        """Drop the data."""

    def close(self) -> None:
        """Do nothing, because the transport is closed."""

    def abort(self) -> None:
        """Do nothing, because the transport is closed."""

    def resume_reading(self) -> None:
        """Do nothing, because no data arrives."""

    def pause_reading(self) -> None:
        """Do nothing, because no data arrives."""


GONE = _Gone()


class CorkedTransport:
    """A transport that joins all writes of one iteration of the event loop.

    The headers and the body of a response are separate writes. With TLS each write is a record and a system call, which
    together cost more than all the rest of a small response.
    """

    def __init__(self, transport: asyncio.Transport, written: Callable[[int], None]) -> None:
        """Wrap a transport. `written` is called with the number of bytes of each flush."""
        self._transport = transport
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Buffer data until the end of this iteration of the loop.

        If more than `CORKED_BYTES` are buffered, write them now.
        """
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > CORKED_BYTES:
            self.flush()

    def write_now(self, data: bytes) -> None:
        """Write data at once, after all data that is buffered."""
        self._pieces.append(data)
        self._size += len(data)
        self.flush()

    def flush(self) -> None:
        """Write the buffered data to the transport; drop it if the transport is closing."""
        if self._pieces:
            pieces, size, self._pieces, self._size = self._pieces, self._size, [], 0
            if not self._transport.is_closing():
                # TLS keeps a buffer as big as the biggest write until the connection closes: so the writes are small.
                whole = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                for first in range(0, size, CORKED_BYTES):
                    self._transport.write(whole[first : first + CORKED_BYTES])
                self._written(size)

    def close(self) -> None:
        """Write the buffered data, and close the transport."""
        self.flush()
        if not self._transport.is_closing():  # in Python 3.11.2, a TLS transport that is closed twice cannot be aborted
            self._transport.close()

    def release(self) -> None:
        """Drop the reference to the transport, so that its memory is freed now.

        The TLS buffers are as big as the biggest write. The connection is part of a reference cycle, which the garbage
        collector finds much later.
        """
        self._transport = GONE
