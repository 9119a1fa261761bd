"""Reads the lists of a cluster for one look at it: each of them once, however many parts of the answer need it."""

from dataclasses import dataclass, field
from typing import Any, TypeVar

from muster.api.core.quota import LIMIT_RANGE
from muster.api.kinds import Kind
from muster.api.runtimeclass import RUNTIME_CLASS
from muster.insight.reader.queues import list_or_none
from muster.queueing.additions import Completion
from muster.runtime.client import Client

T = TypeVar("T")


@dataclass(slots=True)
class Lists:
    """The lists that one question needs, as of the moment when each was read."""

    client: Client
    _read: dict[str, list[Any] | None] = field(default_factory=dict)

    async def of(self, kind: Kind[T], namespace: str = "") -> list[T] | None:
        """As `list_or_none`, with all objects."""
        path = kind.path(namespace)
        if path not in self._read:
            self._read[path] = await list_or_none(self.client, kind, namespace)
        return self._read[path]

    async def completion(self, namespace: str = "") -> Completion:
        """What pods get beyond their templates, as far as the user may see it: everywhere, or else in the namespace."""
        ranges = await self.of(LIMIT_RANGE)
        if ranges is None and namespace:
            ranges = await self.of(LIMIT_RANGE, namespace)
        return Completion.of(ranges or (), await self.of(RUNTIME_CLASS) or ())
