"""Hold the conversation of exec and attach, between a program in a container and the client that uses its streams."""

import asyncio
from collections.abc import Collection

from muster.api.status import ApiError, Status
from muster.cluster.apiserver.pods.tunnels.channels import (
    ChannelDialect,
    ChannelError,
    Piece,
    Sizes,
    decode,
    encode,
    encode_outcome,
    make_exit_status,
)
from muster.cluster.apiserver.pods.tunnels.wire import Wire
from muster.cluster.nodeconnection import ERROR, RESIZE, STDERR, STDIN, STDOUT, Opening, Program
from muster.runtime.tasks import cancel

# The interval at which an empty message probes the client while the program does not read its input. During that time
# only a failed send can show that the client has disconnected.
BLOCKED_SECONDS = 10.0
_WRITTEN = frozenset({STDIN, RESIZE})  # the channels that clients write to


async def converse(dialect: ChannelDialect, channels: frozenset[int], opening: Opening, wire: Wire) -> None:
    """Start or join a program, carry its input and output over a WebSocket, and send its exit status at the end.

    When the client disconnects, leave the program at once. The client gets a node's `ApiError` as the status. Raises
    `WireError`, `ChannelError`.

    opening: starts or joins the program.
    """
    line = _Channels(wire, dialect)
    await line.begin(channels)
    try:
        async with opening() as program:
            receiving = asyncio.create_task(_receive_input(line, channels, program))
            sending = asyncio.create_task(_send_output(line, channels, program))
            try:
                await asyncio.wait({receiving, sending}, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():
                    receiving.result()
                    return  # the client is gone
                sending.result()
            finally:
                await cancel((receiving, sending))
            status = make_exit_status(await program.wait_for_end())
    except ApiError as error:
        status = error.status
    await line.finish(status)


async def _receive_input(line: "_Channels", channels: frozenset[int], program: Program) -> None:
    """Pass the client's messages to the program until the client disconnects.

    Raises `ChannelError` for data on a channel that clients do not write to.
    """
    sizes = Sizes()
    while (piece := await line.receive()) is not None:
        if piece.data and piece.channel not in _WRITTEN:  # ending a channel that the client only reads is harmless
            raise ChannelError(f"clients do not write to channel {piece.channel}")
        if piece.channel in channels & _WRITTEN:
            await _handle_piece(line, piece, sizes, program)


async def _handle_piece(line: "_Channels", piece: Piece, sizes: Sizes, program: Program) -> None:
    """Resize the program's terminal, or write to the program's input and close it, as the client's message says."""
    if piece.channel == RESIZE:
        for columns, rows in sizes.feed(piece.data):
            await program.resize(columns, rows)
        return
    if piece.data:
        await _write(line, piece.data, program)
    if piece.last:
        await program.end_input()


async def _write(line: "_Channels", data: bytes, program: Program) -> None:
    """Write to the program, and wait while the program does not read. Raises `WireError` if the client disconnects.

    Nothing reads the client's messages meanwhile. So an empty message to the client at intervals detects that the
    client has disconnected.
    """
    writing = asyncio.ensure_future(program.write(data))
    try:
        while not (await asyncio.wait({writing}, timeout=BLOCKED_SECONDS))[0]:
            await line.nudge()
        writing.result()
    finally:
        await cancel([writing])


async def _send_output(line: "_Channels", channels: frozenset[int], program: Program) -> None:
    """Send the program's output to the client, until the program exits."""
    async for channel, data in program.output():
        assert channel in (STDOUT, STDERR)
        if channel in channels:
            await line.send(channel, data)


class _Channels:
    """The channels of a remote command in the messages of one WebSocket."""

    def __init__(self, wire: Wire, dialect: ChannelDialect) -> None:
        self._wire = wire
        self._dialect = dialect

    async def begin(self, channels: Collection[int]) -> None:
        """Send the empty message that tells a client that the conversation has started."""
        written = [channel for channel in (STDOUT, STDERR) if channel in channels]
        await self.send(written[0] if written else ERROR, b"")

    async def receive(self) -> Piece | None:
        """Return the client's next message; None after the client has disconnected.

        Raises `WireError`, `ChannelError`.
        """
        while message := await self._wire.receive():
            if (piece := decode(self._dialect, message)) is not None:
                return piece
        return None

    async def send(self, channel: int, data: bytes) -> None:
        """Write to a channel. Raises `WireError`."""
        await self._wire.send(encode(self._dialect, channel, data))

    async def nudge(self) -> None:
        """Send an empty message, which soon fails if the client has disconnected. Raises `WireError`."""
        await self.send(ERROR, b"")

    async def finish(self, status: Status) -> None:
        """Send the result of the command, and close the wire. Raises `WireError`."""
        if data := encode_outcome(status, as_status=self._dialect.statuses):
            await self.send(ERROR, data)
        await self._wire.close()
