"""Connect this command's standard streams to a command in a container: as bytes, or as a terminal."""

import asyncio
import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import msgspec

from muster.api.status import ApiError, Status
from muster.cli.terminal.stdin import END_OF_STDIN, STDIN
from muster.runtime.containerlogs import STDERR, STDOUT
from muster.runtime.tasks import cancel
from muster.runtime.transport import Conversation, TransportError

# The channels of the subprotocol, except stdin.
_STREAMS = {1: STDOUT, 2: STDERR}
_ERROR, _RESIZE = 3, b"\4"


@dataclass(frozen=True, slots=True)
class Ends:
    """The local ends of a remote command's standard streams.

    read: returns the next piece of input, empty at its end; None if the command gets no input.
    show: called with the command's output, and the stream to which the output was written.
    size: returns the columns and rows of the local terminal; None if there is no terminal.
    """

    read: Callable[[], Awaitable[bytes]] | None
    show: Callable[[bytes, bytes], Awaitable[None]]
    size: Callable[[], tuple[int, int]] | None = None


async def hold(conversation: Conversation, ends: Ends, resized: asyncio.Event) -> int:
    """Copy all streams in both directions until the command ends; return its exit code.

    Raises `ApiError` if the command could not be run, `TransportError` if the connection ends before the command.

    resized: an event that is set when the terminal's size changes.
    """
    speaking = [asyncio.create_task(_send_input(conversation, ends.read))] if ends.read is not None else []
    if ends.size is not None:
        speaking.append(asyncio.create_task(_send_sizes(conversation, ends.size, resized)))
    try:
        while message := await conversation.receive():
            channel, data = message[0], message[1:]
            if channel == _ERROR:
                return code_of(data)
            if channel in _STREAMS and data:
                await ends.show(_STREAMS[channel], data)
    finally:
        await cancel(speaking)
    raise TransportError("the connection ended before the command")


async def _send_input(conversation: Conversation, read: Callable[[], Awaitable[bytes]]) -> None:
    """Send all of the input, then its end.

    A lost connection is ignored, because the reader of the output reports it.
    """
    with contextlib.suppress(TransportError):
        while data := await read():
            await conversation.send(STDIN + data)
        await conversation.send(END_OF_STDIN)


async def _send_sizes(conversation: Conversation, size: Callable[[], tuple[int, int]], resized: asyncio.Event) -> None:
    with contextlib.suppress(TransportError):
        while True:
            resized.clear()
            columns, rows = size()
            await conversation.send(_RESIZE + msgspec.json.encode({"Width": columns, "Height": rows}))
            await resized.wait()


def code_of(outcome: bytes) -> int:
    """Return the exit code in the message of the error channel.

    Raises `ApiError` if the command could not be run, and `TransportError` if the message is malformed.
    """
    try:
        status = msgspec.json.decode(outcome, type=Status)
    except msgspec.MsgspecError:
        raise TransportError("the server does not say how the command ended") from None
    if status.status == "Success":
        return 0
    causes = status.details.causes if status.details is not None else ()
    codes = [cause.message for cause in causes if cause.reason == "ExitCode" and cause.message.isdecimal()]
    if not codes:
        raise ApiError(status)
    return int(codes[0])


@contextlib.contextmanager
def raw_terminal(descriptor: int, resized: Callable[[], None]) -> Iterator[None]:
    """Set the terminal to raw mode inside the `with` block, so that every key reaches the remote side.

    resized: called when the size of the terminal changes.
    """
    before, loop = termios.tcgetattr(descriptor), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, resized)
    tty.setraw(descriptor, termios.TCSADRAIN)  # keys that were already typed go to the command
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        loop.remove_signal_handler(signal.SIGWINCH)


def is_terminal() -> bool:
    """Return whether stdin and stdout are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def terminal_size() -> tuple[int, int]:
    """Return the columns and rows of the terminal to which stdout writes."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines
