"""Pack pods of several shapes onto nodes exactly, unless the search takes too long.

Only room counts here. The search goes from node to node. On each node it tries only the maximal fillings, to which no
pod can be added, because a fuller node is never worse. It remembers the sets of pods that did not fit on the remaining
nodes.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

# The maximum number of steps of one search. A step puts some pods of one shape on a node and takes a few microseconds.
STEPS: Final = 5000
# The maximum number of steps of all searches of one decision, since a preemption or a topology places a gang many
# times. A preemption that runs out of steps evicts more gangs than necessary; a longer search would delay all
# placement.
STEPS_OF_DECISION: Final = 2 * STEPS
# The largest gangs and clusters for which a search is likely to finish within this number of steps.
MOST_PODS: Final = 64
MOST_NODES: Final = 256

Counts: TypeAlias = tuple[int, ...]  # by shape
Amounts: TypeAlias = tuple[int, ...]  # by resource


class Bin(Struct, frozen=True):
    """A node to pack: its free amounts, and how many pods of each shape fit if it takes only that shape."""

    free: Amounts
    fits: Counts


class Effort:
    """The number of steps that all searches of one decision may still take in total.

    A search without remaining steps ends without a result.
    """

    def __init__(self, steps: int = STEPS_OF_DECISION) -> None:
        self.steps = steps


class Unpacked(Enum):
    """The reason why there is no packing."""

    IMPOSSIBLE = "there is none"
    UNKNOWN = "the search was too long"


def is_small(pods: int, nodes: int) -> bool:
    """Return whether a search with this number of pods and nodes is likely to finish."""
    return pods <= MOST_PODS and nodes <= MOST_NODES


def pack(
    bins: Sequence[Bin], requests: Sequence[Amounts], pods: Counts, effort: Effort | None = None
) -> list[Counts] | Unpacked:
    """Return how many pods of each shape each node gets, in the order of the nodes; or why there is no result.

    requests: the requests of one pod of each shape, by resource.
    effort: the remaining steps of the decision; the search subtracts its own. None: a decision with a single search.
    """
    effort = effort if effort is not None else Effort()
    if not is_small(sum(pods), len(bins)):
        return Unpacked.UNKNOWN
    order = sorted(range(len(bins)), key=lambda index: (-sum(bins[index].fits), index))
    steps = min(STEPS, effort.steps)
    search = _Search([bins[index] for index in order], requests, steps)
    ways = search.place(0, pods)
    effort.steps -= steps - max(0, search.steps)
    if ways is None:
        return Unpacked.UNKNOWN if search.steps < 0 else Unpacked.IMPOSSIBLE
    packed = [(0,) * len(pods)] * len(bins)
    for index, way in zip(order, ways, strict=False):
        packed[index] = way
    return packed


class _Search:
    """A search for nodes for all pods of a gang.

    steps: the remaining steps; negative once they have run out.
    """

    def __init__(self, bins: Sequence[Bin], requests: Sequence[Amounts], steps: int) -> None:
        self._bins = bins
        self._requests = requests
        self.steps = steps
        self._failed: set[tuple[int, Counts]] = set()
        # For each node, the sums over that node and all later nodes: pods of each shape, and free amounts.
        self._fits = _sum_tails([one.fits for one in bins], len(requests))
        self._free = _sum_tails([one.free for one in bins], len(requests[0]))

    def place(self, first: int, pods: Counts) -> list[Counts] | None:
        """Return the fillings of the nodes from index `first` on; None if none was found before the steps ran out.

        Nodes beyond the end of the returned list stay empty.
        """
        if not any(pods):
            return []
        if first == len(self._bins) or (first, pods) in self._failed or self._is_hopeless(first, pods):
            return None
        for way in self._list_fillings(self._bins[first], pods):
            if self.steps < 0:
                return None
            remainder = tuple(count - taken for count, taken in zip(pods, way, strict=True))
            rest = self.place(first + 1, remainder)
            if rest is not None:
                return [way, *rest]
        if self.steps < 0:
            return None
        self._failed.add((first, pods))
        return None

    def _is_hopeless(self, first: int, pods: Counts) -> bool:
        """Return whether the remaining nodes lack room even if pods could be split over nodes."""
        if any(count > most for count, most in zip(pods, self._fits[first], strict=True)):
            return True
        return any(
            sum(count * request[resource] for count, request in zip(pods, self._requests, strict=True)) > has
            for resource, has in enumerate(self._free[first])
        )

    def _list_fillings(self, node: Bin, pods: Counts) -> Iterator[Counts]:
        """Yield the maximal fillings of a node with the pods, those with most pods of the first shape first."""
        most = tuple(map(min, pods, node.fits))
        yield from self._fill(node.free, most, ())

    def _fill(self, free: Amounts, most: Counts, chosen: Counts) -> Iterator[Counts]:
        shape = len(chosen)
        if shape == len(most):
            if not any(chosen[other] < most[other] and self._count_fitting(free, other) for other in range(shape)):
                yield chosen
            return
        request = self._requests[shape]
        for count in range(min(most[shape], self._count_fitting(free, shape)), -1, -1):
            self.steps -= 1
            if self.steps < 0:
                return
            rest = tuple(has - count * amount for has, amount in zip(free, request, strict=True))
            yield from self._fill(rest, most, (*chosen, count))

    def _count_fitting(self, free: Amounts, shape: int) -> int:
        """Return how many pods of a shape fit into the free amounts."""
        return min(has // amount for has, amount in zip(free, self._requests[shape], strict=True) if amount)


def _sum_tails(rows: Sequence[Sequence[int]], width: int) -> list[list[int]]:
    """Return, for each row, the sums of that row and all later rows, and finally a row of zeros.

    Negative numbers count as 0.
    """
    sums = [[0] * width]
    for row in reversed(rows):
        sums.append([max(number, 0) + more for number, more in zip(row, sums[-1], strict=True)])
    return sums[::-1]
