"""Bytes both ways, once a connection has been taken over from HTTP: as they are, or as the messages of a WebSocket."""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Protocol as Interface

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

# Of a client's message, as upstream. kubectl sends 32 KiB at a time, but a Python program may write a whole file.
MAX_MESSAGE_BYTES = 32 << 20
# What has come and is not asked for yet: from here on the client has to wait.
HELD_BYTES = 256 << 10
# How long a client may take to say good-bye in its turn.
FAREWELL_SECONDS = 2.0


class WireError(Exception):
    """The other side breaks the protocol, or has gone."""


class Carrier(Interface):
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


class Wire(Interface):
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

    async def close(self) -> None:
        """Wait a moment for the other side to go first."""
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                while await self.receive():
                    pass
        except TimeoutError:
            return


class WebSocketWire:
    """The messages of a WebSocket whose handshake is over. Pings are answered, fragments joined."""

    def __init__(self, raw: RawWire, *, text: bool = False) -> None:
        self._raw = raw
        self._protocol = Protocol(Side.SERVER, state=OPEN, max_size=MAX_MESSAGE_BYTES)
        self._messages: deque[bytes] = deque()
        self._part = bytearray()  # of the message that is under way: of fragments without end, only their bytes count
        self._send = self._protocol.send_text if text else self._protocol.send_binary

    async def receive(self) -> bytes:
        """The next message that is not empty; empty once the other side has said good-bye or gone."""
        while not self._messages:
            if self._protocol.close_rcvd is not None or not (data := await self._raw.receive()):
                return b""
            self._protocol.receive_data(data)
            self._messages.extend(self._joined())
            await self._flush()
            if self._protocol.parser_exc is not None:
                raise WireError(f"the WebSocket client breaks the protocol: {self._protocol.parser_exc}")
        return self._messages.popleft()

    async def send(self, data: bytes) -> None:
        """Send one message."""
        try:
            self._send(data)
        except InvalidState:
            raise WireError("the client has said good-bye") from None
        await self._flush()

    async def close(self) -> None:
        """Say good-bye, and hear the same."""
        if self._protocol.state is OPEN:
            self._protocol.send_close(1000)
        try:
            await self._flush()
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._protocol.close_rcvd is None and (data := await self._raw.receive()):
                    self._protocol.receive_data(data)
                    self._protocol.events_received()
                    if self._protocol.parser_exc is not None:
                        return
        except (TimeoutError, WireError):
            return

    async def _flush(self) -> None:
        """Write all at once: others send too, and the order counts."""
        if data := b"".join(self._protocol.data_to_send()):
            await self._raw.send(data)

    def _joined(self) -> Iterator[bytes]:
        for event in self._protocol.events_received():
            if not isinstance(event, Frame) or event.opcode not in _WITH_DATA:
                continue
            self._part += event.data
            if event.fin:
                message = bytes(self._part)
                self._part.clear()
                if message:
                    yield message


_WITH_DATA = frozenset({Opcode.TEXT, Opcode.BINARY, Opcode.CONT})
