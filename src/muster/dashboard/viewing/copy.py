"""Keep a live copy of the objects that one viewer may see, and report its changes.

The readers of `muster.insight` request lists from a client. Here such lists come from a copy that a watch keeps up to
date, so that a page can be rendered after each change without a request. A list that no page has used for a while is
dropped.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from muster.api.core import EVENT
from muster.api.kinds import Kind, Page
from muster.api.meta import ListMeta
from muster.api.status import ApiError
from muster.dashboard.viewing.answers import Answers
from muster.dashboard.viewing.lists import FollowedList, ListKey, ListReader, Lists
from muster.insight.reader.listing.memo import Memo
from muster.insight.text import format_duration
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

T = TypeVar("T")

# The seconds without a use after which a list is no longer watched.
IDLE_SECONDS = 60.0
# The seconds after which a refused list is requested again.
_REFUSED_SECONDS = 10.0
_REFUSALS = (401, 403, 404, 405)
_RIGHTS_SECONDS = 10.0
# The seconds for which a confirmed right stays valid while the server does not respond.
_VOUCHED_SECONDS = 60.0
# The timeout of a single check of a right, and also of a check of all rights.
_CHECK_SECONDS = 8.0
_NO_ANSWER = f"no answer within {_CHECK_SECONDS:.0f} s"
_MOST_FOLLOWED = 100
_MOST_MEMOS = 10
UNCHECKED = "Whether you may still see this could not be checked for"
AWAY = (
    "The API server does not answer, so this page shows what was known before. It updates by itself when the server "
    "answers."
)


class _Followed:
    """A list that a watch keeps up to date for one viewer, and the viewer's right to it."""

    live: FollowedList  # set once it is settled without an error

    def __init__(self, now: float) -> None:
        self.used = self.vouched = now  # vouched: when the server last confirmed the right
        self.is_denied = False  # whether the viewer has lost the right, although the watch may continue for others
        self.trouble = ""  # why the watch is down; "" while it works
        self.error: ApiError | TransportError | None = None
        self.settled = asyncio.Event()  # set when the first list has arrived or was refused
        self.task: asyncio.Task[None] | None = None

    def give_up(self) -> None:
        """Give an error to callers that still wait for the list, because it is no longer watched."""
        if not self.settled.is_set():
            self.error = TransportError("too many lists are asked for at once: try again in a moment")
            self.settled.set()


class Copy(Client):
    """A client of one viewer whose `list` returns objects from memory, kept up to date by watches.

    revision: incremented with each change of a watched list.
    answers: the cached results of slow requests that cannot be watched.
    sharing_seconds: the seconds spent so far on results that the pages of a round share.

    `close` stops all watches.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        changed: Callable[[], None] = lambda: None,
        lists: Lists | None = None,
    ) -> None:
        """Create a client that watches no list yet.

        changed: called with each change of a watched list.
        lists: the lists that the server watches for all viewers; None to watch lists with the viewer's rights.
        """
        self._memos: dict[str, tuple[Memo, float]] = {}  # with the time of the last use
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        super().__init__(client.transport, field_manager="muster-dashboard", neighbor=client.neighbor)
        self.revision = 0
        self.sharing_seconds = 0.0
        self._clock = clock
        self._followed: dict[ListKey, _Followed] = {}
        self._checked = clock.monotonic()
        self._checking: asyncio.Task[None] | None = None  # the last check of rights
        self._changed = changed
        self._is_shared = lists is not None
        self._lists = lists if lists is not None else Lists(client, clock, random)
        self.answers = Answers(clock, self._announce_change)

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Page[T]:
        """Return a whole list from memory. The first call starts to watch the list, and waits for it.

        transform: applied only to lists from the server, because it only saves memory.

        Lists with field selectors, and Events, come from the server. Raises `ApiError`, `TransportError`.
        """
        if fields or kind.resource == EVENT.resource:
            return await super().list(kind, namespace, labels=labels, fields=fields, transform=transform)
        key = ListKey(kind, namespace, labels)
        followed = self._follow(self._find_source(key))
        await followed.settled.wait()
        if followed.error is not None:
            raise followed.error
        version = followed.live.informer.version
        return Page(metadata=ListMeta(resource_version=version), items=followed.live.select(key))

    @property
    def trouble(self) -> str:
        """A remark for the viewer while the API server does not respond; "" while it does."""
        return next((one.trouble for one in self._followed.values() if one.trouble), "")

    def memo(self, namespace: str) -> Memo:
        """Return the cache of results about a namespace; "" for results about the whole cluster.

        A cache is created if there is none; if there are too many, the oldest is dropped.
        """
        while namespace not in self._memos and len(self._memos) >= _MOST_MEMOS:
            del self._memos[next(iter(self._memos))]
        memo, _ = self._memos.get(namespace) or (Memo(), 0.0)
        self._memos[namespace] = memo, self._clock.monotonic()
        return memo

    def begin_round(self) -> None:
        """Drop the results that pages of the last round shared, so that the next pages are up to date."""
        self._shared.clear()

    async def check_rights(self) -> None:
        """Drop the lists that the viewer has lost the right to see, because their watches would continue anyway.

        The server is queried at most once in ten seconds. If it does not respond about a list, the list is dropped
        after a minute. If the caller is cancelled, the check continues, and later callers wait for its end. Otherwise a
        viewer who disconnects and returns would see a list that the check was about to drop.
        """
        now = self._clock.monotonic()
        if now - self._checked >= _RIGHTS_SECONDS:
            self._checked = now
            self._checking = asyncio.create_task(self._drop_denied())
        if self._checking is not None:
            await asyncio.shield(self._checking)

    async def _drop_denied(self) -> None:
        """Check the viewer's right to each list that has arrived; drop a list if the right is refused.

        A list whose right the server has not confirmed for a minute is dropped, too. A dropped list fails with the
        error for ten seconds. After that, its next use requests it again.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                # The oldest answer first: if the time is too short for all, the next check begins with the others.
                for key, followed in sorted(self._select_arrived(), key=lambda arrived: arrived[1].vouched):
                    try:
                        await self._ask_right(key)
                    except ApiError as error:
                        self._doubt(key, followed, error)
                    else:
                        followed.vouched = self._clock.monotonic()
        except TransportError as error:
            self._doubt_unasked(error)
        except TimeoutError:
            self._doubt_unasked(TransportError(_NO_ANSWER))

    def _select_arrived(self) -> Sequence[tuple[ListKey, _Followed]]:
        return [(key, one) for key, one in self._followed.items() if one.settled.is_set() and one.error is None]

    def _doubt_unasked(self, error: TransportError) -> None:
        """Drop the lists that have been unconfirmed for too long, because the server does not respond."""
        for key, followed in self._select_arrived():
            self._doubt(key, followed, error)

    def _doubt(self, key: ListKey, followed: _Followed, error: ApiError | TransportError) -> None:
        """Drop a list that the server refuses, or whose right has not been confirmed for too long; else keep it."""
        is_refused = isinstance(error, ApiError) and error.code in _REFUSALS
        if not is_refused:
            seconds = self._clock.monotonic() - followed.vouched
            if seconds < _VOUCHED_SECONDS:
                return
            text = f"{UNCHECKED} {format_duration(int(seconds))}, so it is not shown: {error}"
            error = TransportError(text)
        followed.is_denied = True
        self._drop_later(key, followed, error)
        self._announce_change()

    def _drop_later(self, key: ListKey, followed: _Followed, error: ApiError | TransportError) -> None:
        """Make a list fail with an error from now on, and drop it after a while, so that it is requested again."""
        followed.error = error
        followed.settled.set()
        asyncio.get_running_loop().call_later(_REFUSED_SECONDS, self._forget, key, followed)

    async def share(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return the result of `make`, which is called once for all pages of a round that use the same key.

        Raises the errors of `make`.
        """
        task, began = self._shared.get(key), self._clock.monotonic()
        is_first = task is None
        if task is None:
            task = self._shared[key] = asyncio.create_task(make())
        shared: T = await asyncio.shield(task)
        if is_first:
            self.sharing_seconds += self._clock.monotonic() - began
        return shared

    async def drop_idle(self) -> bool:
        """Stop the watches and drop the caches that no page has used for a while; return whether any watch is left."""
        now = self._clock.monotonic()
        self._memos = {key: one for key, one in self._memos.items() if now - one[1] <= IDLE_SECONDS}
        idle = [key for key, one in self._followed.items() if now - one.used > IDLE_SECONDS]
        await self._drop(idle)
        return bool(self._followed)

    async def close(self) -> None:
        """Stop all watches, checks and pending requests."""
        await self.answers.close()
        if self._checking is not None:
            await cancel([self._checking])
        await self._drop([*self._followed])

    def _find_source(self, key: ListKey) -> ListKey:
        """Return the key of a watched list that contains all objects of the given one; else `key`.

        The given list then needs no watch of its own.
        """
        for other, followed in self._followed.items():
            if other != key and other.has_all_of(key) and followed.settled.is_set() and followed.error is None:
                return other
        return key

    def _end_served(self, wide: ListKey) -> None:
        """Stop the watches of lists that are contained in a wider list that has just arrived."""
        for key, followed in [*self._followed.items()]:
            if key != wide and wide.has_all_of(key) and followed.settled.is_set():
                self._end(key)

    def _rank_for_eviction(self, key: ListKey) -> tuple[bool, float]:
        followed = self._followed[key]
        return not followed.settled.is_set(), followed.used

    def _follow(self, key: ListKey) -> _Followed:
        now = self._clock.monotonic()
        followed = self._followed.get(key)
        if followed is not None:
            followed.used = now
            return followed
        while len(self._followed) >= _MOST_FOLLOWED:
            # A list that has not arrived yet is evicted last, because a page waits for it.
            self._end(min(self._followed, key=self._rank_for_eviction))
        followed = _Followed(now)
        followed.task = asyncio.create_task(self._run(key, followed))
        self._followed[key] = followed
        return followed

    async def _ask_right(self, key: ListKey) -> None:
        """Check with the server whether the viewer may list and, if viewers share watches, watch these objects.

        Raises `ApiError` if not, and `TransportError`.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await super().page(key.kind, key.namespace, labels=key.labels, limit=1)
                if self._is_shared:  # the server owns the watch, so the viewer's right to watch is checked here
                    async with super().watch(key.kind, key.namespace, labels=key.labels):
                        pass
        except TimeoutError as error:
            raise TransportError(_NO_ANSWER) from error

    async def _run(self, key: ListKey, followed: _Followed) -> None:
        if self._is_shared:
            try:
                await self._ask_right(key)
            except (ApiError, TransportError) as error:
                self._on_watch_change(followed, key, error)
                return
        reader = ListReader(partial(self._on_watch_change, followed, key), self._announce_change, key.namespace)
        async with self._lists.follow(key, reader) as live:
            followed.live = live
            await live.informer.synced.wait()
            followed.vouched = self._clock.monotonic()
            followed.settled.set()
            if self._find_source(key) != key and self._followed.get(key) is followed:
                del self._followed[key]  # a wider list arrived first, and contains this list from now on
                return
            self._end_served(key)
            self._announce_change()
            await asyncio.shield(live.task)

    def _on_watch_change(self, followed: _Followed, key: ListKey, error: ApiError | TransportError | None) -> None:
        """Record that the watch of a list started (`error` is None) or ended.

        A list that is refused, or has not arrived yet, fails with the error, and is requested again later.
        """
        followed.trouble = f"{AWAY} {error}" if isinstance(error, TransportError) else ""
        is_refused = isinstance(error, ApiError) and error.code in _REFUSALS
        if error is not None:
            if is_refused or not followed.settled.is_set():
                self._drop_later(key, followed, error)
        elif not followed.is_denied:
            followed.error = None
        self._announce_change()

    def _forget(self, key: ListKey, followed: _Followed) -> None:
        if followed.error is not None and self._followed.get(key) is followed:
            self._end(key)

    def _end(self, key: ListKey) -> None:
        followed = self._followed.pop(key)
        followed.give_up()
        if followed.task is not None:
            followed.task.cancel()

    async def _drop(self, keys: Iterable[ListKey]) -> None:
        ended = [self._followed.pop(key) for key in keys]
        for followed in ended:
            followed.give_up()
        await cancel([followed.task for followed in ended if followed.task is not None])

    def _announce_change(self) -> None:
        self.revision += 1
        self._changed()
