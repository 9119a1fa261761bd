"""Watch lists, each with one watch for all copies that contain it.

Where viewers have separate rights, each copy has its own lists. Viewers of one server share lists: the server watches a
list, and each copy checks its viewer's rights before it uses the list.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from muster.api.status import ApiError
from muster.api.values.selectors import parse_label_selector
from muster.insight.reader.listing.views import shows_all_of
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.ids import Random
from muster.runtime.informer import Informer, Outage
from muster.runtime.objects import meta_of
from muster.runtime.tasks import cancel
from muster.runtime.transport import TransportError

# Changes that arrive within this time are processed together, so that a busy server wakes fewer followers.
_REST_SECONDS = 0.1


class ListKey(NamedTuple):
    """The key of a list: its kind, namespace and labels.

    namespace: the namespace; "" for all namespaces.
    labels: the label selector; "" for none.
    """

    kind: Any
    namespace: str
    labels: str

    def has_all_of(self, other: "ListKey") -> bool:
        """Return whether this list contains all objects of the other list, with all their fields."""
        is_as_wide = self.namespace in ("", other.namespace) and self.labels in ("", other.labels)
        return is_as_wide and shows_all_of(self.kind, other.kind)


class ListReader(NamedTuple):
    """The callbacks of a reader of a watched list.

    report_watch: called with None when the watch starts, and with the error when it ends.
    change: called after each change of an object.
    namespace: the namespace whose changes are reported; "" for all namespaces.
    """

    report_watch: Callable[[ApiError | TransportError | None], None]
    change: Callable[[], None]
    namespace: str = ""


class FollowedList:
    """A list that a watch keeps up to date, and its readers.

    error: why the watch ended; None while it continues.
    """

    informer: Informer[Any]
    task: asyncio.Task[None]

    def __init__(self, key: ListKey) -> None:
        self.key = key
        self.readers: list[ListReader] = []
        self.error: ApiError | TransportError | None = None

    def select(self, key: ListKey) -> list[Any]:
        """Return the objects of a narrower list that this list contains."""
        objects, of_namespace = self.informer.all(), key.namespace if key.namespace != self.key.namespace else ""
        if key.labels != self.key.labels:
            matcher = parse_label_selector(key.labels)
            objects = [one for one in objects if matcher.matches(meta_of(one).labels)]
        return [one for one in objects if meta_of(one).namespace == of_namespace] if of_namespace else objects

    def report_watch(self, error: ApiError | TransportError | None) -> None:
        """Tell each reader that the watch of the list has started (`error` is None), or why it ended."""
        self.error = error
        for reader in tuple(self.readers):
            reader.report_watch(error)

    def change(self, old: Any, new: Any) -> None:
        """Tell the readers of an object's namespace that the object has changed.

        Does nothing before the list is complete.
        """
        if not self.informer.synced.is_set():  # the objects of the first list are no changes
            return
        namespace = meta_of(new if new is not None else old).namespace
        for reader in self.readers:
            if reader.namespace in ("", namespace):
                reader.change()


class Lists:
    """The watched lists of one viewer or of all viewers.

    client: a client with the rights for the watches.
    has_all_rights: whether the client may list everything, so that a wider list serves narrower ones.
    """

    def __init__(self, client: Client, clock: Clock, random: Random, *, has_all_rights: bool = False) -> None:
        self._client = Client(client.transport, field_manager="muster-dashboard", neighbor=client.neighbor)
        self._has_all_rights = has_all_rights
        self._clock = clock
        self._random = random
        self._followed: dict[ListKey, FollowedList] = {}
        self._outage = Outage()

    @property
    def keys(self) -> list[ListKey]:
        """The keys of the watched lists."""
        return [*self._followed]

    @asynccontextmanager
    async def follow(self, key: ListKey, reader: ListReader) -> AsyncIterator[FollowedList]:
        """Yield a watched list within the context: this list, or a wider list that is watched already.

        The watch stops when the last reader of the list has left its context.
        """
        wider = (one for one in self._followed if one != key and one.has_all_of(key))
        source = next(wider, key) if self._has_all_rights else key
        followed = self._followed.get(source) or self._begin(source)
        followed.readers.append(reader)
        try:
            if followed.error is not None:
                reader.report_watch(followed.error)
            yield followed
        finally:
            followed.readers.remove(reader)
            if not followed.readers:
                del self._followed[source]
                await cancel([followed.task])

    def _begin(self, key: ListKey) -> FollowedList:
        followed = self._followed[key] = FollowedList(key)
        followed.informer = Informer(
            self._client,
            key.kind,
            self._clock,
            self._random,
            namespace=key.namespace,
            labels=key.labels,
            heard=followed.report_watch,
            outage=self._outage,
            rest=_REST_SECONDS,
        )
        followed.informer.on_change(followed.change)
        followed.task = asyncio.create_task(followed.informer.run())
        return followed
