"""The life of one attempt: claim it, start the process, look after it, leave nothing behind, write down the end."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import fcntl
import os
import select
import time

from .execution import become
from .log import READ_BYTES, Log, Stream
from .mounting import Mounts, mount_proc
from .system import (
    NOT_STARTED,
    PR_SET_CHILD_SUBREAPER,
    RefusedError,
    descendants,
    describe,
    exit_code,
    system,
    try_to,
    used_by_children,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from .attachment import Attachments
    from .spec import Spec

STATE = "state"
STATE_BYTES = 4096
# Longer messages would not fit the record.
_MESSAGE_LENGTH = 700
# The server's word for "kill everything and write the record". Other signals are passed on to the container.
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
STDOUT, STDERR = 1, 2


class Supervisor:
    """One attempt. Everything runs once, from `run`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._directory = os.open(spec["directory"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._state = -1
        self._wakeup = -1
        self._cgroup = -1
        self._container = 0  # process id of the container's first process
        self._status: int | None = None  # of that process, as waitpid gives it
        self._claimed = time.time_ns()
        self._started = 0
        self._finished = 0
        self._reason = ""
        self._message = ""
        self._cpu, self._memory = 0, 0  # microseconds, and bytes at the highest
        self._lost = self._untold = 0  # lines of the log, and those that it does not tell of

    def run(self) -> NoReturn:
        """The whole life; ends the process."""
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
            self._reason, self._message = "StartError", describe(error)
        else:
            self._started = time.time_ns()
            self._write(self._record())
            report(self._spec, "started")
            self._supervise(streams, attachments, log)
        self._end()
        for descriptor, stream in streams.items():
            log.drain(descriptor, stream)
        if attachments is not None:
            attachments.close()
        self._finish(log)
        os._exit(0)

    def _claim(self) -> bool:
        """Take the attempt, unless another shim has it or had it."""
        name = f"{STATE}.{self._claimed}.{id(self)}"
        self._state = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self._directory)
        try:
            fcntl.lockf(self._state, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._write(self._record())
            os.link(name, STATE, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        except FileExistsError:
            return False
        finally:
            os.unlink(name, dir_fd=self._directory)
        return True

    def _record(self) -> str:
        """The state as JSON; only the message can hold anything that needs quoting."""
        text = f'{{"claimed":{self._claimed},"started":{self._started}'
        if self._status is not None:
            text += f',"finished":{self._finished},"code":{exit_code(self._status)}'
            text += f',"reason":"{self._reason}","message":"{_quoted(self._message)}","lost":{self._lost}'
            text += f',"untold":{self._untold},"cpu_microseconds":{self._cpu},"memory_bytes":{self._memory}'
        return text + "}"

    def _write(self, record: str) -> None:
        """Overwrite the state in place, in one write."""
        os.pwrite(self._state, record.encode().ljust(STATE_BYTES - 1) + b"\n", 0)

    def _catch_signals(self) -> int:
        """Signals come as bytes in a pipe from now on."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        _signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (_signal.SIGCHLD, END, *_PASSED_ON):
            _signal.signal(number, lambda _number, _frame: None)
        system("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        return reader

    def _prepare(self) -> None:
        """Make the container's view of the machine: cgroup, mounts, host name, processes."""
        spec = self._spec
        if not _lifeline_holds(spec):
            raise RefusedError("the server has gone")
        if spec["cgroup"]:
            self._cgroup = os.open(spec["cgroup"], os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        if spec["isolation"] in ("namespaces", "user-namespaces"):
            Mounts(spec["mounts"]).apply()
            name = os.fsencode(spec["hostname"])
            system("sethostname", name, len(name))
            if spec["own_pids"]:
                mount_proc()

    def _start(self) -> tuple[dict[int, Stream], Attachments | None]:
        """Start the container's process; its output streams, and who may attach to it. Raises `RefusedError`."""
        ours, theirs = _terminal(self._spec) if self._spec["tty"] else _pipes(self._spec)
        failure = os.pipe2(os.O_CLOEXEC)
        self._container = os.fork()
        if self._container == 0:
            become(self._spec, self._cgroup, theirs, failure[1])
        for descriptor in {*theirs, failure[1]} - {-1}:
            os.close(descriptor)
        why = b""
        while data := os.read(failure[0], READ_BYTES):  # ends when the program is executed
            why += data
        os.close(failure[0])
        if why:
            raise RefusedError(why.decode(errors="replace"))
        input, out, err = ours
        attachments = self._attachments(input)
        show = attachments.shower if attachments is not None else lambda _: None
        names = ((STDOUT, out, b"stdout"), (STDERR, err, b"stderr"))
        streams = {reader: Stream(name, show(channel)) for channel, reader, name in names if reader >= 0}
        for reader in streams:
            os.set_blocking(reader, False)
        return streams, attachments

    def _attachments(self, input: int) -> Attachments | None:
        if input < 0:
            return None
        from .attachment import Attachments  # few containers need it

        return Attachments(self._directory, input, once=self._spec["stdin_once"], terminal=self._spec["tty"])

    def _supervise(self, streams: dict[int, Stream], attachments: Attachments | None, log: Log) -> None:
        """Copy output and pass signals on, until the container's first process has ended."""
        reading = [descriptor for descriptor in (self._wakeup, *streams, self._spec["lifeline"]) if descriptor >= 0]
        while self._status is None:
            pause = log.pause()
            held = bool(pause) or (attachments is not None and attachments.hold_output)
            readable = [descriptor for descriptor in reading if not held or descriptor not in streams]
            poll = select.poll()
            for descriptor in readable:
                poll.register(descriptor, select.POLLIN)
            for descriptor, wanted in attachments.watched() if attachments is not None else ():
                poll.register(descriptor, wanted | (select.POLLIN if descriptor in readable else 0))
            for descriptor, events in poll.poll(pause * 1000 or None):
                if descriptor == self._wakeup:
                    self._handle(os.read(self._wakeup, READ_BYTES))
                elif descriptor == self._spec["lifeline"]:
                    reading.remove(descriptor)
                    self._kill()
                elif descriptor in streams and events & ~select.POLLOUT:
                    if not log.copy(descriptor, streams[descriptor]):
                        reading.remove(descriptor)
                elif attachments is not None:
                    attachments.handle(descriptor, events)
            if attachments is not None and attachments.hung_up and streams:
                reading = [descriptor for descriptor in reading if descriptor not in streams]
                _hang_up(streams, log)

    def _handle(self, signals: bytes) -> None:
        """Act on signals; whatever came, see who has ended."""
        for number in signals:
            if number == END:
                self._kill()
            elif number != _signal.SIGCHLD and self._status is None:
                try_to(os.kill, self._container, number)  # it is not reaped yet, so the id is still its own
        self._reap()

    def _reap(self) -> bool:
        """Collect children that have ended; False if there are none left."""
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

    def _kill(self) -> None:
        """SIGKILL to every process of the container."""
        if self._cgroup >= 0:
            try_to(write_file, "cgroup.kill", b"1", self._cgroup)
        if self._spec["own_pids"]:
            try_to(os.kill, -1, _signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                try_to(os.kill, pid, _signal.SIGKILL)

    def _end(self) -> None:
        """Kill until nothing is left. A process that not even SIGKILL ends at once (stuck I/O) is waited for."""
        pause = 0.001
        while self._reap():
            self._kill()
            if not self._reap():
                break
            time.sleep(pause)
            pause = min(pause * 2, 0.1)
        if self._status is None:
            self._status, self._finished = NOT_STARTED << 8, time.time_ns()

    def _finish(self, log: Log) -> None:
        """Write the exit record. Without it the exit code would not be known, so keep trying until told to give up."""
        if self._cgroup >= 0 and self._status and _out_of_memory(self._cgroup):
            self._reason = "OOMKilled"
        self._cpu, self._memory = _used(self._cgroup)
        try_to(log.tell_losses)
        self._lost, self._untold = log.lost, log.untold
        if log.lost and not self._message:
            self._message = f"{log.lost} lines of the log were lost: {log.trouble}"
        record = self._record()
        while True:
            try:
                self._write(record)
                os.fsync(self._state)
            except OSError:
                told = select.select([self._wakeup], [], [], _RETRY_SECONDS)[0]
                if (told and END in os.read(self._wakeup, READ_BYTES)) or not _lifeline_holds(self._spec):
                    return
            else:
                return


def _pipes(spec: Spec) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Our ends and the container's of its standard streams; -1 for an input that is not written."""
    (out, its_out), (err, its_err) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
    for pipe in (out, err):  # a user may have so many pages in pipes, and from there on only small ones
        try_to(fcntl.fcntl, pipe, fcntl.F_SETPIPE_SZ, READ_BYTES)
    its_input, input = os.pipe2(os.O_CLOEXEC) if spec["stdin"] else (-1, -1)
    return (input, out, err), (its_input, its_out, its_err)


def _terminal(spec: Spec) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """The same where they are a terminal, which has one end for all."""
    ours, theirs = os.openpty()
    if spec["ids"] is not None:
        os.fchown(theirs, spec["ids"][0], -1)
    return (ours, ours, -1), (theirs, theirs, theirs)


def _hang_up(streams: dict[int, Stream], log: Log) -> None:
    """Close our end of a terminal: the kernel sends SIGHUP to who leads the session on it, and its input has ended."""
    for descriptor, stream in streams.items():
        log.copy(descriptor, stream)  # to its end may be for ever
        log.write(stream.name, stream.end())
        os.close(descriptor)
    streams.clear()


def report(spec: Spec, line: str) -> None:
    """Tell the server how the start went; the end of the pipe says that there is no more to tell."""
    try_to(os.write, spec["report"], line.encode() + b"\n")
    try_to(os.close, spec["report"])


def _lifeline_holds(spec: Spec) -> bool:
    """Whether the server is still there, if it has to be. Nothing is ever written to the lifeline."""
    return spec["lifeline"] < 0 or not select.select([spec["lifeline"]], [], [], 0)[0]


def _out_of_memory(cgroup: int) -> bool:
    """Whether the kernel killed anything in the cgroup for want of memory."""
    lines = _read(cgroup, "memory.events").splitlines()
    return any(line.startswith(b"oom_kill ") and line.split()[1] != b"0" for line in lines)


def _used(cgroup: int) -> tuple[int, int]:
    """Microseconds of processors, and bytes of memory at the highest: of the whole cgroup, else of its processes.

    Without a cgroup it is the memory of the greatest process, not what they held together.
    """
    cpu, memory = used_by_children()
    if cgroup < 0:
        return cpu, memory
    times = [line.split()[1] for line in _read(cgroup, "cpu.stat").splitlines() if line.startswith(b"usage_usec ")]
    peak = _read(cgroup, "memory.peak").strip()  # since Linux 5.19
    return int(times[0]) if times else cpu, int(peak) if peak else memory


def _read(cgroup: int, name: str) -> bytes:
    """A file of a cgroup; nothing if there is none."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=cgroup)
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        return file.read()


def _quoted(text: str) -> str:
    """Text for the inside of a JSON string, short enough for the record."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[:_MESSAGE_LENGTH])
    return plain.replace("\\", "\\\\").replace('"', '\\"')
