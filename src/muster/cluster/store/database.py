"""The file under a durable store: SQLite, used by exactly one connection, in one thread.

One connection writes and checkpoints; the file is locked against any other (`locking_mode=EXCLUSIVE`), of this process
too. SQLite before 3.51.3 can corrupt a database when one connection resets the write-ahead log while another one
writes; with a single connection that cannot happen.

A batch is one INSERT statement: it runs without Python's lock from its first row to the sync of the disk. Row by row,
it would ask for the lock after each, and wait for a busy event loop every time.
"""

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from sys import intern

from muster.cluster.store.directory import DataDirectory
from muster.cluster.store.errors import DataDirectoryError, StorageFailed, StorageFull, WriteRefused
from muster.cluster.store.journal import History, Record
from muster.cluster.store.schema import prepare
from muster.cluster.store.values import Key

FILE = "store.db"
PAGE_BYTES = 8192  # objects are some 2 KB; fewer than three fit into the usual 4096
CHECKPOINT_BYTES = 8 << 20  # how much log is written before it is copied into the database: some 10 ms of work
COMPACT_REVISIONS = 1_000  # per transaction of a compaction: some 5 ms
VACUUM_PAGES = 500  # per transaction of giving pages back
PROBE_BYTES = 1 << 20  # what must be writable for the disk not to count as full

INSERT_ROWS = 1_000  # per statement: SQLite takes 32,766 values

_COLUMNS = "revision, resource, namespace, name, deleted, previous, body"
_ROW = "(?,?,?,?,?,?,?)"
_Statement = tuple[str, tuple[object, ...]]
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class Database:
    """All methods are for one thread, that of the constructor. Errors of writing are `WriteRefused`."""

    def __init__(self, directory: DataDirectory) -> None:
        """Open the file, or create it. Raises `DataDirectoryError`."""
        self._path = directory.create(FILE)
        self._unchecked = 0  # bytes since the last checkpoint
        self._broken: StorageFailed | None = None
        try:
            # Autocommit: a statement is a transaction unless we say BEGIN.
            self._connection = sqlite3.connect(self._path, timeout=1, isolation_level=None, cached_statements=16)
            with ExitStack() as on_error:
                on_error.callback(self._connection.close)
                self._configure()
                prepare(self._connection, str(self._path))
                on_error.pop_all()
        except sqlite3.Error as error:
            raise DataDirectoryError(f"cannot use {self._path}: {error}") from error

    def _configure(self) -> None:
        # The lock comes first: the log then needs no shared memory, for which a full disk might have no room.
        self._set("locking_mode=EXCLUSIVE")
        if self._pragma("page_count") == 0:
            self._set(f"page_size={PAGE_BYTES}", "auto_vacuum=INCREMENTAL")
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

    def read(self) -> History:
        """Everything."""
        try:
            return History(self._records(), self._compacted())
        except sqlite3.Error as error:
            raise DataDirectoryError(f"cannot read {self._path}: {error}; restore it from a backup") from error

    def _records(self) -> list[Record]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM log ORDER BY revision")  # noqa: S608
        return [
            Record(revision, Key(intern(resource), intern(namespace), name), bool(deleted), previous, body)
            for revision, resource, namespace, name, deleted, previous, body in rows
        ]

    def _compacted(self) -> int:
        return int(self._connection.execute("SELECT value FROM meta WHERE key = 'compacted'").fetchone()[0])

    def append(self, records: Sequence[Record]) -> bool:
        """Make all of them permanent, or none. Returns whether a checkpoint is due."""
        if self._broken is not None:
            raise self._broken
        if len(records) <= INSERT_ROWS:
            self._execute(_insert(records))
        else:
            parts = [records[at : at + INSERT_ROWS] for at in range(0, len(records), INSERT_ROWS)]
            self._execute(("BEGIN IMMEDIATE", ()), *map(_insert, parts))
        self._unchecked += sum(len(record.body) for record in records)
        return self._unchecked >= CHECKPOINT_BYTES

    def checkpoint(self) -> None:
        """Copy the log into the database. If it fails for good, the next write says so."""
        self._unchecked = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error as error:
            self._refusal(error)

    def compact(self, revision: int) -> bool:
        """Forget states replaced at or before `revision`, a limited number. Returns whether there is more to do."""
        start = self._compacted()
        stop = min(start + COMPACT_REVISIONS, revision)
        span = (start, stop)
        if stop <= start:
            return False
        replaced = "SELECT previous FROM log WHERE revision > ? AND revision <= ?"
        self._execute(
            ("BEGIN IMMEDIATE", ()),
            (f"DELETE FROM log WHERE revision IN ({replaced})", span),  # noqa: S608
            ("DELETE FROM log WHERE revision > ? AND revision <= ? AND deleted", span),
            ("UPDATE meta SET value = ? WHERE key = 'compacted'", (stop,)),
        )
        self.checkpoint()
        return stop < revision

    def vacuum(self) -> bool:
        """Give free pages back to the disk, a limited number. Returns whether there is more to do.

        A quarter of the file stays, for the writes until the next compaction.
        """
        try:
            excess = (4 * int(self._pragma("freelist_count")) - int(self._pragma("page_count"))) // 3
            if excess <= 0:
                return False
            # Not execute(): that frees a single page.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(excess, VACUUM_PAGES)})")
        except sqlite3.Error as error:
            raise self._refusal(error) from error
        self.checkpoint()
        return excess > VACUUM_PAGES

    def _execute(self, *statements: _Statement) -> None:
        """One statement is a transaction of its own; several begin with BEGIN and are committed, or rolled back."""
        try:
            with self._connection:
                for statement, values in statements:
                    self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def backup(self, target: Path) -> None:
        """Write a copy to a new file. Raises `OSError`."""
        if target.exists():
            raise FileExistsError(errno.EEXIST, "there is a file already; a backup does not replace it", str(target))
        partial = target.with_name(target.name + ".partial")
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            copy = sqlite3.connect(partial)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()
            partial.rename(target)
        except sqlite3.Error as error:
            partial.unlink(missing_ok=True)
            raise OSError(f"cannot back up to {target}: {error}") from error

    def close(self) -> None:
        """Copy the log into the database and close the file."""
        try:
            self._connection.close()
        except sqlite3.Error as error:
            # Nothing is lost: what was acknowledged is in the log, and is read from there at the next start.
            self._refusal(error)

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


def _insert(records: Sequence[Record]) -> _Statement:
    rows = ",".join([_ROW] * len(records))
    values = chain.from_iterable((r.revision, *r.key, r.deleted, r.previous, r.body) for r in records)
    return f"INSERT INTO log ({_COLUMNS}) VALUES {rows}", tuple(values)  # noqa: S608
