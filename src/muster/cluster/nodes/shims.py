"""The server's side of shims: start one, find those that a server before us has started, look at how one ended.

An attempt's directory is all the state there is. `state` in it is locked by the living shim (a record lock, whose
holder the kernel names) and says when the container was started and how it ended; see `shim/__init__.py`. So at any
moment an attempt is exactly one of: not begun (no `state`), alive (locked), over (a record with an end), or lost
(neither locked nor ended: the shim was killed).
"""

import asyncio
import contextlib
import fcntl
import logging
import marshal
import os
import signal
import struct
import sys
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec

from muster.cluster.nodes.container import processes
from muster.cluster.nodes.disk import plainfiles
from muster.cluster.nodes.disk.plainfiles import OddFileError
from muster.cluster.nodes.shim.spec import Command, Entry, Reserved, Spec
from muster.cluster.nodes.shim.supervisor import END, STATE
from muster.cluster.nodes.shim.system import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS

LAUNCHER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]
# The environment variable by which the processes of a container are found where no pid namespace holds them together.
MARK = b"MUSTER_CONTAINER"

_NAMESPACES = (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS), ("pid", CLONE_NEWPID))
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid

log = logging.getLogger(__name__)


class ShimError(Exception):
    """A shim could not be started; nothing of the container ran."""


class ClaimedError(Exception):
    """Another shim has, or had, this attempt."""


# What does not fit is damaged: no clock says so.
Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Record(msgspec.Struct, frozen=True):
    """What a shim has written down. Times are nanoseconds since 1970; 0 for what did not happen."""

    claimed: Amount = 0
    started: Amount = 0
    finished: Amount = 0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    reason: str = ""
    message: str = ""
    lost: int = 0  # lines of the log that could not be written
    untold: int = 0  # those at its end, of which it does not tell
    cpu_microseconds: Amount = 0
    memory_bytes: Amount = 0  # at the highest


class Shim:
    """A living shim. `pid` is only for looking at; signals go to the very process, or nowhere once it has ended."""

    def __init__(self, directory: Path, pid: int, pidfd: int) -> None:
        self.directory = directory
        self.pid = pid
        self._pidfd: int | None = pidfd

    @property
    def pidfd(self) -> int:
        """The process, for passing on. Raises `ShimError` once it has ended."""
        if self._pidfd is None:
            raise ShimError("the container has ended")
        return self._pidfd

    def send(self, number: int) -> None:
        """Pass a signal on to the container's first process."""
        if self._pidfd is not None:
            processes.send(self._pidfd, number)

    def end(self) -> None:
        """Kill everything in the container; the shim then writes the record and ends."""
        self.send(END)

    def destroy(self) -> None:
        """Kill the shim itself, for when it does not answer; the record is lost."""
        self.send(signal.SIGKILL)

    async def ended(self) -> Record | None:
        """Wait until the shim has ended; what it wrote down, None if it was killed before it could. Once only."""
        await processes.ended(self.pidfd)
        self.close()
        record = read_record(self.directory)
        return record if record and record.finished else None

    def close(self) -> None:
        """Let go of the shim, which lives on if it lives."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def read_record(directory: Path) -> Record | None:
    """What is known of an attempt; None if no shim ever claimed it."""
    try:
        return msgspec.json.decode(plainfiles.read(directory / STATE), type=Record)
    except FileNotFoundError:
        return None
    except (OddFileError, msgspec.DecodeError, UnicodeDecodeError):  # the machine went down in the middle of a write
        return Record()


def find(directory: Path) -> Shim | None:
    """The living shim of an attempt."""
    while pid := _holder(directory):
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        # If it still holds the lock then the pidfd, opened meanwhile, is of that process and no other.
        if _holder(directory) == pid:
            return Shim(directory, pid, pidfd)
        os.close(pidfd)
    return None


def is_alive(directory: Path) -> bool:
    """Whether the attempt's shim lives."""
    return _holder(directory) != 0


def _holder(directory: Path) -> int:
    """The process that has the state locked; 0 if none has."""
    try:
        with plainfiles.opened(directory / STATE) as descriptor:
            query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
            return 0 if kind == fcntl.F_UNLCK else pid
    except (FileNotFoundError, OddFileError):
        return 0


class Reserve:
    """A shim that waits to be told what to run: what takes long of a start is done before its time has come.

    It has run nothing and claims nothing, and ends by itself when it is closed, or when this process ends.
    """

    def __init__(self, isolation: str, *, own_pids: bool, lifeline: int) -> None:
        """Make one; not with bubblewrap, which has to know all before. Raises `ShimError`."""
        self._descriptors: list[int] = []
        try:
            self.report, self._reporter = self._pipe()
            reader, self._word = self._pipe()
            self._spec = os.memfd_create("muster-spec", os.MFD_CLOEXEC)
            self._descriptors.append(self._spec)
            reserved: Reserved = {
                "isolation": isolation,
                "own_pids": own_pids,
                "word": reader,
                "spec": self._spec,
                "report": self._reporter,
                "lifeline": lifeline,
            }
            processes.reap_later(_launch("reserve", reserved, [reader, self._spec, self._reporter, lifeline]))
        except OSError as error:
            self.close()
            raise ShimError(f"cannot start a process: {error.strerror}") from error
        for theirs in (self._reporter, reader):
            self._descriptors.remove(theirs)
            os.close(theirs)

    def run(self, spec: Spec) -> None:
        """Have it run this. Raises BrokenPipeError if it has gone."""
        with open(self._spec, "wb", closefd=False) as file:
            marshal.dump({**spec, "report": self._reporter}, file)  # under the number that it has there
        os.write(self._word, b"!")

    def close(self) -> None:
        """It is not wanted, or has been told all."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _pipe(self) -> tuple[int, int]:
        pipe = os.pipe2(os.O_CLOEXEC)
        self._descriptors += pipe
        return pipe


async def start(spec: Spec, reserve: Reserve | None = None) -> Shim | None:
    """Start a container; None if it has ended already (or could not be started): look at the record.

    reserve: the shim to be; it is used up. `report` of the spec is set here. Raises `ShimError`, `ClaimedError`.
    """
    if reserve is not None:
        verdict = await _told(reserve, spec)
        if verdict or read_record(Path(spec["directory"])) is not None:
            return _started(spec, verdict)
        # It was killed before it ran anything: another is made.
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pidfd = _launch("start", {**spec, "report": writer}, [writer, spec["lifeline"]])
        finally:
            os.close(writer)
        processes.reap_later(pidfd)  # it ends at once; with bubblewrap it ends with the container, and reaps the shim
        own_child = spec["isolation"] != "bubblewrap"
        verdict = await _verdict(reader, with_pid=own_child)
    except OSError as error:
        raise ShimError(f"cannot start a process: {error.strerror}") from error
    finally:
        os.close(reader)
    return _started(spec, verdict)


async def _told(reserve: Reserve, spec: Spec) -> str:
    """How a start went of a shim that was there; empty if it says nothing."""
    try:
        reserve.run(spec)
        return await _verdict(reserve.report, with_pid=True)
    except OSError:
        return ""
    finally:
        reserve.close()


def _started(spec: Spec, verdict: str) -> Shim | None:
    """What has become of a start."""
    directory = Path(spec["directory"])
    if verdict == "claimed":
        raise ClaimedError(str(directory))
    if verdict.startswith("error "):
        raise ShimError(verdict.removeprefix("error "))
    shim = find(directory)
    if verdict != "started" and shim is None and read_record(directory) is None:
        raise ShimError("the shim ended without a word")
    return shim


async def _verdict(report: int, *, with_pid: bool) -> str:
    """How a start went, as the shim says; empty if it does not. Sees to it that the shim is reaped when it ends."""

    def enough(lines: list[str]) -> bool:
        return len(lines) > (1 if with_pid else 0)

    verdict = ""
    for line in await processes.read_lines(report, enough):
        if line.startswith("pid "):
            # It may have ended already: as an orphan of ours it keeps its id until it is reaped.
            with contextlib.suppress(ProcessLookupError):
                processes.reap_later(os.pidfd_open(int(line.removeprefix("pid "))))
        else:
            verdict = line
    return verdict


def enter(shim: Shim, command: Command, streams: processes.Streams, *, report: int = 2, terminal: bool = False) -> int:
    """Start a command where the container runs; the pidfd of a child that exits with its exit code.

    SIGTERM to it ends the command, as does our own end. `report` is told why the command cannot be run. With `terminal`
    the standard input is one, and the command's to control. Raises `ShimError`.
    """
    try:
        entry: Entry = {
            **command,
            "pidfd": shim.pidfd,
            "namespaces": _foreign_namespaces(shim.pid),
            "report": report,
            "terminal": terminal,
        }
        passed_on = [shim.pidfd, *([report] if report > 2 else [])]
        return _launch("enter", entry, passed_on, streams)
    except OSError as error:
        raise ShimError(f"cannot run a command in the container: {error.strerror}") from error


async def run_inside(shim: Shim, command: Command, timeout_seconds: float, output_bytes: int) -> tuple[int, bytes]:
    """Run a command where the container runs: its exit code and the start of its output.

    Raises TimeoutError (the command is killed), `ShimError`.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        pidfd = enter(shim, command, (-1, writer, writer))
    except ShimError:
        os.close(reader)
        raise
    finally:
        os.close(writer)
    output = processes.Output(reader, output_bytes)
    try:
        async with asyncio.timeout(timeout_seconds):
            await processes.readable(pidfd)
        return processes.exit_status(pidfd), output.finish()
    except BaseException:
        output.finish()
        raise
    finally:
        processes.send(pidfd, signal.SIGTERM)  # if it is still there, it ends the command and itself
        processes.reap_later(pidfd)


def kill_marked(mark: bytes) -> int:
    """Kill what a lost shim has left behind where there is no pid namespace; returns how many processes."""
    entry = MARK + b"=" + mark
    killed = 0
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            if entry not in (directory / "environ").read_bytes().split(b"\0"):
                continue
            pidfd = os.pidfd_open(int(directory.name))
        except OSError:
            continue
        try:
            # Read again: the pidfd may be of another process that got the number meanwhile.
            if entry in (directory / "environ").read_bytes().split(b"\0"):
                killed += processes.send(pidfd, signal.SIGKILL)
        except OSError:
            log.debug("process %s went away by itself", directory.name)
        finally:
            os.close(pidfd)
    return killed


def _launch(mode: str, spec: Any, pass_on: list[int], streams: processes.Streams = processes.NO_STREAMS) -> int:
    """Start the launcher with a spec; returns its pidfd. The spec, with its secrets, is never on disk."""
    descriptor = os.memfd_create("muster-spec", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            marshal.dump(spec, file)
        descriptors = [descriptor, *(number for number in pass_on if number >= 0)]
        return processes.spawn([*LAUNCHER, mode, str(descriptor)], pass_on=descriptors, streams=streams)
    finally:
        os.close(descriptor)


def _foreign_namespaces(pid: int) -> int:
    """The namespaces of a process that are not ours, as flags for setns."""
    flags = 0
    for name, flag in _NAMESPACES:
        if Path(f"/proc/{pid}/ns/{name}").stat().st_ino != Path(f"/proc/self/ns/{name}").stat().st_ino:
            flags |= flag
    return flags
