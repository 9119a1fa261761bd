"""The file under a durable store: SQLite, used by exactly one connection, in one thread.

One connection writes and checkpoints; the file is locked against any other (`locking_mode=EXCLUSIVE`), of this process
too. SQLite before 3.51.3 can corrupt a database when one connection resets the write-ahead log while another one
writes; with a single connection that cannot happen.

A batch is one INSERT statement: it runs without Python's lock from its first row to the sync of the disk. Row by row,
it would ask for the lock after each, and wait for a busy event loop every time.

The files keep room of their own for a disk that gets full: what ends jobs, and so may make room, has to be written.
"""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import chain

from muster.cluster.store.directory import DataDirectory
from muster.cluster.store.errors import DataDirectoryError, StorageFailed, StorageFull, WriteRefused
from muster.cluster.store.integrity import mark as marks
from muster.cluster.store.integrity.checksum import WRAP, of_records
from muster.cluster.store.integrity.inspection import state_of
from muster.cluster.store.integrity.mark import Mark, MarkFile
from muster.cluster.store.journal import Record
from muster.cluster.store.schema import COLUMNS, prepare, set_meta

_log = logging.getLogger(__name__)

FILE = "store.db"
PAGE_BYTES = 8192  # objects are some 2 KB; fewer than three fit into the usual 4096
CHECKPOINT_BYTES = 8 << 20  # how much log is written before it is copied into the database: some 10 ms of work
COMPACT_REVISIONS = 1_000  # per transaction of a compaction: some 5 ms
VACUUM_PAGES = 500  # per transaction of giving pages back
PROBE_BYTES = 1 << 20  # what must be writable for the disk not to count as full
RESERVE_BYTES = 4 << 20  # free pages of the database, and the same of log: more than a thousand objects
RESERVE_SHARE = 8  # a disk on which less than so many reserves are free is left what it has

INSERT_ROWS = 1_000  # per statement: SQLite takes 32,766 values

_ROW = "(?,?,?,?,?,?,?,?)"
# Rows that a compaction removes: those that were replaced, and those that say that an object is gone.
_REPLACED = "revision IN (SELECT previous FROM log WHERE revision > ? AND revision <= ?)"
_GONE = "revision > ? AND revision <= ? AND deleted"
Statement = tuple[str, tuple[object, ...]]
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Database:
    """All methods are for one thread, that of the constructor. Errors of writing are `WriteRefused`."""

    def __init__(self, directory: DataDirectory, mark: Mark | None = None) -> None:
        """Open the files, or create or upgrade them. Raises `DataDirectoryError`.

        `mark` is what is known to be in them; without it, it is worked out.
        """
        self._path = directory.create(FILE)
        self._unchecked = 0  # bytes since the last checkpoint
        self._broken: StorageFailed | None = None
        try:
            with ExitStack() as on_error:
                self._marks = MarkFile(directory.create(marks.FILE))
                on_error.callback(self._marks.close)
                # Autocommit: a statement is a transaction unless we say BEGIN.
                self._connection = sqlite3.connect(self._path, timeout=1, isolation_level=None, cached_statements=16)
                on_error.callback(self._connection.close)
                self._configure()
                # The mark comes before a new version holds: a database of this version is never without one.
                prepare(self._connection, str(self._path), finish=lambda made: self._set_mark(state_of(made)))
                self._set_mark(mark or state_of(self._connection))
                on_error.pop_all()
        except (sqlite3.Error, OSError) as error:
            raise DataDirectoryError(f"cannot use {self._path}: {error}") from error

    def _set_mark(self, mark: Mark) -> None:
        self._mark = mark
        self._marks.write(mark)
        self._marks.sync()

    def _configure(self) -> None:
        # The lock comes first: the log then needs no shared memory, for which a full disk might have no room.
        self._set("locking_mode=EXCLUSIVE")
        if self._pragma("page_count") == 0:
            shape(self._connection)
        self._spare = RESERVE_BYTES // int(self._pragma("page_size"))
        self._set("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=0")
        self._set(f"journal_size_limit={8 * CHECKPOINT_BYTES}")
        assert self._pragma("locking_mode") == "exclusive", "no second connection may write or checkpoint"
        assert self._pragma("journal_mode") == "wal"
        assert self._pragma("synchronous") == 2  # FULL

    def _set(self, *pragmas: str) -> None:
        for pragma in pragmas:
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    def _pragma(self, name: str) -> int | str:
        value: int | str = self._connection.execute(f"PRAGMA {name}").fetchone()[0]
        return value

    def append(self, records: Sequence[Record]) -> bool:
        """Make all of them permanent, or none. Returns whether a checkpoint is due."""
        if self._broken is not None:
            raise self._broken
        digests = of_records(records)
        if len(records) <= INSERT_ROWS:
            self._execute(insertion(records, digests))
        else:
            starts = range(0, len(records), INSERT_ROWS)
            parts = [(records[at : at + INSERT_ROWS], digests[at : at + INSERT_ROWS]) for at in starts]
            self._execute(("BEGIN IMMEDIATE", ()), *[insertion(*part) for part in parts])
        self._mark = self._mark.after(records, digests)
        self._write_mark()
        self._unchecked += sum(len(record.body) for record in records)
        return self._unchecked >= CHECKPOINT_BYTES

    def _write_mark(self) -> None:
        # What it is about is safe already. A mark that falls behind for want of room catches up with the next one.
        try:
            self._marks.write(self._mark)
        except OSError as error:
            if error.errno not in _NO_ROOM:
                self._broken = StorageFailed(str(self._path.with_name(marks.FILE)), str(error))

    def checkpoint(self) -> None:
        """Copy the log into the database. If it fails for good, the next write says so."""
        self._unchecked = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._refusal(error)

    def reserve(self) -> None:
        """Have room that a full disk cannot take, unless there is too little to have it now."""
        try:
            disk = os.statvfs(self._path.parent)
            if disk.f_bavail * disk.f_frsize < RESERVE_SHARE * RESERVE_BYTES:
                return
            if int(self._pragma("freelist_count")) < self._spare // 2:  # not a little of it every minute
                # Pages that are freed before they are in the file would have no room on the disk.
                self._connection.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('reserve', zeroblob(?))", (RESERVE_BYTES,)
                )
                self.checkpoint()
                self._connection.execute("DELETE FROM meta WHERE key = 'reserve'")
            with open(f"{self._path}-wal", "rb+") as log:
                os.posix_fallocate(log.fileno(), 0, RESERVE_BYTES)
        except sqlite3.Error as error:
            self._refusal(error)
        except OSError as error:  # the store is as good without it, but for a full disk
            _log.warning("no room was reserved for a full disk: %s", error)

    def compact(self, revision: int) -> bool:
        """Forget states replaced at or before `revision`, a limited number. Returns whether there is more to do."""
        start, removed = self._meta("compacted"), self._meta("removed")
        stop = min(start + COMPACT_REVISIONS, revision)
        if stop <= start:
            return False
        try:
            self._marks.sync()  # no row goes that the mark on disk does not know of
        except OSError as error:
            self._broken = StorageFailed(str(self._path), str(error))
            raise self._broken from error

        def forget() -> None:
            self._connection.execute("BEGIN IMMEDIATE")
            gone = sum(self._remove(condition, (start, stop)) for condition in (_REPLACED, _GONE))
            set_meta(self._connection, stop, (removed + gone) % WRAP)

        self._make(forget)
        self.checkpoint()
        return stop < revision

    def _remove(self, condition: str, span: tuple[int, int]) -> int:
        """Remove rows; returns what their checksums add up to."""
        [total] = self._connection.execute(f"SELECT sum(digest) FROM log WHERE {condition}", span).fetchone()  # noqa: S608
        self._connection.execute(f"DELETE FROM log WHERE {condition}", span)  # noqa: S608
        return int(total or 0)

    def _meta(self, key: str) -> int:
        return int(self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])

    def vacuum(self) -> bool:
        """Give free pages back to the disk, a limited number. Returns whether there is more to do.

        A quarter of the file stays, for the writes until the next compaction, and no less than the reserve.
        """
        try:
            free = int(self._pragma("freelist_count"))
            excess = min((4 * free - int(self._pragma("page_count"))) // 3, free - self._spare)
            if excess <= 0:
                return False
            # Not execute(): that frees a single page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(excess, VACUUM_PAGES)})")
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        self.checkpoint()
        return excess > VACUUM_PAGES

    def _execute(self, *statements: Statement) -> None:
        """One statement is a transaction of its own; several begin with BEGIN and are committed, or rolled back."""

        def execute() -> None:
            for statement, values in statements:
                self._connection.execute(statement, values)

        self._make(execute)

    def _make(self, change: Callable[[], None]) -> None:
        """Make a change, or nothing of it; on a full disk, in the room that the files have. Raises `WriteRefused`."""
        try:
            self._transaction(change)
        except StorageFull:
            # Once it is in the database, which has pages to spare, the log begins anew in the room that it takes.
            self.checkpoint()
            if self._broken is not None:
                raise self._broken from None
            self._transaction(change)

    def _transaction(self, change: Callable[[], None]) -> None:
        try:
            with self._connection:
                change()
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def close(self) -> None:
        """Copy the log into the database and close the files."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            # Nothing is lost: what was acknowledged is in the log, and is read from there at the next start.
            self._refusal(error)
        finally:
            self._marks.close()

    def _refusal(self, error: sqlite3.Error) -> WriteRefused:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR_WRITE and self._no_room()):
            return StorageFull(str(self._path))
        self._broken = StorageFailed(str(self._path), str(error))
        return self._broken

    def _no_room(self) -> bool:
        # SQLite knows a full disk, but not an exhausted quota.
        probe = self._path.with_name("probe")
        try:
            probe.write_bytes(bytes(PROBE_BYTES))
        except OSError as error:
            return error.errno in _NO_ROOM
        finally:
            probe.unlink(missing_ok=True)
        return False


def shape(connection: sqlite3.Connection) -> None:
    """Say how a new database is laid out."""
    connection.execute(f"PRAGMA page_size={PAGE_BYTES}").fetchall()
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL").fetchall()


def insertion(records: Sequence[Record], digests: Sequence[int]) -> Statement:
    """What adds the rows of records with these checksums."""
    rows = ",".join([_ROW] * len(records))
    values = chain.from_iterable(
        (r.revision, *r.key, r.deleted, r.previous, digest, r.body) for r, digest in zip(records, digests, strict=True)
    )
    return f"INSERT INTO log ({COLUMNS}) VALUES {rows}", tuple(values)  # noqa: S608
