"""Make new databases from the objects of other databases: backups, and restored or salvaged stores.

A restored store has no history of changes, and its next revision is beyond any revision that a client may have seen. So
watches must list again, and no revision has two meanings.
"""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from zlib import crc32

from msgspec import Struct

from muster.cluster.store.database import FILE, INSERT_ROWS, make_insertion, shape
from muster.cluster.store.directory import sync
from muster.cluster.store.errors import DataDirectoryError
from muster.cluster.store.integrity import mark as marks
from muster.cluster.store.integrity.acceptance import LOG
from muster.cluster.store.integrity.checksum import of_records
from muster.cluster.store.integrity.inspection import Damage, open_for_reading, read, state_of
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.journal import JournalRecord
from muster.cluster.store.schema import CURRENT, prepare, set_meta, version_of

# How far beyond known revisions a restored store starts, because an old backup lacks all later revisions. Nine hours at
# 30,000 writes/s use this many, and known clusters would take decades.
BEYOND = 1_000_000_000


class Backup(Struct, frozen=True):
    """The contents of a backup.

    records: the objects.
    revision: the revision of the store when they were read.
    files: files of the cluster's home, by name.
    """

    records: Sequence[JournalRecord]
    revision: int
    files: Mapping[str, bytes]


def write(path: Path, backup: Backup) -> Mark:
    """Write a backup to a new file; return the file's mark after the file is synced to disk and checked.

    Raises `FileExistsError`, `OSError`, and `DataDirectoryError` if the file differs from what was written.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            mark = _fill_database(connection, backup, str(path))
    except sqlite3.Error as error:
        raise OSError(f"cannot write {path}: {error}") from error
    sync(path)
    load(path)
    return mark


def _fill_database(connection: sqlite3.Connection, backup: Backup, where: str) -> Mark:
    # Without shared memory, which not every disk supports, and without a journal, because an incomplete file is not
    # used.
    for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=OFF", "synchronous=OFF"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    shape(connection)
    prepare(connection, where)
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        for at in range(0, len(backup.records), INSERT_ROWS):
            part = backup.records[at : at + INSERT_ROWS]
            connection.execute(*make_insertion(part, of_records(part)))
        set_meta(connection, backup.revision, 0)
        mark = state_of(connection)
        connection.execute("INSERT INTO meta VALUES ('mark', ?)", (mark.encode(),))
        connection.execute("CREATE TABLE files (name TEXT PRIMARY KEY, digest INTEGER NOT NULL, content BLOB NOT NULL)")
        rows = [(name, _compute_digest(name, content), content) for name, content in backup.files.items()]
        connection.executemany("INSERT INTO files VALUES (?, ?, ?)", rows)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    return mark


def load(path: Path) -> Backup:
    """Return the contents of a backup after checking them. Raises `DataDirectoryError`, `OSError`."""
    with path.open("rb"):  # raises the reason if it cannot be read
        pass
    try:
        with open_for_reading(path) as connection:
            if version_of(connection, str(path)) != CURRENT:
                raise DataDirectoryError(f"{path} is not a backup of this release")
            meta = dict(connection.execute("SELECT key, value FROM meta"))
            mark = marks.decode(meta["mark"]) if isinstance(meta.get("mark"), bytes) else None
            if mark is None:
                raise DataDirectoryError(f"{path} is not a backup: muster backup FILE makes one")
            history = read(connection, path, mark).history
            rows = connection.execute("SELECT name, digest, content FROM files").fetchall()
    except Damage as damage:
        raise DataDirectoryError(f"{path} is damaged: {damage}; use another backup") from damage
    if any(
        not isinstance(content, bytes) or _compute_digest(name, content) != digest for name, digest, content in rows
    ):
        raise DataDirectoryError(f"{path} is damaged: a file in it does not match its checksum; use another backup")
    return Backup(list(history.records), history.compacted, {name: content for name, _, content in rows})


def _compute_digest(name: str, content: bytes) -> int:
    return crc32(content, crc32(f"{name}\0".encode()))


def install(directory: Path, backup: Backup, aside: Path) -> None:
    """Replace the files of a store by the objects of a backup, and move the old files to `aside`.

    The caller must hold the directory's lock. Raises `OSError`, `DataDirectoryError`.
    """
    new = directory / f"{FILE}-new"
    new.unlink(missing_ok=True)  # left over from a killed process
    mark = write(new, backup)
    aside.mkdir(mode=0o700, exist_ok=True)
    for name in (FILE, LOG, marks.FILE):
        if (directory / name).exists():
            (directory / name).rename(aside / name)
    # The mark is written first: a start that finds only the mark reports a missing database.
    file = marks.MarkFile(directory / marks.FILE)
    file.write(mark)
    file.close()
    new.rename(directory / FILE)
    sync(directory)
