"""A command in a container, with our standard streams at its ends: as bytes, or as one terminal in another's place."""

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

# The channels of the subprotocol beside stdin.
_STREAMS = {1: STDOUT, 2: STDERR}
_ERROR, _RESIZE = 3, b"\4"


@dataclass(frozen=True, slots=True)
class Ends:
    """Where its streams lead.

    read: the next piece of its input, empty at the end; None: it has none.
    show: gets what it prints, and to which stream.
    size: columns and rows of the terminal that it runs on; None: on none.
    """

    read: Callable[[], Awaitable[bytes]] | None
    show: Callable[[bytes, bytes], Awaitable[None]]
    size: Callable[[], tuple[int, int]] | None = None


async def hold(conversation: Conversation, ends: Ends, resized: asyncio.Event) -> int:
    """Pass on what is said until the command ends; its exit code. resized: the terminal has another size.

    Raises `ApiError` if it could not be run, `TransportError` if the connection ends before the command.
    """
    speaking = [asyncio.create_task(_speak(conversation, ends.read))] if ends.read is not None else []
    if ends.size is not None:
        speaking.append(asyncio.create_task(_measure(conversation, ends.size, resized)))
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


async def _speak(conversation: Conversation, read: Callable[[], Awaitable[bytes]]) -> None:
    """Its input, to the end; a command that has gone reads no more, and says so elsewhere."""
    with contextlib.suppress(TransportError):
        while data := await read():
            await conversation.send(STDIN + data)
        await conversation.send(END_OF_STDIN)


async def _measure(conversation: Conversation, size: Callable[[], tuple[int, int]], resized: asyncio.Event) -> None:
    with contextlib.suppress(TransportError):
        while True:
            resized.clear()
            columns, rows = size()
            await conversation.send(_RESIZE + msgspec.json.encode({"Width": columns, "Height": rows}))
            await resized.wait()


def code_of(outcome: bytes) -> int:
    """The exit code that the error channel tells. Raises `ApiError` if the command could not be run."""
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
    """The terminal passes on every key as it is; `resized` is called when it gets another size."""
    before, loop = termios.tcgetattr(descriptor), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, resized)
    tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed already is for the command
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        loop.remove_signal_handler(signal.SIGWINCH)


def is_terminal() -> bool:
    """Whether a user types at our input and sees our output."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def terminal_size() -> tuple[int, int]:
    """Columns and rows of the one that is written to."""
    size = os.get_terminal_size(sys.stdout.fileno())
    return size.columns, size.lines
