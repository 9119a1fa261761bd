"""Exec and attach: a program in a container, and a client at its streams."""

import asyncio

from muster.api.status import ApiError
from muster.cluster.apiserver.pods.tunnels.channels import ChannelError, Dialect, Piece, Sizes, ending
from muster.cluster.apiserver.pods.tunnels.lines import Line, SocketLine, StreamLine
from muster.cluster.apiserver.pods.tunnels.wire import Wire
from muster.cluster.nodeconnection import RESIZE, STDERR, STDIN, STDOUT, Opening, Program
from muster.runtime.tasks import cancel

# How often a client is looked after whose input the program does not read: nothing else would tell that it has gone.
BLOCKED_SECONDS = 10.0
_WRITTEN = frozenset({STDIN, RESIZE})  # by clients


async def over_socket(dialect: Dialect, channels: frozenset[int], opening: Opening, wire: Wire) -> None:
    """The conversation on a WebSocket. Raises `WireError`, `ChannelError`, `SpdyError`."""
    await _converse(SocketLine(wire, dialect), channels, opening)


async def over_streams(statuses: bool, channels: frozenset[int], opening: Opening, wire: Wire) -> None:
    """The conversation on SPDY. Raises `WireError`, `ChannelError`, `SpdyError`."""
    await _converse(StreamLine(wire, statuses=statuses), channels, opening)


async def _converse(line: Line, channels: frozenset[int], opening: Opening) -> None:
    await line.begin(channels)
    try:
        async with opening() as program:
            listening = asyncio.create_task(_listen(line, channels, program))
            showing = asyncio.create_task(_show(line, channels, program))
            try:
                await asyncio.wait({listening, showing}, return_when=asyncio.FIRST_COMPLETED)
                if not showing.done():
                    listening.result()
                    return  # the client has gone
                showing.result()
            finally:
                await cancel((listening, showing))
            status = ending(await program.ended())
    except ApiError as error:
        status = error.status
    await line.finish(status)


async def _listen(line: Line, channels: frozenset[int], program: Program) -> None:
    """Pass on what the client says, until it has gone."""
    sizes = Sizes()
    while (piece := await line.receive()) is not None:
        if piece.data and piece.channel not in _WRITTEN:  # to end what one only reads says nothing
            raise ChannelError(f"clients do not write to channel {piece.channel}")
        if piece.channel in channels & _WRITTEN:
            await _pass_on(line, piece, sizes, program)


async def _pass_on(line: Line, piece: Piece, sizes: Sizes, program: Program) -> None:
    if piece.channel == RESIZE:
        for columns, rows in sizes.feed(piece.data):
            await program.resize(columns, rows)
        return
    if piece.data:
        await _write(line, piece.data, program)
    if piece.last:
        await program.end_input()


async def _write(line: Line, data: bytes, program: Program) -> None:
    """Have the program read it; a client that goes meanwhile is not heard, so it is spoken to now and then."""
    writing = asyncio.ensure_future(program.write(data))
    try:
        while not (await asyncio.wait({writing}, timeout=BLOCKED_SECONDS))[0]:
            await line.nudge()
        writing.result()
    finally:
        await cancel([writing])


async def _show(line: Line, channels: frozenset[int], program: Program) -> None:
    """Pass on what the program says, until it has ended."""
    async for channel, data in program.output():
        assert channel in (STDOUT, STDERR)
        if channel in channels:
            await line.send(channel, data)
