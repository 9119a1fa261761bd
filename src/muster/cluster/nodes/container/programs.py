"""Run the commands of clients in containers (`exec`), with pipes or a terminal for their streams.

The command is a child of a launcher that has entered the container (`shims.enter`). The launcher kills the command on a
signal, or when this process exits. If the container exits, the kernel kills the command through the PID namespace.
Without a PID namespace, this module then signals the launcher.
"""

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import termios
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager

from muster.api.status import internal_error
from muster.cluster.nodeconnection import STDERR, STDOUT
from muster.cluster.nodes import shims
from muster.cluster.nodes.container import processes
from muster.cluster.nodes.shim.spec import ProgramSpec
from muster.cluster.nodes.shims import Shim

_PIECE = 32 << 10
# The capacity of a pipe: the maximum of unread output that a command may leave when it exits.
_LAST_BYTES = 64 << 10
_REPORT_BYTES = 4096
_END_OF_INPUT = b"\x04"  # Control-D, which a terminal takes for the end of input


class Executed:
    """A command that runs in a container for a client, with the server's ends of the command's streams."""

    def __init__(self, pidfd: int, shim: int, report: int, outputs: dict[int, int], input: int, *, tty: bool) -> None:
        self._pidfd = pidfd
        self._shim = shim  # readable once the container has ended
        self._report = report
        self._outputs = outputs  # channels by descriptor
        self._input = input
        self._tty = tty

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the output of the command until the command exits.

        Do not wait for other processes that still hold the command's streams.
        """
        was_signalled = False
        while True:
            ready = await processes.wait_until_any_readable(
                (*self._outputs, self._pidfd, *(() if was_signalled else (self._shim,)))
            )
            over = self._pidfd in ready
            if self._shim in ready:
                was_signalled = True
                processes.send(self._pidfd, signal.SIGTERM)
            for descriptor, channel in list(self._outputs.items()):
                if descriptor in ready or over:
                    for data in self._read_pieces(descriptor, _LAST_BYTES if over else _PIECE):
                        yield channel, data
            if over:
                return
            await asyncio.sleep(0)  # endless output must not block the event loop

    async def write(self, data: bytes) -> None:
        """Write to the command's standard input; block while the command does not read."""
        rest = memoryview(data)
        while rest and self._input >= 0:
            try:
                rest = rest[os.write(self._input, rest) :]
            except BlockingIOError:
                await processes.wait_until_writable(self._input)
            except OSError:  # no process reads the input any more
                self._close_input()

    async def end_input(self) -> None:
        """Close the command's input, or send the end-of-input character to its terminal."""
        if self._input >= 0 and self._tty:
            with contextlib.suppress(OSError):
                os.write(self._input, _END_OF_INPUT)
        else:
            self._close_input()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the command's terminal, about which the kernel tells the command by SIGWINCH.

        Do nothing for a command without a terminal.
        """
        if self._tty:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._input, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait_for_end(self) -> int:
        """Return the command's exit code. Raises `ApiError` (500) if the command could not be run."""
        await processes.wait_until_readable(self._pidfd)
        if why := _read_available(self._report, _REPORT_BYTES):
            raise internal_error(f"error executing command in container: {why.decode(errors='replace')}")
        return processes.exit_status(self._pidfd)

    def _read_pieces(self, descriptor: int, most: int) -> list[bytes]:
        """Read the available output from a stream of the command, up to `most` bytes; close the stream at its end."""
        pieces = []
        while most > 0 and (data := _read_available(descriptor, most)) is not None:
            if not data:
                self._outputs.pop(descriptor)
                break
            pieces.append(data)
            most -= len(data)
        return pieces

    def _close_input(self) -> None:
        if self._input >= 0 and not self._tty:  # a terminal has one descriptor for both directions
            os.close(self._input)
        self._input = -1

    def close(self) -> None:
        """Kill the command if it still runs."""
        self._close_input()
        processes.send(self._pidfd, signal.SIGTERM)
        processes.reap_later(self._pidfd)


@asynccontextmanager
async def execute(shim: Shim, command: ProgramSpec, *, stdin: bool, tty: bool) -> AsyncIterator[Executed]:
    """Return a context that runs a command in a container, and kills it on exit. Raises `ShimError`, OSError."""
    with ExitStack() as ours:
        theirs = ours.enter_context(ExitStack())

        def keep(descriptor: int, stack: ExitStack = ours) -> int:
            stack.callback(os.close, descriptor)
            return descriptor

        def pipe() -> tuple[int, int]:
            return os.pipe2(os.O_CLOEXEC)

        outputs: dict[int, int] = {}
        input = -1
        if tty:
            master, slave = os.openpty()
            outputs[keep(master)] = STDOUT
            input, streams = master, (keep(slave, theirs),) * 3
        else:
            ends = []
            for channel in (STDOUT, STDERR):
                reader, writer = pipe()
                outputs[keep(reader)] = channel
                ends.append(keep(writer, theirs))
            reader = -1
            if stdin:
                reader, input = pipe()
                keep(reader, theirs)
            streams = (reader, ends[0], ends[1])
        for descriptor in (*outputs, *((input,) if input >= 0 else ())):
            os.set_blocking(descriptor, False)
        report_reader, report_writer = pipe()
        os.set_blocking(keep(report_reader), False)
        keep(report_writer, theirs)
        try:
            end = keep(os.dup(shim.pidfd))
            pidfd = shims.enter(shim, command, streams, report=report_writer, terminal=tty)
        except BaseException:
            if input >= 0 and not tty:
                os.close(input)
            raise
        theirs.close()
        executed = Executed(pidfd, end, report_reader, outputs, input, tty=tty)
        try:
            yield executed
        finally:
            executed.close()


def _read_available(descriptor: int, most: int) -> bytes | None:
    """Read at most this many bytes without blocking; return None if no data is available now, b"" at the end."""
    try:
        return os.read(descriptor, most)
    except BlockingIOError:
        return None
    except OSError as error:
        if error.errno == errno.EIO:  # a terminal that no process has open any more
            return b""
        raise
