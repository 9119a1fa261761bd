"""Starting processes and waiting for them without owning a child watcher: everything goes by pidfd.

A pidfd means one process for ever, so nothing in here can hit another process that got the same number. Works on any
event loop that has `add_reader`.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

_PR_SET_CHILD_SUBREAPER = 36
_PIECE = 65536

Streams: TypeAlias = tuple[int, int, int]
"""Descriptors to be standard input, output and error; -1 for nothing."""
NO_STREAMS: Streams = (-1, -1, -1)


def adopt_orphans() -> None:
    """Become the parent of shims, whose own parents end at once; otherwise init gets (and must reap) them."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def check_kernel() -> None:
    """Raises RuntimeError if this system lacks what all of this stands on."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        raise RuntimeError("process nodes need Linux 5.8 or newer: use --nodes simulated") from error


class Orphans:
    """Reaps the orphans that come to us and that no task waits for.

    Those that a task does wait for are gone within moments, so only what is still there at the next sweep is reaped.
    """

    def __init__(self) -> None:
        self._seen: set[int] = set()

    def sweep(self) -> None:
        """Look for zombies. Meant to be called every few seconds."""
        zombies = {pid for pid, (parent, state) in _processes().items() if parent == os.getpid() and state == "Z"}
        for pid in zombies & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._seen = zombies


def _processes() -> dict[int, tuple[int, str]]:
    """The parent and the state of every process."""
    found = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                found[int(directory.name)] = (int(parent), state)
    return found


def spawn(argv: Sequence[str], *, pass_on: Sequence[int] = (), streams: Streams = NO_STREAMS) -> int:
    """Start a program in its own session and with an empty environment; returns its pidfd.

    It gets the descriptors of `pass_on` under their own numbers, and `streams`. Raises OSError.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [(os.POSIX_SPAWN_DUP2, given if given >= 0 else null, number) for number, given in enumerate(streams)]
        # Duplicating a descriptor to itself is how it is told to survive the exec.
        actions += [(os.POSIX_SPAWN_DUP2, descriptor, descriptor) for descriptor in pass_on]
        pid = os.posix_spawn(argv[0], list(argv), {}, file_actions=actions, setsid=True, setsigmask=())
    finally:
        os.close(null)
    return os.pidfd_open(pid)


def send(pidfd: int, number: int) -> bool:
    """Send a signal; False if the process has gone."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def reap(pidfd: int) -> None:
    """Take an ended process off the process table, if it is ours."""
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return


def exit_status(pidfd: int) -> int:
    """The exit code of a child that has ended, or the signal that ended it; it stays on the process table."""
    status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert status is not None, "the process has not ended"
    return status.si_status


async def ended(pidfd: int) -> None:
    """Wait until the process has ended."""
    await readable(pidfd)
    reap(pidfd)


async def readable(descriptor: int) -> None:
    """Wait until there is something to read, or the end. One waiter per descriptor."""
    await any_readable((descriptor,))


async def any_readable(descriptors: Iterable[int]) -> set[int]:
    """Wait until there is something to read of some of these, or the end; of which. One waiter per descriptor."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    found: set[int] = set()

    def ready(descriptor: int) -> None:
        found.add(descriptor)
        if not future.done():
            future.set_result(None)

    watched = tuple(descriptors)
    for descriptor in watched:
        loop.add_reader(descriptor, ready, descriptor)
    try:
        await future
    finally:
        for descriptor in watched:
            loop.remove_reader(descriptor)
    return found


async def writable(descriptor: int) -> None:
    """Wait until something can be written, or it will never be read. One waiter per descriptor."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def ready() -> None:
        if not future.done():
            future.set_result(None)

    loop.add_writer(descriptor, ready)
    try:
        await future
    finally:
        loop.remove_writer(descriptor)


async def read_lines(descriptor: int, enough: Callable[[list[str]], bool]) -> list[str]:
    """The lines that come out of a pipe, up to its end or until they are enough."""
    os.set_blocking(descriptor, False)
    data = b""
    while True:
        await readable(descriptor)
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            continue
        data += piece
        found = data.decode(errors="replace").split("\n")[:-1]
        if not piece or enough(found):
            return found


class Output:
    """Collects the first bytes that come out of a pipe; the rest is read and dropped. Closes the pipe in the end."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._data = b""
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def finish(self) -> bytes:
        """What has come so far; processes that still write are not waited for."""
        if self._read():
            asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        return self._data

    def _read(self) -> bool:
        """Take what is there; False once the pipe has ended."""
        while True:
            try:
                piece = os.read(self._descriptor, _PIECE)
            except BlockingIOError:
                return True
            if not piece:
                asyncio.get_running_loop().remove_reader(self._descriptor)
                return False
            self._data += piece[: self._limit - len(self._data)]


def reap_later(pidfd: int) -> None:
    """Reap a child when it has ended, and close the pidfd, while we do other things."""
    loop = asyncio.get_running_loop()

    def over() -> None:
        loop.remove_reader(pidfd)
        reap(pidfd)
        os.close(pidfd)

    loop.add_reader(pidfd, over)
