"""Make the mounts that `muster.cluster.nodes.volumes.mounts` has planned, inside a private mount namespace.

All sources are opened before the first mount is made, because a mount may hide the source of a later mount.
"""

# ruff: noqa: PTH102, PTH112, PTH116, PTH118, PTH120, PTH208, PTH211
# Importing pathlib takes as long as all the rest.

from __future__ import annotations

import os

from .system import RefusedError, call_libc, describe_error, show, try_to

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_NOATIME, MS_NODIRATIME, MS_UNBINDABLE, MS_SLAVE, MS_RELATIME = 1024, 2048, 1 << 17, 1 << 19, 1 << 21
MNT_DETACH = 2
# Each flag as statvfs returns it, and as mount takes it.
_KEPT_FLAGS = (
    (2, MS_NOSUID),
    (4, MS_NODEV),
    (8, MS_NOEXEC),
    (1024, MS_NOATIME),
    (2048, MS_NODIRATIME),
    (4096, MS_RELATIME),
)
_PIVOT_ROOT = {"x86_64": 155}  # 41 elsewhere
_TYPE, _LINK, _DIRECTORY = 0o170000, 0o120000, 0o040000
_PATH = os.O_PATH | os.O_CLOEXEC


def detach_mounts() -> None:
    """Keep the mounts of this process from appearing on the machine. New mounts of the machine still appear here."""
    mount("none", "/", "", MS_REC | MS_SLAVE)


def mount_proc() -> None:
    """Mount a /proc that shows only the processes of this PID namespace."""
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)


class Mounts:
    """One container's mounts, with their sources opened."""

    def __init__(self, operations: list[tuple[str, ...]]) -> None:
        self._operations = operations
        self._sources: dict[int, int] = {}
        self._children: dict[int, list[tuple[str, int]]] = {}
        for index, operation in enumerate(operations):
            if operation[0] == "bind":
                self._sources[index] = _open_beneath(operation[2], operation[3])
            elif operation[0] == "mirror":
                self._children[index] = _open_children(operation[2])

    def apply(self) -> None:
        """Make all mounts, in order. Raises `RefusedError`."""
        ours = os.umask(0o022)  # the container's user must be able to reach the mounts
        try:
            self._make_all()
        finally:
            os.umask(ours)

    def _make_all(self) -> None:
        for index, (kind, target, *rest) in enumerate(self._operations):
            try:
                if kind == "bind":
                    _bind(self._sources[index], target)
                elif kind == "mirror":
                    _mirror(target, rest[0], self._children[index])
                elif kind == "directory":
                    _make_directories(target)
                elif kind == "file":
                    _make_directories(os.path.dirname(target))
                    _touch(target)
                elif kind == "read-only":
                    _make_read_only(target)
                else:
                    assert kind == "root", kind
                    _change_root(target)
            except OSError as error:
                raise RefusedError(f"mounting {show(os.fsencode(target))}: {describe_error(error)}") from None
        for descriptor in self._sources.values():
            os.close(descriptor)


def _open_beneath(root: str, path: str) -> int:
    """Open `path` within `root`. Raises `RefusedError` for a link in the path.

    The caller resolved all links before, so a link here has just been made.
    """
    descriptor = os.open(root, _PATH)
    for name in path.split("/") if path else ():
        if name == "..":
            raise RefusedError(f"volume path {path}: leaves the volume")
        try:
            inner = os.open(name, _PATH | os.O_NOFOLLOW, dir_fd=descriptor)
        except OSError as error:
            raise RefusedError(f"volume path {path}: {describe_error(error)}") from None
        os.close(descriptor)
        descriptor = inner
        if os.fstat(descriptor).st_mode & _TYPE == _LINK:
            raise RefusedError(f"volume path {path}: {name} has become a symbolic link")
    return descriptor


def _open_children(directory: str) -> list[tuple[str, int]]:
    """Open the entries of a directory; return their names and descriptors. Skip entries that disappear meanwhile."""
    children = []
    for name in os.listdir(directory):
        try:
            children.append((name, os.open(os.path.join(directory, name), _PATH | os.O_NOFOLLOW)))
        except OSError:
            continue
    return children


def _mirror(target: str, source: str, children: list[tuple[str, int]]) -> None:
    """Mount a directory that shows the source's entries, and has room for more without changing the source."""
    status = os.stat(source)
    mount("tmpfs", target, "tmpfs", MS_NOSUID, f"mode={status.st_mode & 0o7777:o}")
    mount("none", target, "", MS_UNBINDABLE)  # a child may contain the target, and would include it
    try_to(os.chown, target, status.st_uid, status.st_gid)
    for name, descriptor in children:
        path = os.path.join(target, name)
        _show_entry(descriptor, path)
        os.close(descriptor)


def _show_entry(entry: int, path: str) -> None:
    """Bind an entry of a mirrored directory.

    Skip an entry that was deleted meanwhile, because users may delete their files.
    """
    kind = os.fstat(entry).st_mode & _TYPE
    if kind == _LINK:
        os.symlink(os.readlink("", dir_fd=entry), path)
        return
    if kind == _DIRECTORY:
        os.mkdir(path, 0o755)
    else:
        _touch(path)
    try:
        _bind(entry, path)
    except OSError:
        if os.fstat(entry).st_nlink:
            raise
        (os.rmdir if kind == _DIRECTORY else os.unlink)(path)


def _bind(source: int, target: str) -> None:
    """Mount the file or directory of a descriptor at another path, together with all mounts in it."""
    mount(f"/proc/self/fd/{source}", target, "", MS_BIND | MS_REC)


def _make_read_only(target: str) -> None:
    """Make a mount read-only. Keep its other flags, because a user namespace may not drop them."""
    flags = os.statvfs(target).f_flag
    kept_flags = sum(ours for theirs, ours in _KEPT_FLAGS if flags & theirs)
    mount("none", target, "", MS_BIND | MS_REMOUNT | MS_RDONLY | kept_flags)


def _change_root(root: str) -> None:
    """Make a directory the root of the mount namespace, and release the old root."""
    os.chdir(root)
    call_libc("syscall", _PIVOT_ROOT.get(os.uname().machine, 41), b".", b".")
    call_libc("umount2", b".", MNT_DETACH)
    os.chdir("/")


def _make_directories(path: str) -> None:
    """Make the missing directories of a path. It may have 2,000 names, too many for the recursion of `makedirs`."""
    end = path.find("/", 1)
    while end > 0:
        _make_directory(path[:end])
        end = path.find("/", end + 1)
    _make_directory(path)


def _make_directory(path: str) -> None:
    try:
        os.mkdir(path, 0o755)
    except OSError:  # the error for an existing directory may be another than EEXIST
        if not os.path.isdir(path):
            raise


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call the system's `mount`. Raises OSError."""
    call_libc("mount", os.fsencode(source), os.fsencode(target), os.fsencode(kind), flags, os.fsencode(options))
