"""The channels of a remote command on a wire: in the messages of one WebSocket, or each as a stream of SPDY."""

import asyncio
from collections import deque
from collections.abc import Collection
from typing import Protocol

from muster.api.status import Status
from muster.cluster.apiserver.pods.tunnels.channels import Dialect, Piece, decode, encode, outcome
from muster.cluster.apiserver.pods.tunnels.spdy import REFUSED_STREAM, Data, Event, Opened, Spdy
from muster.cluster.apiserver.pods.tunnels.wire import Wire, WireError
from muster.cluster.nodeconnection import ERROR, RESIZE, STDERR, STDIN, STDOUT

CHANNELS = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
# A client opens the streams of its command one after the other, each after a round trip.
STREAMS_SECONDS = 30.0
# What it may write to those that are there before all are.
EARLY_BYTES = 1 << 20


class Line(Protocol):
    """The two ends of a remote command."""

    async def begin(self, channels: Collection[int]) -> None:
        """Wait until these channels are there. Raises `WireError`."""
        ...

    async def receive(self) -> Piece | None:
        """What comes next; None once the client has gone. Raises `WireError`, `ChannelError`."""
        ...

    async def send(self, channel: int, data: bytes) -> None:
        """Write to a channel. Raises `WireError`."""
        ...

    async def nudge(self) -> None:
        """Send what says nothing: it fails, soon, if the client has gone. Raises `WireError`."""
        ...

    async def finish(self, status: Status) -> None:
        """Say how it ended, and end everything. Raises `WireError`."""
        ...


class SocketLine:
    """All channels in one WebSocket."""

    def __init__(self, wire: Wire, dialect: Dialect) -> None:
        self._wire = wire
        self._dialect = dialect

    async def begin(self, channels: Collection[int]) -> None:
        """Say that we are there, with an empty message, as clients expect it."""
        written = [channel for channel in (STDOUT, STDERR) if channel in channels]
        await self.send(written[0] if written else ERROR, b"")

    async def receive(self) -> Piece | None:
        """The next message that says something."""
        while message := await self._wire.receive():
            if (piece := decode(self._dialect, message)) is not None:
                return piece
        return None

    async def send(self, channel: int, data: bytes) -> None:
        """One message."""
        await self._wire.send(encode(self._dialect, channel, data))

    async def nudge(self) -> None:
        """An empty message."""
        await self.send(ERROR, b"")

    async def finish(self, status: Status) -> None:
        """The outcome is the last message."""
        if said := outcome(status, as_status=self._dialect.statuses):
            await self.send(ERROR, said)
        await self._wire.close()


class StreamLine:
    """A stream for each channel, which the client opens, naming the channel in its headers."""

    def __init__(self, wire: Wire, *, statuses: bool) -> None:
        self._wire = wire
        self._statuses = statuses
        self._spdy = Spdy()
        self._streams: dict[int, int] = {}  # by channel
        self._channels: dict[int, int] = {}  # by stream
        self._pieces: deque[Piece] = deque()

    async def begin(self, channels: Collection[int]) -> None:
        """Wait for the streams."""
        missing = {*channels, ERROR}
        try:
            async with asyncio.timeout(STREAMS_SECONDS):
                while missing - self._streams.keys():
                    if not await self._listen():
                        raise WireError("the client went before it had opened its streams")
                    if sum(len(piece.data) for piece in self._pieces) > EARLY_BYTES:
                        raise WireError("the client writes, but does not open the streams that it announced")
        except TimeoutError:
            raise WireError("the client did not open the streams that it announced") from None

    async def receive(self) -> Piece | None:
        """The next piece of any stream."""
        while not self._pieces:
            if not await self._listen():
                return None
        return self._pieces.popleft()

    async def send(self, channel: int, data: bytes) -> None:
        """One frame; nothing if the client wants nothing of this channel."""
        if channel in self._streams and data:
            await self._wire.send(self._spdy.data(self._streams[channel], data))

    async def nudge(self) -> None:
        """An empty frame."""
        await self._wire.send(self._spdy.data(self._streams[ERROR], b""))

    async def finish(self, status: Status) -> None:
        """End all streams, the one with the outcome last."""
        for channel in (STDOUT, STDERR):
            if channel in self._streams:
                await self._wire.send(self._spdy.data(self._streams[channel], b"", last=True))
        if ERROR in self._streams:
            said = outcome(status, as_status=self._statuses)
            await self._wire.send(self._spdy.data(self._streams[ERROR], said, last=True))
        await self._wire.send(self._spdy.go_away())
        await self._wire.close()

    async def _listen(self) -> bool:
        """Take in what comes next; False if nothing comes any more."""
        data = await self._wire.receive()
        for event in self._spdy.receive(data):
            answer = self._take(event)
            if answer:
                await self._wire.send(answer)
        if answers := self._spdy.answers():
            await self._wire.send(answers)
        return bool(data)

    def _take(self, event: Event) -> bytes:
        match event:
            case Opened(stream, headers, last):
                channel = CHANNELS.get(headers.get("streamtype", ""))
                if channel is None or channel in self._streams:
                    return self._spdy.reset(stream, REFUSED_STREAM)
                self._streams[channel], self._channels[stream] = stream, channel
                if last:
                    self._pieces.append(Piece(channel, last=True))
                return self._spdy.reply(stream)
            case Data(stream, data, last) if stream in self._channels:
                self._pieces.append(Piece(self._channels[stream], data, last))
            case _ if event.stream in self._channels:
                self._pieces.append(Piece(self._channels[event.stream], last=True))
        return b""
