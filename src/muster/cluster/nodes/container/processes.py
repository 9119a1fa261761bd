"""Start processes and wait for them by pidfd, without a child watcher.

A pidfd always refers to the same process. So no signal can hit another process that got the same PID. The module works
on any event loop that has `add_reader`.
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
"""The descriptors of standard input, output and error; -1 for none."""
NO_STREAMS: Streams = (-1, -1, -1)


def adopt_orphans() -> None:
    """Make this process the parent of all orphaned descendants (subreaper); otherwise init would reap them.

    Shims become orphans, because the processes that start them exit at once.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def check_kernel() -> None:
    """Raise RuntimeError if the kernel or Python lacks a system call that process nodes need, such as pidfd_open."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        raise RuntimeError("process nodes need Linux 5.8 or newer: use --nodes simulated") from error


class Orphans:
    """The reaper of adopted orphans that no task waits for.

    A task that waits for a process reaps it within moments. So this object reaps only zombies that two successive
    sweeps find.
    """

    def __init__(self) -> None:
        self._previous_zombies: set[int] = set()

    def sweep(self) -> None:
        """Reap the zombies that the previous call found, and remember the current ones. Call it every few seconds."""
        zombies = {pid for pid, (parent, state) in _list_processes().items() if parent == os.getpid() and state == "Z"}
        for pid in zombies & self._previous_zombies:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        self._previous_zombies = zombies


def _list_processes() -> dict[int, tuple[int, str]]:
    """Return the parent's PID and the state letter of every process of this machine, by PID."""
    processes = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            with contextlib.suppress(OSError):
                state, parent = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
                processes[int(directory.name)] = (int(parent), state)
    return processes


def spawn(argv: Sequence[str], *, pass_on: Sequence[int] = (), streams: Streams = NO_STREAMS) -> int:
    """Start a program in a session of its own, with an empty environment; return its pidfd. Raises OSError.

    pass_on: descriptors that the program inherits under the same numbers.
    streams: its standard streams; -1 for /dev/null.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, source if source >= 0 else null, number) for number, source in enumerate(streams)
        ]
        # Duplicating a descriptor to itself lets it survive the exec.
        actions += [(os.POSIX_SPAWN_DUP2, descriptor, descriptor) for descriptor in pass_on]
        pid = os.posix_spawn(argv[0], list(argv), {}, file_actions=actions, setsid=True, setsigmask=())
    finally:
        os.close(null)
    return os.pidfd_open(pid)


def send(pidfd: int, number: int) -> bool:
    """Send a signal; return False if the process has exited."""
    try:
        signal.pidfd_send_signal(pidfd, number)
    except ProcessLookupError:
        return False
    return True


def reap(pidfd: int) -> None:
    """Remove an exited process from the process table, if it is a child of this process."""
    try:
        os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return


def exit_status(pidfd: int) -> int:
    """Return the exit code of an exited child, or the number of the signal that killed it. Do not reap the child."""
    status = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    assert status is not None, "the process has not ended"
    return status.si_status


async def wait_until_ended(pidfd: int) -> None:
    """Wait until the process exits, and reap it."""
    await wait_until_readable(pidfd)
    reap(pidfd)


async def wait_until_readable(descriptor: int) -> None:
    """Wait until the descriptor has data to read or reaches its end. Allows one waiter per descriptor."""
    await wait_until_any_readable((descriptor,))


async def wait_until_any_readable(descriptors: Iterable[int]) -> set[int]:
    """Wait until some descriptors can be read or have reached their end; return these.

    Allows one waiter per descriptor.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    ready_descriptors: set[int] = set()

    def ready(descriptor: int) -> None:
        ready_descriptors.add(descriptor)
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
    return ready_descriptors


async def wait_until_writable(descriptor: int) -> None:
    """Wait until the descriptor can be written, or its reader has closed it. Allows one waiter per descriptor."""
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
    """Read lines from a pipe until its end, until `enough(lines)` is true, or until about `_PIECE` bytes were read."""
    os.set_blocking(descriptor, False)
    data = b""
    while True:
        await wait_until_readable(descriptor)
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:
            continue
        data += piece
        lines = data.decode(errors="replace").split("\n")[:-1]
        if not piece or enough(lines) or len(data) > _PIECE:
            return lines


class Output:
    """A collector of the first bytes from a pipe.

    The collector drops the bytes after its limit, and closes the pipe when it finishes.
    """

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._data = b""
        os.set_blocking(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    def finish(self) -> bytes:
        """Stop reading, and return the bytes collected so far, without waiting for processes that still write."""
        if self._read():
            asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        return self._data

    def _read(self) -> bool:
        """Read the available data; return False at the end of the pipe."""
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
    """Reap a child and close its pidfd in the background, after the child has exited."""
    loop = asyncio.get_running_loop()

    def over() -> None:
        loop.remove_reader(pidfd)
        reap(pidfd)
        os.close(pidfd)

    loop.add_reader(pidfd, over)
