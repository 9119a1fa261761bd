"""Drop the rights that a container's processes must not have: writes to the root, capabilities, this user."""

from __future__ import annotations

import errno
import os

from .mounting import (
    MS_BIND,
    MS_NOATIME,
    MS_NODEV,
    MS_NODIRATIME,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_RELATIME,
    MS_REMOUNT,
    detach_mounts,
    mount,
)
from .system import CLONE_NEWNS, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, RefusedError, call_libc, describe_error, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .spec import ProgramSpec

_FLAGS = {
    "nosuid": MS_NOSUID,
    "nodev": MS_NODEV,
    "noexec": MS_NOEXEC,
    "noatime": MS_NOATIME,
    "nodiratime": MS_NODIRATIME,
    "relatime": MS_RELATIME,
}
# The file systems that a container usually has its own instances of.
_WRITABLE = ("/dev", "/proc", "/sys")
# The errors for a mount that cannot be accessed: another mount hides it, or only its user may access it.
_HIDDEN = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL, errno.EACCES)


def give_up(command: ProgramSpec) -> None:
    """Give this process exactly the user, the groups and the rights of the command.

    Raises `RefusedError`, OSError.
    """
    if command["writable"] is not None:
        _close_root((*_WRITABLE, *command["writable"]))
    no_new_privileges = command["no_new_privileges"]
    if command["dropped"] and not _drop_capabilities(command["dropped"]):
        no_new_privileges = True  # this process has no capabilities, and no program gives it any
    if command["ids"] is not None:
        uid, gid, groups = command["ids"]
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        except OSError as error:
            raise RefusedError(f"cannot run as user {uid} and group {gid}: {describe_error(error)}") from None
    if no_new_privileges:
        call_libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _close_root(writable: tuple[str, ...]) -> None:
    """Make everything read-only except the paths in `writable`, in mounts that only this process sees.

    The shim, which is another process, must still write logs. Raises `RefusedError`.
    """
    call_libc("unshare", CLONE_NEWNS)
    detach_mounts()
    with open("/proc/self/mountinfo", "rb") as file:
        mounts = [line.split(b" ", 6)[4:6] for line in file]
    for raw, options in mounts:
        path, flags = os.fsdecode(raw.decode("unicode_escape").encode("latin-1")), options.decode().split(",")
        if "ro" in flags or any(path == one or path.startswith(f"{one}/") for one in writable):
            continue
        kept_flags = sum(_FLAGS.get(one, 0) for one in flags)
        try:
            mount("none", path, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept_flags)
        except OSError as error:
            if error.errno not in _HIDDEN:
                raise RefusedError(f"making {show(os.fsencode(path))} read-only: {describe_error(error)}") from None


def _drop_capabilities(capabilities: list[int]) -> bool:
    """Remove capabilities from this process's bounding set, so that no program that it starts can get them.

    Return False if the process lacks the right to do so (EPERM).

    capabilities: their numbers; numbers that the kernel does not know are skipped.

    Raises OSError.
    """
    for number in capabilities:
        try:
            call_libc("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
        except OSError as error:
            if error.errno == errno.EPERM:
                return False
            if error.errno != errno.EINVAL:  # EINVAL: the kernel does not know the capability
                raise
    return True
