"""Puts the contents of volumes on disk.

Files that come from objects are written as the kubelet writes them: into a fresh directory, to which a link `..data` is
then moved in one step; the names that users see are links through it. So a reader sees all of the old state or all of
the new, never a mixture, and a crash at any moment leaves one of the two.

Everything is below a directory that only we can write (0700), so no other user could put links in our way; what a
pod does in its own volumes is not followed (`resolve_within`).
"""

import contextlib
import itertools
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.removal import RemovalError
from muster.cluster.nodes.volumes.contents import File, HostPath, VolumeError

_DATA = "..data"
_DIRECTORY_MODE = 0o755


def make_empty(directory: Path, *, group: int | None = None) -> None:
    """An empty directory for everybody's use, unless it is there already: containers of the pod may use it."""
    if not directory.exists():
        directory.mkdir(parents=True)
        directory.chmod(0o777)
        if group is not None:
            os.chown(directory, -1, group)
            directory.chmod(0o2777)


def write_tree(directory: Path, files: Mapping[str, File], *, group: int | None = None) -> bool:
    """Make the directory show exactly these files; False if it did already. Raises OSError; then it shows the old."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(_DIRECTORY_MODE)
    current = directory / _DATA
    if current.is_symlink() and _holds(current, files, group):
        return False
    old = _versions(directory)
    new = directory / _fresh_name(old)
    try:
        for path, file in files.items():
            _write(new / path, file, group)
        new.mkdir(exist_ok=True)
        new.chmod(_DIRECTORY_MODE)
    except BaseException:
        with contextlib.suppress(RemovalError):  # each further try would leave one more
            removal.remove(new)
        raise
    following = directory / f"{_DATA}_tmp"
    following.unlink(missing_ok=True)
    following.symlink_to(new.name)
    following.rename(current)
    _link_names(directory, {path.split("/")[0] for path in files})
    for name in old:
        with contextlib.suppress(RemovalError):  # the next version's turn, or the volume's end
            removal.remove(directory / name)
    return True


def prepare_host_path(volume: HostPath) -> Path:
    """See that what must be there is there, or make it where the type says so. Raises `VolumeError`."""
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
    """A path below a volume with its links resolved, made as a directory if there is nothing.

    Raises `VolumeError` if it leads out of the volume. What happens to the links after this is seen to by the shim,
    which follows none.
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
    """Directories below a root, for who may use that.

    No link is followed: a container may be putting some there at this moment.
    """
    descriptor = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
    try:
        for name in names:
            try:
                os.mkdir(name, _DIRECTORY_MODE, dir_fd=descriptor)
                made = True
            except FileExistsError:
                made = False
            how = os.O_RDONLY if made else os.O_PATH
            inner = os.open(name, how | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
            if made:
                os.fchmod(descriptor, mode)
    except OSError as error:
        raise VolumeError(f"subPath {'/'.join(names)!r}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def _write(path: Path, file: File, group: int | None) -> None:
    _directories(path.parent)
    path.touch(0o600)  # who may read it may do so once it is whole
    path.write_bytes(file.data)
    if group is not None:
        os.chown(path, -1, group)
    path.chmod(_mode(file, group))


def _directories(path: Path) -> None:
    """Make what is missing of a path, for everybody to look into, whatever our umask lets others do."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir()
        directory.chmod(_DIRECTORY_MODE)


def _mode(file: File, group: int | None) -> int:
    """Who can read it; a group that owns volumes can read all of them."""
    return file.mode | (0o440 if group is not None else 0)


def _holds(directory: Path, files: Mapping[str, File], group: int | None) -> bool:
    """Whether a version has exactly these files."""
    found = _files_below(directory)
    return found == files.keys() and all(
        (directory / name).read_bytes() == file.data
        and stat.S_IMODE((directory / name).stat().st_mode) == _mode(file, group)
        for name, file in files.items()
    )


def _files_below(root: Path) -> set[str]:
    """The paths of all that is no directory. However deep it is: a path of a volume has room for 2,000 names."""
    found, left = set(), [""]
    while left:
        prefix = left.pop()
        with os.scandir(root / prefix) as entries:
            for entry in entries:
                path = f"{prefix}{entry.name}"
                if entry.is_dir():
                    left.append(f"{path}/")
                else:
                    found.add(path)
    return found


def _versions(directory: Path) -> list[str]:
    """The directories that hold, or should have held, a version."""
    return [path.name for path in directory.iterdir() if path.name.startswith("..") and not path.is_symlink()]


def _fresh_name(taken: list[str]) -> str:
    return next(name for number in itertools.count(1) if (name := f"..{number}") not in taken)


def _link_names(directory: Path, names: set[str]) -> None:
    """A link through `..data` for every name, and none for names that are gone."""
    for path in directory.iterdir():
        if not path.name.startswith("..") and path.name not in names:
            path.unlink()
    for name in names:
        if not (directory / name).is_symlink():
            (directory / name).symlink_to(f"{_DATA}/{name}")
