"""All of a gang or none: on which nodes its pods go together.

For pods of one shape the answer is exact: the gang fits if and only if the nodes' capacities for that shape sum up
to its size. Several shapes are placed one after the other, scarcest first, and in a few other orders if that fails;
finding no order is not a proof that there is none, and `Refusal.proven` says which it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
from msgspec import Struct

from muster.gang.capacity import Capacity, Ints, Mask
from muster.gang.shapes import Shape

# Of so many shapes all orders are tried: 24.
_ALL_ORDERS = 4


class _Room(Struct, frozen=True):
    """The nodes that a gang may use."""

    capacity: Capacity
    within: Mask | None = None

    def fitting(self, shape: Shape, taken: Ints | None) -> Ints:
        """How many pods of a shape each node can take, by node index; none outside."""
        fits = self.capacity.fitting(shape, taken)
        if self.within is not None:
            fits[~self.within] = 0
        return fits


class Placement(Struct, frozen=True):
    """For each shape, the nodes that take its pods and how many each."""

    nodes: Mapping[Shape, tuple[tuple[str, int], ...]]

    def expand(self, shape: Shape) -> Iterator[str]:
        """The node of each pod of a shape, one after the other."""
        for node, count in self.nodes[shape]:
            yield from (node for _ in range(count))


class Refusal(Struct, frozen=True):
    """The gang does not fit now. `shape` is the first that did not, `fits` how many of its `wanted` pods would."""

    shape: Shape
    wanted: int
    fits: int
    proven: bool  # False: other shapes of the gang took the room, and another packing might exist


# Where a gang goes beside what is taken (`place`'s `taken`): what decides for others need not know how it is placed.
Placing = Callable[[Ints], Placement | Refusal]


def place(
    capacity: Capacity, gang: Mapping[Shape, int], *, within: Mask | None = None, taken: Ints | None = None
) -> Placement | Refusal:
    """Where all pods of a gang go, or why not. Nothing is changed; the caller assigns what it accepts.

    within: the nodes that may be used, by index; None: all.
    taken: what is used besides, by resource row and node index, as `Capacity.taking` has it; negative: what comes free.
    """
    room = _Room(capacity, within)
    alone = {shape: room.fitting(shape, taken) for shape in gang}
    for shape, wanted in gang.items():
        fits = int(np.minimum(alone[shape], wanted).sum())
        if fits < wanted:
            return Refusal(shape, wanted, fits, proven=True)
    refusal: Refusal | None = None
    for order in _orders(gang, alone):
        outcome = _place_in_order(room, gang, order, taken)
        if isinstance(outcome, Placement):
            return outcome
        refusal = refusal or outcome
    assert refusal is not None, "an empty gang is placed by its first order"
    return refusal


def taken_by(capacity: Capacity, placement: Placement) -> Ints:
    """What a gang that goes there uses, in the form of `place`'s `taken`."""
    taken = np.zeros_like(capacity.free())
    for shape, nodes in placement.nodes.items():
        counts = np.zeros(len(capacity.names), np.int64)
        for node, count in nodes:
            counts[_index(capacity, node)] = count
        taken += capacity.taking(shape, counts)
    return taken


def fit_in_any_order(capacity: Capacity, pods: Mapping[Shape, int]) -> bool:
    """Whether the pods of each shape, placed one shape after the other, find room whichever comes first.

    Of many shapes not every order is tried, but each of them is first once, and last.
    """
    shapes = list(pods)
    if len(shapes) <= _ALL_ORDERS:
        orders: Iterable[Sequence[Shape]] = permutations(shapes)
    else:
        orders = ([*shapes[first:], *shapes[:first]] for first in range(len(shapes)))
    return all(_fit_in_order(capacity, pods, order) for order in orders)


def _fit_in_order(capacity: Capacity, pods: Mapping[Shape, int], order: Sequence[Shape]) -> bool:
    taken: Ints | None = None
    for shape in order:
        counts = _fill(capacity.fitting(shape, taken), pods[shape])
        if counts is None:
            return False
        used = capacity.taking(shape, counts)
        taken = used if taken is None else taken + used
    return True


def _orders(gang: Mapping[Shape, int], alone: Mapping[Shape, Ints]) -> Iterator[list[Shape]]:
    """Orders in which to place shapes: scarcest first, largest request first, and the reverse of the first."""
    scarce = sorted(
        gang, key=lambda shape: (int(np.minimum(alone[shape], gang[shape]).sum()) / gang[shape], shape.requests)
    )
    yield scarce
    if len(gang) > 1:
        yield sorted(gang, key=lambda shape: shape.requests, reverse=True)
        yield scarce[::-1]


def _place_in_order(
    room: _Room, gang: Mapping[Shape, int], order: list[Shape], taken: Ints | None
) -> Placement | Refusal:
    capacity = room.capacity
    nodes: dict[Shape, tuple[tuple[str, int], ...]] = {}
    for shape in order:
        fitting = room.fitting(shape, taken)
        counts = _fill(fitting, gang[shape])
        if counts is None:
            fits = int(np.minimum(fitting, gang[shape]).sum())
            return Refusal(shape, gang[shape], fits, proven=False)
        nodes[shape] = tuple((_name(capacity, int(i)), int(counts[i])) for i in np.flatnonzero(counts))
        used = capacity.taking(shape, counts)
        taken = used if taken is None else taken + used
    return Placement(nodes)


def _fill(fitting: Ints, wanted: int) -> Ints | None:
    """Few nodes, tightly: the roomiest are filled up, and the rest goes where it leaves the least room."""
    counts = np.zeros_like(fitting)
    order = np.argsort(-fitting, kind="stable")
    room = np.cumsum(np.minimum(fitting[order], wanted))
    full = int(np.searchsorted(room, wanted, side="left"))  # as many nodes as the gang needs, less one
    if wanted and full == len(order):
        return None
    counts[order[:full]] = fitting[order[:full]]
    rest = wanted - int(counts.sum())
    if rest:
        candidates = np.where((fitting >= rest) & (counts == 0), fitting, np.iinfo(np.int64).max)
        counts[int(np.argmin(candidates))] = rest
    return counts


def _name(capacity: Capacity, index: int) -> str:
    name = capacity.names[index]
    assert name is not None, "a node that is gone has no room"
    return name


def _index(capacity: Capacity, node: str) -> int:
    index = capacity.index_of(node)
    assert index is not None, "a gang is placed on nodes that are there"
    return index
