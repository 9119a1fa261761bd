"""Take the last steps of a process before it becomes the user's program."""

# ruff: noqa: S606, PTH110, PTH112, PTH118
# The purpose of this module is to become another program. Importing pathlib would take as long as all the rest.

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import errno
import fcntl
import os

from .rights import give_up
from .system import (
    NOT_STARTED,
    PR_SET_PDEATHSIG,
    RefusedError,
    call_libc,
    describe,
    describe_error,
    show,
    try_to,
    write_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from .spec import ProgramSpec, Spec
    from .usher import Usher

# If memory is short, the kernel kills containers before shims and the server.
_OOM_SCORE = b"500"
_TIOCSCTTY = 0x540E  # without importing termios


def become_container(
    spec: Spec, cgroup_procs: Sequence[int], usher: Usher | None, streams: tuple[int, int, int], failure: int
) -> NoReturn:
    """Turn the forked child into the container's process. On failure, write the reason to `failure` and exit.

    cgroup_procs: the files through which a process joins the container's cgroups.
    usher: moves a process that runs as another Unix user into the cgroups; None if the process may do so itself.
    streams: the process's standard streams; -1 for an input without data.
    """
    try:
        os.setsid()
        if spec["tty"]:
            control_terminal(streams[0])
        if usher is not None:
            usher.join()
        for joining in cgroup_procs:
            os.write(joining, b"0")
        try_to(write_file, "/proc/self/oom_score_adj", _OOM_SCORE)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        for target, source in enumerate(streams):
            os.dup2(source if source >= 0 else null, target)
        execute(spec)
    except BaseException as error:  # noqa: BLE001 - nothing may get past the fork
        os.write(failure, describe(error).encode())
    os._exit(NOT_STARTED)


def control_terminal(descriptor: int) -> None:
    """Make a terminal the controlling terminal of this session. This process must be the session's leader."""
    fcntl.ioctl(descriptor, _TIOCSCTTY, 0)


def execute(command: ProgramSpec) -> NoReturn:
    """Replace this process by the command. Raises `RefusedError`, OSError or ValueError if that is impossible."""
    os.umask(command["umask"])
    if command["cpus"]:
        try_to(os.sched_setaffinity, 0, command["cpus"])  # the CPUs may have gone offline
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores these signals, and the program would inherit that
    give_up(command)
    call_libc("prctl", PR_SET_PDEATHSIG, int(_signal.SIGKILL), 0, 0, 0)  # a change of ids would have cleared it
    directory = command["working_directory"]
    if directory:
        try:
            os.chdir(directory)
        except OSError as error:
            raise RefusedError(f"working directory {show(directory)}: {describe_error(error)}") from None
    environment = dict(command["env"])
    program = command["argv"][0]
    trouble: OSError | None = None
    for path in _list_candidates(program, environment.get(b"PATH", b"")):
        try:
            os.execve(path, command["argv"], environment)
        except OSError as error:
            # On the search path, missing and unreadable files do not count.
            if trouble is None and (b"/" in program or os.path.exists(path)):
                trouble = error
                trouble.filename = path
    raise RefusedError(f"exec: {show(program)}: {_explain_failure(trouble)}")


def _list_candidates(program: bytes, search: bytes) -> list[bytes]:
    """Return the paths at which a program may be found. search: the PATH of the command."""
    if b"/" in program:
        return [program]
    return [os.path.join(directory or b".", program) for directory in search.split(b":")] if program else []


def _explain_failure(error: OSError | None) -> str:
    """Return why a program could not be executed. error: None if no candidate path exists."""
    if error is None:
        return "executable file not found in $PATH"
    if error.errno == errno.ENOENT and os.path.exists(error.filename):
        return "the interpreter that it names does not exist"
    if error.errno == errno.E2BIG:
        return "argument list too long (arguments and environment together)"
    if error.errno == errno.EACCES and os.path.isdir(error.filename):
        return "is a directory"
    return describe_error(error)
