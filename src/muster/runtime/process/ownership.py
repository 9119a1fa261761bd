"""Check whether only the user of this process can change a directory and its content.

A process that can replace or change a file decides about its content, such as the server's address, the user's
credentials, or a program to run. So a path is checked from the root on. Each directory on the way must belong to the
superuser or to this process's user, and only its owner may change it (or it is one like /tmp, where users cannot change
the files of others). Then no other user can exchange the file at the end between its check and its use.
"""

import errno
import os
import pwd
import stat
from pathlib import Path

_OTHERS = 0o077
_MOST_LINKS = 40  # the kernel's limit


class NotOursError(Exception):
    """A path that other users can read or change, or have made. The message says what is wrong, and what to do."""


def require_directory(path: Path) -> None:
    """Raise `NotOursError` if other users can read or change the directory. Raises `OSError`."""
    info = _stat_safely(path)
    if not stat.S_ISDIR(info.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    _require(path, info, "700")


def require_file(path: Path) -> None:
    """Raise `NotOursError` if other users can read or change the file. A missing file passes. Raises `OSError`."""
    try:
        info = _stat_safely(path)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(info.st_mode):
        raise NotOursError(f"{path} is not a regular file: remove it")
    _require(path, info, "600")


def require_way(path: Path) -> os.stat_result:
    """Return the status of the file at a path, if only this user and the superuser decide where the path leads.

    Raises `NotOursError` if another user could redirect the path, `OSError`.
    """
    return _stat_safely(path)


def find_closed(path: Path) -> Path | None:
    """Return the first directory or file on the way to a program that is closed to other users; None if all are open.

    Access control lists are not read. Raises `OSError`.
    """
    real = path.resolve()
    way = (*reversed(path.absolute().parents), *reversed(real.parents), real)
    return next((part for part in way if not part.stat().st_mode & stat.S_IXOTH), None)


def make_directory(path: Path) -> None:
    """Make a directory that only this user may access. If an empty one exists, restrict it to this user.

    Missing parents are made, too; other users may read these.
    Raises `NotOursError`, `OSError`.
    """
    for missing in reversed([parent for parent in path.parents if not parent.exists()]):
        missing.mkdir(mode=0o755, exist_ok=True)  # whatever the umask lets others do
    path.mkdir(mode=0o700, exist_ok=True)
    try:
        require_directory(path)
    except NotOursError:
        if path.stat().st_uid != os.geteuid() or any(path.iterdir()):
            raise
        path.chmod(0o700)  # it was empty: others have read nothing in it and put nothing there
        require_directory(path)


def _require(path: Path, info: os.stat_result, mode: str) -> None:
    if info.st_uid != os.geteuid():
        raise NotOursError(
            f"{path} belongs to {user_name(info.st_uid)}, and you are {user_name(os.geteuid())}{_describe_remedy()}"
        )
    if info.st_mode & _OTHERS:
        import shlex  # the user types the command as it is printed

        real = path.resolve()
        link = f", a link to {real}," if path.is_symlink() else ""
        raise NotOursError(
            f"{path}{link} is open to others (mode {stat.S_IMODE(info.st_mode):04o}); "
            f"if nobody has looked into it or changed it: chmod {mode} {shlex.quote(str(real if link else path))}"
        )


def _stat_safely(path: Path) -> os.stat_result:
    """Return the status of the file that a path leads to. Raises `NotOursError` if others could redirect the path."""
    todo = list(reversed(path.absolute().parts[1:]))
    here, info, links = Path("/"), os.lstat("/"), 0
    while todo:
        part = todo.pop()
        if part == "..":
            here = here.parent
            continue
        _require_way(path, here, os.lstat(here))
        child = here / part
        info = os.lstat(child)
        _require_maker(child, info, os.lstat(here))
        if not stat.S_ISLNK(info.st_mode):
            here = child
            continue
        if not is_trusted(info.st_uid):
            raise NotOursError(f"{child} is a link of {user_name(info.st_uid)}{_describe_remedy()}")
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        target = child.readlink()
        here = Path("/") if target.is_absolute() else here
        todo += reversed([part for part in target.parts if part != "/"])
    return os.lstat(here)


def _require_way(path: Path, directory: Path, info: os.stat_result) -> None:
    if not is_trusted(info.st_uid):
        raise NotOursError(
            f"{directory}, on the way to {path}, belongs to {user_name(info.st_uid)}{_describe_remedy()}"
        )
    by_group = info.st_mode & stat.S_IWGRP and not _is_private_group(info)
    if (info.st_mode & stat.S_IWOTH or by_group) and not info.st_mode & stat.S_ISVTX:
        raise NotOursError(
            f"{directory}, on the way to {path}, may be changed by others "
            f"(mode {stat.S_IMODE(info.st_mode):04o}){_describe_remedy()}"
        )


def _require_maker(path: Path, info: os.stat_result, directory: os.stat_result) -> None:
    """Raise `NotOursError` if any user may have made a file, and its owner has no name in this user namespace."""
    if _is_nameless(info.st_uid) and directory.st_mode & (stat.S_IWOTH | stat.S_IWGRP):
        raise NotOursError(f"anybody may have made {path}, and nothing here tells who did{_describe_remedy()}")


def is_trusted(uid: int) -> bool:
    """Return whether the user is the superuser or the user of this process.

    In a user namespace, a user without a name counts as the superuser: see `_require_maker`.
    """
    return uid in (0, os.geteuid()) or _is_nameless(uid)


def _is_nameless(uid: int) -> bool:
    return uid == _read_overflow_uid() and uid != os.geteuid() and _is_in_user_namespace()


def _is_private_group(info: os.stat_result) -> bool:
    """Return whether the group is the owner's private group, which many systems make for each user."""
    import grp

    try:
        user, group = pwd.getpwuid(info.st_uid), grp.getgrgid(info.st_gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _is_in_user_namespace() -> bool:
    """Return whether this process is in a user namespace, where all users without a name look like the same user."""
    return _read("/proc/self/uid_map").split() != ["0", "0", "4294967295"]


def _read_overflow_uid() -> int:
    text = _read("/proc/sys/kernel/overflowuid").strip()
    return int(text) if text.isdigit() else 65534


def _read(name: str) -> str:
    try:
        return Path(name).read_text()
    except OSError:
        return ""


def _describe_remedy() -> str:
    sudo = "under sudo, sudo -H takes root's own; " if os.geteuid() == 0 and "SUDO_USER" in os.environ else ""
    return f": {sudo}choose another place with MUSTER_HOME or --data"


def user_name(uid: int) -> str:
    """Return the name of a user of this machine, for messages."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
