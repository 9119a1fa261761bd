"""Open the SQLite files next to the store on which nothing depends. An unusable file is renamed and replaced.

A table in such a file slows neither start nor writes of the store, and its damage does not stop the cluster.
"""

import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

_STAMP = "%Y-%m-%dT%H%M%S"


class SideFileError(Exception):
    """A file next to the store that cannot be used. The message is one line."""


class _UnknownVersionError(Exception):
    """A file from another release."""


def open_or_set_aside(
    path: Path, now: datetime, *, version: int, schema: Sequence[str], name: str
) -> tuple[sqlite3.Connection, str]:
    """Open a file, or create it; return it, and a sentence if an unusable file was renamed, else "".

    schema: the statements that create its tables.
    name: the content of the file, for the sentence.

    Raises `SideFileError` if the file can be neither used nor replaced.
    """
    try:
        return _open(path, version, schema), ""
    except (sqlite3.DatabaseError, _UnknownVersionError) as error:
        if isinstance(error, sqlite3.OperationalError):  # a full disk or a missing right, not a damaged file
            raise SideFileError(f"cannot use {path}: {describe_error(error, path)}") from error
        aside_path = path.with_name(f"{path.name}-{now:{_STAMP}}")
        aside = f"{path} cannot be used ({error}): it is {aside_path.name} now, and a new {name} begins"
        try:
            path.rename(aside_path)
            for rest in ("-wal", "-shm"):
                path.with_name(path.name + rest).unlink(missing_ok=True)
            return _open(path, version, schema), aside
        except (sqlite3.Error, OSError) as again:
            raise SideFileError(f"cannot use {path}: {again}") from again
    except OSError as error:
        raise SideFileError(f"cannot use {path}: {error.strerror}") from error


def describe_error(error: sqlite3.Error, path: Path) -> str:
    """Return SQLite's message for an error of a file. If the disk is full, add where to free space."""
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
        return f"{error}; free some space there (df -h {path.parent})"
    return str(error)


def _open(path: Path, version: int, schema: Sequence[str]) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=1, isolation_level=None)
    try:
        # The lock comes first: the log then needs no shared memory.
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        [existing] = connection.execute("PRAGMA user_version").fetchone()
        if existing not in (0, version):
            raise _UnknownVersionError(f"its version is {existing}, this release knows {version}")
        if existing == 0:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in schema:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version}")
    except BaseException:
        connection.close()
        raise
    return connection
