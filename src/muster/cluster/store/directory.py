"""Lock the data directory. It belongs to one user, and only one server may use it."""

import os
from pathlib import Path

from muster.cluster.store.errors import DataDirectoryError
from muster.runtime.process import filelock

PKI = "pki"  # the directory of credentials in a cluster's home, which is made after the store


class DataDirectory:
    """A directory that this process locks, from construction to `release`.

    The kernel holds the lock, and releases it whenever the process exits. The PID in the file is for users.
    """

    def __init__(self, path: Path) -> None:
        """Create the directory if it is missing, and lock it. Raises `DataDirectoryError`."""
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirectoryError(f"cannot use data directory {path}: {error.strerror}") from error
        try:
            self._take_lock()
        except BaseException:
            os.close(self._lock)
            raise

    def _take_lock(self) -> None:
        try:
            filelock.take(self._lock)
            # Overwritten in place, at a fixed length, which works on a full disk too.
            os.pwrite(self._lock, b"%-20d\n" % os.getpid(), 0)
        except BlockingIOError:
            holder = os.pread(self._lock, 20, 0).decode("ascii", "replace").strip()
            by = f"process {holder}" if holder else "another process"
            raise DataDirectoryError(f"data directory {self.path} is in use by {by}") from None
        except OSError as error:
            raise DataDirectoryError(f"cannot lock data directory {self.path}: {error.strerror}") from error

    def create(self, name: str) -> Path:
        """Create a file in the directory if it is missing, with access for its user only; return its path.

        Raises `DataDirectoryError`.
        """
        path = self.path / name
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            sync(self.path)
            sync(self.path.parent)
        except OSError as error:
            raise DataDirectoryError(f"cannot open {path}: {error.strerror}") from error
        return path

    def release(self) -> None:
        """Release the lock."""
        os.close(self._lock)


def sync(path: Path) -> None:
    """Wait until a file's content, or a directory's list of entries, is on disk. Raises `OSError`."""
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
