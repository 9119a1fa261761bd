"""Decide whether the files of a store may be opened for writing. Refuse files that lack acknowledged writes."""

import sqlite3
from pathlib import Path

from muster.cluster.store.database import FILE
from muster.cluster.store.errors import DataDirectoryError
from muster.cluster.store.integrity import mark as marks
from muster.cluster.store.integrity.inspection import SEEN, Contents, Damage, open_for_reading, read
from muster.cluster.store.integrity.mark import Mark
from muster.cluster.store.schema import CURRENT, ForeignDatabaseError, version_of

LOG = f"{FILE}-wal"


def admit(directory: Path, is_used: bool, suffix: str = SEEN) -> Contents | None:
    """Return the contents of a current database; None if a database may be created or upgraded. Raises `Damage`.

    is_used: whether the directory is known to have contained objects.
    suffix: see `open_for_reading`.
    """
    path, mark = directory / FILE, read_mark(directory)
    version = 0
    if _has_content(path):
        with open_for_reading(path, suffix) as connection:
            version = _find_version(connection, path, mark)
            if version == CURRENT:
                if mark is None:
                    raise Damage(f"{marks.FILE} is missing")
                return read(connection, path, mark)
            if version and mark is not None and mark.revision > _find_newest_revision(connection):
                raise Damage(f"{FILE} is older than {marks.FILE}")
    if version == 0 and mark is not None and mark.revision:
        raise Damage(f"{FILE} is missing or empty, but objects were kept in it up to revision {mark.revision}")
    if version == 0 and mark is None and (is_used or _has_content(directory / LOG)):
        raise Damage(f"{FILE} is missing or empty, but a cluster was kept here")
    return None


def _find_version(connection: sqlite3.Connection, path: Path, mark: Mark | None) -> int:
    try:
        return version_of(connection, str(path))
    except ForeignDatabaseError as foreign:
        if mark is None:
            raise
        raise Damage("the tables are not those that were created") from foreign


def _find_newest_revision(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT coalesce(max(revision), 0) FROM log").fetchone()[0])


def read_mark(directory: Path) -> Mark | None:
    """Return the mark in a store's directory; None if there is no mark. Raises `Damage` if the mark cannot be read."""
    path = directory / marks.FILE
    content = path.read_bytes() if path.exists() else b""
    if not content:
        return None
    mark = marks.decode(content)
    if mark is None:
        raise Damage(f"{marks.FILE} is damaged")
    return mark


def make_refusal(directory: Path, damage: Damage) -> DataDirectoryError:
    """Return the error that says why a store is refused, and what to do."""
    return DataDirectoryError(
        f"the store in {directory} is damaged: {damage}. Nothing was changed. To start with the undamaged objects, and "
        f"move the damaged files aside: muster up --salvage; to restore a backup: muster restore --force FILE"
    )


def _has_content(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0
