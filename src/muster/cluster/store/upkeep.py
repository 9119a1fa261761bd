"""Run the periodic upkeep of a running store."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NoReturn

from muster.cluster.store.errors import StorageFull
from muster.cluster.store.store import Store
from muster.runtime.clock import Clock
from muster.runtime.tasks import run_until_first

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 60.0
KEEP_INTERVALS = 5
KEEP_REVISIONS = 100_000  # the maximum number of changes that are kept, even if younger
KEEP_BYTES = 128 << 20  # the size that a history of more than `store.PAST_BYTES` is cut to, even if younger


async def _do_nothing() -> None:
    """Do nothing: the default of `then`."""


async def keep_compacted(store: Store, clock: Clock, then: Callable[[], Awaitable[None]] = _do_nothing) -> NoReturn:
    """Repeatedly delete changes older than five minutes, and call `then` after each round that deleted some.

    The first round deletes all changes from before the start, because clients have resumed their watches by then. A
    history that grows too large is shortened at once. On a full disk, the whole history is deleted. The start and each
    round also reserve room for a full disk. `then` is also called at the start, because reading the store leaves
    garbage.
    """
    marks = deque([store.revision] * KEEP_INTERVALS, maxlen=KEEP_INTERVALS)
    await store.reserve()
    await store.pack()
    await then()
    interval_ended = clock.monotonic() + INTERVAL_SECONDS
    while True:
        # A history that grows too large ends the wait.
        await run_until_first(clock.sleep(interval_ended - clock.monotonic()), store.past.exceeded.wait())
        before, by_age, most_bytes = store.oldest, 0, 0 if store.is_full else KEEP_BYTES
        if clock.monotonic() >= interval_ended:
            by_age = store.revision if store.is_full else marks[0]
            marks.append(store.revision)
            interval_ended = clock.monotonic() + INTERVAL_SECONDS
        try:
            await store.compact(max(by_age, store.revision - KEEP_REVISIONS, store.past.find_revision(most_bytes)))
        except StorageFull as full:
            _log.warning("history not compacted, next try in %d s: %s", INTERVAL_SECONDS, full)
        if store.oldest != before:
            await then()
        await store.reserve()
