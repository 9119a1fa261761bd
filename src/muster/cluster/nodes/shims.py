"""Manage shims from the server's side: start them, find the shims of an earlier server, and read their records.

An attempt's directory contains all the state. While the shim runs, it locks the file `state` there (a record lock,
whose holder the kernel names). The file records when the container started and how it exited; see `shim/__init__.py`.
So an attempt is always in exactly one of these states:

- not started: there is no `state`,
- running: `state` is locked,
- over: `state` is a record with an exit,
- lost: `state` is neither locked nor has an exit, because the shim was killed.
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
from muster.cluster.nodes.disk.complaints import describe_reason
from muster.cluster.nodes.disk.plainfiles import OddFileError
from muster.cluster.nodes.installedfiles import explain_changed_files, stamp_files
from muster.cluster.nodes.shim.spec import ExecSpec, ProgramSpec, Reserved, Spec
from muster.cluster.nodes.shim.supervisor import END, EXCESS, STATE
from muster.cluster.nodes.shim.system import CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, CLONE_NEWUTS

LAUNCHER = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launcher.py"))]
# The modules of shims, and their state when this server started.
_FOLDER = Path(__file__).with_name("shim")
_FILES = stamp_files(_FOLDER)
# The environment variable that identifies the processes of a container without a pid namespace.
MARK = b"MUSTER_CONTAINER"

_NAMESPACES = (("user", CLONE_NEWUSER), ("mnt", CLONE_NEWNS), ("uts", CLONE_NEWUTS), ("pid", CLONE_NEWPID))
# How often to retry when the lock's holder changes while its process is opened.
_MOST_HOLDERS = 100
_FLOCK = struct.Struct("hhqqi4x")  # struct flock: type, whence, start, length, pid

log = logging.getLogger(__name__)


class ShimError(Exception):
    """A failure to start a shim, or a command in its container. The program or command has not run."""


class ClaimedError(Exception):
    """An attempt that another shim runs or has run."""


# A number outside this range marks a damaged record: no clock has such a time.
Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ShimRecord(msgspec.Struct, frozen=True):
    """The record of a shim about its attempt.

    Times are in nanoseconds since 1970; 0 for events that have not happened.
    """

    claimed: Amount = 0
    started: Amount = 0
    finished: Amount = 0
    code: Annotated[int, msgspec.Meta(ge=0, le=255)] = 0
    reason: str = ""
    message: str = ""
    lost: int = 0  # lines of the log that could not be written
    untold: int = 0  # lost lines at the log's end, which the log does not mention
    cpu_microseconds: Amount = 0
    memory_bytes: Amount = 0  # the peak


class Shim:
    """A running shim, as the server sees it. `pid` serves only to read /proc and to display it.

    Signals are sent by pidfd, so they reach exactly this process, or nothing after it has exited.
    """

    def __init__(self, directory: Path, pid: int, pidfd: int) -> None:
        self.directory = directory
        self.pid = pid
        self._pidfd: int | None = pidfd

    @property
    def pidfd(self) -> int:
        """The pidfd of the shim's process, to pass to another function.

        Raises `ShimError` after that process has exited.
        """
        if self._pidfd is None:
            raise ShimError("the container has ended")
        return self._pidfd

    def send(self, number: int) -> None:
        """Send a signal to the container's first process, through the shim."""
        if self._pidfd is not None:
            processes.send(self._pidfd, number)

    def end(self) -> None:
        """Ask the shim to kill everything in the container, write the exit record, and exit."""
        self.send(END)

    def note_excess(self, used: int) -> None:
        """Tell the shim that its container is about to be killed because of its memory use. Raises OSError.

        used: the memory in bytes. The file must be new, because the owner of the directory may have put a link in its
        place. The shim runs as that owner.
        """
        descriptor = os.open(self.directory / EXCESS, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with open(descriptor, "w") as file:
            os.fchmod(descriptor, 0o644)
            file.write(str(used))

    def destroy(self) -> None:
        """Kill a shim that does not respond. The record of its attempt is lost."""
        self.send(signal.SIGKILL)

    async def wait_for_end(self) -> ShimRecord | None:
        """Wait until the shim exits, and return its record. May be called only once.

        Return None if the shim was killed before it wrote the record.
        """
        await processes.wait_until_ended(self.pidfd)
        self.close()
        record = read_record(self.directory)
        return record if record and record.finished else None

    def close(self) -> None:
        """Close the descriptors of the shim. A running shim continues."""
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None


def read_record(directory: Path) -> ShimRecord | None:
    """Return the record of an attempt; None if no shim has claimed it, an empty record if the file is damaged."""
    try:
        return msgspec.json.decode(plainfiles.read(directory / STATE), type=ShimRecord)
    except FileNotFoundError:
        return None
    except (OddFileError, msgspec.DecodeError, UnicodeDecodeError):  # the machine lost power during a write
        return ShimRecord()


def find(directory: Path) -> Shim | None:
    """Return the running shim of an attempt; None if there is none."""
    for _ in range(_MOST_HOLDERS):
        pid = _find_holder(directory)
        if not pid or not _is_of_owner(directory, pid):
            return None
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        # If the process still holds the lock, the pidfd that was opened meanwhile refers to exactly this process.
        if _find_holder(directory) == pid and _is_of_owner(directory, pid):
            return Shim(directory, pid, pidfd)
        os.close(pidfd)
    return None


def _is_of_owner(directory: Path, pid: int) -> bool:
    """Return whether a process runs as the owner of an attempt's directory.

    The owner controls which process locks `state`, so it could name another user's process.
    """
    owner = directory.stat().st_uid
    try:
        return owner == os.geteuid() or Path(f"/proc/{pid}").stat().st_uid == owner
    except FileNotFoundError:
        return False  # the process has just exited


def is_alive(directory: Path) -> bool:
    """Return whether the attempt's shim runs."""
    return _find_holder(directory) != 0


def _find_holder(directory: Path) -> int:
    """Return the PID of the process that holds the lock of `state`; 0 if there is none."""
    try:
        with plainfiles.open_plain_file(directory / STATE) as descriptor:
            query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, query))
            return 0 if kind == fcntl.F_UNLCK else pid
    except (FileNotFoundError, OddFileError):
        return 0


class ReservedShim:
    """A shim that was started early and waits for its spec, so that the slow part of a start is done in advance.

    The shim has run no program and has claimed no attempt. It exits by itself when this object is closed, or when this
    process exits.
    """

    def __init__(self, isolation: str, *, own_pids: bool, lifeline: int, fence: int = -1) -> None:
        """Start the waiting shim.

        Do not use it with bubblewrap, which needs the spec from the start. Raises `ShimError`.

        own_pids: whether the container gets a PID namespace.
        lifeline: the descriptor whose end of file tells the shim that the server has ended; -1 for none.
        fence: the descriptor of the file that says when the container must end; -1 for none.
        """
        self._descriptors: list[int] = []
        try:
            self.report, self._reporter = self._make_pipe()
            reader, self._word = self._make_pipe()
            self._spec = os.memfd_create("muster-spec", os.MFD_CLOEXEC)
            self._descriptors.append(self._spec)
            reserved: Reserved = {
                "isolation": isolation,
                "own_pids": own_pids,
                "word": reader,
                "spec": self._spec,
                "report": self._reporter,
                "lifeline": lifeline,
                "fence": fence,
            }
            pass_on = [reader, self._spec, self._reporter, lifeline, fence]
            processes.reap_later(_launch_shim("reserve", reserved, pass_on))
        except OSError as error:
            self.close()
            raise ShimError(f"cannot start a process: {describe_reason(error)}") from error
        for theirs in (self._reporter, reader):
            self._descriptors.remove(theirs)
            os.close(theirs)

    def run(self, spec: Spec) -> None:
        """Send the spec to the shim. Raises BrokenPipeError if the shim has exited."""
        with open(self._spec, "wb", closefd=False) as file:
            marshal.dump({**spec, "report": self._reporter}, file)  # the descriptor's number in the shim
        os.write(self._word, b"!")

    def close(self) -> None:
        """Close this process's ends of the shim's pipes. A shim without a spec then exits."""
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()

    def _make_pipe(self) -> tuple[int, int]:
        pipe = os.pipe2(os.O_CLOEXEC)
        self._descriptors += pipe
        return pipe


async def start(spec: Spec, reserve: ReservedShim | None = None) -> Shim | None:
    """Start a container; return its shim. Return None if it has exited already or could not be started.

    The record of the attempt distinguishes these two cases.

    spec: this function sets its field `report`.
    reserve: a waiting shim to use, which cannot be used again; None to start a new one.

    Raises `ShimError`, `ClaimedError`.
    """
    if reserve is not None:
        verdict = await _start_reserved(reserve, spec)
        if verdict or read_record(Path(spec["directory"])) is not None:
            return _resolve_start(spec, verdict)
        # The waiting shim was killed before it ran anything: start another.
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            pidfd = _launch_shim("start", {**spec, "report": writer}, [writer, spec["lifeline"], spec["fence"]])
        finally:
            os.close(writer)
        processes.reap_later(pidfd)  # the launcher ends at once; bubblewrap ends with the container, and reaps the shim
        own_child = spec["isolation"] != "bubblewrap"
        verdict = await _read_verdict(reader, with_pid=own_child)
    except OSError as error:
        raise ShimError(f"cannot start a process: {describe_reason(error)}") from error
    finally:
        os.close(reader)
    return _resolve_start(spec, verdict)


async def _start_reserved(reserve: ReservedShim, spec: Spec) -> str:
    """Send a waiting shim its spec, and return the shim's report on the start; "" if the shim reports nothing."""
    try:
        reserve.run(spec)
        return await _read_verdict(reserve.report, with_pid=True)
    except OSError:
        return ""
    finally:
        reserve.close()


def _resolve_start(spec: Spec, verdict: str) -> Shim | None:
    """Return the running shim; None if the container has already exited or could not be started.

    The attempt's record says which.

    verdict: the shim's report.

    Raises `ShimError` if the report is an error or the shim left no trace, `ClaimedError` if another shim has claimed
    the attempt.
    """
    directory = Path(spec["directory"])
    if verdict == "claimed":
        raise ClaimedError(str(directory))
    if verdict.startswith("error "):
        raise ShimError(verdict.removeprefix("error "))
    shim = find(directory)
    if verdict != "started" and shim is None and read_record(directory) is None:
        upgraded = explain_changed_files(_FILES, _FOLDER)
        raise ShimError("the shim ended without a report" + (f": {upgraded}" if upgraded else ""))
    return shim


async def _read_verdict(report: int, *, with_pid: bool) -> str:
    """Read a shim's report on its start; return "" if there is none.

    The shim is reaped after it exits.

    with_pid: whether the report also contains the PID of the shim.
    """

    def enough(lines: list[str]) -> bool:
        return len(lines) > (1 if with_pid else 0)

    verdict = ""
    for line in await processes.read_lines(report, enough):
        if line.startswith("pid "):
            # The shim may have exited already. As an orphan of this process it keeps its PID until it is reaped.
            with contextlib.suppress(ProcessLookupError):
                processes.reap_later(os.pidfd_open(int(line.removeprefix("pid "))))
        else:
            verdict = line
    return verdict


def enter(
    shim: Shim, command: ProgramSpec, streams: processes.Streams, *, report: int = 2, terminal: bool = False
) -> int:
    """Start a command inside a container; return the pidfd of a child that exits with the command's exit code.

    SIGTERM to that child kills the command, and so does the exit of this process.

    report: the descriptor to which the child writes why the command cannot be run.
    terminal: whether the standard input is a terminal that the command controls.

    Raises `ShimError`.
    """
    try:
        entry: ExecSpec = {
            **command,
            "pidfd": shim.pidfd,
            "namespaces": _find_foreign_namespaces(shim.pid),
            "report": report,
            "terminal": terminal,
        }
        pass_on = [shim.pidfd, *([report] if report > 2 else [])]
        if (user := _find_user_id(command)) is not None:
            for stream in {*streams} - {-1}:
                os.fchown(stream, user, -1)  # a program may want to reopen its terminal or its output
        return _launch_shim("enter", entry, pass_on, streams)
    except OSError as error:
        raise ShimError(f"cannot run a command in the container: {describe_reason(error)}") from error


def _find_user_id(command: ProgramSpec) -> int | None:
    """Return the ID of the user that runs a command; None for the user of this process."""
    if command["identity"] is not None:
        return command["identity"]["uid"]
    return command["ids"][0] if command["ids"] is not None else None


async def run_inside(shim: Shim, command: ProgramSpec, timeout_seconds: float, output_bytes: int) -> tuple[int, bytes]:
    """Run a command inside a container; return its exit code and the start of its output.

    Raises TimeoutError after killing a command that takes too long, and `ShimError`.
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
            await processes.wait_until_readable(pidfd)
        return processes.exit_status(pidfd), output.finish()
    except BaseException:
        output.finish()
        raise
    finally:
        processes.send(pidfd, signal.SIGTERM)  # a child that still runs ends the command and itself
        processes.reap_later(pidfd)


def kill_marked(mark: bytes) -> int:
    """Kill the processes that a killed shim left behind; return their number.

    mark: the value of the marking variable in their environment.

    Without a PID namespace, only that variable identifies the processes. A scan of /proc misses a process that forks
    behind the scan, and a process in the middle of an exec shows no environment. So the search stops after two
    consecutive scans that find nothing new.
    """
    killed: set[int] = set()
    quiet = 0
    while quiet < 2:
        newly_killed = _kill_once(MARK + b"=" + mark, killed)
        killed |= newly_killed
        quiet = 0 if newly_killed else quiet + 1
    return len(killed)


def _kill_once(entry: bytes, killed: set[int]) -> set[int]:
    """Kill the processes that have this entry in their environment, except those killed before; return their pids."""
    pids = set()
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit() or int(directory.name) in killed:
            continue
        try:
            if entry not in (directory / "environ").read_bytes().split(b"\0"):
                continue
            pidfd = os.pidfd_open(int(directory.name))
        except OSError:
            continue
        try:
            # Read again, because the pidfd may refer to another process that got the number meanwhile.
            if entry in (directory / "environ").read_bytes().split(b"\0") and processes.send(pidfd, signal.SIGKILL):
                pids.add(int(directory.name))
        except OSError:
            log.debug("process %s went away by itself", directory.name)
        finally:
            os.close(pidfd)
    return pids


def _launch_shim(mode: str, spec: Any, pass_on: list[int], streams: processes.Streams = processes.NO_STREAMS) -> int:
    """Start the launcher with a spec in memory, and return its pidfd.

    The spec contains secrets, so it is never written to disk.

    pass_on: descriptors that the launcher inherits.
    """
    descriptor = os.memfd_create("muster-spec", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            marshal.dump(spec, file)
        descriptors = [descriptor, *(number for number in pass_on if number >= 0)]
        return processes.spawn([*LAUNCHER, mode, str(descriptor)], pass_on=descriptors, streams=streams)
    finally:
        os.close(descriptor)


def _find_foreign_namespaces(pid: int) -> int:
    """Return the namespaces of a process in which this process is not, as flags for the system call setns."""
    flags = 0
    for name, flag in _NAMESPACES:
        if Path(f"/proc/{pid}/ns/{name}").stat().st_ino != Path(f"/proc/self/ns/{name}").stat().st_ino:
            flags |= flag
    return flags
