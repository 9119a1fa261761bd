"""What is written to a connection in one turn of the loop goes out together."""

import asyncio
from collections.abc import Callable
from typing import Any

CORKED_BYTES = 64 * 1024  # what is more than this is not held back, and written in pieces of this size


class _Gone(asyncio.Transport):
    """The transport of a client that has gone: there is nothing more to do with it."""

    def is_closing(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> None:
        """It is not read."""

    def close(self) -> None:
        """It is closed."""

    def abort(self) -> None:
        """It is closed."""

    def resume_reading(self) -> None:
        """There is nothing to read."""

    def pause_reading(self) -> None:
        """There is nothing to read."""


GONE = _Gone()


class Corked:
    """A transport that joins what is written in one turn of the loop.

    The headers and the body of an answer are written separately; with TLS each write is a record and a system call,
    which together cost more than all the rest of a small answer.
    """

    def __init__(self, transport: asyncio.Transport, written: Callable[[int], None]) -> None:
        """`written` is told of how much was handed on."""
        self._transport = transport
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        """Write now if it is much, else with what else there is to write in this turn."""
        if not self._pieces:
            self._loop.call_soon(self.flush)
        self._pieces.append(data)
        self._size += len(data)
        if self._size > CORKED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what there is."""
        if self._pieces:
            pieces, size, self._pieces, self._size = self._pieces, self._size, [], 0
            if not self._transport.is_closing():
                # No more at once: TLS keeps a buffer as big as the biggest write for as long as the connection lasts.
                whole = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                for first in range(0, size, CORKED_BYTES):
                    self._transport.write(whole[first : first + CORKED_BYTES])
                self._written(size)

    def close(self) -> None:
        """Write what there is, and close."""
        self.flush()
        self._transport.close()

    def release(self) -> None:
        """Let go of the transport: its TLS buffers are as big as the biggest answer, and what belongs to the
        connection is in a circle that is collected much later.
        """
        self._transport = GONE
