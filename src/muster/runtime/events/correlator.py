"""Keep the number of Event objects small, however often something happens (client-go's rules and numbers).

1. A repeated event raises the count of the existing Event.
2. Events may differ only in their messages and follow each other within ten minutes. Then nine messages get Events of
   their own, and all others share one, whose message begins with "(combined from similar events): ".
3. Occurrences recorded as a series are one Event, whatever their messages; the newest message is shown.
4. One source may write 25 Events about one object at once, and one more every five minutes; further ones are dropped.

Pure: the caller passes the time. The memory is bounded; a dropped entry only causes one more Event than needed.
"""

from collections import OrderedDict
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from muster.api.core import EventSource, ObjectReference

V = TypeVar("V")

COMBINED = "(combined from similar events): "
SIMILAR_LIMIT = 10
SIMILAR_WINDOW = timedelta(seconds=600)
BURST = 25
REFILL_SECONDS = 300.0
# client-go's cache size.
CACHE_SIZE = 4096


class Occurrence(NamedTuple):
    """Something that happened to an object, to be reported as an Event."""

    source: EventSource
    regarding: ObjectReference
    type: str  # Normal or Warning
    reason: str
    message: str
    series: bool = False


class Sighting(Struct):
    """The write for an occurrence: create the Event, or raise the count of an existing one.

    name: the name of the Event; "" until the Event has been written.
    count: how often the event has occurred so far.
    known: whether the Event exists already.
    """

    key: Hashable
    message: str
    first: datetime
    last: datetime
    count: int = 1
    name: str = ""  # "" until it has been written
    known: bool = False


class _Similar(Struct):
    last: datetime
    messages: set[str] = field(default_factory=set)


class _Bucket(Struct):
    tokens: float
    filled: datetime


class _Recent(Generic[V]):
    """A map of limited size, which drops the least recently used entry."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: Hashable, value: V) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE_SIZE:
            self._entries.popitem(last=False)


class Correlator:
    """The memory of all recent events of a process. It decides how each further occurrence is written."""

    def __init__(self) -> None:
        self._similar: _Recent[_Similar] = _Recent()
        self._sightings: _Recent[Sighting] = _Recent()
        self._buckets: _Recent[_Bucket] = _Recent()

    def correlate(self, event: Occurrence, now: datetime) -> Sighting | None:
        """Count an occurrence; return the write for it.

        Return None if the source has written the maximum number of Events about the object.
        """
        key, message = self._combine(event, now)
        sighting = self._sightings.get(key)
        if sighting is None:
            sighting = Sighting(key, message, first=now, last=now)
            self._sightings.put(key, sighting)
        else:
            sighting.message = message
            sighting.last = now
            sighting.count += 1
        return sighting if self._is_allowed(event, now) else None

    def _combine(self, event: Occurrence, now: datetime) -> tuple[Hashable, str]:
        key = (*_make_source_key(event), event.type, event.reason)
        if event.series:
            return key, event.message
        similar = self._similar.get(key)
        if similar is None or now - similar.last > SIMILAR_WINDOW:
            similar = _Similar(now)
            self._similar.put(key, similar)
        similar.last = now
        if event.message in similar.messages or len(similar.messages) < SIMILAR_LIMIT - 1:
            similar.messages.add(event.message)
            return (*key, event.regarding.field_path, event.message), event.message
        return key, COMBINED + event.message

    def _is_allowed(self, event: Occurrence, now: datetime) -> bool:
        key = _make_source_key(event)
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = _Bucket(BURST, now)
            self._buckets.put(key, bucket)
        gained = max((now - bucket.filled).total_seconds(), 0.0) / REFILL_SECONDS
        bucket.tokens = min(bucket.tokens + gained, BURST)
        bucket.filled = now
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True


def _make_source_key(event: Occurrence) -> tuple[str, ...]:
    """Return the key of an event's source and object.

    The key leaves out the resourceVersion, which only tells when the object was read.
    """
    about = event.regarding
    identity = (about.api_version, about.kind, about.namespace, about.name, about.uid)
    return (event.source.component, event.source.host, *identity)
