"""Read the lists of a cluster for one question, each once, even if several parts of the answer need it."""

from collections.abc import Collection
from typing import Any, TypeVar

from muster.api.core.quota import LIMIT_RANGE
from muster.api.groups.runtimeclass import RUNTIME_CLASS
from muster.api.kinds import Kind
from muster.api.status import ApiError
from muster.insight.reader.listing.access import UNSEEN, list_all
from muster.insight.reader.listing.views import shows_all_of
from muster.queueing.additions import Completion
from muster.runtime.client import Client

T = TypeVar("T")


class Lists:
    """The lists of objects that one question needs. Each list is read when it is first needed.

    A list is None if the user may not read it or the cluster has no such kind.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self._read: dict[tuple[str, Kind[Any]], list[Any] | None] = {}  # by path and kind
        self._refused: dict[str, ApiError] = {}

    async def of(self, kind: Kind[T], namespace: str = "") -> list[T] | None:
        """Return all objects of a kind; None if the user may not list it or the cluster has no such kind.

        If the whole objects have been read already, they are returned for a reduced view of the kind, too.
        """
        path = kind.path(namespace)
        for (known_path, known), items in self._read.items():
            if known_path == path and (items is None or shows_all_of(known, kind)):
                return items
        items = await self._list(kind, namespace)
        self._read[path, kind] = items
        return items

    async def _list(self, kind: Kind[T], namespace: str) -> list[T] | None:
        try:
            return await list_all(self.client, kind, namespace)
        except ApiError as error:
            if error.reason not in UNSEEN:
                raise
            self._refused[kind.path(namespace)] = error
            return None

    def list_objects(self, besides: Collection[Kind[Any]] = ()) -> tuple[object, ...]:
        """Return all objects that were read until now. A list that could not be read is represented by its path.

        besides: the kinds whose objects are left out.
        """
        objects: list[object] = []
        for (path, kind), items in self._read.items():
            if items is None:
                objects.append(path)
            elif kind not in besides:
                objects += items
        return tuple(objects)

    def describe_lacking(self, *kinds: Kind[Any]) -> str:
        """Return a sentence that says which of these kinds could not be read in all namespaces, and why.

        Return "" if all could be read.
        """
        refused = {kind.resource: self._refused[kind.path()] for kind in kinds if kind.path() in self._refused}
        forbidden = [name for name, error in refused.items() if error.code == 403]
        if forbidden:
            may_not = f"you may not list {', '.join(forbidden)} in the whole cluster"
            return f"{may_not}; ask the administrator of the cluster for that right"
        return f"this cluster has no {', '.join(refused)}" if refused else ""

    async def completion(self, namespace: str = "") -> Completion:
        """Return the amounts that LimitRanges and RuntimeClasses add to the requests of pods.

        namespace: where to read LimitRanges if the user may not list them in all namespaces.
        """
        ranges = await self.of(LIMIT_RANGE)
        if ranges is None and namespace:
            ranges = await self.of(LIMIT_RANGE, namespace)
        return Completion.of(ranges or (), await self.of(RUNTIME_CLASS) or ())
