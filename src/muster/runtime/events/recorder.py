"""Write Events about objects, for people to read (`kubectl describe`).

Recording never waits, never fails and never floods the server. Occurrences go into a bounded buffer; one sender passes
them to the correlator and writes a few at a time, at most one about each object. When the server cannot keep up, new
occurrences are dropped and counted.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, Protocol

from muster.api.core import EVENT, Event, EventSource, ObjectReference
from muster.api.meta import ObjectMeta
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.backoff import Backoff
from muster.runtime.events.correlator import Correlator, Occurrence, Sighting
from muster.runtime.ids import Ids, Random
from muster.runtime.refusals import ignoring
from muster.runtime.transport import ClosedError, TransportError

EventType = Literal["Normal", "Warning"]

BUFFER_SIZE = 1000
# The most Events to write at a time, so that they share a commit of the store.
AT_ONCE = 8
FLUSH_SECONDS = 5.0
# A dozen attempts over some two minutes, as in client-go; then the event is dropped.
TRIES = 12
_RETRY = Backoff(first=0.5, limit=20.0)
# A name may have 253 characters; 17 are for the dot and the digits.
_LONGEST_NAME = 253 - 17
# The maximum of `note` in events.k8s.io, in bytes. Upstream's scheduler cuts its messages so.
_LONGEST_NOTE, _CUT = 1024, b" ..."

log = logging.getLogger(__name__)


class Recorder(Protocol):
    """The part of a component that records occurrences about objects, to be written as Events."""

    def event(
        self, regarding: ObjectReference, type: EventType, reason: str, message: str, *, series: bool = False
    ) -> None:
        """Record an occurrence, which becomes an Event. The call never waits and never fails.

        reason: one CamelCase word.
        message: a sentence.
        series: whether all occurrences with this reason become one Event, which shows the newest message.
        """
        ...


class EventSink:
    """The writer of the Events of all recorders in a process. A `Manager` runs it and should stop it last."""

    name = "event-sink"

    def __init__(self, client: Client, clock: Clock, ids: Ids, random: Random) -> None:
        self.dropped = 0
        self._client = client
        self._clock = clock
        self._ids = ids
        self._random = random
        self._correlator = Correlator()
        self._buffer: deque[tuple[Occurrence, datetime]] = deque()
        self._under_way = 0
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._task: asyncio.Task[Any] | None = None

    def recorder(self, component: str, host: str = "") -> Recorder:
        """Return a recorder for a component (`job-controller`). host: the node that it runs on, if any."""
        return _ComponentRecorder(self, EventSource(component=component, host=host))

    def record(self, occurrence: Occurrence) -> None:
        """Queue an occurrence to be written as an Event; drop it if the buffer is full or the sink is stopping."""
        if self._stopping or len(self._buffer) >= BUFFER_SIZE:
            self.dropped += 1
            return
        self._buffer.append((occurrence, self._clock.now()))
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write the queued occurrences until `stop`."""
        self._task = asyncio.current_task()
        while not (self._stopping and not self._buffer):
            await self._wake.wait()
            self._wake.clear()
            while self._buffer:
                await asyncio.gather(*(self._write(*each) for each in self._take_batch()))
            self._idle.set()

    def _take_batch(self) -> Iterable[tuple[Occurrence, datetime]]:
        """Remove the first occurrences from the buffer, each about another object, so that its Events stay in order."""
        batch: dict[tuple[str, str, str], tuple[Occurrence, datetime]] = {}
        while self._buffer and len(batch) < AT_ONCE:
            about = self._buffer[0][0].regarding
            if (key := (about.kind, about.namespace, about.name)) in batch:
                break
            batch[key] = self._buffer.popleft()
        return batch.values()

    async def stop(self) -> None:
        """Write the remaining occurrences, for a few seconds at most."""
        self._stopping = True
        self._wake.set()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._idle.wait()
        except TimeoutError:
            self.dropped += len(self._buffer) + self._under_way
            self._buffer.clear()
            log.warning("%s: events lost at the end, the server did not take them in time", self.name)
            if self._task:
                self._task.cancel()

    async def _write(self, occurrence: Occurrence, when: datetime) -> None:
        if (sighting := self._correlator.correlate(occurrence, when)) is None:
            return
        self._under_way += 1
        is_written = await self._try_to_write(occurrence, sighting)
        self._under_way -= 1
        self.dropped += not is_written

    async def _try_to_write(self, occurrence: Occurrence, sighting: Sighting) -> bool:
        """Write an Event, and retry if the server is away or busy; return whether it was written."""
        for attempt in range(1, TRIES + 1):
            try:
                await self._send(occurrence, sighting)
            except (ApiError, TransportError) as error:
                if _is_final(error):
                    log.debug("event about %s dropped: %s", occurrence.regarding.name, error)
                    return False
                await self._clock.sleep(_RETRY.delay(attempt, self._random))
            else:
                return True
        return False

    async def _send(self, occurrence: Occurrence, sighting: Sighting) -> None:
        """Raise the count of the Event, or create the Event if it does not exist (any more)."""
        namespace = occurrence.regarding.namespace or "default"
        if sighting.known:
            patch: dict[str, Any] = {
                "count": sighting.count,
                "message": sighting.message,
                "lastTimestamp": sighting.last.replace(microsecond=0),
            }
            with ignoring("NotFound"):
                await self._client.patch(EVENT, sighting.name, patch, namespace)
                return
            sighting.known = False
        # The name stays the same for every attempt, so that a lost response does not cause a second Event.
        sighting.name = sighting.name or f"{occurrence.regarding.name[:_LONGEST_NAME]}.{self._ids.hexadecimal(16)}"
        with ignoring("AlreadyExists"):
            await self._client.create(EVENT, _make_event(occurrence, sighting, namespace))
        sighting.known = True


class _ComponentRecorder:
    def __init__(self, sink: EventSink, source: EventSource) -> None:
        self._sink = sink
        self._source = source

    def event(
        self, regarding: ObjectReference, type: EventType, reason: str, message: str, *, series: bool = False
    ) -> None:
        self._sink.record(Occurrence(self._source, regarding, type, reason, _clip_message(message), series))


def _clip_message(message: str) -> str:
    """Return a message that fits into any Event: valid text of limited length.

    Names of files may be no valid text, and users' messages have no limit.
    """
    text = message.encode(errors="backslashreplace")
    if len(text) > _LONGEST_NOTE:
        text = text[: _LONGEST_NOTE - len(_CUT)].decode(errors="ignore").encode() + _CUT
    return text.decode()


def _make_event(occurrence: Occurrence, sighting: Sighting, namespace: str) -> Event:
    return Event(
        metadata=ObjectMeta(name=sighting.name, namespace=namespace),
        involved_object=occurrence.regarding,
        type=occurrence.type,
        reason=occurrence.reason,
        message=sighting.message,
        source=occurrence.source,
        first_timestamp=sighting.first.replace(microsecond=0),
        last_timestamp=sighting.last.replace(microsecond=0),
        count=sighting.count,
        reporting_component=occurrence.source.component,
        reporting_instance=occurrence.source.host,
    )


def _is_final(error: ApiError | TransportError) -> bool:
    """Return whether a retry would fail again: the server refuses the Event, or this process sends no more requests."""
    if isinstance(error, ApiError):
        return error.code != 429 and error.code < 500
    return isinstance(error, ClosedError)
