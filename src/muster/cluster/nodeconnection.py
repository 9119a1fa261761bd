"""Define the contract between the API server and the nodes: logs, commands in containers, their streams, and ports.

Upstream it is the kubelet's API. Both sides import this module and not each other.
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
    follow: go on until the container ends.
    previous: read its previous run instead of the current one (between two runs, both are the run that has ended).
    before_newest: let `previous` mean the run before the newest, also between two runs. Muster's own: a follower misses
    none.
    attempt: read its run of this number, counted from 0, of the kept runs. Muster's own.
    raw: as the node keeps it, see `muster.runtime.containerlogs`. Muster's own: it tells exactly what the program
    wrote.
    timestamps: begin every line with its time (RFC 3339).
    since_seconds: only what is not older than this.
    since_time: only what was written from then on; not both of them.
    tail_lines: only so many lines at the end, before what is followed.
    limit_bytes: end after so many bytes.
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
    command: the program and its arguments; none to attach to the running program.
    tty: whether its streams are a terminal, which has no standard error of its own.
    """

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def channels(self) -> frozenset[int]:
        """The channels that carry the streams of the command."""
        wanted = (
            (self.stdin, STDIN), (self.stdout, STDOUT), (self.stderr, STDERR), (self.tty, RESIZE), (True, ERROR)
        )  # fmt: skip
        return frozenset(channel for is_wanted, channel in wanted if is_wanted)


class Program(Protocol):
    """A program that runs in a container, as the server uses it."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the program's output until it has ended, as pieces of its standard output (1) and error (2)."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to the program's standard input, and wait while it does not read.

        Data that the other end will not read is dropped.
        """
        ...

    async def end_input(self) -> None:
        """End the program's standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of the program's terminal, if it has one."""
        ...

    async def wait_for_end(self) -> int:
        """Wait until the program has ended, and return its exit code. Raises `ApiError` if it could not be started."""
        ...


Opening = Callable[[], AbstractAsyncContextManager[Program]]
"""Starts the program, or joins it, and releases it (or kills it) in the end. Entering raises `ApiError`."""

Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of the pod; the socket does not block. Raises OSError, whose text is for the user."""


class GpuUse(Struct, frozen=True):
    """The use of GPUs: thousandths of GPUs that work, and bytes of their memory."""

    milli_gpus: int = 0
    memory_bytes: int = 0

    def __add__(self, other: "GpuUse") -> "GpuUse":
        return GpuUse(self.milli_gpus + other.milli_gpus, self.memory_bytes + other.memory_bytes)


class Reading(Struct, frozen=True):
    """The usage of a container: its processor seconds so far, the bytes of memory that it holds now, and its GPUs.

    gpus: None if the container has no GPU, or nothing is known of its use.
    """

    cpu_seconds: float
    memory_bytes: int
    gpus: GpuUse | None = None


class LogSource(Protocol):
    """The connection of the server to a node, for logs."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the log, in pieces of any size. Raises `ApiError` (400) before the first piece if there is none."""
        ...

    def list_kept_pods(self, job: str) -> Sequence[KeptPod]:
        """Return the deleted pods of a Job whose logs the node keeps. job: the UID of the Job."""
        ...

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """Yield the kept log of a deleted pod."""
        ...


class NodeConnection(LogSource, Protocol):
    """The connection of the server to a node."""

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return the context that runs a command in a container while it is open.

        Raises `ApiError` (400) if the container does not run.
        """
        ...

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:
        """Return the context that joins the streams of a container's own process while it is open.

        Raises `ApiError` (400) if the container does not run.
        """
        ...

    def dial(self, pod: Pod) -> Dial:
        """Return a function that connects to ports of a pod. Raises `ApiError` (400) if the pod does not run."""
        ...

    async def measure_usage(self) -> Mapping[tuple[str, str], Reading]:
        """Return the CPU and memory that each container of the node uses, by the pod's UID and the container's name."""
        ...
