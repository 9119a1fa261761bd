"""Queue items in lanes, one for each owner. Lanes take turns, so an owner of many items delays only its own items."""

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")

Lane: TypeAlias = tuple[Hashable, ...]
"""The path of a lane, such as a namespace and a family in it. The namespaces take turns, and the families in each."""

# Lanes by name, the next one first; the innermost contain items. No lane is empty.
_Branch: TypeAlias = "OrderedDict[Hashable, Any]"


class Lanes(Generic[T]):
    """A queue of items in lanes. The lanes are served in round-robin order, one item at each turn.

    A lane that becomes non-empty again gets the last turn. The lane of an item is a path; all lanes of one `Lanes` have
    paths of equal length.
    """

    def __init__(self) -> None:
        self._lanes: _Branch = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        """Return how many items wait."""
        return self._count

    def add(self, lane: Lane, thing: T) -> None:
        """Add an item to the end of a lane."""
        branch = self._lanes
        for name in lane[:-1]:
            branch = branch.setdefault(name, OrderedDict())
        branch.setdefault(lane[-1], deque()).append(thing)
        self._count += 1

    def pop(self, is_wanted: Callable[[T], bool]) -> T | None:
        """Remove and return the next wanted item; None if no wanted item waits.

        Unwanted items that the search meets before it are dropped.
        """
        return self._pop_from(self._lanes, is_wanted)

    def keep(self, is_kept: Callable[[T], bool]) -> None:
        """Drop all items for which `is_kept` returns false, and keep the order of the others."""
        self._count = 0
        self._lanes = self._filter_branch(self._lanes, is_kept)

    def _pop_from(self, branch: _Branch, is_wanted: Callable[[T], bool]) -> T | None:
        while branch:
            name, waiting = next(iter(branch.items()))
            is_branch = isinstance(waiting, OrderedDict)
            thing = self._pop_from(waiting, is_wanted) if is_branch else self._take(waiting, is_wanted)
            if waiting:
                branch.move_to_end(name)  # behind the others
            else:
                del branch[name]
            if thing is not None:
                return thing
        return None

    def _take(self, waiting: deque[T], is_wanted: Callable[[T], bool]) -> T | None:
        while waiting:
            thing = waiting.popleft()
            self._count -= 1
            if is_wanted(thing):
                return thing
        return None

    def _filter_branch(self, branch: _Branch, is_kept: Callable[[T], bool]) -> _Branch:
        kept: _Branch = OrderedDict()
        for name, waiting in branch.items():
            if isinstance(waiting, OrderedDict):
                left: Any = self._filter_branch(waiting, is_kept)
            else:
                left = deque(filter(is_kept, waiting))
                self._count += len(left)
            if left:
                kept[name] = left
        return kept
