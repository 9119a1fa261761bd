"""Make the system calls that Python lacks, and describe errors for users."""

# ruff: noqa: PTH208
# Importing pathlib would take as long as all the rest.

from __future__ import annotations

import ctypes
import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    P = ParamSpec("P")

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER, CLONE_NEWPID = 0x20000, 0x4000000, 0x10000000, 0x20000000
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 36, 38
PR_SET_DUMPABLE = 4
# The exit code of a container that could not be started, as with containerd.
NOT_STARTED = 128
_NO_PROCESS = "the user has as many processes as ulimit -u allows, or the cgroup as many as its pids.max"
_RUSAGE_CHILDREN = -1
_CLOCK_BOOTTIME, _TFD_TIMER_ABSTIME = 7, 1
_KEYCTL = {"x86_64": 250}.get(os.uname().machine, 219)
_KEYCTL_JOIN_SESSION_KEYRING = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)


class RefusedError(Exception):
    """A refusal to start a container. The message is for the user."""


def call_libc(call: str, *arguments: object) -> None:
    """Call a function of libc. Raises OSError with the value of errno if it does not return 0."""
    if getattr(_libc, call)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def leave_session_keyring() -> None:
    """Replace the inherited session keyring by an empty one. Raises OSError.

    A process may use any key of its session's keyring, even after a switch of user.
    """
    if _libc.syscall(_KEYCTL, _KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        number = ctypes.get_errno()
        if number not in (errno.ENOSYS, errno.EPERM):  # refused to all processes by the kernel or a sandbox
            raise OSError(number, os.strerror(number))


def boot_timer() -> int:
    """Return a descriptor of a timer on CLOCK_BOOTTIME, which becomes readable at the time set later.

    Raises OSError.
    """
    descriptor = int(_libc.timerfd_create(_CLOCK_BOOTTIME, os.O_CLOEXEC | os.O_NONBLOCK))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor


def set_timer(descriptor: int, nanoseconds: int) -> None:
    """Set when the timer's descriptor becomes readable, replacing an earlier setting. Raises OSError.

    nanoseconds: a time of CLOCK_BOOTTIME.
    """
    when = (ctypes.c_long * 4)(0, 0, *divmod(max(nanoseconds, 1), 10**9))  # struct itimerspec: no interval, the time
    call_libc("timerfd_settime", descriptor, _TFD_TIMER_ABSTIME, when, None)


def measure_children() -> tuple[int, int]:
    """Return the CPU time of all reaped descendants in microseconds, and their peak memory in bytes.

    The memory is the largest peak of one descendant, not the sum. The module `resource` cannot be used here, because
    nothing can be imported after the mounts are made.
    """
    usage = (ctypes.c_long * 18)()  # struct rusage: user and system time, ru_maxrss in KiB, and unused fields
    if _libc.getrusage(_RUSAGE_CHILDREN, usage) != 0:
        return 0, 0
    seconds, rest, system_seconds, system_rest, most, *_ = usage
    return (seconds + system_seconds) * 1_000_000 + rest + system_rest, most * 1024


def write_file(path: str, data: bytes, directory: int | None = None) -> None:
    """Write to an existing file, in one write. Raises OSError.

    directory: a descriptor of the directory that a relative path starts from.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def try_to(function: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a function, and ignore an OSError that it raises."""
    try:
        function(*args, **kwargs)
    except OSError:
        return


def list_descendants(root: int, proc: str = "/proc") -> list[int]:
    """Return the PIDs of all descendants of a process, for containers without a PID namespace."""
    parents: dict[int, int] = {}
    for name in os.listdir(proc):
        if name.isdigit():
            try:
                with open(f"{proc}/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:  # the process has ended
                continue
    pids = {root}
    size = 0
    while len(pids) > size:
        size = len(pids)
        pids.update(pid for pid, parent in parents.items() if parent in pids)
    return sorted(pids - {root})


def exit_code(status: int) -> int:
    """Return the exit code for a wait status; 128 plus the signal's number if a signal killed the process."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def describe(error: BaseException) -> str:
    """Return an error as one line for users."""
    if isinstance(error, RefusedError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        return f"{error.filename}: {describe_error(error)}" if error.filename else describe_error(error)
    if isinstance(error, ValueError) and "null" in str(error):
        return "a NUL byte in the command, its arguments or its environment"
    return f"{type(error).__name__}: {error}"


def describe_error(error: OSError) -> str:
    """Return the system's text for an error, with a lower-case first letter, for use within a sentence.

    The kernel also says `EAGAIN` when it refuses a process, which its text does not mention.
    """
    text = os.strerror(error.errno or 0)
    reason = f": {_NO_PROCESS}" if error.errno == errno.EAGAIN else ""
    return text[:1].lower() + text[1:] + reason


def show(name: bytes) -> str:
    """Return a name in quotes, as text for messages."""
    return '"' + name.decode(errors="replace") + '"'
