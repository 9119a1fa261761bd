"""Remove each Event an hour after its last occurrence, like upstream's `--event-ttl`."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import NoReturn

import msgspec

from muster.api.core import EVENT
from muster.api.meta import Struct
from muster.api.status import ApiError
from muster.cluster.apiserver.objects.documents import Documents, decode_entry
from muster.cluster.store import Entry, Store
from muster.runtime.clock import Clock

EVENT_LIFE = timedelta(hours=1)
INTERVAL_SECONDS = 300.0
_PIECE = 100  # the events that are examined before other tasks run

log = logging.getLogger(__name__)


class _Meta(Struct):
    creation_timestamp: datetime | None = None


class _Series(Struct):
    last_observed_time: datetime | None = None


class _Event(Struct):
    """The times of an event."""

    metadata: _Meta = _Meta()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    series: _Series | None = None


_decoder = msgspec.json.Decoder(_Event)


async def keep_events_fresh(store: Store, clock: Clock) -> NoReturn:
    """Remove old events every `INTERVAL_SECONDS`, forever."""
    while True:
        await clock.sleep(INTERVAL_SECONDS)
        try:
            await expire_events(store, clock)
        except ApiError as error:  # the disk is full, or the store closes: the next round tries again
            log.warning("old events not removed, next try in %d s: %s", INTERVAL_SECONDS, error)


async def expire_events(store: Store, clock: Clock) -> int:
    """Remove the Events whose newest time is more than `EVENT_LIFE` ago; return their number when that is durable.

    Raises `ApiError` if the store refuses a removal.
    """
    documents, limit = Documents(store), clock.now() - EVENT_LIFE
    entries, removed = store.list(EVENT.resource).entries, 0
    for first in range(0, len(entries), _PIECE):
        removals = [
            documents.start_removal(entry.key, decode_entry(entry))
            for entry in entries[first : first + _PIECE]
            if find_newest_time(entry) < limit and store.latest(entry.key) is entry  # not written or removed meanwhile
        ]
        removed += len(await asyncio.gather(*removals))
        await asyncio.sleep(0)
    return removed


def find_newest_time(entry: Entry) -> datetime:
    """Return the newest time in an Event. Every Event has at least its creation time."""
    event = _decoder.decode(entry.body)
    series = event.series.last_observed_time if event.series is not None else None
    times = (event.metadata.creation_timestamp, event.first_timestamp, event.last_timestamp, event.event_time, series)
    return max(time for time in times if time is not None)
