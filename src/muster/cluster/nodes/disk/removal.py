"""Removes what pods have left, whatever it is: trees of any depth and width, closed directories, odd names.

A tree is taken apart in place. The directories right below its root are emptied one after the other: their files go,
and their own directories are moved up to the root, where their turn comes. So at no time are more than two levels
looked at: there is no recursion, no long path, and no more than a few open files and some names in memory.

No link is followed, and nothing is entered that is mounted there. Directories that are closed are opened up if they are
ours. What still cannot be removed stays, and everything else goes.
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
# Names that are held at a time.
_BATCH = 1000
# Where so much of a tree stays, the rest is left for another time.
_MOST_REFUSALS = 1000


class RemovalError(Exception):
    """Something stays; the text says what, and why."""


def remove(path: Path, halted: Callable[[], bool] = lambda: False) -> None:
    """Remove a file or a directory with all that is in it; what is not there is removed already.

    Returns before that is done if `halted` says so. Raises `RemovalError`.
    """
    try:
        with _opened(str(path.parent), _LOOK & ~os.O_NOFOLLOW) as parent:
            _Removal(path, parent, halted).run()
    except FileNotFoundError:
        return
    except OSError as error:
        raise RemovalError(f"{path} cannot be removed: {error.strerror}") from error


def move(path: Path, target: Path) -> None:
    """Rename a directory of ours, even a closed one. Raises OSError."""
    try:
        path.rename(target)
    except PermissionError:
        with _opened(str(path.parent), _LOOK & ~os.O_NOFOLLOW) as parent, _opened(path.name, _LOOK, parent) as inner:
            _open_up(inner, _mount(parent))
        path.rename(target)


class _Removal:
    """The removal of one thing, `path`, which lies in the directory `parent`."""

    def __init__(self, path: Path, parent: int, halted: Callable[[], bool]) -> None:
        self._path = path
        self._parent = parent
        self._halted = halted
        self._mount = _mount(parent)
        self._numbers = itertools.count()
        self._refused: dict[str, OSError] = {}  # by name in the root
        self._first: tuple[str, OSError] | None = None

    def run(self) -> None:
        """Remove it. Raises `RemovalError`, OSError."""
        name = self._path.name
        if _unlinked(name, self._parent):
            return
        with self._entered(name, self._parent) as root:
            before: list[str] = []
            while (batch := self._names(root)) and batch != before and len(self._refused) < _MOST_REFUSALS:
                before = batch
                for entry in batch:
                    if self._halted():
                        return
                    self._clear(entry, root)
        if self._halted():
            return
        if self._first is not None:
            what, error = self._first
            more = f", and {len(self._refused) - 1} more" if len(self._refused) > 1 else ""
            raise RemovalError(f"{self._path} cannot be removed: {what!a} in it: {error.strerror}{more}")
        os.rmdir(name, dir_fd=self._parent)

    def _names(self, root: int) -> list[str]:
        """Some of what is left to look at."""
        with os.scandir(root) as entries:
            return list(itertools.islice((e.name for e in entries if e.name not in self._refused), _BATCH))

    def _clear(self, name: str, root: int) -> None:
        """Remove something of the root; what is in its directories comes to the root."""
        try:
            if _unlinked(name, root):
                return
            with self._entered(name, root) as directory:
                self._empty(directory, root)
            if not self._halted():
                os.rmdir(name, dir_fd=root)
        except FileNotFoundError:
            return
        except OSError as error:
            self._first = self._first or (name, error)
            self._refused[name] = error

    def _empty(self, directory: int, root: int) -> None:
        """Remove the files of a directory, and move its directories to the root. Raises OSError for some that stays."""
        trouble: OSError | None = None
        with os.scandir(directory) as entries:
            for entry in entries:
                if self._halted():
                    return
                try:
                    if not _unlinked(entry.name, directory):
                        self._lift(entry.name, directory, root)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._first = self._first or (entry.name, error)
                    trouble = error
        if trouble is not None:
            raise trouble

    def _lift(self, name: str, directory: int, root: int) -> None:
        """Move a directory to the root. One that something is mounted on cannot be moved. Raises OSError."""
        for number in self._numbers:
            try:
                _rename(name, directory, str(number), root)
            except PermissionError:  # who moves a directory must be able to write in it
                with self._entered(name, directory):
                    _rename(name, directory, str(number), root)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    continue
                raise
            return

    @contextmanager
    def _entered(self, name: str, directory: int) -> Iterator[int]:
        """A directory that can be read and written now. Raises OSError."""
        with _opened(name, _LOOK, directory) as found:
            _open_up(found, self._mount)
            with _opened(".", _READ, found) as inner:
                yield inner


def _unlinked(name: str, directory: int) -> bool:
    """Remove what is no directory; False if it is one. Raises OSError."""
    try:
        os.unlink(name, dir_fd=directory)
    except IsADirectoryError:
        return False
    return True


def _rename(name: str, directory: int, new: str, root: int) -> None:
    os.rename(name, new, src_dir_fd=directory, dst_dir_fd=root)


def _open_up(directory: int, mount: bytes) -> None:
    """Let us into a directory, unless something else is mounted there. Raises OSError."""
    if _mount(directory) != mount:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
    mode = os.fstat(directory).st_mode
    if mode & _OPEN != _OPEN:
        Path(f"/proc/self/fd/{directory}").chmod(_OPEN)  # what is only looked at cannot be changed by its descriptor


def _mount(descriptor: int) -> bytes:
    """Which mount something is on: bind mounts of one file system are told apart."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_bytes().split(b"\n")
    return next(line for line in lines if line.startswith(b"mnt_id:"))


@contextmanager
def _opened(name: str, flags: int, directory: int | None = None) -> Iterator[int]:
    descriptor = os.open(name, flags, dir_fd=directory)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
