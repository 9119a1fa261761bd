"""Do the periodic upkeep of a running store."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn

from muster.cluster.store.errors import StorageFull
from muster.cluster.store.store import Store
from muster.runtime.clock import Clock

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
KEEP_INTERVALS = 5
KEEP_REVISIONS = 100_000  # the maximum number of changes that are kept, even if younger: some 200 MB on disk


async def _nothing() -> None:
    """Do nothing: the default of `then`."""


async def keep_compacted(store: Store, clock: Clock, then: Callable[[], Awaitable[None]] = _nothing) -> NoReturn:
    """Repeatedly delete changes older than five minutes, and call `then` after each round that deleted some.

    Each round first allocates spare room for a full disk.
    """
    marks = deque([store.revision], maxlen=KEEP_INTERVALS)
    while True:
        await store.reserve()
        await clock.sleep(INTERVAL_SECONDS)
        oldest = marks[0] if len(marks) == KEEP_INTERVALS else 0
        marks.append(store.revision)
        before = store.oldest
        try:
            await store.compact(max(oldest, store.revision - KEEP_REVISIONS))
        except StorageFull as full:
            _log.warning("history not compacted, next try in %d s: %s", INTERVAL_SECONDS, full)
        if store.oldest != before:
            await then()
