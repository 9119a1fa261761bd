"""Remember the results of pure functions, by the identity of the objects that were their arguments.

A reader of live lists calls the same functions repeatedly, and between two calls nearly all objects are the same. A
result is stored for one key. A new result for the key replaces it, and it is dropped when its key is no longer used.
"""

from collections.abc import Callable, Collection, Hashable
from operator import is_
from typing import Any, TypeVar

from msgspec import Struct

from muster.insight.history.runs import Run

T = TypeVar("T")

# Plain values, and records that are read again each time, are the same if they are equal.
_PLAIN = frozenset((bool, int, str, type(None), Run))


class _Known(Struct, frozen=True, gc=False):
    inputs: tuple[object, ...]
    result: Any


class Memo:
    """Earlier results by topic and key, for a reader whose lists follow a watch."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Hashable, _Known]] = {}

    def recall(self, topic: str, key: Hashable, inputs: tuple[object, ...], make: Callable[[], T]) -> T:
        """Return the stored result for a key.

        Make and store the result again if any of its inputs is another object than before.
        """
        known = self.find(topic, key, inputs)
        if known is None:
            known = self.keep(topic, key, inputs, make())
        return known

    def find(self, topic: str, key: Hashable, inputs: tuple[object, ...]) -> Any | None:
        """Return the stored result for a key if it was made from the same inputs; None otherwise."""
        known = self._known.get(topic, {}).get(key)
        return known.result if known is not None and _are_same(known.inputs, inputs) else None

    def keep(self, topic: str, key: Hashable, inputs: tuple[object, ...], result: T) -> T:
        """Store a result for a key and its inputs, and return it."""
        self._known.setdefault(topic, {})[key] = _Known(inputs, result)
        return result

    def retain(self, topic: str, keys: Collection[Hashable]) -> None:
        """Drop the results of a topic except those for these keys."""
        known = self._known.get(topic, {})
        if len(known) > len(keys):
            self._known[topic] = {key: one for key, one in known.items() if key in keys}


def _are_same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    if len(before) != len(now):
        return False
    return all(map(is_, before, now)) or all(  # nearly always the identity check suffices, which is four times as fast
        a is b or (type(a) in _PLAIN and a == b) for a, b in zip(before, now, strict=True)
    )
