"""How far writes were acknowledged, in a file beside the database.

It is written over in place once a batch is on disk, before that is acknowledged, and not waited for: a process that is
killed leaves it as it is, and a machine that loses power leaves an older one. So it is never ahead of the database, and
what it says was there must be there. Before rows are removed it is on disk for certain.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from muster.cluster.store.integrity.checksum import WRAP
from muster.cluster.store.journal import Record

FILE = "store.mark"
_BYTES = 128  # always, so that it never grows: that works on a full disk too
_TITLE = "muster store"


@dataclass(frozen=True, slots=True)
class Mark:
    """What is there up to a revision: what the checksums of all rows ever written add up to, and how many objects."""

    revision: int = 0
    total: int = 0
    objects: int = 0

    def after(self, records: Sequence[Record], checksums: Sequence[int]) -> "Mark":
        """What is there once these are, too."""
        created = sum([record.previous is None for record in records])
        deleted = sum([record.deleted for record in records])
        total = (self.total + sum(checksums)) % WRAP
        return Mark(records[-1].revision, total, self.objects + created - deleted)

    def encode(self) -> bytes:
        """As it is kept: text of a fixed length that ends in its checksum."""
        text = f"{_TITLE} {self.revision} {self.total} {self.objects}".ljust(_BYTES - 9).encode()
        return b"%b%08x\n" % (text, crc32(text))


def decode(content: bytes) -> Mark | None:
    """The mark in the content of a file; None if it is damaged."""
    text, checksum = content[: _BYTES - 9], content[_BYTES - 9 :]
    if len(content) != _BYTES or checksum != b"%08x\n" % crc32(text):
        return None
    revision, total, objects = map(int, text.decode().removeprefix(_TITLE).split())
    return Mark(revision, total, objects)


class MarkFile:
    """The file, open for writing. Raises `OSError`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._is_synced = False

    def write(self, mark: Mark) -> None:
        """Replace what it says, for the next start; a loss of power may bring back what it said before."""
        os.pwrite(self._file, mark.encode(), 0)
        self._is_synced = False

    def sync(self) -> None:
        """Return once it is on disk."""
        if not self._is_synced:
            os.fdatasync(self._file)
            self._is_synced = True

    def close(self) -> None:
        """Close the file, which is on disk."""
        try:
            self.sync()
        finally:
            os.close(self._file)
