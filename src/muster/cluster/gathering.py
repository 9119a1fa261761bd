"""Collect records for a moment, so that they share one write."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

# The pause after a write that failed.
_RETRY_SECONDS = 10.0

log = logging.getLogger(__name__)


class GatheringLoop:
    """A loop that waits some seconds for more records, and then writes all of them at once.

    A failed write is logged and retried later, because no other part of the cluster needs the records.

    write: writes all records.
    failure: the type of error that `write` raises.
    seconds: how long to wait for more records.
    """

    def __init__(self, write: Callable[[], Awaitable[None]], failure: type[Exception], seconds: float) -> None:
        self._write, self._failure, self._seconds = write, failure, seconds
        self._wake = asyncio.Event()
        self._stopping = asyncio.Event()

    def wake(self) -> None:
        """Start a write soon, because there are new records."""
        self._wake.set()

    async def run(self) -> None:
        """Write some seconds after each `wake`, and again after a failure, until `stop`."""
        while not self._stopping.is_set():
            await self._wake.wait()
            await self._pause(self._seconds)
            self._wake.clear()
            try:
                await self._write()
            except self._failure as error:
                log.warning("%s; next try in %g s", error, _RETRY_SECONDS)
                await self._pause(_RETRY_SECONDS)
                self._wake.set()

    async def stop(self) -> None:
        """Stop `run` after one last write."""
        self._stopping.set()
        self._wake.set()

    async def _pause(self, seconds: float) -> None:
        """Wait for this many seconds, or until `stop` is called."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
