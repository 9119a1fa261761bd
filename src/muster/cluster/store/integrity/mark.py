"""Keep the mark, in a file next to the database: the revision up to which writes were acknowledged.

The file is overwritten in place after a batch is on disk and before the batch is acknowledged, without waiting for the
disk. After a kill of the process the file has the newest mark; after a power loss, perhaps an older mark. So the mark
is never ahead of the database, and everything up to the mark must be in the database. The mark is synced before rows
are removed.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from muster.cluster.store.integrity.checksum import WRAP
from muster.cluster.store.journal import JournalRecord

FILE = "store.mark"
_BYTES = 128  # fixed, so that the file never grows, which works on a full disk too
_TITLE = "muster store"


class Mark(Struct, frozen=True):
    """The state of a store at a revision, as totals.

    total: the sum of the checksums of all rows ever written, modulo `WRAP`.
    objects: the number of objects.
    """

    revision: int = 0
    total: int = 0
    objects: int = 0

    def after(self, records: Sequence[JournalRecord], checksums: Sequence[int]) -> "Mark":
        """Return the mark after these records were written. checksums: the checksums of their rows."""
        created = sum([record.previous is None for record in records])
        deleted = sum([record.deleted for record in records])
        total = (self.total + sum(checksums)) % WRAP
        return Mark(records[-1].revision, total, self.objects + created - deleted)

    def encode(self) -> bytes:
        """Return the content of the file: text of a fixed length that ends in its checksum."""
        text = f"{_TITLE} {self.revision} {self.total} {self.objects}".ljust(_BYTES - 9).encode()
        return b"%b%08x\n" % (text, crc32(text))


def decode(content: bytes) -> Mark | None:
    """Return the mark from the content of its file; None if the content is damaged."""
    text, checksum = content[: _BYTES - 9], content[_BYTES - 9 :]
    if len(content) != _BYTES or checksum != b"%08x\n" % crc32(text):
        return None
    revision, total, objects = map(int, text.decode().removeprefix(_TITLE).split())
    return Mark(revision, total, objects)


class MarkFile:
    """The file that holds the mark of a store, open for writing. All methods raise `OSError`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._is_synced = False

    def write(self, mark: Mark) -> None:
        """Replace the mark without syncing; a power loss may restore an older one."""
        os.pwrite(self._file, mark.encode(), 0)
        self._is_synced = False

    def sync(self) -> None:
        """Wait until the mark is on disk."""
        if not self._is_synced:
            os.fdatasync(self._file)
            self._is_synced = True

    def close(self) -> None:
        """Sync and close the file."""
        try:
            self.sync()
        finally:
            os.close(self._file)
