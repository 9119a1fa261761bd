"""Read a database without changing it, and check everything in it.

When the last connection closes, SQLite copies the write-ahead log into the database and removes the log, even if the
database is then refused. So an unchecked database is opened read-only and without locks, while the caller holds the
directory's lock.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sys import intern
from urllib.parse import quote

from msgspec import Struct

from muster.cluster.store.integrity.checksum import WRAP, of_meta, of_row
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.journal import History, JournalRecord
from muster.cluster.store.schema import COLUMNS, TABLES
from muster.cluster.store.values import Key

# The suffixes of links: for a reader that holds the directory's lock, and for a reader next to a running server.
SEEN, SEEN_BESIDE = "-seen", "-seen-beside"
_WITH_LOG = b"\2\2"  # in the header: readers and writers must support the log


class Damage(Exception):  # noqa: N818 - the word of the field
    """A difference between the files on disk and what was written. The message says what differs."""


class Contents(Struct, frozen=True):
    """The contents of a database, and the mark that belongs to them."""

    history: History
    mark: Mark


def read(connection: sqlite3.Connection, path: Path, mark: Mark) -> Contents:
    """Return everything in a database of this version, checked against its mark. Raises `Damage`, `sqlite3.Error`."""
    with path.open("rb") as file:
        if file.read(20)[18:] != _WITH_LOG:
            raise Damage("the header is damaged")
    tables = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'"))
    if any(tables.get(name) != sql for name, sql in TABLES.items()):
        raise Damage("the tables are not those that were created")
    # Also check the links of pages without rows, because the next write would trust them.
    [check] = connection.execute("PRAGMA quick_check(1)").fetchone()
    if check != "ok":
        raise Damage(" ".join(str(check).split()))
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    compacted, removed = meta.get("compacted"), meta.get("removed")
    if (
        not isinstance(compacted, int)
        or not isinstance(removed, int)
        or of_meta(compacted, removed) != meta.get("digest")
    ):
        raise Damage("the table meta does not match its checksum")
    rows = connection.execute(f"SELECT {COLUMNS} FROM log ORDER BY revision")  # noqa: S608
    return _check_rows(rows, compacted, removed, mark)


@contextmanager
def open_for_reading(path: Path, suffix: str = SEEN) -> Iterator[sqlite3.Connection]:
    """Open a connection that changes nothing. SQLite's errors within the context become `Damage`.

    suffix: the end of the names of the links by which the files are opened. Each kind of reader has its own.
    """
    with _link_uri(path, suffix) as uri:
        try:
            connection = sqlite3.connect(uri, uri=True, isolation_level=None)
            try:
                # The log then needs no shared memory, for which a full disk might have no room.
                connection.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
                connection.execute("PRAGMA cell_size_check=ON").fetchall()
                yield connection
            finally:
                connection.close()
        except (sqlite3.Error, UnicodeDecodeError) as error:  # UnicodeDecodeError if SQLite's message is no text
            raise Damage(" ".join(str(error).split())) from error


@contextmanager
def _link_uri(path: Path, suffix: str) -> Iterator[str]:
    """Yield the URI by which SQLite opens the database read-only, without changing the files on disk.

    SQLite deletes a write-ahead log that it finds empty. So the URI names hard links to the database and its log, which
    are removed afterwards.

    suffix: the end of the links' names.
    """
    log = path.with_name(f"{path.name}-wal")
    if not log.exists():
        yield f"file:{quote(str(path))}?immutable=1"
        return
    others = [(file, file.with_name(file.name.replace(path.name, f"{path.name}{suffix}"))) for file in (path, log)]
    try:
        if suffix == SEEN:  # this reader holds the lock of the directory
            for left in path.parent.glob(f"{path.name}{SEEN}*"):  # files that a killed process left
                left.unlink(missing_ok=True)
        for file, other in others:
            other.unlink(missing_ok=True)
            os.link(file, other)
        yield f"file:{quote(str(others[0][1]))}?mode=ro&vfs=unix-none"
    finally:
        for _, other in others:
            other.unlink(missing_ok=True)


def _check_rows(rows: sqlite3.Cursor, compacted: int, removed: int, mark: Mark) -> Contents:
    """Return the records of a database, after a check of every row. Raises `Damage`.

    compacted: the revision up to which history was removed.
    removed: the sum of the checksums of the removed rows.
    """
    records: list[JournalRecord] = []
    total = total_at_mark = removed
    objects = newest = 0
    for revision, resource, namespace, name, deleted, previous, digest, body in rows:
        try:
            is_right = digest == of_row(revision, resource, namespace, name, deleted, previous, body)
        except (TypeError, ValueError):  # a value of a type that no valid row has
            is_right = False
        if not is_right or revision <= newest:
            identity = ascii(f"{resource} {namespace}/{name}")[1:-1]
            raise Damage(f"the row of revision {revision} ({identity}) does not match its checksum")
        newest = revision
        records.append(
            JournalRecord(revision, Key(intern(resource), intern(namespace), name), bool(deleted), previous, body)
        )
        total += digest
        if revision <= mark.revision:
            total_at_mark = total
        objects += (not deleted) - (previous is not None and revision > compacted)
    if total_at_mark % WRAP != mark.total:
        raise Damage(
            f"not all writes acknowledged up to revision {mark.revision} are there: some are missing, "
            f"or the files are of different times"
        )
    return Contents(History(records, compacted), Mark(max(newest, compacted, mark.revision), total % WRAP, objects))


def state_of(connection: sqlite3.Connection) -> Mark:
    """Compute the mark of an undamaged database from its rows."""
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    [newest, total, objects] = connection.execute(
        "SELECT max(revision), sum(digest), sum((deleted = 0) - (previous IS NOT NULL AND revision > ?)) FROM log",
        (meta["compacted"],),
    ).fetchone()
    return Mark(max(newest or 0, meta["compacted"]), ((total or 0) + meta["removed"]) % WRAP, objects or 0)
