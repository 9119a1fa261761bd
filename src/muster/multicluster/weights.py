"""How much is kept of what a worker sends: a list has its limits, and yet a watch may go on for ever."""

from typing import Any

from muster.api.kinds import Kind
from muster.runtime.objects import key_of


class Weights:
    """The objects of one kind that are kept.

    size: of all of them, as JSON.
    """

    def __init__(self, kind: Kind[Any]) -> None:
        self._kind = kind
        self._sizes: dict[str, int] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def follow(self, old: Any | None, new: Any | None) -> None:
        """An object is there, is another, or has gone."""
        if old is not None:
            self.size -= self._sizes.pop(key_of(old), 0)
        if new is not None:
            self._sizes[key_of(new)] = size = len(self._kind.encode(new))
            self.size += size
