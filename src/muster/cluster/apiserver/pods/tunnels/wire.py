"""Carry bytes in both directions on a connection that was taken over from HTTP."""

import asyncio
from typing import Protocol

# The maximum number of received bytes that a wire buffers before it stops reading from the client.
HELD_BYTES = 256 << 10
# How long the server waits for the client's close.
FAREWELL_SECONDS = 2.0


class WireError(Exception):
    """A peer that breaks the protocol or has disconnected."""


class WireConnection(Protocol):
    """The client's connection that a `RawWire` writes to and pauses."""

    def write(self, data: bytes) -> None:
        """Send data, or buffer it."""
        ...

    async def drain(self) -> None:
        """Wait until the connection has sent enough of its buffer to accept more data."""
        ...

    def pause(self) -> None:
        """Stop reading, so that the peer has to wait."""
        ...

    def resume(self) -> None:
        """Read from the peer again, after `pause`."""
        ...


class Wire(Protocol):
    """A connection that carries bytes in both directions, in pieces or messages."""

    async def receive(self) -> bytes:
        """Return the next piece or message; b"" after the peer has disconnected. Raises `WireError`."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a piece or message, and wait while the peer does not read. Raises `WireError`."""
        ...

    async def close(self) -> None:
        """Close the wire, and wait up to `FAREWELL_SECONDS` for the peer's close, so that all data arrives."""
        ...


class RawWire:
    """A wire for the plain bytes of a connection. The reader of the connection feeds it."""

    def __init__(self, carrier: WireConnection) -> None:
        self._carrier = carrier
        self._held = bytearray()
        self._over = False
        self._news = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Buffer bytes that have arrived from the peer. Pause the connection when `HELD_BYTES` are buffered."""
        self._held += data
        self._news.set()
        if len(self._held) >= HELD_BYTES:
            self._carrier.pause()

    def end(self) -> None:
        """Record that the peer will send no more."""
        self._over = True
        self._news.set()

    async def receive(self) -> bytes:
        """Return all bytes that have arrived since the last call; wait if there are none. Return b"" at the end.

        The connection reads from the peer again if the buffer was full.
        """
        while not self._held and not self._over:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._held)
        self._held.clear()
        if len(data) >= HELD_BYTES:
            self._carrier.resume()
        return data

    async def send(self, data: bytes) -> None:
        """Send data, and wait while much is buffered. Raises `WireError` if the client has disconnected."""
        if self._over:
            raise WireError("the client has gone")
        self._carrier.write(data)
        await self._carrier.drain()
