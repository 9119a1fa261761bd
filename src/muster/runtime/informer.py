"""Keep a live copy of some of the server's objects and notify handlers of changes.

The pure half is `muster.runtime.cache`: what is known and how each response changes it. This module sends the requests:
a paged list, then a watch that resumes where the last one ended, and a new list when the server no longer knows that
revision. Whatever the server does, requests never form a hot loop: a new stream follows at once only if the previous
stream lasted at least as long as the pause would.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.runtime.cache import Cache, Change, IndexFunction, Reflector, Transform
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.backoff import RECONNECT
from muster.runtime.ids import Random
from muster.runtime.objects import remove_managed_fields
from muster.runtime.transport import ClosedError, TransportError, UnreadableAnswerError

T = TypeVar("T")

# Servers end a watch after this long (client-go asks for 5 to 10 minutes, at random, to spread the reconnects).
WATCH_SECONDS = 300.0
# A server in this process has no other end to reconnect to, and loses no stream.
_NEIGHBOR_WATCH_SECONDS = 6 * 3600.0
# Bookmarks arrive every minute over a connection. A stream that is silent for longer is dead, whatever TCP reports.
SILENCE_SECONDS = 180.0
# The informer handles so many events, or for so long, before other tasks on the loop get a turn.
_BURST, _TURN_SECONDS = 500, 0.001
# An event that took longer to arrive did not exist yet when the informer sent its request.
_WAITED_SECONDS = 0.0002

log = logging.getLogger(__name__)


class Outage:
    """The reachability of a server, shared by the informers of that server. reported: whether the outage was logged."""

    def __init__(self) -> None:
        self.reported = False


class Informer(Generic[T]):
    """A live copy of the objects of one kind that match the selectors, in one namespace or all.

    Objects are shared and must not be changed. Handlers run on the loop, must be quick and must not fail; an exception
    of a handler stops the informer.

    optional: whether the kind may be missing on the server. An optional informer then has no objects; any other
    informer waits for the kind.
    transform: returns the form in which the cache stores an object.
    heard: called with None whenever a watch has started or an optional kind is missing, and with each other error.
    Without it, errors are logged.
    outage: shared with the other informers of the same server.
    rest: seconds to wait after an event for further events, for a reader that is not in a hurry.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind[T],
        clock: Clock,
        random: Random,
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, Callable[[T], Iterable[str]]] | None = None,
        optional: bool = False,
        transform: Transform = remove_managed_fields,
        heard: Callable[[ApiError | TransportError | None], None] | None = None,
        outage: Outage | None = None,
        rest: float = 0.0,
    ) -> None:
        self.kind = kind
        self.optional = optional
        self.name = f"informer-{kind.resource}"
        self.synced = asyncio.Event()
        self.trouble = ""  # the last failure; a list or a watch that begins clears it
        self._client = client
        self._clock = clock
        self._random = random
        self._where: dict[str, str] = {"namespace": namespace, "labels": labels, "fields": fields}
        self._cache: Cache[T] = Cache(indexes or {})
        self._transform = transform
        self._reflector: Reflector[T] = Reflector(self._cache, transform)
        self._handlers: list[Callable[[T | None, T | None], None]] = []
        self._heard = heard
        self._reported = ""  # the last logged trouble; a watch that begins clears it
        self._outage = outage if outage is not None else Outage()
        self._failures = 0
        self._rest = rest

    def get(self, key: str) -> T | None:
        """Return the object with that key from the cache; None if there is none."""
        return self._cache.get(key)

    def all(self) -> list[T]:
        """Return all objects in the cache."""
        return self._cache.all()

    def by(self, index: str, value: str) -> list[T]:
        """Return the objects for which the index function returned that value."""
        return self._cache.by(index, value)

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def version(self) -> str:
        """The resource version up to which all changes are in the cache; "" if the next request is a list."""
        return self._reflector.version

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Add one more index, at any time. Adding the same index again has no effect."""
        self._cache.add_index(name, function)

    def on_change(self, handler: Callable[[T | None, T | None], None]) -> None:
        """Call `handler(old, new)` for every change: old is None for a new object, new is None for a deleted one.

        A handler that is added late is first called for every existing object. If an object was deleted and created
        again between two responses, these are two changes.
        """
        self._handlers.append(handler)
        for obj in self._cache.all():
            handler(None, obj)

    async def run(self) -> None:
        """Follow the server's objects until cancelled."""
        while True:
            watching_since: float | None = None
            try:
                if not self._reflector.version:
                    await self._list()
                watching_since = self._clock.monotonic()
                await self._watch()
            except (ApiError, TransportError) as error:
                self._reflector.handle_error(error)
                self.trouble = str(error)
                if self.optional and isinstance(error, ApiError) and error.code == 404:
                    await self._handle_not_served()
                elif self._heard is not None:
                    self._heard(error)
                else:
                    self._report(error)
            await self._pause(watching_since)

    async def _list(self) -> None:
        page = await self._client.list(self.kind, **self._where, transform=self._transform)
        changes = self._reflector.replace_all(page.items, page.metadata.resource_version)
        await self._call_handlers(changes)
        self.synced.set()

    async def _handle_not_served(self) -> None:
        log.debug("%s: not served, asked for again", self.kind.resource)
        await self._call_handlers(self._reflector.replace_all((), ""))
        self.synced.set()
        self._on_watch_begun()

    async def _watch(self) -> None:
        """Run one watch, and apply its events to the cache, until the stream ends.

        Raises `TransportError` if nothing arrives for `SILENCE_SECONDS`.
        """
        is_neighbor = self._client.neighbor is not None
        seconds = self._random.jitter(_NEIGHBOR_WATCH_SECONDS if is_neighbor else WATCH_SECONDS)
        version = self._reflector.version
        loop = asyncio.get_running_loop()
        silence = asyncio.timeout(None if is_neighbor else SILENCE_SECONDS)
        try:
            async with (
                silence,
                self._client.watch(
                    self.kind, resource_version=version, timeout_seconds=int(seconds), **self._where
                ) as events,
            ):
                self._on_watch_begun()
                seen = 0
                turn_ends_at = handled_at = 0.0
                rearm_at = math.inf if is_neighbor else 0.0
                async for event in events:
                    now = loop.time()
                    if now >= rearm_at:  # moving the timeout for every event would cost more than the event
                        silence.reschedule(now + SILENCE_SECONDS)
                        rearm_at = now + SILENCE_SECONDS / 10
                    for old, new in self._reflector.apply_event(event):
                        for handler in tuple(self._handlers):
                            handler(old, new)
                    seen += 1
                    if seen % _BURST == 0 or now >= turn_ends_at:
                        is_first = now - handled_at > _WAITED_SECONDS
                        await self._clock.sleep(self._rest if is_first else 0)
                        turn_ends_at = loop.time() + _TURN_SECONDS
                    handled_at = loop.time()
        except TimeoutError as error:
            if not silence.expired():
                raise
            message = f"watch of {self.kind.resource}: nothing heard for {SILENCE_SECONDS:g} s"
            raise TransportError(message) from error

    async def _call_handlers(self, changes: list[Change[T]]) -> None:
        # A handler that is added meanwhile has been called for the new state already.
        handlers = tuple(self._handlers)
        for number, (old, new) in enumerate(changes, 1):
            for handler in handlers:
                handler(old, new)
            if number % _BURST == 0:
                await self._clock.sleep(0)

    async def _pause(self, watching_since: float | None) -> None:
        self._failures += 1
        delay = RECONNECT.delay(self._failures, self._random)
        if watching_since is not None and self._clock.monotonic() - watching_since >= delay:
            self._failures = 0
            return
        await self._clock.sleep(delay)

    def _on_watch_begun(self) -> None:
        self.trouble = self._reported = ""
        self._outage.reported = False
        if self._heard is not None:
            self._heard(None)

    def _report(self, error: ApiError | TransportError) -> None:
        """Log an error if it is new.

        An unreachable server causes only one log entry, however many retries fail.
        """
        is_away = isinstance(error, TransportError) and not isinstance(error, UnreadableAnswerError)
        is_known = str(error) == self._reported or (is_away and (bool(self._reported) or self._outage.reported))
        if is_known:
            return
        fields: dict[str, Any] = {"resource": self.kind.resource}
        if isinstance(error, ClosedError):
            log.debug("%s: no longer followed: %s", self.kind.resource, error, extra=fields)
        elif isinstance(error, ApiError) and error.code == 410:
            log.debug("%s: version too old, listing again: %s", self.kind.resource, error, extra=fields)
        else:
            self._reported = str(error)
            self._outage.reported |= is_away
            log.warning("%s: list and watch interrupted: %s", self.kind.resource, error, extra=fields)
