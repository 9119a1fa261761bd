"""Send and receive the messages of a WebSocket, on a connection that was taken over from HTTP."""

import asyncio
from collections import deque
from collections.abc import Iterator

from websockets.exceptions import InvalidState
from websockets.frames import Frame, Opcode
from websockets.protocol import OPEN, Protocol, Side

from muster.cluster.apiserver.pods.tunnels.wire import FAREWELL_SECONDS, RawWire, WireError

# The limit of a client's message, as upstream. kubectl sends 32 KiB in a message, but other clients send a whole file.
MAX_MESSAGE_BYTES = 32 << 20


class WebSocketWire:
    """A `Wire` of a WebSocket whose handshake is complete. It answers pings and joins fragments."""

    def __init__(self, raw: RawWire, *, text: bool = False) -> None:
        self._raw = raw
        self._protocol = Protocol(Side.SERVER, state=OPEN, max_size=MAX_MESSAGE_BYTES)
        self._messages: deque[bytes] = deque()
        # The message so far, in one buffer, so that countless tiny fragments cost only their bytes.
        self._part = bytearray()
        self._send = self._protocol.send_text if text else self._protocol.send_binary

    async def receive(self) -> bytes:
        """Return the next message that is not empty; b"" after the client has closed the WebSocket or disconnected.

        Raises `WireError` if the client breaks the protocol.
        """
        while not self._messages:
            if self._protocol.close_rcvd is not None or not (data := await self._raw.receive()):
                return b""
            self._protocol.receive_data(data)
            self._messages.extend(self._join_fragments())
            await self._flush()
            if self._protocol.parser_exc is not None:
                raise WireError(f"the WebSocket client breaks the protocol: {self._protocol.parser_exc}")
        return self._messages.popleft()

    async def send(self, data: bytes) -> None:
        """Send one message, and wait while the client does not read. Raises `WireError` on a closed WebSocket."""
        try:
            self._send(data)
        except InvalidState:
            raise WireError("the client has said good-bye") from None
        await self._flush()

    async def close(self) -> None:
        """Close the WebSocket, and wait up to `FAREWELL_SECONDS` for the client's close frame. Drop later messages."""
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
        """Write all frames in one piece, because other tasks send too and frames must stay in order."""
        if data := b"".join(self._protocol.data_to_send()):
            await self._raw.send(data)

    def _join_fragments(self) -> Iterator[bytes]:
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
