"""Remove files that pods have left, of any kind: trees of any depth and width, inaccessible directories, odd names.

A tree is taken apart in place. The loop empties each directory right below the root: it deletes the files, and moves
the subdirectories up to the root, where the loop finds them next. So removal never handles more than two levels. It
needs no recursion and no long path, and holds few open files and few names in memory.

Removal follows no link, and enters no mount. It makes inaccessible directories accessible if this user owns them. If
something cannot be removed, everything else still is.
"""

import errno
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_LOOK = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN = 0o700
# How many names are held in memory at a time.
_BATCH = 1000
# After this many failures in one tree, removal stops; a later call removes the rest.
_MOST_REFUSALS = 1000


class RemovalError(Exception):
    """A path that could not be removed. The message says what stays, and why."""


def remove(path: Path, halted: Callable[[], bool] = lambda: False) -> None:
    """Remove a file, or a directory with its content; a missing path counts as removed.

    Return early once `halted` returns true. Raises `RemovalError`.
    """
    try:
        with _open(str(path.parent), _LOOK & ~os.O_NOFOLLOW) as parent:
            _Removal(path, parent, halted).run()
    except FileNotFoundError:
        return
    except OSError as error:
        raise RemovalError(f"{path} cannot be removed: {error.strerror}") from error


def move(path: Path, target: Path) -> None:
    """Rename a directory that this user owns, even without write permission on it. Raises OSError."""
    try:
        path.rename(target)
    except PermissionError:
        with _open(str(path.parent), _LOOK & ~os.O_NOFOLLOW) as parent, _open(path.name, _LOOK, parent) as inner:
            _open_up(inner, _read_mount_id(parent))
        path.rename(target)


class _Removal:
    """The removal of `path`, which lies in the directory `parent`."""

    def __init__(self, path: Path, parent: int, halted: Callable[[], bool]) -> None:
        self._path = path
        self._parent = parent
        self._halted = halted
        self._mount_id = _read_mount_id(parent)
        self._numbers = itertools.count()
        self._refused: dict[str, OSError] = {}  # the errors, by name in the root
        self._first_error: tuple[str, OSError] | None = None

    def run(self) -> None:
        """Remove the path. Raises `RemovalError`, OSError."""
        name = self._path.name
        if _unlink_file(name, self._parent):
            return
        with self._open_writable(name, self._parent) as root:
            before: list[str] = []
            while (batch := self._list_next_names(root)) and batch != before and len(self._refused) < _MOST_REFUSALS:
                before = batch
                for entry in batch:
                    if self._halted():
                        return
                    self._clear_entry(entry, root)
        if self._halted():
            return
        if self._first_error is not None:
            what, error = self._first_error
            more = f", and {len(self._refused) - 1} more" if len(self._refused) > 1 else ""
            raise RemovalError(f"{self._path} cannot be removed: {what!a} in it: {error.strerror}{more}")
        os.rmdir(name, dir_fd=self._parent)

    def _list_next_names(self, root: int) -> list[str]:
        """Return up to a batch of names that remain in the root."""
        with os.scandir(root) as entries:
            return list(itertools.islice((e.name for e in entries if e.name not in self._refused), _BATCH))

    def _clear_entry(self, name: str, root: int) -> None:
        """Remove an entry of the root; move the entry's subdirectories up to the root."""
        try:
            if _unlink_file(name, root):
                return
            with self._open_writable(name, root) as directory:
                self._empty_directory(directory, root)
            if not self._halted():
                os.rmdir(name, dir_fd=root)
        except FileNotFoundError:
            return
        except OSError as error:
            self._first_error = self._first_error or (name, error)
            self._refused[name] = error

    def _empty_directory(self, directory: int, root: int) -> None:
        """Remove a directory's files, and move its subdirectories to the root. Raises OSError if something stays."""
        trouble: OSError | None = None
        with os.scandir(directory) as entries:
            for entry in entries:
                if self._halted():
                    return
                try:
                    if not _unlink_file(entry.name, directory):
                        self._lift_directory(entry.name, directory, root)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._first_error = self._first_error or (entry.name, error)
                    trouble = error
        if trouble is not None:
            raise trouble

    def _lift_directory(self, name: str, directory: int, root: int) -> None:
        """Move a directory to the root; the kernel refuses to move a mount point. Raises OSError."""
        for number in self._numbers:
            try:
                self._rename(name, directory, str(number), root)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    continue
                raise
            return

    def _rename(self, name: str, directory: int, new: str, root: int) -> None:
        """Rename a directory, made writable first if needed, since a move changes its `..` entry. Raises OSError."""
        try:
            os.rename(name, new, src_dir_fd=directory, dst_dir_fd=root)
        except PermissionError:
            with self._open_writable(name, directory):
                os.rename(name, new, src_dir_fd=directory, dst_dir_fd=root)

    @contextmanager
    def _open_writable(self, name: str, directory: int) -> Iterator[int]:
        """Make a directory readable and writable, and open it. Raises OSError."""
        with _open(name, _LOOK, directory) as outer:
            _open_up(outer, self._mount_id)
            with _open(".", _READ, outer) as inner:
                yield inner


def _unlink_file(name: str, directory: int) -> bool:
    """Remove anything but a directory; return False for a directory. Raises OSError."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def _open_up(directory: int, mount: bytes) -> None:
    """Give this user access to a directory. Raises OSError (EBUSY) for a directory on another mount.

    mount: the ID of the mount on which the removal takes place.
    """
    if _read_mount_id(directory) != mount:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    mode = os.fstat(directory).st_mode
    if mode & _OPEN != _OPEN:
        Path(f"/proc/self/fd/{directory}").chmod(_OPEN)  # an O_PATH descriptor cannot be changed itself


def _read_mount_id(descriptor: int) -> bytes:
    """Return the ID of the mount that a file is on. Bind mounts of one file system have different IDs."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_bytes().split(b"\n")
    return next(line for line in lines if line.startswith(b"mnt_id:"))


@contextmanager
def _open(name: str, flags: int, directory: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
