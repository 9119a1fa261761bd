"""Keep a live copy of what one viewer may see, and tell when it changes.

The readers of `muster.insight` ask a client for lists. Here such a list is answered from a copy that a watch keeps up
to date, so that a page can be rendered at every change without a request. A copy that no page has used for a while is
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

# A list that no page has asked for within this time is followed no longer.
IDLE_SECONDS = 60.0
# A list that the server refused is asked for again after this time.
_REFUSED_SECONDS = 10.0
_REFUSALS = (401, 403, 404, 405)
_RIGHTS_SECONDS = 10.0
# A confirmed right stays valid this long while the server does not answer.
_VOUCHED_SECONDS = 60.0
# The limit for one question for a right, and also for one whole check.
_CHECK_SECONDS = 8.0
_NO_ANSWER = f"no answer within {_CHECK_SECONDS:.0f} s"
_MOST_FOLLOWED = 100
_MOST_MEMOS = 10
UNCHECKED = "Whether you may still see this could not be checked for"
AWAY = "The API server does not answer, so this page shows what was known before; it goes on by itself."


class _Followed:
    """A list that a watch keeps up to date for one viewer, with the viewer's right to it."""

    live: FollowedList  # once it is settled without an error

    def __init__(self, now: float) -> None:
        self.used = self.vouched = now  # vouched: when the server last said that the viewer may have the list
        self.is_denied = False  # the viewer has lost the right, while the watch may go on for others
        self.trouble = ""  # why the watch is down, if the server is away
        self.error: ApiError | TransportError | None = None
        self.settled = asyncio.Event()  # the first list is here, or was refused
        self.task: asyncio.Task[None] | None = None

    def give_up(self) -> None:
        """Give callers that still wait for the list an error, because it is no longer followed."""
        if not self.settled.is_set():
            self.error = TransportError("too many lists are asked for at once: try again in a moment")
            self.settled.set()


class Copy(Client):
    """A client of one viewer whose `list` answers from memory, kept up to date by watches.

    revision: grows with every change of a list that is followed. answers: of slow questions that no watch keeps up to
    date. sharing_seconds: the seconds spent so far on results that the pages of a round share. `close` ends all
    watches.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        random: Random,
        changed: Callable[[], None] = lambda: None,
        lists: Lists | None = None,
    ) -> None:
        """Create a client that follows no list yet.

        changed: called with every change of a list that is followed. lists: those that the server follows for all
        viewers; None to follow lists with the viewer's rights.
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
        """Return a whole list from memory; the first call begins to follow it, and waits for it.

        Lists with field selectors, and Events, come from the server. transform: not applied to a list that a watch
        keeps anyway, because it only saves memory. Raises `ApiError`, `TransportError`.
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
        """A remark for the viewer while the API server does not answer; "" while it does."""
        return next((one.trouble for one in self._followed.values() if one.trouble), "")

    def memo(self, namespace: str) -> Memo:
        """Return the memo of results about a namespace; "" for those about the whole cluster.

        A memo is created if there is none; of too many, the oldest is dropped.
        """
        while namespace not in self._memos and len(self._memos) >= _MOST_MEMOS:
            del self._memos[next(iter(self._memos))]
        memo, _ = self._memos.get(namespace) or (Memo(), 0.0)
        self._memos[namespace] = memo, self._clock.monotonic()
        return memo

    def begin_round(self) -> None:
        """Forget the results that pages of the last round shared, so that the next pages are up to date."""
        self._shared.clear()

    async def check_rights(self) -> None:
        """Drop the lists that the viewer has lost the right to see; their watches would go on without that right.

        The server is asked at most once in ten seconds. If it does not answer about a list, the list is dropped after
        a minute. A check goes on if its caller is cancelled, and later callers wait for its end: otherwise a viewer who
        hangs up and comes again would see a list that the check was about to drop.
        """
        now = self._clock.monotonic()
        if now - self._checked >= _RIGHTS_SECONDS:
            self._checked = now
            self._checking = asyncio.create_task(self._drop_denied())
        if self._checking is not None:
            await asyncio.shield(self._checking)

    async def _drop_denied(self) -> None:
        """Check the viewer's right to each list that pages show; drop a list if it is refused.

        A list whose right the server does not confirm for a minute is dropped, too.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                # The oldest answer first: if the time is too short for all, the next check begins with the others.
                for key, followed in sorted(self._select_shown(), key=lambda shown: shown[1].vouched):
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

    def _select_shown(self) -> Sequence[tuple[ListKey, _Followed]]:
        return [(key, one) for key, one in self._followed.items() if one.settled.is_set() and one.error is None]

    def _doubt_unasked(self, error: TransportError) -> None:
        """Treat each list as unconfirmed because the server does not answer: it is marked old, and later dropped."""
        for key, followed in self._select_shown():
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
        """Make a list fail with an error from now on, and forget it after a while, so that it is asked for again."""
        followed.error = error
        followed.settled.set()
        asyncio.get_running_loop().call_later(_REFUSED_SECONDS, self._forget, key, followed)

    async def share(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `make` returns; it is called once for all pages of a round that use the same key.

        Raises what `make` raises.
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
        """End the watches and drop the memos that no page used for a while; return whether any watch is left."""
        now = self._clock.monotonic()
        self._memos = {key: one for key, one in self._memos.items() if now - one[1] <= IDLE_SECONDS}
        idle = [key for key, one in self._followed.items() if now - one.used > IDLE_SECONDS]
        await self._drop(idle)
        return bool(self._followed)

    async def close(self) -> None:
        """End all watches, checks and questions."""
        await self.answers.close()
        if self._checking is not None:
            await cancel([self._checking])
        await self._drop([*self._followed])

    def _find_source(self, key: ListKey) -> ListKey:
        """Return the key of a followed list that contains all of another, which then needs no watch; else `key`."""
        for other, followed in self._followed.items():
            if other != key and other.has_all_of(key) and followed.settled.is_set() and followed.error is None:
                return other
        return key

    def _end_served(self, wide: ListKey) -> None:
        """End the watches of lists that a wider list, which has just arrived, contains."""
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
            # One that is not here yet is evicted last: a page waits for it.
            self._end(min(self._followed, key=self._rank_for_eviction))
        followed = _Followed(now)
        followed.task = asyncio.create_task(self._run(key, followed))
        self._followed[key] = followed
        return followed

    async def _ask_right(self, key: ListKey) -> None:
        """Ask the server whether the viewer may list and, if viewers share watches, watch these objects.

        Raises `ApiError` if not, and `TransportError`.
        """
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                await super().page(key.kind, key.namespace, labels=key.labels, limit=1)
                if self._is_shared:  # the watch is the server's, so this asks for the viewer's right to it
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
                del self._followed[key]  # a wider list came first, and serves this one from now on
                return
            self._end_served(key)
            self._announce_change()
            await asyncio.shield(live.task)

    def _on_watch_change(self, followed: _Followed, key: ListKey, error: ApiError | TransportError | None) -> None:
        """Note that the watch of a list began (`error` is None) or ended.

        A list that is refused fails with the error, and is asked for again later.
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
