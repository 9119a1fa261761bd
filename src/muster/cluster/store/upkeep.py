"""What a running store needs from time to time."""

import logging
from collections import deque
from typing import NoReturn

from muster.cluster.store.errors import StorageFull
from muster.cluster.store.store import Store
from muster.runtime.clock import Clock

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
KEEP_INTERVALS = 5
KEEP_REVISIONS = 100_000  # at most, however young: some 200 MB on disk


async def keep_compacted(store: Store, clock: Clock) -> NoReturn:
    """Forget changes older than five minutes, for ever. A store in which nothing changes is left alone."""
    marks = deque([store.revision], maxlen=KEEP_INTERVALS)
    while True:
        await clock.sleep(INTERVAL_SECONDS)
        oldest = marks[0] if len(marks) == KEEP_INTERVALS else 0
        marks.append(store.revision)
        try:
            await store.compact(max(oldest, store.revision - KEEP_REVISIONS))
        except StorageFull as full:
            _log.warning("history not compacted, next try in %d s: %s", INTERVAL_SECONDS, full)
