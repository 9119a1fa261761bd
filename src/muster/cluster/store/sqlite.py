"""Keep a journal on disk, in a `Database` with a thread of its own, so that the event loop never waits for the disk."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from muster.cluster.store.database import Database
from muster.cluster.store.directory import DataDirectory
from muster.cluster.store.errors import WriteRefused
from muster.cluster.store.integrity.acceptance import admit, make_refusal
from muster.cluster.store.integrity.inspection import Contents, Damage
from muster.cluster.store.journal import History, JournalRecord
from muster.cluster.store.worker import Worker

# How long a thread waits for Python's lock before it requests the lock. Each iteration of a busy loop releases the lock
# for an instant, which restarts the wait of the journal's thread. With Python's 5 ms the thread may never get the lock,
# and commits stop for as long as the loop is busy.
SWITCH_SECONDS = 0.00001


class SqliteJournal:
    """A journal in a directory, which it locks from `open` to `close`."""

    durable = True

    def __init__(self, directory: Path, *, is_used: bool = False) -> None:
        """Make the journal.

        is_used: whether the directory is known to have contained objects, so that a missing database is an error.
        """
        self._path = directory
        self._is_used = is_used
        self._directory: DataDirectory
        self._database: Database
        self._thread: Worker

    async def open(self) -> History:
        """Lock the directory, open or create the files in it, and read them. Raises `DataDirectoryError`."""
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
        with ExitStack() as on_error:
            self._directory = DataDirectory(self._path)
            on_error.callback(self._directory.release)
            self._thread = Worker("store")
            on_error.callback(self._thread.stop)
            contents = await self._read_contents()
            self._database = await self._thread.do(lambda: Database(self._directory, contents.mark))
            on_error.pop_all()
        return contents.history

    async def _read_contents(self) -> Contents:
        """Return the contents of the files. Create or upgrade the files first. Never open damaged files for writing.

        Raises `DataDirectoryError`.
        """
        try:
            contents = await self._thread.do(lambda: admit(self._path, self._is_used))
            if contents is None:
                await self._thread.do(lambda: Database(self._directory).close())
                contents = await self._thread.do(lambda: admit(self._path, is_used=True))
                assert contents is not None, "there is a database now"
        except Damage as damage:
            raise make_refusal(self._path, damage) from damage
        return contents

    async def append(self, records: Sequence[JournalRecord]) -> None:
        """Store all of the records, or none. Return after they are on disk."""
        if await self._thread.do(lambda: self._database.append(records)):
            # Do not wait for the checkpoint: these records are permanent already, and the next ones queue behind it.
            self._thread.do(self._database.checkpoint)

    async def compact(self, revision: int) -> None:
        """Delete the states that were replaced at or before `revision`, in steps between which commits can run."""
        while await self._thread.do(lambda: self._database.compact(revision)):
            pass
        while await self._thread.do(self._database.vacuum):
            pass

    async def reserve(self) -> None:
        """Allocate spare room in the database file and its write-ahead log, so that writes succeed on a full disk."""
        await self._thread.do(self._database.reserve)

    def find_fullness(self) -> WriteRefused | None:
        """Return why new objects should not be stored, because the disk is almost full; None if they should.

        If the disk was full before, check it again.
        """
        if self._database.full is not None:
            self._database.check_disk()  # there may be room again, and only writes check the disk otherwise
        return self._database.full

    async def close(self) -> None:
        """Close the file and unlock the directory."""
        await self._thread.do(self._database.close)
        self._thread.stop()
        self._directory.release()
