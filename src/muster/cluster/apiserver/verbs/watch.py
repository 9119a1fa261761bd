"""The verb watch: initial objects, changes and bookmarks, as lines of JSON in pieces of limited size.

A caller in this process gets batches of `RawEvent`s instead of text.

A slow client gets the next piece after it has received the previous one. This module queues nothing for the client. If
the store's history no longer reaches back to the client's revision, the watch ends with 410 Expired.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from muster.api.status import ApiError, expired
from muster.cluster.apiserver.answers import encode_status
from muster.cluster.apiserver.fairqueue import FairQueue, Flow
from muster.cluster.apiserver.objects.loading import load_changes, load_entries
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request.paging import too_large_revision
from muster.cluster.apiserver.request.representation import Form, Presentation
from muster.cluster.apiserver.request.requestinfo import ListOptions, parse_revision
from muster.cluster.apiserver.request.selection import Selection, parse_selection
from muster.cluster.apiserver.verbs.watchpieces import Batches, Pieces, PiecesOfChanges, SharedPieces
from muster.cluster.store import Change, Closed, Compacted, Entry, Store, Watch
from muster.cluster.store.values import watch_line
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.transport import EventType, RawEvent

BOOKMARK_SECONDS = 60.0
# A watch without a timeout gets a random one between this and twice as long, as with upstream's min-request-timeout.
TIMEOUT_SECONDS = 1800.0
MAX_TIMEOUT_SECONDS = 7 * 24 * 3600
CHANGES_AT_ONCE = 1000  # the most changes that a watch takes from the store's history in one step
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_NOTHING: Sequence[Entry] = ()
_REMEMBERED_BYTES = 64 * 1024  # a bigger object is encoded again for each watch

_encode = msgspec.json.encode
_AnyPieces: TypeAlias = Pieces | Batches | PiecesOfChanges


class Watcher:
    """The part that opens watches on the store, and ends all of them when the server stops."""

    def __init__(self, store: Store, clock: Clock, random: Random, fair_queue: FairQueue) -> None:
        self._store = store
        self._clock = clock
        self._random = random
        self._fair_queue = fair_queue
        self._shared_pieces = SharedPieces()
        self._open: dict[Watch, Resource] = {}
        self._stopped = False

    def stop(self) -> None:
        """End all watches. Watches that are opened later end after their initial objects."""
        self._stopped = True
        for watch in list(self._open):
            watch.close()

    def end(self, resources: Collection[Resource]) -> None:
        """End the watches of resources that are no longer served or are served differently, as upstream does.

        Clients then list the resource again.
        """
        for watch in [watch for watch, resource in self._open.items() if resource in resources]:
            watch.close()

    def watch(
        self,
        flow: Flow,
        resource: Resource,
        view: View,
        namespace: str,
        options: ListOptions,
        form: Form,
        include: str,
        *,
        as_events: bool = False,
    ) -> AsyncIterator[Any]:
        """Return the stream of a watch: an iterator of its pieces. It waits for its turn in `flow` before each piece.

        Raises `ApiError` for an invalid selector or version. The stream reports later errors as an ERROR event.

        namespace: "" for all namespaces.
        include: the part of each object in a table, as in `includeObject`.
        as_events: whether the pieces are batches of `RawEvent`s instead of text.
        """
        chosen = parse_selection(options.label_selector, options.field_selector, resource.fields)
        requested = parse_revision(options.resource_version, resource.name)
        since = requested or self._store.revision
        presentation = Presentation(resource, view, form, include, self._clock.now())
        lines = _Lines(presentation, chosen, _EVENTS if as_events else _TEXT)
        return self._stream_events(flow, resource, namespace, options, since, lines)

    async def _stream_events(
        self, flow: Flow, resource: Resource, namespace: str, options: ListOptions, since: int, lines: "_Lines"
    ) -> AsyncIterator[Any]:
        """Yield the response to a watch: initial objects if the client requests them, then changes. An error ends it.

        since: the revision after which changes are sent.
        """
        if since > self._store.revision:
            # The client got its version from a lost store, so its state is wrong, too.
            yield lines.encode_error(too_large_revision(since, self._store.revision))
            return
        initial, entries = bool(options.send_initial_events), _NOTHING
        if initial:
            since, entries = self._store.list(resource.key, namespace)
        try:
            watch = self._store.watch(resource.key, since, namespace)
        except Compacted as error:
            yield lines.encode_error(expired(f"too old resource version: {error.since} ({error.oldest})"))
            return
        self._open[watch] = resource
        try:
            chosen = await load_entries(resource, lines.chosen.of(entries) if lines.chosen else entries)
            pieces = lines.make_pieces(lines.encode_initial(chosen))
            while pieces.are_left():
                await self._fair_queue.take(flow)
                yield pieces.make()
            if initial and options.bookmarks:
                yield lines.encode_bookmark(since, {INITIAL_EVENTS_END: "true"})
            if not self._stopped:
                async for piece in self._stream_changes(flow, resource, namespace, watch, options, lines):
                    yield piece
        except ApiError as error:
            yield lines.encode_error(error)  # a conversion webhook failed
        finally:
            del self._open[watch]
            watch.close()

    async def _stream_changes(
        self, flow: Flow, resource: Resource, namespace: str, watch: Watch, options: ListOptions, lines: "_Lines"
    ) -> AsyncIterator[Any]:
        """Yield changes and bookmarks until the time of the watch is over, or the changes are no longer kept."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._choose_timeout(options)
        bookmark = loop.time() + lines.bookmark_seconds if options.bookmarks else end
        # One timer serves the whole watch: a timer for each change would cost more than sending the change.
        timer = loop.call_at(min(end, bookmark), watch.nudge)
        try:
            while True:
                stored_changes = await watch.next(CHANGES_AT_ONCE)
                if not stored_changes:
                    if options.bookmarks:
                        yield lines.encode_bookmark(watch.revision, {})
                    if loop.time() >= end:
                        return
                    bookmark = loop.time() + lines.bookmark_seconds
                    timer = loop.call_at(min(end, bookmark), watch.nudge)
                    continue
                pieces: _AnyPieces
                if lines.are_stored and resource.storage is None:
                    pieces = PiecesOfChanges(self._shared_pieces, namespace, stored_changes)
                else:
                    changes = await load_changes(resource, stored_changes)
                    pieces = lines.make_pieces(lines.encode_changes(changes, self._clock.now()))
                while pieces.are_left():
                    await self._fair_queue.take(flow)
                    yield pieces.make()
        except Compacted as error:
            yield lines.encode_error(expired(f"too old resource version: {error.since} ({error.oldest})"))
        except Closed:
            return
        finally:
            timer.cancel()

    def _choose_timeout(self, options: ListOptions) -> float:
        if options.timeout_seconds:  # a negative timeout ends the watch at once, as upstream does
            return min(max(options.timeout_seconds, 0), MAX_TIMEOUT_SECONDS)
        return self._random.jitter(TIMEOUT_SECONDS)


class _Lines:
    """The encoder of one watch's events in the client's format. It returns fragments, which `pieces` joins.

    Only the first event of a table has column definitions.
    """

    def __init__(self, presentation: Presentation, chosen: Selection, wire: "_Wire") -> None:
        self.chosen = chosen
        self._presentation = presentation
        self._is_first = True
        self._wire = wire

    @property
    def are_stored(self) -> bool:
        """Whether the client gets a line of text for every change of the resource, with the object as it is stored."""
        return self._wire is _TEXT and self._presentation.plain and not self.chosen

    @property
    def bookmark_seconds(self) -> float:
        """The seconds between two bookmarks."""
        return self._wire.bookmark_seconds

    def make_pieces(self, fragments: Iterator[Any]) -> Pieces | Batches:
        """Return the pieces for the client, made from fragments."""
        return self._wire.pieces(fragments)

    def encode_initial(self, entries: Iterable[Entry]) -> Iterator[Any]:
        """Yield the fragments of ADDED events for the existing objects."""
        for entry in entries:
            yield from self._encode_event("ADDED", entry.body)

    def encode_changes(self, changes: Iterable[Change], now: datetime) -> Iterator[Any]:
        """Yield the fragments of the events that the selection shows.

        A change that moves an object into the selection is shown as ADDED, and out of it as DELETED.

        now: the current time, by which tables compute ages.
        """
        stored = self._wire.stored
        if self._presentation.plain and not self.chosen:
            for change in changes:
                yield from stored(change)
            return
        self._presentation = self._presentation.at(now)
        for change in changes:
            type_ = self.chosen.change(change)
            if type_ is None:
                continue
            if type_ == change.type and self._presentation.plain:
                yield from stored(change)
            elif type_ == "DELETED" and change.type != "DELETED":
                # The event has the last selected state, with the version at which the object left the selection.
                assert change.previous is not None
                yield from self._encode_event(type_, _set_version_cached(change.previous.body, change.revision))
            else:
                yield from self._encode_event(type_, change.entry.body)

    def encode_bookmark(self, revision: int, annotations: dict[str, str]) -> Any:
        """Return the BOOKMARK event for a revision, as a piece."""
        meta: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        return self._wire.joined(self._wire.event("BOOKMARK", self._presentation.empty(meta)))

    def encode_error(self, error: ApiError) -> Any:
        """Return the ERROR event, the last piece of a watch that cannot continue."""
        return self._wire.joined(self._wire.event("ERROR", encode_status(error.status)))

    def _encode_event(self, type_: EventType, body: bytes) -> Iterable[Any]:
        shown = self._presentation.one(body, columns=self._is_first)
        self._is_first = False
        return self._wire.event(type_, shown)


class _Wire(NamedTuple):
    """The format in which a client gets events.

    event: returns the fragments of an event about an object in its shown form.
    stored: returns the fragments of a change whose object is shown in its stored form.
    joined: returns a piece with these fragments.
    pieces: makes pieces of any number of fragments.
    bookmark_seconds: the seconds between two bookmarks, for a client that requests bookmarks. Such a client also gets
    one when the watch times out.
    """

    event: Callable[[EventType, bytes], Iterable[Any]]
    stored: Callable[[Change], Iterable[Any]]
    joined: Callable[[Iterable[Any]], Any]
    pieces: Callable[[Iterator[Any]], Pieces | Batches]
    bookmark_seconds: float


_TEXT = _Wire(watch_line, attrgetter("line"), b"".join, Pieces, BOOKMARK_SECONDS)
_EVENTS = _Wire(
    lambda type_, body: (RawEvent(type_, body),),
    lambda change: (RawEvent(change.type, change.entry.body),),
    tuple,
    Batches,
    math.inf,  # a caller in this process loses no connection
)


def _set_version_cached(body: bytes, revision: int) -> bytes:
    """Return the object with another resource version. A small result is cached, because many watches send it."""
    return (_set_version if len(body) > _REMEMBERED_BYTES else _remembered)(body, revision)


def _set_version(body: bytes, revision: int) -> bytes:
    document = msgspec.json.decode(body)
    document["metadata"]["resourceVersion"] = str(revision)
    return _encode(document)


_remembered = lru_cache(maxsize=256)(_set_version)
