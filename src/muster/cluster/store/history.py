"""Keep the table of finished runs of jobs, one row for each, in a separate file next to the store.

Nothing else depends on the table, so it is not in the store: a long history slows neither start nor writes. A damaged
history does not stop the cluster; its file is renamed. A row's body describes the run; other columns are for queries.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from muster.cluster.store.sidefile import SideFileError, describe_error, open_or_set_aside

FILE = "history.db"
VERSION = 1
MOST_AT_ONCE = 1_000  # rows per answer: some megabyte

_TABLE = """CREATE TABLE runs (
    uid TEXT NOT NULL UNIQUE,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    queue TEXT NOT NULL,
    state TEXT NOT NULL,
    submitted INTEGER NOT NULL,  -- seconds since 1970, as is `ended`
    ended INTEGER NOT NULL,
    digest INTEGER NOT NULL,  -- the checksum of the body
    body BLOB NOT NULL
)"""
# Contains all queried columns, so that rows that do not match are not read.
_INDEX = "CREATE INDEX by_end ON runs (ended, uid, namespace, owner, queue, state, submitted, name)"
_KNOWN_AT_ONCE = 1_000  # values per statement; SQLite allows 32,766


class HistoryError(Exception):
    """A history that cannot be read or written. The message is one line."""


class Row(NamedTuple):
    """One finished run of a job, as a row of the history.

    submitted, ended: seconds since 1970.
    body: the run as JSON.
    """

    uid: str
    namespace: str
    name: str
    owner: str
    queue: str
    state: str
    submitted: int
    ended: int
    body: bytes


class HistoryQuery(Struct, frozen=True):
    """A query for runs, sorted by their end, newest first. Empty fields match any run.

    names: shell patterns, one of which must match the job's name.
    since, until: select the runs that finished at or after `since` and were submitted before `until`; seconds since
    1970.
    after: the position from which a truncated answer continues; None for the start.
    """

    namespace: str = ""
    owner: str = ""
    queue: str = ""
    states: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    limit: int = MOST_AT_ONCE
    after: tuple[int, str] | None = None


class FoundRuns(Struct, frozen=True):
    """The bodies of the runs that match a query.

    more: the position from which the answer continues; None if it is complete.
    """

    bodies: tuple[bytes, ...]
    more: tuple[int, str] | None


class HistoryFile:
    """The file of the history, for use by one thread."""

    def __init__(self, path: Path, now: datetime) -> None:
        """Open the file, or create it. Raises `HistoryError`.

        If the file is unusable, rename it, and set `aside` to a sentence about that; otherwise `aside` is "".
        """
        self._path = path
        self._count: int | None = None  # the number of rows, once needed; no other writer changes it
        try:
            self._connection, self.aside = open_or_set_aside(
                path, now, version=VERSION, schema=(_TABLE, _INDEX), name="history"
            )
        except SideFileError as error:
            raise HistoryError(str(error)) from error

    def put(self, rows: Sequence[Row], *, oldest: int, most: int) -> None:
        """Write these rows, replacing older rows of the same runs. Raises `HistoryError`.

        oldest: delete runs that finished before this time, in seconds since 1970.
        most: delete the oldest runs above this number.
        """
        values = [(*row[:-1], crc32(row.body), row.body) for row in rows]
        uids = {row.uid for row in rows}
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                count = self._count_rows() + len(uids) - len(self._find_known(uids))
                self._connection.executemany("INSERT OR REPLACE INTO runs VALUES (?,?,?,?,?,?,?,?,?,?)", values)
                count -= self._connection.execute("DELETE FROM runs WHERE ended < ?", (oldest,)).rowcount
                if (excess := count - most) > 0:
                    eldest = "SELECT rowid FROM runs ORDER BY ended, uid LIMIT ?"
                    self._connection.execute(f"DELETE FROM runs WHERE rowid IN ({eldest})", (excess,))  # noqa: S608
        except sqlite3.Error as error:
            raise HistoryError(f"the history cannot be written: {describe_error(error, self._path)}") from error
        self._count = min(count, most)

    def _count_rows(self) -> int:
        if self._count is None:
            self._count = int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])
        return self._count

    def find_known(self, uids: Iterable[str]) -> set[str]:
        """Return which of these runs the history contains. Raises `HistoryError`."""
        try:
            return self._find_known(uids)
        except sqlite3.Error as error:
            raise HistoryError(f"the history cannot be read: {error}") from error

    def _find_known(self, uids: Iterable[str]) -> set[str]:
        requested, known_uids = list(uids), set[str]()
        for at in range(0, len(requested), _KNOWN_AT_ONCE):
            part = requested[at : at + _KNOWN_AT_ONCE]
            marks = ",".join("?" * len(part))
            rows = self._connection.execute(f"SELECT uid FROM runs WHERE uid IN ({marks})", part)  # noqa: S608
            known_uids |= {uid for (uid,) in rows}
        return known_uids

    def ask(self, question: HistoryQuery) -> FoundRuns:
        """Return the runs that match a query, without damaged rows. Raises `HistoryError`."""
        where, values = _make_where_clause(question)
        limit = min(max(question.limit, 0), MOST_AT_ONCE)
        query = f"SELECT ended, uid, digest, body FROM runs{where} ORDER BY ended DESC, uid DESC LIMIT ?"  # noqa: S608
        try:
            rows = self._connection.execute(query, (*values, limit + 1)).fetchall()
        except sqlite3.Error as error:
            raise HistoryError(f"the history cannot be read: {error}") from error
        bodies = tuple(body for _, _, digest, body in rows[:limit] if crc32(body) == digest)
        return FoundRuns(bodies, rows[limit - 1][:2] if limit and len(rows) > limit else None)

    def content(self) -> bytes:
        """Return the content of the whole history file, for a backup. Raises `HistoryError`."""
        try:
            return self._connection.serialize()
        except (sqlite3.Error, MemoryError) as error:
            raise HistoryError(f"the history cannot be copied: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _make_where_clause(question: HistoryQuery) -> tuple[str, list[object]]:
    """Return the SQL condition for a query, and the values of its parameters."""
    parts: list[str] = []
    values: list[object] = []

    def add(part: str, *more: object) -> None:
        parts.append(part)
        values.extend(more)

    for column in ("namespace", "owner", "queue"):
        if value := getattr(question, column):
            add(f"{column} = ?", value)
    if question.states:
        add(f"state IN ({','.join('?' * len(question.states))})", *question.states)
    if question.names:
        add(
            f"({' OR '.join(['name GLOB ?'] * len(question.names))})",
            *(name.replace("[!", "[^") for name in question.names),
        )
    if question.since is not None:
        add("ended >= ?", question.since)
    if question.until is not None:
        add("submitted < ?", question.until)
    if question.after is not None:
        add("(ended, uid) < (?, ?)", *question.after)
    return f" WHERE {' AND '.join(parts)}" if parts else "", values
