"""What runs, kept change by change as arrays: what each gang holds of which nodes, since when, and when it ends.

A reservation looks at all that runs, whenever anything came free; of 100,000 pods only those are read again whose gang
has changed.
"""

from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from muster.gang.nodes.capacity import Capacity, Ints
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.ends import End
from muster.gang.shapes import Amounts

Floats: TypeAlias = npt.NDArray[np.float64]

T = TypeVar("T")
N = TypeVar("N", np.int64, np.float64)

# Rows of the pods' array, and of the gangs': when they started, when they end, and whether that is sure.
_GANG, _NODE, _AMOUNTS = range(3)
_ENDS = 1

# So many pods that are gone may stand among the others.
_GONE = 1000


class Running(Struct, frozen=True):
    """A gang that runs, or a pod alone. pods: UIDs. started: in the seconds of `now`. end: None if it is not known."""

    pods: Sequence[str]
    started: float
    end: End | None = None


class Terms(Struct, frozen=True, eq=False):
    """Of each gang its number, when it started, when it ends (NaN: not known), and whether that is sure."""

    numbers: Ints
    started: Floats
    ends: Floats
    sure: npt.NDArray[np.bool_]


class Ledger:
    """The gangs that run, by key. What a gang holds is what it held when it was last set."""

    def __init__(self) -> None:
        self._gangs: dict[str, tuple[int, int, int]] = {}  # their numbers, and where their pods begin and end
        self._vacant: list[int] = []
        self._nodes: dict[str, int] = {}
        self._amounts: dict[Amounts, int] = {}
        self._terms: Floats = np.full((3, 0), nan)
        self._pods: Ints = np.zeros((3, 0), np.int64)  # the gang of one that is gone is -1
        self._end = 0
        self._gone = 0

    @classmethod
    def of(cls, capacity: Capacity, running: Iterable[Running]) -> Self:
        """Of all that runs."""
        ledger = cls()
        for number, one in enumerate(running):
            ledger.set(str(number), one, capacity)
        return ledger

    def set(self, key: str, running: Running, capacity: Capacity) -> None:
        """A gang runs so, and its pods hold what they are assigned."""
        self.drop(key)
        nodes, amounts, end = self._nodes, self._amounts, running.end
        number = self._vacant.pop() if self._vacant else len(self._gangs)
        pods = [
            (number, nodes.setdefault(one[0], len(nodes)), amounts.setdefault(one[1].requests, len(amounts)))
            for one in map(capacity.assigned, running.pods)
            if one is not None
        ]
        first, self._end = self._end, self._end + len(pods)
        self._gangs[key] = number, first, self._end
        self._terms = _roomy(self._terms, number + 1)
        self._terms[:, number] = (running.started, nan, 0.0) if end is None else (running.started, end.at, end.sure)
        self._pods = _roomy(self._pods, self._end)
        if pods:
            self._pods[:, first : self._end] = np.array(pods, np.int64).T

    def drop(self, key: str) -> None:
        """A gang runs no more."""
        if (known := self._gangs.pop(key, None)) is None:
            return
        number, first, end = known
        self._vacant.append(number)
        self._pods[_GANG, first:end] = -1
        self._gone += end - first
        if self._gone > _GONE and self._gone * 2 > self._end:
            self._compact()

    def terms(self) -> Terms:
        """When all of them started and end, but those that never do."""
        numbers = np.array([number for number, _, _ in self._gangs.values()], np.int64)
        numbers = numbers[self._terms[_ENDS, numbers] != inf]
        started, ends, sure = self._terms[:, numbers]
        return Terms(numbers, started, ends, sure > 0)

    def holdings(self, capacity: Capacity, numbers: Ints) -> Holdings:
        """What these gangs hold, in their order. Pods on nodes that are gone hold nothing."""
        place = np.full(self._terms.shape[1] + 1, -1, np.int64)  # the last is that of pods that are gone
        place[numbers] = np.arange(len(numbers))
        index = np.array([-1 if (at := capacity.index_of(name)) is None else at for name in self._nodes], np.int64)
        pods = self._pods[:, : self._end]
        nodes, places = index[pods[_NODE]], place[pods[_GANG]]
        chosen = np.flatnonzero((nodes >= 0) & (places >= 0))
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
        starts = np.searchsorted(places[chosen], np.arange(len(numbers) + 1))
        each = _each(self._amounts, capacity)
        return Holdings(nodes[chosen], each[:, pods[_AMOUNTS, chosen]], starts, len(capacity.names))

    def _compact(self) -> None:
        """Forget the pods that are gone, and what they alone held."""
        there = self._pods[_GANG, : self._end] >= 0
        before = np.concatenate(([0], np.cumsum(there)))
        pods = self._pods[:, : self._end][:, there]
        self._nodes = _renumber(self._nodes, pods, _NODE)
        self._amounts = _renumber(self._amounts, pods, _AMOUNTS)
        self._gangs = {
            key: (number, int(before[first]), int(before[end])) for key, (number, first, end) in self._gangs.items()
        }
        self._pods, self._end, self._gone = pods, pods.shape[1], 0


def _roomy(array: npt.NDArray[N], size: int) -> npt.NDArray[N]:
    """With room for so many columns."""
    if size <= array.shape[1]:
        return array
    return np.pad(array, ((0, 0), (0, max(size, 2 * array.shape[1]) - array.shape[1])))


def _each(amounts: Iterable[Amounts], capacity: Capacity) -> Ints:
    """Amounts by resource row."""
    known, rows = list(amounts), capacity.rows()
    each = np.zeros((len(rows), len(known)), np.int64)
    for column, requests in enumerate(known):
        for resource, amount in requests:
            if (row := rows.get(resource)) is not None:
                each[row, column] = amount
    return each


def _renumber(names: dict[T, int], pods: Ints, row: int) -> dict[T, int]:
    """Those that the pods name, numbered anew, in the pods too."""
    used, pods[row] = np.unique(pods[row], return_inverse=True)
    known = list(names)
    return {known[number]: new for new, number in enumerate(used.tolist())}
