"""Run the agent of a worker other than rank 0: it executes commands for rank 0 until `mpirun` has ended.

When a worker is stopped, its agent asks rank 0 to end `mpirun`, which ends the processes of all workers.

Rank 0 keeps one connection to the agent open while `mpirun` runs. Each command uses another connection, which also
returns the command's output. If the connection closes, the command is terminated, as when ssh loses its connection.
Each byte after the request is the number of a signal to send to the command.
"""

import asyncio
import ctypes
import os
import signal
import ssl
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from muster.mpi.frames import (
    ENDED,
    ENDING,
    FAREWELL,
    HERE,
    MOST_OF_A_LINE,
    STDERR,
    STDOUT,
    CommandRequest,
    StrangeRequestError,
    encode_frame,
    read_request,
)
from muster.runtime.clock import Clock
from muster.runtime.tasks import cancel

# The seconds in which daemons have to exit after `mpirun`, and in which a command has to exit after its connection is
# closed.
_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.05
# The seconds for which the output of an exited command may stay open, because a daemon may keep it open forever.
_DRAIN_SECONDS = 1.0
_READ_BYTES = 1 << 15
_NOT_EXECUTABLE = 126
_PR_SET_CHILD_SUBREAPER = 36


class Agent:
    """A server on one worker that runs commands for rank 0. `run` returns when it ends.

    environment: the environment of the commands.
    rank_0: the host name of rank 0, for messages.
    """

    def __init__(self, environment: Mapping[str, str], rank_0: str, clock: Clock) -> None:
        self._environment = environment
        self._rank_0 = rank_0
        self._clock = clock
        self._connections = set[asyncio.Task[None]]()
        self._held: asyncio.StreamWriter | None = None
        self._signalled = 0
        self._over: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, address: str, port: int, context: ssl.SSLContext) -> int:
        """Serve until rank 0 reports that `mpirun` has ended, or disconnects; return the exit code."""
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # daemons leave their parents
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal, number)
        server = await asyncio.start_server(self._accept, address, port, ssl=context, limit=MOST_OF_A_LINE)
        code = await self._over
        server.close()
        await self._wait_for_children()
        _signal_children(signal.SIGTERM)
        await self._wait_for_children()
        _signal_children(signal.SIGKILL)
        await cancel(self._connections)
        return code

    def _on_signal(self, number: int) -> None:
        """Ask rank 0 to end the whole job, because this worker received a termination signal.

        Without a connection to rank 0, or after a second signal, end the agent immediately.
        """
        if self._held is None or self._signalled:
            self._end(128 + number)
        else:
            self._held.write(encode_frame(ENDING))
        self._signalled = number

    def _end(self, code: int) -> None:
        if not self._over.done():
            self._over.set_result(code)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer), name="serve rank 0")
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await read_request(reader)
            if request.command:
                await self._run(request, reader, writer)
            else:
                self._held = writer
                writer.write(encode_frame(HERE))
                await self._wait_for_farewell(reader)
        except ConnectionError:
            pass  # rank 0 closed the connection or has exited; the long-lived connection tells which
        except StrangeRequestError as error:
            print(f"muster: a strange request: {error}", file=sys.stderr)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _wait_for_farewell(self, reader: asyncio.StreamReader) -> None:
        """Wait until rank 0 reports that `mpirun` has ended. If rank 0 disconnects without that, the worker fails."""
        try:
            farewell = await reader.read(len(FAREWELL))
        except OSError:
            farewell = b""
        if self._signalled:
            self._end(128 + self._signalled)
        elif farewell == FAREWELL:
            self._end(0)
        else:
            print(f"muster: {self._rank_0}, which ran the job, has gone", file=sys.stderr)
            self._end(1)

    async def _run(self, request: CommandRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Run a command, forward its output, and send its exit code."""
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh",
                "-c",
                request.command,
                env=self._environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:  # such as a command that is longer than Linux allows
            writer.write(encode_frame(STDERR, f"muster: the command cannot begin: {error.strerror}\n".encode()))
            writer.write(encode_frame(ENDED, str(_NOT_EXECUTABLE).encode()))
            await writer.drain()
            return
        assert process.stdout is not None
        assert process.stderr is not None
        pumps = [
            asyncio.create_task(_pump(process.stdout, STDOUT, writer), name="pump stdout"),
            asyncio.create_task(_pump(process.stderr, STDERR, writer), name="pump stderr"),
        ]
        gone, ended = (
            asyncio.create_task(_pass_signals(reader, process.pid), name="watch"),
            asyncio.create_task(process.wait(), name="wait"),
        )
        try:
            await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                await self._end_command(process.pid, ended)
            await asyncio.wait(pumps, timeout=_DRAIN_SECONDS)
            code = process.returncode or 0
            writer.write(encode_frame(ENDED, str(code if code >= 0 else 128 - code).encode()))
            await writer.drain()
        finally:
            await cancel([gone, ended, *pumps])

    async def _end_command(self, pid: int, ended: "asyncio.Task[int]") -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            _signal_group(pid, number)
            await asyncio.wait({ended}, timeout=_GRACE_SECONDS)
            if ended.done():
                return

    async def _wait_for_children(self) -> None:
        """Wait, for at most `_GRACE_SECONDS`, until this process has no children left."""
        until = self._clock.monotonic() + _GRACE_SECONDS
        while _list_children() and self._clock.monotonic() < until:
            await self._clock.sleep(_LOOK_SECONDS)


async def _pass_signals(reader: asyncio.StreamReader, pid: int) -> None:
    """Send each signal that rank 0 requests to a command, until the connection ends."""
    with suppress(ConnectionError):
        while number := await reader.read(1):
            _signal_group(pid, signal.Signals(number[0]))


async def _pump(reader: asyncio.StreamReader, channel: int, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):  # `_run` terminates the command then
        while data := await reader.read(_READ_BYTES):
            writer.write(encode_frame(channel, data))
            await writer.drain()


def _list_children() -> list[int]:
    """Return the PIDs of the living children of this process, including orphans that it has adopted."""
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in listed if not _is_zombie(pid)]


def _is_zombie(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _signal_children(number: signal.Signals) -> None:
    for pid in _list_children():
        _signal_group(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, and to its process group if the process leads one."""
    with suppress(ProcessLookupError):
        os.killpg(pid, number)
        return
    with suppress(ProcessLookupError):
        os.kill(pid, number)
