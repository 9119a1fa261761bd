"""Keeps a live copy of what one viewer may see, and tells when it changes.

The readers of `muster.insight` ask a client for lists. Here such a list is answered from a copy that a watch keeps up
to date, so that a page can be rendered at every change without a request. A copy that no page has used for a while is
dropped.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from muster.api.core import EVENT
from muster.api.kinds import Kind, Page
from muster.api.meta import ListMeta
from muster.api.status import ApiError
from muster.api.values.selectors import parse_label_selector
from muster.dashboard.viewing.answers import Answers
from muster.insight.reader.listviews import shows_all_of
from muster.insight.reader.memo import Memo
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.informer import Informer, Outage
from muster.runtime.objects import meta_of
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

T = TypeVar("T")

# A list that no page has asked for within this time is followed no longer.
IDLE_SECONDS = 60.0
# A list that the server refused is asked for again after this time.
_REFUSED_SECONDS = 10.0
_RIGHTS_SECONDS = 10.0
# Changes are taken over together that come within this time: a busy server then wakes fewer followers.
_REST_SECONDS = 0.1
_MOST_FOLLOWED = 100
_MOST_MEMOS = 10
AWAY = "The API server does not answer, so this page shows what was known before; it goes on by itself."


class _Key(NamedTuple):
    kind: Any
    namespace: str
    labels: str

    def has_all_of(self, other: "_Key") -> bool:
        """Return whether a list has all that another has."""
        is_as_wide = self.namespace in ("", other.namespace) and self.labels in ("", other.labels)
        return is_as_wide and shows_all_of(self.kind, other.kind)


class _Followed:
    """One list that a watch keeps up to date."""

    informer: Informer[Any]

    def __init__(self, now: float) -> None:
        self.used = now
        self.trouble = ""  # why the watch is down, if the server is away
        self.error: ApiError | TransportError | None = None
        self.settled = asyncio.Event()  # the first list is here, or was refused
        self.task: asyncio.Task[None] | None = None

    def give_up(self) -> None:
        """Let whoever still waits for the list know that it is no longer followed."""
        if not self.settled.is_set():
            self.error = TransportError("too many lists are asked for at once: try again in a moment")
            self.settled.set()


class Copy(Client):
    """A client of one viewer whose lists come from memory. `close` ends all watches.

    revision: grows with every change of a list that is followed.
    answers: to what no watch keeps up to date.
    sharing_seconds: how long it took until now to make what the pages of a round share.
    """

    def __init__(
        self, client: Client, clock: Clock, random: Random, changed: Callable[[], None] = lambda: None
    ) -> None:
        """Make a copy of nothing yet. changed: called with every change of a list that is followed."""
        self._memos: dict[str, Memo] = {}
        self._shared: dict[Hashable, asyncio.Task[Any]] = {}
        super().__init__(client.transport, field_manager="muster-dashboard", neighbor=client.neighbor)
        self.revision = 0
        self.sharing_seconds = 0.0
        self._clock = clock
        self._random = random
        self._followed: dict[_Key, _Followed] = {}
        self._checked = clock.monotonic()
        self._changed = changed
        self._outage = Outage()
        self.answers = Answers(clock, self._tell)

    async def list(
        self,
        kind: Kind[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        transform: Callable[[T], T] | None = None,
    ) -> Page[T]:
        """Return the whole list from the copy, which begins with the first question. Raises what the server said."""
        if fields or transform is not None or kind.resource == EVENT.resource:
            return await super().list(kind, namespace, labels=labels, fields=fields, transform=transform)
        key = _Key(kind, namespace, labels)
        source = self._find_source(key)
        followed = self._follow(source)
        await followed.settled.wait()
        if followed.error is not None:
            raise followed.error
        items = followed.informer.all() if source == key else _select(followed.informer.all(), namespace, labels)
        return Page(metadata=ListMeta(resource_version=followed.informer.version), items=items)

    @property
    def trouble(self) -> str:
        """What to tell the viewer while the API server does not answer; "" while it does."""
        return next((one.trouble for one in self._followed.values() if one.trouble), "")

    def memo(self, namespace: str) -> Memo:
        """Return what was decided before about the jobs of a namespace ("": of all)."""
        while namespace not in self._memos and len(self._memos) >= _MOST_MEMOS:
            del self._memos[next(iter(self._memos))]
        return self._memos.setdefault(namespace, Memo())

    def begin_round(self) -> None:
        """Forget what pages shared until now: the next ones are about what is there now."""
        self._shared.clear()

    async def check_rights(self) -> None:
        """Drop the lists that the viewer may no longer see, for which a watch goes on for minutes.

        The server is asked at most once in ten seconds.
        """
        now = self._clock.monotonic()
        if now - self._checked < _RIGHTS_SECONDS:
            return
        self._checked = now
        for key, followed in [*self._followed.items()]:
            if followed.settled.is_set() and followed.error is None:
                try:
                    await super().page(key.kind, key.namespace, labels=key.labels, limit=1)
                except ApiError as error:
                    self._hear(followed, key, error)
                except TransportError:
                    return  # what is shown is told to be old

    async def share(self, key: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what `make` returns, which the pages of one round make once. Raises what it raises."""
        task, began = self._shared.get(key), self._clock.monotonic()
        is_first = task is None
        if task is None:
            task = self._shared[key] = asyncio.create_task(make())
        shared: T = await asyncio.shield(task)
        if is_first:
            self.sharing_seconds += self._clock.monotonic() - began
        return shared

    async def drop_idle(self) -> bool:
        """End the watches that no page uses; return whether any goes on."""
        now = self._clock.monotonic()
        idle = [key for key, one in self._followed.items() if now - one.used > IDLE_SECONDS]
        await self._drop(idle)
        return bool(self._followed)

    async def close(self) -> None:
        """End all watches and questions."""
        await self.answers.close()
        await self._drop([*self._followed])

    def _find_source(self, key: _Key) -> _Key:
        """Return a list that is here and has all of another, which then needs no watch of its own; or else that one."""
        for other, followed in self._followed.items():
            if other != key and other.has_all_of(key) and followed.settled.is_set() and followed.error is None:
                return other
        return key

    def _end_served(self, wide: _Key) -> None:
        """End what is followed beside a list that has come and has all of it."""
        for key, followed in [*self._followed.items()]:
            if key != wide and wide.has_all_of(key) and followed.settled.is_set():
                self._end(key)

    def _rank_for_eviction(self, key: _Key) -> tuple[bool, float]:
        followed = self._followed[key]
        return not followed.settled.is_set(), followed.used

    def _follow(self, key: _Key) -> _Followed:
        now = self._clock.monotonic()
        followed = self._followed.get(key)
        if followed is not None:
            followed.used = now
            return followed
        while len(self._followed) >= _MOST_FOLLOWED:
            # One that is not here yet is evicted last: a page waits for it.
            self._end(min(self._followed, key=self._rank_for_eviction))
        followed = _Followed(now)
        followed.informer = Informer(
            Client(self.transport, field_manager="muster-dashboard", neighbor=self.neighbor),
            key.kind,
            self._clock,
            self._random,
            namespace=key.namespace,
            labels=key.labels,
            heard=partial(self._hear, followed, key),
            outage=self._outage,
            rest=_REST_SECONDS,
        )
        followed.task = asyncio.create_task(self._run(key, followed))
        self._followed[key] = followed
        return followed

    async def _run(self, key: _Key, followed: _Followed) -> None:
        following = asyncio.create_task(followed.informer.run())
        try:
            await followed.informer.synced.wait()
            followed.settled.set()
            if self._find_source(key) != key and self._followed.get(key) is followed:
                del self._followed[key]  # a wider list came first, and serves this one from now on
                return
            self._end_served(key)
            followed.informer.on_change(lambda _old, _new: self._tell())
            self._tell()
            await following
        finally:
            await cancel([following])

    def _hear(self, followed: _Followed, key: _Key, error: ApiError | TransportError | None) -> None:
        """Note that a watch began (None) or ended. A list that is refused is dropped, to be asked for anew later."""
        followed.trouble = f"{AWAY} {error}" if isinstance(error, TransportError) else ""
        refused = isinstance(error, ApiError) and error.code in (401, 403, 404, 405)
        if refused or (error is not None and not followed.settled.is_set()):
            followed.error = error
            followed.settled.set()
            asyncio.get_running_loop().call_later(_REFUSED_SECONDS, self._forget, key, followed)
        elif error is None:
            followed.error = None
        self._tell()

    def _forget(self, key: _Key, followed: _Followed) -> None:
        if followed.error is not None and self._followed.get(key) is followed:
            self._end(key)

    def _end(self, key: _Key) -> None:
        followed = self._followed.pop(key)
        followed.give_up()
        if followed.task is not None:
            followed.task.cancel()

    async def _drop(self, keys: Iterable[_Key]) -> None:
        ended = [self._followed.pop(key) for key in keys]
        for followed in ended:
            followed.give_up()
        await cancel([followed.task for followed in ended if followed.task is not None])

    def _tell(self) -> None:
        self.revision += 1
        self._changed()


def _select(objects: Iterable[T], namespace: str, labels: str) -> list[T]:
    """Return the objects in a namespace ("": in all) that have some labels."""
    matcher = parse_label_selector(labels)
    metas = ((one, meta_of(one)) for one in objects)
    return [one for one, meta in metas if namespace in ("", meta.namespace) and matcher.matches(meta.labels)]
