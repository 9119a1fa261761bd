"""Run the file of a durable store: SQLite, used by exactly one connection, in one thread.

One connection writes and checkpoints. The file is locked against any other connection (`locking_mode=EXCLUSIVE`), even
in this process. SQLite before 3.51.3 can corrupt a database when one connection resets the write-ahead log while
another connection writes. With a single connection that cannot happen.

A batch is one INSERT statement, so it runs without Python's lock (the GIL) from its first row to the sync of the disk.
With a statement for each row, the thread would request the lock after each row, and wait for a busy event loop every
time.

The files reserve room for a full disk: the writes that finish jobs, and so may free space, must still succeed.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path

from muster.cluster.store.directory import DataDirectory
from muster.cluster.store.errors import DataDirectoryError, StorageFailed, StorageFull, WriteRefused
from muster.cluster.store.integrity import mark as marks
from muster.cluster.store.integrity.checksum import WRAP, of_records
from muster.cluster.store.integrity.inspection import state_of
from muster.cluster.store.integrity.mark import Mark, MarkFile
from muster.cluster.store.journal import JournalRecord
from muster.cluster.store.presence import Presence
from muster.cluster.store.schema import COLUMNS, prepare, set_meta
from muster.runtime.process.fulldisk import has_no_room

_log = logging.getLogger(__name__)

FILE = "store.db"
PAGE_BYTES = 8192  # objects are some 2 KB; fewer than three fit into the usual 4096
CHECKPOINT_BYTES = 8 << 20  # the size at which the log is copied into the database: some 10 ms of work
COMPACT_REVISIONS = 1_000  # per transaction of a compaction: some 5 ms
VACUUM_PAGES = 500  # per transaction that returns pages to the disk
PROBE_BYTES = 1 << 20  # a disk that cannot take this much counts as full
RESERVE_BYTES = 4 << 20  # free pages of the database, and the same of log: more than a thousand objects
RESERVE_SHARE = 8  # the reserve is skipped on a disk with room for fewer than this many reserves
NEW_BYTES = RESERVE_BYTES  # with less free space, no new object is stored: the rest is for writes that finish jobs
NEW_SHARE = 20  # on a small disk, one part in this many of the disk

INSERT_ROWS = 1_000  # per statement: SQLite takes 32,766 values

_ROW = "(?,?,?,?,?,?,?,?)"
# The rows that a compaction removes: replaced rows, and rows of deleted objects.
_REPLACED = "revision IN (SELECT previous FROM log WHERE revision > ? AND revision <= ?)"
_GONE = "revision > ? AND revision <= ? AND deleted"
Statement = tuple[str, tuple[object, ...]]


class Database:
    """The database of a durable store, for use by one thread. A failed write raises `WriteRefused`."""

    def __init__(self, directory: DataDirectory, mark: Mark | None = None) -> None:
        """Open the files, or create or upgrade them. Raises `DataDirectoryError`.

        mark: the expected mark of the files; None computes the mark from the files.
        """
        self._path = directory.create(FILE)
        self._log_bytes = 0  # bytes since the last checkpoint
        self._broken: StorageFailed | None = None
        self.full: StorageFull | None = None  # why no new object should be stored, as of the last check of the disk
        try:
            with ExitStack() as on_error:
                self._marks = MarkFile(directory.create(marks.FILE))
                on_error.callback(self._marks.close)
                # Autocommit: a statement is a transaction unless we say BEGIN.
                self._connection = sqlite3.connect(self._path, timeout=1, isolation_level=None, cached_statements=16)
                on_error.callback(self._connection.close)
                self._configure_connection()
                # The mark is written before the new version takes effect: a database of this version always has one.
                prepare(self._connection, str(self._path), finish=lambda made: self._set_mark(state_of(made)))
                self._set_mark(mark or state_of(self._connection))
                self._presence = Presence(self._path, Path(f"{self._path}-wal"))
                on_error.pop_all()
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and isinstance(self._refuse(error), StorageFull):
                advice = f"free some there (see df -h {self._path.parent} and quota -s), and start again"
                raise DataDirectoryError(f"no space left for {self._path}: {advice}") from error
            raise DataDirectoryError(f"cannot use {self._path}: {error}") from error

    def _set_mark(self, mark: Mark) -> None:
        self._mark = mark
        self._marks.write(mark)
        self._marks.sync()

    def _configure_connection(self) -> None:
        # The lock comes first: the log then needs no shared memory, for which a full disk might have no room.
        self._set_pragmas("locking_mode=EXCLUSIVE")
        if self._read_pragma("page_count") == 0:
            shape(self._connection)
        self._spare = RESERVE_BYTES // int(self._read_pragma("page_size"))
        self._set_pragmas("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0")
        self._set_pragmas(f"journal_size_limit={8 * CHECKPOINT_BYTES}")
        assert self._read_pragma("locking_mode") == "exclusive", "no second connection may write or checkpoint"
        assert self._read_pragma("journal_mode") == "wal"
        assert self._read_pragma("synchronous") == 2  # FULL

    def _set_pragmas(self, *pragmas: str) -> None:
        for pragma in pragmas:
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def _read_pragma(self, name: str) -> int | str:
        value: int | str = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def append(self, records: Sequence[JournalRecord]) -> bool:
        """Make all of the records permanent, or none. Return whether a checkpoint is due. Raises `WriteRefused`."""
        if self._broken is not None:
            raise self._broken
        digests = of_records(records)
        if len(records) <= INSERT_ROWS:
            self._execute(make_insertion(records, digests))
        else:
            starts = range(0, len(records), INSERT_ROWS)
            parts = [(records[at : at + INSERT_ROWS], digests[at : at + INSERT_ROWS]) for at in starts]
            self._execute(("BEGIN IMMEDIATE", ()), *[make_insertion(*part) for part in parts])
        if (removed := self._presence.find_removed()) is not None:
            self._broken = StorageFailed(str(removed), "it was removed while the server ran")
            raise self._broken
        self._mark = self._mark.after(records, digests)
        self._write_mark()
        self._log_bytes += sum(len(record.body) for record in records)
        # A long log needs as much room again in the database, which a disk that is nearly full may not have.
        return self.check_disk() or self._log_bytes >= CHECKPOINT_BYTES

    def check_disk(self) -> bool:
        """Check the free space of the disk: set `full`, and return whether there is too little for a reserve.

        `full` is None if the disk has room for new objects. If the system does not report the free space, assume that
        there is room.
        """
        try:
            disk = os.statvfs(self._path.parent)
        except OSError:
            self.full = None
            return False
        is_full = disk.f_bavail < min(NEW_BYTES // disk.f_frsize, disk.f_blocks // NEW_SHARE)
        self.full = StorageFull(str(self._path)) if is_full else None
        return has_no_room_for_reserve(disk)

    def _write_mark(self) -> None:
        # The records are permanent already. If the disk is full, the mark falls behind and catches up with the next
        # one.
        try:
            self._marks.write(self._mark)
        except OSError as error:
            if not has_no_room(error):
                self._broken = StorageFailed(str(self._path.with_name(marks.FILE)), str(error))

    def checkpoint(self) -> None:
        """Copy the write-ahead log into the database. If that fails permanently, the next write raises the error."""
        self._log_bytes = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._refuse(error)

    def reserve(self) -> None:
        """Allocate spare room in the database file and its write-ahead log, so that writes succeed on a full disk.

        On a disk with little free space, allocate nothing.
        """
        try:
            disk = os.statvfs(self._path.parent)
            if has_no_room_for_reserve(disk):
                return
            if int(self._read_pragma("freelist_count")) < self._spare // 2:  # avoid allocating a little every minute
                # Write the pages into the file before they are freed; otherwise the disk has no room for them.
                self._connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('reserve', zeroblob(?))", (RESERVE_BYTES,)
                )
                self.checkpoint()
                self._connection.execute("DELETE FROM meta WHERE key = 'reserve'")
            with open(f"{self._path}-wal", "rb+") as log:
                os.posix_fallocate(log.fileno(), 0, RESERVE_BYTES)
        except sqlite3.Error as error:
            self._refuse(error)
        except OSError as error:  # the store needs the reserve only on a full disk
            _log.warning("no room was reserved for a full disk: %s", error)

    def compact(self, revision: int) -> bool:
        """Delete a limited number of states that were replaced at or before `revision`; return whether some are left.

        Raises `WriteRefused`.
        """
        start, removed = self._read_meta("compacted"), self._read_meta("removed")
        stop = min(start + COMPACT_REVISIONS, revision)
        if stop <= start:
            return False
        try:
            self._marks.sync()  # the mark on disk must cover every row that is removed
        except OSError as error:
            self._broken = StorageFailed(str(self._path), str(error))
            raise self._broken from error

        def forget() -> None:
            self._connection.execute("BEGIN IMMEDIATE")
            removed_rows = sum(self._remove_rows(condition, (start, stop)) for condition in (_REPLACED, _GONE))
            set_meta(self._connection, stop, (removed + removed_rows) % WRAP)

        self._make_change(forget)
        self.checkpoint()
        return stop < revision

    def _remove_rows(self, condition: str, span: tuple[int, int]) -> int:
        """Remove rows from the log; return the sum of their checksums.

        condition: the SQL condition for these rows.
        span: its parameters, a range of revisions.
        """
        [total] = self._connection.execute(f"SELECT sum(digest) FROM log WHERE {condition}", span).fetchone()  # noqa: S608
        self._connection.execute(f"DELETE FROM log WHERE {condition}", span)  # noqa: S608
        return int(total or 0)

    def _read_meta(self, key: str) -> int:
        return int(self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    def vacuum(self) -> bool:
        """Return a limited number of free pages to the disk; return whether more are left. Raises `WriteRefused`.

        Keep a quarter of the file, and at least the reserve, for the writes until the next compaction.
        """
        try:
            free = int(self._read_pragma("freelist_count"))
            excess = min((4 * free - int(self._read_pragma("page_count"))) // 3, free - self._spare)
            if excess <= 0:
                return False
            # Not execute(), which would free a single page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(excess, VACUUM_PAGES)})")
        except sqlite3.Error as error:
            raise self._refuse(error) from error
        self.checkpoint()
        return excess > VACUUM_PAGES

    def _execute(self, *statements: Statement) -> None:
        """Execute one statement, or several that begin with BEGIN, as one transaction."""

        def execute() -> None:
            for statement, values in statements:
                self._connection.execute(statement, values)

        self._make_change(execute)

    def _make_change(self, change: Callable[[], None]) -> None:
        """Make a change completely or not at all. Raises `WriteRefused`.

        On a full disk the change uses the reserved room.
        """
        try:
            self._run_transaction(change)
        except StorageFull as full:
            self.full = full  # a disk whose quota is exhausted does not show it
            # The database has spare pages for the log's content; after the copy, the log starts again in its own room.
            self.checkpoint()
            if self._broken is not None:
                raise self._broken from None
            self._run_transaction(change)

    def _run_transaction(self, change: Callable[[], None]) -> None:
        try:
            with self._connection:
                change()
        except sqlite3.Error as error:
            raise self._refuse(error) from error

    def close(self) -> None:
        """Copy the log into the database and close the files."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            # The store loses nothing: the next start reads acknowledged writes from the write-ahead log.
            self._refuse(error)
        finally:
            self._presence.close()
            self._marks.close()

    def _refuse(self, error: sqlite3.Error) -> WriteRefused:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR_WRITE and self._has_no_room()):
            return StorageFull(str(self._path))
        self._broken = StorageFailed(str(self._path), str(error))
        return self._broken

    def _has_no_room(self) -> bool:
        # SQLite detects a full disk, but not an exhausted quota.
        probe = self._path.with_name("probe")
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        except OSError as error:
            return has_no_room(error)
        finally:
            with suppress(OSError):  # a disk that became read-only refuses this, too
                probe.unlink()
        return False


def has_no_room_for_reserve(disk: os.statvfs_result) -> bool:
    """Return whether the reserve would take too much of the disk's free space."""
    return disk.f_bavail * disk.f_frsize < RESERVE_SHARE * RESERVE_BYTES


def shape(connection: sqlite3.Connection) -> None:
    """Set the page size of a new database, and allow it to return free pages to the disk."""
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}").fetchall()
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall()


def make_insertion(records: Sequence[JournalRecord], digests: Sequence[int]) -> Statement:
    """Return the statement that inserts the rows of records, with these checksums."""
    rows = ",".join([_ROW] * len(records))
    values = chain.from_iterable(
        (r.revision, *r.key, r.deleted, r.previous, digest, r.body) for r, digest in zip(records, digests, strict=True)
    )
    return f"INSERT INTO log ({COLUMNS}) VALUES {rows}", tuple(values)  # noqa: S608
