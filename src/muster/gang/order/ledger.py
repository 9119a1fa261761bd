"""Track the node use, start and end of the running gangs, as arrays that each change updates.

A reservation needs the use of all running gangs whenever room becomes free. With 100,000 running pods, the ledger must
not read all pods each time, but only the pods of changed gangs.
"""

from collections.abc import Iterable, Sequence
from math import inf, nan
from typing import Self, TypeVar

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Floats, Ints, Mask
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.ends import EndTime
from muster.gang.shapes import Amounts

T = TypeVar("T")
A = TypeVar("A", Ints, Floats)

# Rows of the array of pods. The array of gangs has the rows start, end, and whether the end is certain.
_GANG, _NODE, _AMOUNTS = range(3)
_ENDS = 1

# The maximum number of removed pods in the array before it is compacted.
_GONE = 1000


class RunningGang(Struct, frozen=True):
    """A running gang, or a running pod without a gang.

    pods: the UIDs of its pods.
    started: the start time in seconds, on the caller's clock.
    end: the end time; None if it is unknown.
    """

    pods: Sequence[str]
    started: float
    end: EndTime | None = None


class GangEnds(Struct, frozen=True, eq=False):
    """The numbers, start times and end times (NaN: unknown) of gangs as arrays, and whether each end is certain."""

    numbers: Ints
    started: Floats
    ends: Floats
    enforced: Mask


class GangLedger:
    """The running gangs by key, each with its node use at the time of its last update."""

    def __init__(self) -> None:
        self._gangs: dict[str, tuple[int, int, int]] = {}  # by key: the number of the gang, and the range of its pods
        self._vacant: list[int] = []
        self._nodes: dict[str, int] = {}
        # The index of each node, and the capacity, its node version and the number of nodes for which they are valid.
        self._indexes: Ints = np.zeros(0, np.int64)
        self._indexes_since: tuple[Capacity | None, int, int] = (None, -1, -1)
        self._amounts: dict[Amounts, int] = {}
        self._terms: Floats = np.full((3, 0), nan)
        self._pods: Ints = np.zeros((3, 0), np.int64)  # the gang number of a removed pod is -1
        self._end = 0
        self._gone = 0

    @classmethod
    def of(cls, capacity: Capacity, running: Iterable[RunningGang]) -> Self:
        """Return a ledger with these running gangs."""
        ledger = cls()
        for number, one in enumerate(running):
            ledger.set(str(number), one, capacity)
        return ledger

    def set(self, key: str, running: RunningGang, capacity: Capacity) -> None:
        """Add or replace a running gang. Its node use is the current use of its pods in the capacity."""
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
        self._terms = _grow_columns(self._terms, number + 1)
        self._terms[:, number] = (
            (running.started, nan, 0.0) if end is None else (running.started, end.at, end.is_enforced)
        )
        self._pods = _grow_columns(self._pods, self._end)
        if pods:
            self._pods[:, first : self._end] = np.array(pods, np.int64).T

    def drop(self, key: str) -> None:
        """Remove a gang that no longer runs."""
        if (entry := self._gangs.pop(key, None)) is None:
            return
        number, first, end = entry
        self._vacant.append(number)
        self._pods[_GANG, first:end] = -1
        self._gone += end - first
        if self._gone > _GONE and self._gone * 2 > self._end:
            self._compact()

    def terms(self) -> GangEnds:
        """Return the start and end times of the gangs, without gangs that never end."""
        numbers = np.array([number for number, _, _ in self._gangs.values()], np.int64)
        numbers = numbers[self._terms[_ENDS, numbers] != inf]
        started, ends, sure = self._terms[:, numbers]
        return GangEnds(numbers, started, ends, sure > 0)

    def holdings(self, capacity: Capacity, numbers: Ints) -> Holdings:
        """Return the node use of the gangs with these numbers, in this order. Pods on removed nodes use nothing."""
        place = np.full(self._terms.shape[1] + 1, -1, np.int64)  # the last entry is for removed pods
        place[numbers] = np.arange(len(numbers))
        index = self._find_indexes(capacity)
        pods = self._pods[:, : self._end]
        nodes, places = index[pods[_NODE]], place[pods[_GANG]]
        chosen = np.flatnonzero((nodes >= 0) & (places >= 0))
        chosen = chosen[np.argsort(places[chosen], kind="stable")]
        starts = np.searchsorted(places[chosen], np.arange(len(numbers) + 1))
        each = _tabulate_amounts(self._amounts, capacity)
        return Holdings(nodes[chosen], each[:, pods[_AMOUNTS, chosen]], starts, len(capacity.names))

    def _find_indexes(self, capacity: Capacity) -> Ints:
        """Return the index of each node in a capacity; -1 for a node that the capacity lacks."""
        since = capacity, capacity.node_version, len(self._nodes)
        if self._indexes_since != since:
            indexes = [-1 if (at := capacity.index_of(name)) is None else at for name in self._nodes]
            self._indexes, self._indexes_since = np.array(indexes, np.int64), since
        return self._indexes

    def _compact(self) -> None:
        """Remove the rows of removed pods, and the nodes and amounts that only those pods used."""
        there = self._pods[_GANG, : self._end] >= 0
        before = np.concatenate(([0], np.cumsum(there)))
        pods = self._pods[:, : self._end][:, there]
        self._nodes, self._indexes_since = _renumber(self._nodes, pods, _NODE), (None, -1, -1)
        self._amounts = _renumber(self._amounts, pods, _AMOUNTS)
        self._gangs = {
            key: (number, int(before[first]), int(before[end])) for key, (number, first, end) in self._gangs.items()
        }
        self._pods, self._end, self._gone = pods, pods.shape[1], 0


def _grow_columns(array: A, size: int) -> A:
    """Return the array, padded to at least `size` columns if it has fewer."""
    if size <= array.shape[1]:
        return array
    return np.pad(array, ((0, 0), (0, max(size, 2 * array.shape[1]) - array.shape[1])))


def _tabulate_amounts(amounts: Iterable[Amounts], capacity: Capacity) -> Ints:
    """Return a table of amounts with a row for each resource of the capacity and a column for each item."""
    known, rows = list(amounts), capacity.rows()
    each = np.zeros((len(rows), len(known)), np.int64)
    for column, requests in enumerate(known):
        for resource, amount in requests:
            if (row := rows.get(resource)) is not None:
                each[row, column] = amount
    return each


def _renumber(names: dict[T, int], pods: Ints, row: int) -> dict[T, int]:
    """Return the names that the row still refers to, with new numbers from 0.

    The new numbers are written into the row.
    """
    used, pods[row] = np.unique(pods[row], return_inverse=True)
    known = list(names)
    return {known[number]: new for new, number in enumerate(used.tolist())}
