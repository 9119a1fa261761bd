"""Detect that files which a process has open were removed.

SQLite continues to write to such files, and everything that it writes is lost when the process exits.
"""

import os
from pathlib import Path


class Presence:
    """A watch on existing files that detects whether one was removed.

    A file that was moved does not count as removed.
    """

    def __init__(self, *paths: Path) -> None:
        """Start to watch these files. Raises `OSError` if one does not exist."""
        self._files: dict[Path, int] = {}
        try:
            for path in paths:
                # To close any other descriptor of a file would end the locks that SQLite holds on it.
                self._files[path] = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def find_removed(self) -> Path | None:
        """Return the path of a watched file that was removed; None if all files still exist."""
        return next((path for path, file in self._files.items() if _is_removed(path, file)), None)

    def close(self) -> None:
        """Stop watching, and close the descriptors of the files."""
        for file in self._files.values():
            os.close(file)
        self._files.clear()


def _is_removed(path: Path, file: int) -> bool:
    status = os.fstat(file)
    if status.st_nlink:
        return False
    try:  # some file systems count no links
        found = path.stat()
    except FileNotFoundError:
        return True
    return (found.st_dev, found.st_ino) != (status.st_dev, status.st_ino)
