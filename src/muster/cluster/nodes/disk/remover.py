"""Remove files that a node no longer needs, one path after the other, and retry failures at growing intervals.

No pod waits for removals. When a node stops, it waits a few seconds for them, because files in a tmpfs occupy memory
until then. The next start removes the rest.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from muster.cluster.nodes.disk import removal
from muster.cluster.nodes.disk.removal import RemovalError
from muster.runtime.control.backoff import Backoff
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.tasks import cancel

# How long a stop waits for paths that have not been tried yet.
_PATIENCE_SECONDS = 5.0
_RETRY = Backoff(first=10.0, limit=600.0)

log = logging.getLogger(__name__)


class Remover:
    """The remover of one node's files, which retries failed removals.

    tell: called at the first failure of each path, with the failure as a sentence.
    """

    def __init__(self, manager: Manager, name: str, tell: Callable[[str], None]) -> None:
        self._clock = manager.clock
        self._random = manager.random
        self._controller = manager.controller(f"{name}-removal", self._remove_counted)
        self._tell = tell
        self._halted = threading.Event()
        self._failures: dict[str, int] = {}
        self._untried: set[str] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def add(self, paths: Iterable[Path]) -> None:
        """Schedule these paths for removal."""
        for path in map(str, paths):
            self._untried.add(path)
            self._idle.clear()
            self._controller.queue.add(path)

    async def run(self) -> None:
        """Remove the paths that `add` schedules, and retry failed removals, until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Stop after a few seconds of further removals. The next start of the node removes the other paths."""
        waiting = asyncio.ensure_future(self._idle.wait())
        patience = asyncio.ensure_future(self._clock.sleep(_PATIENCE_SECONDS))
        await asyncio.wait([waiting, patience], return_when=asyncio.FIRST_COMPLETED)
        await cancel([waiting, patience])
        self._halted.set()
        await self._controller.stop()

    async def _remove_counted(self, path: str) -> Result:
        try:
            return await self._try_removal(path)
        finally:
            self._untried.discard(path)
            if not self._untried:
                self._idle.set()

    async def _try_removal(self, path: str) -> Result:
        try:
            await asyncio.to_thread(removal.remove, Path(path), self._halted.is_set)
        except RemovalError as error:
            failures = self._failures[path] = self._failures.get(path, 0) + 1
            if failures == 1:
                log.warning("%s", error)
                self._tell(str(error))
            return _RETRY.delay(failures, self._random)
        self._failures.pop(path, None)
        return None
