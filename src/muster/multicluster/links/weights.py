"""Limit the cached size of a worker's objects: lists have limits, but a watch may add objects without end."""

from typing import Any

from muster.api.kinds import Kind
from muster.runtime.objects import key_of


class Weights:
    """The sizes of the cached objects of one kind. size: the total bytes as JSON."""

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self._sizes: dict[str, int] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def follow(self, old: Any | None, new: Any | None) -> None:
        """Count an object that was added, changed or removed."""
        if old is not None:
            self.size -= self._sizes.pop(key_of(old), 0)
        if new is not None:
            self._sizes[key_of(new)] = size = len(self._kind.encode(new))
            self.size += size
