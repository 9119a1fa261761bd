"""Run one attempt: claim it, so that no other shim runs it, start the process, supervise it, and record the exit.

Remaining processes of the container are killed before the exit is recorded.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import fcntl
import os
import select
import time

from .execution import become_container
from .fence import FENCED, MESSAGE, Fence
from .log import READ_BYTES, Log, Stream
from .mounting import Mounts, mount_proc
from .system import (
    NOT_STARTED,
    PR_SET_CHILD_SUBREAPER,
    RefusedError,
    call_libc,
    describe,
    exit_code,
    list_descendants,
    measure_children,
    try_to,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .attachment import Attachments
    from .spec import Spec
    from .usher import Usher

STATE = "state"
STATE_BYTES = 4096
# The file in which the server writes, before END, how many bytes of memory the container uses beyond its limit.
EXCESS = "excess"
OOM_KILLED = "OOMKilled"
# The longest message that fits into the record.
_MESSAGE_LENGTH = 700
# The server sends this signal to request that all processes are killed and the exit recorded. Other signals are passed
# on.
END = int(_signal.SIGRTMAX)
_PASSED_ON = (
    _signal.SIGHUP,
    _signal.SIGINT,
    _signal.SIGQUIT,
    _signal.SIGUSR1,
    _signal.SIGUSR2,
    _signal.SIGTERM,
    _signal.SIGWINCH,
)
_RETRY_SECONDS = 1.0
# The interval at which to check that the directory exists. A killed server cannot report that its home was removed.
_CHECK_SECONDS = 15.0
STDOUT, STDERR = 1, 2


class Supervisor:
    """The part of a shim that runs one attempt of a container. `run` does everything, once."""

    def __init__(self, spec: Spec, usher: Usher | None = None) -> None:
        self._spec = spec
        self._usher = usher  # joins the container's cgroups, if the container cannot do so by itself
        self._cgroup_procs: list[int] = []
        self._directory = os.open(spec["directory"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._counts_links = has_links(self._directory)  # some file systems count no links of directories
        self._next_check = time.monotonic() + _CHECK_SECONDS
        self._state = -1
        self._wakeup = -1
        self._cgroups: list[int] = []
        self._container = 0  # process id of the container's first process
        self._status: int | None = None  # the exit status of that process, as waitpid returns it
        self._fence = Fence(spec["fence"], spec["patience"]) if spec["fence"] >= 0 else None
        self._claimed = time.time_ns()
        self._started = 0
        self._finished = 0
        self._reason = ""
        self._message = ""
        self._cpu, self._memory = 0, 0  # microseconds, and the peak in bytes
        self._lost = self._untold = 0  # lost lines of the log, and those that the log does not mention

    def run(self) -> NoReturn:
        """Run the attempt: claim it, run the program, record its exit. This process then exits."""
        if not self._claim():
            report(self._spec, "claimed")
            os._exit(0)
        self._wakeup = self._catch_signals()
        spec = self._spec
        log = Log(self._directory, spec["log_bytes"], spec["log_files"], spec["log_patience"])
        streams: dict[int, Stream] = {}
        attachments: Attachments | None = None
        try:
            self._prepare()
            streams, attachments = self._start()
        except (RefusedError, OSError, ValueError) as error:
            self._reason, self._message = self._reason or "StartError", describe(error)
        else:
            self._started = time.time_ns()
            self._write_state(self._encode_state())
            report(self._spec, "started")
            self._supervise(streams, attachments, log)
        self._end_all()
        for descriptor, stream in streams.items():
            log.drain(descriptor, stream)
        if attachments is not None:
            attachments.close()
        self._write_exit_record(log)
        os._exit(0)

    def _claim(self) -> bool:
        """Claim the attempt, by a file that only one shim can create; return False if another shim has claimed it."""
        name = f"{STATE}.{self._claimed}.{id(self)}"
        self._state = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._directory)
        try:
            fcntl.lockf(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write_state(self._encode_state())
            os.link(name, STATE, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileExistsError:
            return False
        finally:
            os.unlink(name, dir_fd=self._directory)
        return True

    def _encode_state(self) -> str:
        """Return the shim's state as JSON. Only the message may contain characters that need quoting."""
        text = f'{{"claimed":{self._claimed},"started":{self._started}'
        if self._status is not None:
            text += f',"finished":{self._finished},"code":{exit_code(self._status)}'
            text += f',"reason":"{self._reason}","message":"{_quote(self._message)}","lost":{self._lost}'
            text += f',"untold":{self._untold},"cpu_microseconds":{self._cpu},"memory_bytes":{self._memory}'
        return text + "}"

    def _write_state(self, record: str) -> None:
        """Overwrite the file with the shim's state in place, in one write."""
        os.pwrite(self._state, record.encode().ljust(STATE_BYTES - 1) + b"\n", 0)

    def _catch_signals(self) -> int:
        """From now on, turn signals into bytes in a pipe; return the pipe's reading end."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (_signal.SIGCHLD, END, *_PASSED_ON):
            _signal.signal(number, lambda _number, _frame: None)
        call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return reader

    def _prepare(self) -> None:
        """Set up the container's environment on the machine: cgroup, mounts, host name, processes.

        Raises `RefusedError` if that fails, if the server has exited, or if the node's fence has expired.
        """
        spec = self._spec
        if not _has_lifeline(spec):
            raise RefusedError("the server is gone")
        if self._fence is not None and self._fence.is_over():
            self._reason = FENCED
            raise RefusedError(MESSAGE)
        self._cgroups = [os.open(group, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for group in spec["cgroups"]]
        if self._usher is None:
            self._cgroup_procs = [
                os.open("cgroup.procs", os.O_WRONLY | os.O_CLOEXEC, dir_fd=group) for group in self._cgroups
            ]
        if spec["isolation"] in ("namespaces", "user-namespaces"):
            Mounts(spec["mounts"]).apply()
            name = os.fsencode(spec["hostname"])
            call_libc("sethostname", name, len(name))
            if spec["own_pids"]:
                mount_proc()

    def _start(self) -> tuple[dict[int, Stream], Attachments | None]:
        """Start the container's process; return its output streams and its attachments. Raises `RefusedError`.

        Attachments are None for a container without an input or terminal.
        """
        ours, theirs = _make_terminal(self._spec) if self._spec["tty"] else _make_pipes(self._spec)
        failure = os.pipe2(os.O_CLOEXEC)
        self._container = os.fork()
        if self._container == 0:
            become_container(self._spec, self._cgroup_procs, self._usher, theirs, failure[1])
        if self._usher is not None:
            self._usher.leave()
        for descriptor in {*theirs, failure[1]} - {-1}:
            os.close(descriptor)
        why = b""
        while data := os.read(failure[0], READ_BYTES):  # ends when the program is executed
            why += data
        os.close(failure[0])
        if why:
            raise RefusedError(why.decode(errors="replace"))
        input, out, err = ours
        attachments = self._make_attachments(input)
        show = attachments.make_sender if attachments is not None else lambda _: None
        names = ((STDOUT, out, b"stdout"), (STDERR, err, b"stderr"))
        streams = {reader: Stream(name, show(channel)) for channel, reader, name in names if reader >= 0}
        for reader in streams:
            os.set_blocking(reader, False)
        return streams, attachments

    def _make_attachments(self, input: int) -> Attachments | None:
        if input < 0:
            return None
        from .attachment import Attachments  # few containers need it

        return Attachments(self._directory, input, once=self._spec["stdin_once"], terminal=self._spec["tty"])

    def _supervise(self, streams: dict[int, Stream], attachments: Attachments | None, log: Log) -> None:
        """Copy output and forward signals until the container's first process exits."""
        ends = (self._spec["lifeline"], self._fence.timer if self._fence is not None else -1)
        reading = [descriptor for descriptor in (self._wakeup, *streams, *ends) if descriptor >= 0]
        while self._status is None:
            self._end_without_directory()
            pause = log.pause()
            timeout = min(pause or log.flush(streams.values()) or _CHECK_SECONDS, _CHECK_SECONDS)
            is_held = bool(pause) or (attachments is not None and attachments.hold_output)
            readable = [descriptor for descriptor in reading if not is_held or descriptor not in streams]
            poll = select.poll()
            for descriptor in readable:
                poll.register(descriptor, select.POLLIN)
            for descriptor, wanted in attachments.list_watched() if attachments is not None else ():
                poll.register(descriptor, wanted | (select.POLLIN if descriptor in readable else 0))
            for descriptor, events in poll.poll(timeout * 1000):
                if descriptor == self._wakeup:
                    self._handle_signals(os.read(self._wakeup, READ_BYTES))
                elif descriptor in ends:
                    if self._must_end(descriptor):
                        reading.remove(descriptor)
                        self._kill_all()
                elif descriptor in streams and events & ~select.POLLOUT:
                    if not log.copy(descriptor, streams[descriptor]):
                        reading.remove(descriptor)
                elif attachments is not None:
                    attachments.handle(descriptor, events)
            if attachments is not None and attachments.hung_up and streams:
                reading = [descriptor for descriptor in reading if descriptor not in streams]
                _hang_up(streams, log)

    def _must_end(self, descriptor: int) -> bool:
        """Return whether the container must be killed, because of an event at this descriptor.

        The descriptor is the lifeline of a server that the container must not outlive, or the timer of the node's
        fence.
        """
        if descriptor == self._spec["lifeline"]:
            return True
        if self._fence is None or not self._fence.is_over():
            return False
        self._reason, self._message = FENCED, MESSAGE
        return True

    def _end_without_directory(self) -> None:
        """Kill the container if its directory was removed, because no server can adopt it then. Check that rarely."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + _CHECK_SECONDS
        if self._counts_links and is_removed(self._directory):
            self._kill_all()

    def _handle_signals(self, signals: bytes) -> None:
        """Forward signals to the container, or kill it on END. In any case reap exited children."""
        for number in signals:
            if number == END:
                self._note_excess()
                self._kill_all()
            elif number != _signal.SIGCHLD and self._status is None:
                try_to(os.kill, self._container, number)  # the process is not reaped yet, so the pid is still its own
        self._reap_children()

    def _note_excess(self) -> None:
        """If the server has killed the container for its memory use, record that as the reason of the exit."""
        used = _read_file_in(self._directory, EXCESS)
        if used.isdigit() and self._status is None:  # the container may have written anything there
            self._reason, self._memory = OOM_KILLED, int(used)

    def _reap_children(self) -> bool:
        """Reap children that have exited; return False if there are none left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if pid == self._container:
                    self._status = status
                    self._finished = time.time_ns()
        except ChildProcessError:
            return False

    def _kill_all(self) -> None:
        """Send SIGKILL to every process of the container."""
        for group in self._cgroups:
            try_to(write_file, "cgroup.kill", b"1", group)  # cgroup v1 has no such file
        if self._spec["own_pids"]:
            try_to(os.kill, -1, _signal.SIGKILL)
        else:
            for pid in list_descendants(os.getpid()):
                try_to(os.kill, pid, _signal.SIGKILL)

    def _end_all(self) -> None:
        """Kill until no process is left. Wait for processes that do not exit at once after SIGKILL (stuck I/O)."""
        pause = 0.001
        while self._reap_children():
            self._kill_all()
            if not self._reap_children():
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        if self._status is None:
            self._status, self._finished = NOT_STARTED << 8, time.time_ns()

    def _write_exit_record(self, log: Log) -> None:
        """Write the record of the exit. Retry after failures until the server sends END, or exits with its containers.

        Without the record the exit code would be unknown.
        """
        if self._status and any(map(_was_out_of_memory, self._cgroups)):
            self._reason = OOM_KILLED
        self._cpu, memory = _measure_usage(self._cgroups)
        self._memory = max(self._memory, memory)
        try_to(log.tell_losses)
        self._lost, self._untold = log.lost, log.untold
        if log.lost and not self._message:
            self._message = f"{log.lost} lines of the log were lost: {log.trouble}"
        record = self._encode_state()
        while True:
            try:
                self._write_state(record)
                os.fsync(self._state)
            except OSError:
                ready = select.select([self._wakeup], [], [], _RETRY_SECONDS)[0]
                if (ready and END in os.read(self._wakeup, READ_BYTES)) or not _has_lifeline(self._spec):
                    return
            else:
                return


def has_links(directory: int) -> bool:
    """Return whether an open directory is known to exist. If the file system does not answer, return False."""
    try:
        return os.fstat(directory).st_nlink > 0
    except OSError:
        return False


def is_removed(directory: int) -> bool:
    """Return whether an open directory is known to be removed. If the file system does not answer, return False."""
    try:
        return os.fstat(directory).st_nlink == 0
    except OSError:
        return False


def _make_pipes(spec: Spec) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return this process's ends and the container's ends of its standard streams; -1 for an input without a writer."""
    (out, its_out), (err, its_err) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    for pipe in (out, err):  # beyond a user's limit of pages in pipes, pipes stay small
        try_to(fcntl.fcntl, pipe, fcntl.F_SETPIPE_SZ, READ_BYTES)
        if spec["ids"] is not None:
            os.fchown(pipe, spec["ids"][0], -1)  # a program may want to reopen its output
    its_input, input = os.pipe2(os.O_CLOEXEC) if spec["stdin"] else (-1, -1)
    return (input, out, err), (its_input, its_out, its_err)


def _make_terminal(spec: Spec) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return this process's ends and the container's ends of a terminal.

    The streams share one descriptor on each side.
    """
    ours, theirs = os.openpty()
    if spec["ids"] is not None:
        os.fchown(theirs, spec["ids"][0], -1)
    return (ours, ours, -1), (theirs, theirs, theirs)


def _hang_up(streams: dict[int, Stream], log: Log) -> None:
    """Log the remaining output in the terminal, and close this end of the terminal.

    The kernel then sends SIGHUP to the session's leader.
    """
    for descriptor, stream in streams.items():
        log.copy(descriptor, stream)  # once, because reading to the end may take for ever
        log.write(stream.name, stream.end())
        os.close(descriptor)
    streams.clear()


def report(spec: Spec, line: str) -> None:
    """Send the result of the start to the server, and close the pipe to the server."""
    try_to(os.write, spec["report"], line.encode() + b"\n")
    try_to(os.close, spec["report"])


def _has_lifeline(spec: Spec) -> bool:
    """Return whether the server still runs; always True for a container that may outlive the server.

    The lifeline is a pipe from the server, to which nothing is ever written. It becomes readable when the server exits.
    """
    return spec["lifeline"] < 0 or not select.select([spec["lifeline"]], [], [], 0)[0]


def _was_out_of_memory(cgroup: int) -> bool:
    """Return whether the kernel killed a process of the cgroup because memory ran out."""
    lines = (_read_file_in(cgroup, "memory.events") or _read_file_in(cgroup, "memory.oom_control")).splitlines()
    return any(line.startswith(b"oom_kill ") and line.split()[1] != b"0" for line in lines)


def _measure_usage(cgroups: list[int]) -> tuple[int, int]:
    """Return the CPU time in microseconds and the peak memory in bytes, of the cgroups or else of the processes.

    Without a cgroup, the memory is the peak of the largest process, not the sum of all processes.
    """
    cpu, memory = measure_children()
    for cgroup in cgroups:
        for line in _read_file_in(cgroup, "cpu.stat").splitlines():
            if line.startswith(b"usage_usec "):
                cpu = int(line.split()[1])
        if nanoseconds := _read_file_in(cgroup, "cpuacct.usage"):  # cgroup v1
            cpu = int(nanoseconds) // 1000
        # v2 has the peak since Linux 5.19.
        if peak := _read_file_in(cgroup, "memory.peak") or _read_file_in(cgroup, "memory.max_usage_in_bytes"):
            memory = int(peak)
    return cpu, memory


def _read_file_in(directory: int, name: str) -> bytes:
    """Return the content of a small file of a cgroup or an attempt; b"" if the file cannot be opened."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        return file.read()


def _quote(text: str) -> str:
    """Return a text that can stand inside a JSON string, shortened to fit into the record."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[:_MESSAGE_LENGTH])
    return plain.replace("\\", "\\\\").replace('"', '\\"')
