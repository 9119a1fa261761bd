"""Turn a new Python process into the shim of a new container, or into a command inside a running one."""

# ruff: noqa: S606
# The purpose of this module is to become another program.

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import marshal
import os
import sys

from .execution import control_terminal, execute
from .identity import take_on
from .mounting import detach_mounts
from .supervisor import Supervisor, report
from .system import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_PDEATHSIG,
    RefusedError,
    call_libc,
    describe,
    exit_code,
    list_descendants,
    try_to,
    write_file,
)
from .usher import Usher, start_usher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .spec import ExecSpec, Reserved, Spec

# The exit code of `enter` when the command cannot be run.
CANNOT_RUN = 126
_STDERR = 2


def main() -> None:
    """Run the command that this process's arguments name.

    The commands are `start FD`, `inside FD` (the second half of a start, within bubblewrap), `reserve FD` and
    `enter FD`.
    """
    mode, descriptor = sys.argv[1], int(sys.argv[2])
    spec = read_message(descriptor)
    if mode == "enter":
        os.close(descriptor)
        enter(spec)
    os.umask(0o077)
    try:
        usher = None
        if mode == "start":
            usher = start_usher(spec)  # while this process still may
            take_on(spec["identity"])
        if mode in ("start", "reserve"):
            begin(spec, descriptor, usher)
        if mode == "reserve":
            spec = await_word(spec)
            if spec["identity"] is not None:
                raise RefusedError("a reserved shim cannot become another user")
        for inherited in (spec["report"], spec["lifeline"], spec["fence"]):
            if inherited >= 0:
                os.set_inheritable(inherited, False)
        os.close(descriptor)
        Supervisor(spec, usher).run()
    except Exception as error:  # noqa: BLE001 - the server must hear of whatever it is
        report(spec, f"error {describe(error)}")
        os._exit(1)


def read_message(descriptor: int) -> Any:
    """Read the server's message from a descriptor that no other process has."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return marshal.loads(file.read())  # noqa: S302 - our server wrote it


def await_word(reserved: Reserved) -> Spec:
    """Wait until the server sends the spec of a container to this shim, which was started in advance.

    Exit if the server closes the connection or exits.
    """
    if not os.read(reserved["word"], 1):
        os._exit(0)
    os.close(reserved["word"])
    spec: Spec = read_message(reserved["spec"])
    os.close(reserved["spec"])
    return spec


def begin(spec: Any, descriptor: int, usher: Usher | None = None) -> None:
    """Make the namespaces of the container and fork.

    Only the process that becomes the shim returns from this function.
    """
    if spec["isolation"] == "bubblewrap":
        for inherited in (descriptor, spec["report"], spec["lifeline"], spec["fence"]):
            if inherited >= 0:
                os.set_inheritable(inherited, True)
        os.execv(spec["bubblewrap"][0], [*spec["bubblewrap"], "inside", str(descriptor)])
    isolate(spec["isolation"], own_pids=spec["own_pids"])
    if shim := os.fork():
        os.write(spec["report"], b"pid %d\n" % shim)  # the pid as the server sees it, which reaps the shim
        if usher is not None:
            usher.wait()
        os._exit(0)


def isolate(isolation: str, *, own_pids: bool) -> None:
    """Move this process to its own namespaces, for everything that the container does not share with the node.

    own_pids: whether to make a PID namespace, in which the next child is the first process.
    """
    if isolation == "none":
        return
    flags = CLONE_NEWNS | CLONE_NEWUTS | (CLONE_NEWPID if own_pids else 0)
    if isolation == "namespaces":
        call_libc("unshare", flags)
    else:
        # The user IDs are the same inside and outside, so programs keep their user.
        uid, gid = os.getuid(), os.getgid()
        call_libc("unshare", flags | CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            write_file(f"/proc/self/{name}", text.encode())
    detach_mounts()


def enter(entry: ExecSpec) -> NoReturn:
    """Run a command inside a container, and exit with its exit code.

    SIGTERM, or the server's exit, kills the command.
    """
    try:
        for ours in (entry["pidfd"], entry["report"]):
            if ours > _STDERR:
                os.set_inheritable(ours, False)
        usher = start_usher(entry)
        take_on(entry["identity"])
        own_pids = bool(entry["namespaces"] & CLONE_NEWPID)
        if entry["namespaces"]:
            call_libc("setns", entry["pidfd"], entry["namespaces"])
        call_libc(
            "prctl", PR_SET_PDEATHSIG, _signal.SIGTERM, 0, 0, 0
        )  # entering a user namespace would have cleared it
        if not own_pids:
            call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        pid = os.fork()
        if pid == 0:
            call_libc("prctl", PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
            os.setsid()
            if entry["terminal"]:
                control_terminal(0)
            if usher is not None:
                usher.join()
                usher.leave()
            else:
                for group in entry["cgroups"]:
                    write_file(f"{group}/cgroup.procs", b"0")
            execute(entry)
        if usher is not None:
            usher.wait()
        code = _wait_for_command(pid)
        if not own_pids:
            _kill_descendants()  # in a PID namespace they end with the container
        os._exit(code)
    except BaseException as error:  # noqa: BLE001 - nothing may get past the fork
        os.write(entry["report"], describe(error).encode())
        os._exit(CANNOT_RUN)


def _wait_for_command(pid: int) -> int:
    """Wait for the command, and return its exit code.

    On SIGTERM, by which the server cancels the wait, kill the command.
    """
    is_terminated = False

    def on_terminate(_number: int, _frame: object) -> None:
        nonlocal is_terminated
        is_terminated = True
        try_to(os.killpg, pid, _signal.SIGKILL)
        try_to(os.kill, pid, _signal.SIGKILL)  # the command may not lead a process group yet

    _signal.signal(_signal.SIGTERM, on_terminate)
    # A killed command is reaped, too. A PID namespace disappears only when all processes that entered it are reaped,
    # and no other process would reap them.
    status = os.waitpid(pid, 0)[1]
    return CANNOT_RUN if is_terminated else exit_code(status)


def _kill_descendants() -> None:
    while pids := list_descendants(os.getpid()):
        for pid in pids:
            try_to(os.kill, pid, _signal.SIGKILL)
        try_to(os.waitpid, -1, 0)
