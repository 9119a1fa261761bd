"""Define the tables on disk, their version, and the upgrade from each version to the next.

`log` has one row per change. A row names the row that it replaced. So this one table contains the current state and the
history, and shows which rows may be deleted. A write is one row appended at the end. `meta` contains the revision up to
which history was deleted (`compacted`), and the sum of the checksums of the deleted rows (`removed`); `digest` is the
checksum of these two.
"""

import sqlite3
from collections.abc import Callable, Sequence

from muster.cluster.store.errors import DataDirectoryError
from muster.cluster.store.integrity import checksum


class ForeignDatabaseError(DataDirectoryError):
    """A database with tables of another program."""


Step = Callable[[sqlite3.Connection], None]

TABLES = {
    "meta": "CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID",
    "log": """CREATE TABLE log (
        revision INTEGER PRIMARY KEY,
        resource TEXT NOT NULL,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        deleted INTEGER NOT NULL,  -- 1 if the object is gone since this revision
        previous INTEGER,          -- the revision that this one replaces; NULL if the object was created
        digest INTEGER NOT NULL,   -- the checksum of all other columns
        body BLOB NOT NULL         -- the object as JSON, with its revision; if deleted, its last state
    )""",
}
COLUMNS = "revision, resource, namespace, name, deleted, previous, digest, body"


def _add_checksums(connection: sqlite3.Connection) -> None:
    """Upgrade the tables to version 2, which adds checksums to the rows and to `meta`."""
    connection.create_function("digest_of", 7, checksum.of_row, deterministic=True)
    connection.execute("ALTER TABLE log RENAME TO log_1")
    connection.execute(TABLES["log"])
    row = "revision, resource, namespace, name, deleted, previous"
    connection.execute(f"INSERT INTO log SELECT {row}, digest_of({row}, body), body FROM log_1 ORDER BY revision")  # noqa: S608
    connection.execute("DROP TABLE log_1")
    [compacted] = connection.execute("SELECT value FROM meta WHERE key = 'compacted'").fetchone()
    set_meta(connection, compacted, 0)


# UPGRADES[i] changes version i + 1 into version i + 2, within a transaction. A released step is never changed.
UPGRADES: Sequence[Step] = (_add_checksums,)
CURRENT = len(UPGRADES) + 1


def do_nothing(_: sqlite3.Connection) -> None:
    """Do nothing: the default `finish`."""


def prepare(
    connection: sqlite3.Connection, where: str, upgrades: Sequence[Step] = UPGRADES, finish: Step = do_nothing
) -> None:
    """Bring the database to the current version: create the tables, or upgrade them. Raises `DataDirectoryError`.

    where: the path, for errors.
    finish: the last step before the new version takes effect.
    """
    current = len(upgrades) + 1
    version = version_of(connection, where, current)
    if version == current:  # nothing to write, so a full disk can still be opened
        return
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        if version == 0:
            _create(connection)
        for step in upgrades[version - 1 :] if version else ():
            step(connection)
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (current,))
        finish(connection)


def _create(connection: sqlite3.Connection) -> None:
    for table in TABLES.values():
        connection.execute(table)
    connection.execute("INSERT INTO meta VALUES ('version', 0)")
    set_meta(connection, 0, 0)


def set_meta(connection: sqlite3.Connection, compacted: int, removed: int) -> None:
    """Write the revision up to which history was deleted, and the sum of the deleted rows' checksums."""
    values = ("compacted", compacted, "removed", removed, "digest", checksum.of_meta(compacted, removed))
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?), (?, ?), (?, ?)", values)


def version_of(connection: sqlite3.Connection, where: str, current: int = CURRENT) -> int:
    """Return the version of the tables; 0 for a database without tables.

    where: the path, for errors.

    Raises `DataDirectoryError` if the tables belong to another program or a newer release.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    row = "meta" in tables and connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    if not row or not isinstance(row[0], int) or row[0] < 1:
        raise ForeignDatabaseError(f"{where} is the database of another program: use another data directory")
    if row[0] > current:
        raise DataDirectoryError(
            f"{where} was written by a newer release (its schema version is {row[0]}, this release knows "
            f"versions up to {current}): use that release, or another data directory"
        )
    return row[0]
