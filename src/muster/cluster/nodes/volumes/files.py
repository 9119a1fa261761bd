"""Write the contents of volumes to disk.

Files from objects are written as by the kubelet: into a new directory, to which the link `..data` is then moved
atomically. The names that users see are links through `..data`. So a reader sees all of the old state or all of the new
state, never a mixture, and a crash at any time leaves one of the two.

Everything is below a directory that only this user can write (0700), so no other user can put links there. A link that
a pod makes in its own volume is followed only to a place in the same volume (`resolve_within`).
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.complaints import naming_path
from muster.cluster.nodes.disk.removal import RemovalError
from muster.cluster.nodes.volumes.contents import File, HostPath, VolumeError

_DATA = "..data"
_DIRECTORY_MODE = 0o755


def make_empty(directory: Path, *, group: int | None = None) -> None:
    """Make an empty directory with access for everybody. Leave an existing one, which the pod may use already.

    group: the group that owns the directory; None for the default.
    """
    if not directory.exists():
        directory.mkdir(parents=True)
        directory.chmod(0o777)
        if group is not None:
            os.chown(directory, -1, group)
            directory.chmod(0o2777)


def write_tree(directory: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
    """Make the directory contain exactly these files; return False if it already did.

    If this function raises OSError, the directory still contains the old files.

    group: the group that may read the files; None for none.
    """
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(_DIRECTORY_MODE)
    current = directory / _DATA
    if current.is_symlink() and _has_exactly(current, files, group):
        return False
    old = _list_versions(directory)
    new = directory / _choose_fresh_name(old)
    try:
        for path, file in files.items():
            _write_file(new / path, file, group)
        new.mkdir(exist_ok=True)
        new.chmod(_DIRECTORY_MODE)
    except BaseException:
        with contextlib.suppress(RemovalError):  # every retry would leave one more version
            removal.remove(new)
        raise
    following = directory / f"{_DATA}_tmp"
    following.unlink(missing_ok=True)
    following.symlink_to(new.name)
    following.rename(current)
    _link_names(directory, {path.split("/")[0] for path in files})
    for name in old:
        with contextlib.suppress(RemovalError):  # the next version, or the volume's end, removes it
            removal.remove(directory / name)
    return True


def prepare_host_path(volume: HostPath) -> Path:
    """Return the path of a `hostPath` volume, which is created first if its type says so.

    Raises `VolumeError` if the path does not exist or is of another type.
    """
    path = Path(volume.path)
    if volume.type == "DirectoryOrCreate":
        path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    elif volume.type == "FileOrCreate" and not path.exists():
        path.touch(0o644)
    check, what = _CHECKS.get(volume.type.removesuffix("OrCreate"), (None, ""))
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise VolumeError(f"hostPath {volume.path}: does not exist on this machine") from None
    if check is not None and not check(mode):
        raise VolumeError(f"hostPath type check failed: {volume.path} is not a {what}")
    return path


_CHECKS = {
    "Directory": (stat.S_ISDIR, "directory"),
    "File": (stat.S_ISREG, "file"),
    "Socket": (stat.S_ISSOCK, "socket"),
    "CharDevice": (stat.S_ISCHR, "character device"),
    "BlockDevice": (stat.S_ISBLK, "block device"),
}


def resolve_within(root: Path, path: str, *, create: bool) -> str:
    """Return the real path of a path below a volume, relative to the volume; "" for the volume itself.

    The shim follows no link, so links that change later do no harm.

    create: whether to make a missing directory.

    Raises `VolumeError` if the path leaves the volume, or is missing and must not be made.
    """
    if ".." in path.split("/") or os.path.isabs(path):  # noqa: PTH117 - text, not a path of ours
        raise VolumeError(f"subPath {path!r}: must be relative, without '..'")
    real_root = root.resolve()
    target = (root / path).resolve()
    if not target.is_relative_to(real_root):
        raise VolumeError(f"subPath {path!r}: leads out of the volume")
    if not target.exists():
        if not create:
            raise VolumeError(f"subPath {path!r}: does not exist in the volume")
        _make_beneath(real_root, target.relative_to(real_root).parts)
    relative = target.relative_to(real_root).as_posix()
    return "" if relative == "." else relative


def _make_beneath(root: Path, names: tuple[str, ...]) -> None:
    """Make directories below a root, with the root's mode. Raises `VolumeError`.

    The function follows no symbolic link, because a container may be making links there at the same time.
    """
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    try:
        for name in names:
            try:
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=descriptor)
                is_new = True
            except FileExistsError:
                is_new = False
            how = os.O_RDONLY if is_new else os.O_PATH
            inner = os.open(name, how | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            if is_new:
                os.fchmod(descriptor, mode)
    except OSError as error:
        raise VolumeError(f"subPath {'/'.join(names)!r}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _write_file(path: Path, file: File, group: int | None) -> None:
    _make_directories(path.parent)
    path.touch(0o600)  # others may read the file once it is complete
    with naming_path(path):
        path.write_bytes(file.data)
    if group is not None:
        os.chown(path, -1, group)
    path.chmod(_compute_mode(file, group))


def _make_directories(path: Path) -> None:
    """Make the missing directories of a path, readable for everybody whatever this process's umask is."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir()
        directory.chmod(_DIRECTORY_MODE)


def _compute_mode(file: File, group: int | None) -> int:
    """Return the mode of a file. The group that owns the pod's volumes, if there is one, can read every file."""
    return file.mode | (0o440 if group is not None else 0)


def _has_exactly(directory: Path, files: Mapping[str, File], group: int | None) -> bool:
    """Return whether a directory contains exactly these files, with their contents and modes."""
    present = _list_files(directory)
    return present == files.keys() and all(
        (directory / name).read_bytes() == file.data
        and stat.S_IMODE((directory / name).stat().st_mode) == _compute_mode(file, group)
        for name, file in files.items()
    )


def _list_files(root: Path) -> set[str]:
    """Return the relative paths of all files and links below a directory.

    The search is not recursive, because a path of a volume may have 2,000 names.
    """
    files, pending = set(), [""]
    while pending:
        prefix = pending.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.is_dir():
                    pending.append(f"{path}/")
                else:
                    files.add(path)
    return files


def _list_versions(directory: Path) -> list[str]:
    """Return the names of the directories that contain a complete or partly written version of the files."""
    return [path.name for path in directory.iterdir() if path.name.startswith("..") and not path.is_symlink()]


def _choose_fresh_name(existing: list[str]) -> str:
    return next(name for number in itertools.count(1) if (name := f"..{number}") not in existing)


def _link_names(directory: Path, names: set[str]) -> None:
    """Make a link through `..data` for every name, and remove links of other names."""
    for path in directory.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"{_DATA}/{name}")
