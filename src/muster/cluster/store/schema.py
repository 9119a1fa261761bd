"""The tables on disk, their version, and the way from each version to the next.

`log` holds one row per change. A row names the row that it replaced, so the current state, the history and what may
be forgotten all follow from this one table, and a write is one row appended at the end.
"""

import sqlite3
from collections.abc import Callable, Sequence

from muster.cluster.store.errors import DataDirectoryError

Step = Callable[[sqlite3.Connection], None]

# UPGRADES[i] brings version i + 1 to version i + 2, within a transaction. A step is never changed once released.
UPGRADES: Sequence[Step] = ()

_TABLES = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        deleted INTEGER NOT NULL,  -- 1 if the object is gone since this revision
        previous INTEGER,          -- the revision that this one replaces; NULL if the object was created
        body BLOB NOT NULL         -- the object as JSON, with its revision; if deleted, its last state
    )""",
)


def prepare(connection: sqlite3.Connection, where: str, upgrades: Sequence[Step] = UPGRADES) -> None:
    """Bring the database to the current version: create the tables, or upgrade them. Raises `DataDirectoryError`."""
    current = len(upgrades) + 1
    version = _version(connection, where)
    if version > current:
        raise DataDirectoryError(
            f"{where} was written by a newer release (its schema version is {version}, this release knows "
            f"versions up to {current}): use that release, or another data directory"
        )
    if version == current:  # nothing to write, so a full disk can still be opened
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if version == 0:
            _create(connection)
        for step in upgrades[version - 1 :] if version else ():
            step(connection)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (current,))


def _create(connection: sqlite3.Connection) -> None:
    for table in _TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO meta VALUES ('version', 0), ('compacted', 0)")


def _version(connection: sqlite3.Connection, where: str) -> int:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    row = "meta" in tables and connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    if not row or not isinstance(row[0], int) or row[0] < 1:
        raise DataDirectoryError(f"{where} is a database of something else: use another data directory")
    return row[0]
