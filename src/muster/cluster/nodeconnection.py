"""Define the contract between the API server and the nodes: logs, commands in containers, their streams, and ports.

Upstream this is the kubelet's API. Server and nodes import this module, and not each other.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Struct

from muster.api.core import Pod
from muster.runtime.containerlogs import KeptPod

# The channels of a command, by their numbers in upstream's protocols.
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


class LogOptions(Struct, frozen=True):
    """The selection of a container's log.

    container: its name, checked.
    follow: continue until the container exits.
    previous: read the previous run instead of the current one. Between two runs, both mean the run that has exited.
    before_newest: let `previous` mean the run before the newest run, also between two runs, so that a follower misses
    no run. An extension of Muster.
    attempt: read the kept run with this number, counted from 0; None for the current run. An extension of Muster.
    raw: return the log as the node stores it, see `muster.runtime.containerlogs`. It shows exactly what the program
    wrote. An extension of Muster.
    timestamps: start every line with its time (RFC 3339).
    since_seconds: read only lines that are not older than this many seconds.
    since_time: read only lines written at this time or later; excludes `since_seconds`.
    tail_lines: read only this many lines at the end, before following.
    limit_bytes: stop after this many bytes.
    """

    container: str
    follow: bool = False
    previous: bool = False
    before_newest: bool = False
    attempt: int | None = None
    raw: bool = False
    timestamps: bool = False
    since_seconds: int | None = None
    since_time: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


class CommandOptions(Struct, frozen=True):
    """The program to run or attach to, and its streams.

    container: the name of an existing container.
    command: the program and its arguments; empty to attach to the running program.
    tty: whether its streams are a terminal, which has no separate standard error.
    """

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def channels(self) -> frozenset[int]:
        """The channels that carry the streams of the command, including errors."""
        wanted = (
            (self.stdin, STDIN), (self.stdout, STDOUT), (self.stderr, STDERR), (self.tty, RESIZE), (True, ERROR)
        )  # fmt: skip
        return frozenset(channel for is_wanted, channel in wanted if is_wanted)


class Program(Protocol):
    """A program that runs in a container, as the API server uses it."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the program's output until the program exits, as pieces of its standard output (1) and error (2)."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to the program's standard input, and wait while the program does not read.

        Drop the data if the program has closed its input.
        """
        ...

    async def end_input(self) -> None:
        """Close the program's standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal, if it has one."""
        ...

    async def wait_for_end(self) -> int:
        """Wait until the program exits, and return its exit code. Raises `ApiError` if it could not be started."""
        ...


Opening = Callable[[], AbstractAsyncContextManager[Program]]
"""Starts the program, or joins it, and releases it (or kills it) in the end. Entering raises `ApiError`."""

Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of the pod; the socket does not block. Raises OSError, whose text is for the user."""


class GpuUse(Struct, frozen=True):
    """The use of GPUs: the load in thousandths of a GPU, and the bytes of GPU memory."""

    milli_gpus: int = 0
    memory_bytes: int = 0

    def __add__(self, other: "GpuUse") -> "GpuUse":
        return GpuUse(self.milli_gpus + other.milli_gpus, self.memory_bytes + other.memory_bytes)


class Reading(Struct, frozen=True):
    """The usage of a container.

    cpu_seconds: its CPU time since its start.
    memory_bytes: its current memory.
    gpus: its use of GPUs; None if the container has no GPU, or its use is unknown.
    """

    cpu_seconds: float
    memory_bytes: int
    gpus: GpuUse | None = None


class LogSource(Protocol):
    """The API server's access to the logs of a node."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log, in pieces of any size. Raises `ApiError` (400) before the first piece if there is no log."""
        ...

    def list_kept_pods(self, job: str) -> Sequence[KeptPod]:
        """Return the deleted pods of a Job whose logs the node keeps. job: the UID of the Job."""
        ...

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the kept log of a deleted pod."""
        ...


class NodeConnection(LogSource, Protocol):
    """The API server's access to a node and its pods."""

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return a context that runs a command in a container while it is open.

        Raises `ApiError` (400) if the container does not run.
        """
        ...

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return a context that connects a client to the streams of a container's main process while it is open.

        Raises `ApiError` (400) if the container does not run.
        """
        ...

    def dial(self, pod: Pod) -> Dial:
        """Return a function that connects to a port of the pod. Raises `ApiError` (400) if the pod does not run."""
        ...

    async def measure_usage(self) -> Mapping[tuple[str, str], Reading]:
        """Return the current usage of each container on the node, by the pod's UID and the container's name."""
        ...
