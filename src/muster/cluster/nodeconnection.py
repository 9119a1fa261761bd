"""The contract between the API server and the nodes: what it asks of the node of a pod (upstream: the kubelet's API).

Logs, commands in containers, their streams, and ports. Both sides import this module and not each other.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from msgspec import Struct

from muster.api.core import Pod
from muster.runtime.containerlogs import KeptPod

# The channels of a command, by their numbers in upstream's protocols.
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a container's log is wanted.

    container: its name, checked.
    follow: go on until the container ends.
    previous: of its last run instead of the current one (between two runs, both are the one that has ended).
    before_newest: `previous` is the run before the newest, also between two runs. Ours: who follows misses none.
    attempt: of its run of this number, counted from 0; of the kept ones. Ours, too.
    raw: as the node keeps it, see `muster.runtime.containerlogs`. Ours: it tells exactly what the program wrote.
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
    """Which program is meant, and which of its streams.

    container: its name, checked.
    command: the program and its arguments; none to attach to what runs.
    tty: its streams are a terminal, which has no standard error of its own.
    """

    container: str
    command: tuple[str, ...] = ()
    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def channels(self) -> frozenset[int]:
        """The channels that are to be there."""
        wanted = (
            (self.stdin, STDIN), (self.stdout, STDOUT), (self.stderr, STDERR), (self.tty, RESIZE), (True, ERROR)
        )  # fmt: skip
        return frozenset(channel for is_wanted, channel in wanted if is_wanted)


class Program(Protocol):
    """A running program, as its user sees it."""

    def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """What it writes, as pieces of its standard output (1) and error (2), until it has ended."""
        ...

    async def write(self, data: bytes) -> None:
        """To its standard input; waits while it does not read. What will not be read is dropped."""
        ...

    async def end_input(self) -> None:
        """There is no more to read."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Its terminal, if it has one, has this size now."""
        ...

    async def ended(self) -> int:
        """Its exit code, once it has ended. Raises `ApiError` if it could not be started."""
        ...


Opening = Callable[[], AbstractAsyncContextManager[Program]]
"""Starts the program, or joins it, and lets it go (or kills it) in the end. Entering raises `ApiError`."""

Dial: TypeAlias = Callable[[int], Awaitable[socket.socket]]
"""Connects to a port of the pod; the socket does not block. Raises OSError, whose text is for the user."""


class LogSource(Protocol):
    """A node, as far as the server asks it for logs."""

    def logs(self, pod: Pod, options: LogOptions) -> AsyncIterator[bytes]:
        """The log, in pieces of any size. Raises `ApiError` (400) before the first piece if there is none yet."""
        ...

    def kept(self, job: str) -> Sequence[KeptPod]:
        """The pods of a Job, by its uid, that are gone and have left their logs."""
        ...

    def kept_log(self, pod: KeptPod, options: LogOptions) -> AsyncIterator[bytes]:
        """The log of one of them."""
        ...


class NodeConnection(LogSource, Protocol):
    """A node, as far as the server asks it for things."""

    def exec(self, pod: Pod, options: CommandOptions) -> Opening:
        """Run a command in a container. Raises `ApiError` (400) if that does not run."""
        ...

    def attach(self, pod: Pod, options: CommandOptions) -> Opening:
        """Join the streams of a container's own process. Raises `ApiError` (400) if it does not run."""
        ...

    def dial(self, pod: Pod) -> Dial:
        """Connect to ports of a pod. Raises `ApiError` (400) if it does not run."""
        ...
