"""Run the history in a separate thread, so that neither the event loop nor the store's commits wait for it."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from muster.cluster.store.history import FoundRuns, HistoryFile, HistoryQuery, Row
from muster.cluster.store.worker import Worker


class History:
    """The history file at a path, used in a thread from `open` to `close`. Methods but `close` raise `HistoryError`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: Worker
        self._file: HistoryFile

    async def open(self, now: datetime) -> str:
        """Open the file. Return a sentence if an unusable file was renamed, else ""."""
        self._thread = Worker("history")
        try:
            self._file = await self._thread.do(lambda: HistoryFile(self._path, now))
        except BaseException:
            self._thread.stop()
            raise
        return self._file.aside

    async def put(self, rows: Sequence[Row], *, oldest: int, most: int) -> None:
        """Write these rows, and delete runs that are too old or too many. Return after the write is on disk."""
        await self._thread.do(lambda: self._file.put(rows, oldest=oldest, most=most))

    async def find_known(self, uids: Iterable[str]) -> set[str]:
        """Return which of these runs the history contains."""
        return await self._thread.do(lambda: self._file.find_known(uids))

    async def ask(self, question: HistoryQuery) -> FoundRuns:
        """Return the runs that match a query, sorted by their end, newest first."""
        return await self._thread.do(lambda: self._file.ask(question))

    async def content(self) -> bytes:
        """Return the content of the whole history file, for a backup."""
        return await self._thread.do(self._file.content)

    async def close(self) -> None:
        """Close the file and stop the thread."""
        await self._thread.do(self._file.close)
        self._thread.stop()
