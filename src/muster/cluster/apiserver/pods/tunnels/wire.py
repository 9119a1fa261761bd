"""Bytes both ways, once a connection has been taken over from HTTP."""

import asyncio
from typing import Protocol

# What has come and is not asked for yet: from here on the client has to wait.
HELD_BYTES = 256 << 10
# How long a client may take to say good-bye in its turn.
FAREWELL_SECONDS = 2.0


class WireError(Exception):
    """The other side breaks the protocol, or has gone."""


class Carrier(Protocol):
    """The connection below a wire."""

    def write(self, data: bytes) -> None:
        """Send, or keep for sending."""
        ...

    async def drained(self) -> None:
        """Wait until not much is kept."""
        ...

    def pause(self) -> None:
        """Let the other side wait."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...


class Wire(Protocol):
    """What a conversation is held on."""

    async def receive(self) -> bytes:
        """The next piece or message; empty once the other side has gone. Raises `WireError`."""
        ...

    async def send(self, data: bytes) -> None:
        """Send a piece or message, and wait while the other side takes nothing."""
        ...

    async def close(self) -> None:
        """Say good-bye, and wait a moment for the answer: what was sent shall arrive."""
        ...


class RawWire:
    """The bytes of a connection as they are. Who reads the connection feeds it."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self._held = bytearray()
        self._over = False
        self._news = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Bytes have come."""
        self._held += data
        self._news.set()
        if len(self._held) >= HELD_BYTES:
            self._carrier.pause()

    def end(self) -> None:
        """No more will come."""
        self._over = True
        self._news.set()

    async def receive(self) -> bytes:
        """All that has come since; empty at the end."""
        while not self._held and not self._over:
            self._news.clear()
            await self._news.wait()
        data = bytes(self._held)
        self._held.clear()
        if len(data) >= HELD_BYTES:
            self._carrier.resume()
        return data

    async def send(self, data: bytes) -> None:
        """Send, and wait while much is kept."""
        if self._over:
            raise WireError("the client has gone")
        self._carrier.write(data)
        await self._carrier.drained()
