"""Keep the newest decisions of the engine, up to a number of bytes, in a separate file next to the store.

A row's body describes a decision; the other columns are for queries.
"""

import sqlite3
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import msgspec

from muster.api.ours.decisions import Decision
from muster.cluster.store.sidefile import SideFileError, describe_error, open_or_set_aside
from muster.cluster.store.worker import Worker

FILE = "decisions.db"
VERSION = 1
MOST_AT_ONCE = 1_000  # rows per answer: some hundred kilobytes

_SCHEMA = (
    """CREATE TABLE decisions (
    serial INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    digest INTEGER NOT NULL,  -- the checksum of the body
    body BLOB NOT NULL
)""",
    "CREATE INDEX by_job ON decisions (namespace, name, serial)",
)
# The bytes of a row without its body: its columns, and its index entry.
_ROW_BYTES = 120
# Above the limit, deletion goes down to this percentage, so that not every write deletes.
_KEPT_PERCENT = 90


class DecisionFileError(Exception):
    """A record of decisions that cannot be read or written. The message is one line."""


class DecisionQuery(msgspec.Struct, frozen=True):
    """A query for decisions, the newest first. Empty fields match any decision.

    name: the name of a job.
    limit: the maximum number of decisions.
    before: the serial number from which a truncated answer continues; None starts at the newest.
    """

    namespace: str = ""
    name: str = ""
    limit: int = MOST_AT_ONCE
    before: int | None = None


class FoundDecisions(NamedTuple):
    """The bodies of decisions. `more` is the position from which the answer continues; None if it is complete."""

    bodies: tuple[bytes, ...]
    more: int | None


class DecisionFile:
    """The file that records decisions about jobs, for use by one thread."""

    def __init__(self, path: Path, now: datetime) -> None:
        """Open the file, or create it. Raises `DecisionFileError`.

        If the file is unusable, rename it, and set `aside` to a sentence about that; otherwise `aside` is "".
        """
        try:
            self._connection, self.aside = open_or_set_aside(
                path, now, version=VERSION, schema=_SCHEMA, name="record of decisions"
            )
            [rows, size] = self._connection.execute(
                "SELECT count(*), coalesce(sum(length(body)), 0) FROM decisions"
            ).fetchone()
        except SideFileError as error:
            raise DecisionFileError(str(error)) from error
        except sqlite3.Error as error:
            raise DecisionFileError(f"cannot use {path}: {error}") from error
        self._path = path
        self._size: int = size + rows * _ROW_BYTES

    def put(self, decisions: Iterable[Decision], most_bytes: int) -> None:
        """Add decisions, in order. Raises `DecisionFileError`.

        most_bytes: the size of all decisions above which the oldest are deleted, down to 90 % of this size.
        """
        encode = msgspec.json.Encoder().encode
        rows = [(one.namespace, one.name, crc32(body), body) for one in decisions for body in (encode(one),)]
        size = self._size + sum(len(body) + _ROW_BYTES for *_, body in rows)
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "INSERT INTO decisions (namespace, name, digest, body) VALUES (?,?,?,?)", rows
                )
                if size > most_bytes:
                    size -= self._delete_oldest(size - most_bytes * _KEPT_PERCENT // 100)
        except sqlite3.Error as error:
            reason = describe_error(error, self._path)
            raise DecisionFileError(f"the decisions cannot be written: {reason}") from error
        self._size = size

    def _delete_oldest(self, excess: int) -> int:
        """Delete the oldest decisions, at least `excess` bytes of them; return the number of deleted bytes."""
        freed, last = 0, 0
        for serial, size in self._connection.execute("SELECT serial, length(body) FROM decisions ORDER BY serial"):
            freed, last = freed + size + _ROW_BYTES, serial
            if freed >= excess:
                break
        self._connection.execute("DELETE FROM decisions WHERE serial <= ?", (last,))
        return freed

    def ask(self, question: DecisionQuery) -> FoundDecisions:
        """Return the decisions that match a query, without damaged rows. Raises `DecisionFileError`."""
        parts: list[str] = []
        values: list[object] = []
        for column in ("namespace", "name"):
            if value := getattr(question, column):
                parts.append(f"{column} = ?")
                values.append(value)
        if question.before is not None:
            parts.append("serial < ?")
            values.append(question.before)
        where = f" WHERE {' AND '.join(parts)}" if parts else ""
        limit = min(max(question.limit, 0), MOST_AT_ONCE)
        query = f"SELECT serial, digest, body FROM decisions{where} ORDER BY serial DESC LIMIT ?"  # noqa: S608
        try:
            rows = self._connection.execute(query, (*values, limit + 1)).fetchall()
        except sqlite3.Error as error:
            raise DecisionFileError(f"the decisions cannot be read: {error}") from error
        bodies = tuple(body for _, digest, body in rows[:limit] if crc32(body) == digest)
        return FoundDecisions(bodies, rows[limit - 1][0] if limit and len(rows) > limit else None)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


class DecisionStore:
    """The record of decisions about jobs: a file, used in a thread of its own from `open` to `close`.

    `open`, `put` and `ask` raise `DecisionFileError`.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: Worker
        self._file: DecisionFile

    async def open(self, now: datetime) -> str:
        """Open the file. Return a sentence if an unusable file was renamed, else ""."""
        self._thread = Worker("decisions")
        try:
            self._file = await self._thread.do(lambda: DecisionFile(self._path, now))
        except BaseException:
            self._thread.stop()
            raise
        return self._file.aside

    async def put(self, decisions: Iterable[Decision], most_bytes: int) -> None:
        """Add decisions as `DecisionFile.put` does, and return after the write is on disk."""
        await self._thread.do(lambda: self._file.put(decisions, most_bytes))

    async def ask(self, question: DecisionQuery) -> FoundDecisions:
        """Return the decisions that match a query, the newest first."""
        return await self._thread.do(lambda: self._file.ask(question))

    async def close(self) -> None:
        """Close the file, and stop the thread."""
        await self._thread.do(self._file.close)
        self._thread.stop()
