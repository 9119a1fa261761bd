"""All of a gang or none: on which nodes its pods go together.

For pods of one shape the answer is exact: the gang fits if and only if the nodes' capacities for that shape sum up
to its size. Several shapes are placed one after the other, scarcest first, and in a few other orders if that fails;
finding no order is not a proof that there is none, and `Refusal.proven` says which it is.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
from msgspec import Struct

from muster.gang.fit.around import Around
from muster.gang.fit.filling import Filled, fill
from muster.gang.fit.rules import Limits, has_own_wishes, limits_of
from muster.gang.nodes.capacity import Capacity, Ints, Mask
from muster.gang.shapes import Shape

# Of so many shapes all orders are tried: 24.
_ALL_ORDERS = 4

# Several wishes are met pod by pod, which is slow: of gangs of so many pods at most.
_WISHES_TRIED = 500


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

    @property
    def is_of_room(self) -> bool:
        """Whether room is all that it lacks; what other pods forbid comes and goes with them."""
        return not self.shape.meets_others


# Where a gang goes beside what is taken (`place`'s `taken`): what decides for others need not know how it is placed.
Placing = Callable[[Ints], Placement | Refusal]


def place(
    capacity: Capacity, gang: Mapping[Shape, int], *, within: Mask | None = None, taken: Ints | None = None
) -> Placement | Refusal:
    """Where all pods of a gang go, or why not. Nothing is changed; the caller assigns what it accepts.

    within: the nodes that may be used, by index; None: all.
    taken: what is used besides, by resource row and node index, as `Capacity.taking` has it; negative: what comes free.
    """
    around = Around(capacity)
    if len(gang) == 1:
        return _place_in_order(around, gang, list(gang), within, taken)
    alone: dict[Shape, int] = {}
    for shape, wanted in gang.items():
        fits = _room(around, shape, limits_of(around, shape, mates=True), within, taken)
        alone[shape] = int(np.minimum(fits, wanted).sum())
        if alone[shape] < wanted:
            return Refusal(shape, wanted, alone[shape], proven=True)
    refusal: Refusal | None = None
    for order in _orders(gang, alone):
        outcome = _place_in_order(around, gang, order, within, taken)
        if isinstance(outcome, Placement):
            return outcome
        refusal = refusal or outcome
    assert refusal is not None, "an empty gang is placed by its first order"
    return refusal


def room_of(capacity: Capacity, shape: Shape, *, within: Mask | None = None, taken: Ints | None = None) -> Ints:
    """How many pods of a shape each node can take beside the pods that are there, if none goes to another node."""
    around = Around(capacity)
    return _room(around, shape, limits_of(around, shape, mates=True), within, taken)


def taken_by(capacity: Capacity, placement: Placement) -> Ints:
    """What a gang that goes there uses, in the form of `place`'s `taken`."""
    taken = np.zeros_like(capacity.free())
    for shape, nodes in placement.nodes.items():
        taken += capacity.taking(shape, capacity.counts(dict(nodes)))
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
    around = Around(capacity)
    return all(isinstance(_place_in_order(around, pods, order), Placement) for order in orders)


def _orders(gang: Mapping[Shape, int], alone: Mapping[Shape, int]) -> Iterator[Sequence[Shape]]:
    """Orders in which to place shapes: scarcest first, largest request first, and the reverse of the first.

    But those that are drawn to other pods go after these.
    """
    scarce = sorted(gang, key=lambda shape: (alone[shape] / gang[shape], shape.requests))
    if any(shape.terms.affinity for shape in gang):
        yield sorted(scarce, key=lambda shape: bool(shape.terms.affinity))
    yield scarce
    yield sorted(gang, key=lambda shape: shape.requests, reverse=True)
    yield scarce[::-1]


def _place_in_order(
    around: Around,
    gang: Mapping[Shape, int],
    order: Sequence[Shape],
    within: Mask | None = None,
    taken: Ints | None = None,
) -> Placement | Refusal:
    capacity = around.capacity
    nodes: dict[Shape, tuple[tuple[str, int], ...]] = {}
    for shape in order:
        filled = _fill(around, shape, gang[shape], within, taken)
        if (fits := filled.total) < gang[shape]:
            proven = filled.exact and len(gang) == 1
            return Refusal(shape, gang[shape], fits, proven)
        nodes[shape] = tuple(_named(capacity, filled))
        if len(order) > 1:
            used = capacity.taking(shape, filled.counts)
            taken = used if taken is None else taken + used
            around = around.with_placed(shape, filled.counts)
    return Placement(nodes)


def _fill(around: Around, shape: Shape, wanted: int, within: Mask | None, taken: Ints | None) -> Filled:
    """As the shape wishes, if that leaves room for all, else as it must."""
    if has_own_wishes(around, shape):
        limits = limits_of(around, shape, wishes=True)
        if len(limits.rules) == 1 or wanted <= _WISHES_TRIED:
            fits = _room(around, shape, limits, within, taken)
            filled = fill(around, shape, fits, limits, wanted, taken)
            if filled.total == wanted:
                return filled
    limits = limits_of(around, shape)
    return fill(around, shape, _room(around, shape, limits, within, taken), limits, wanted, taken)


def _room(around: Around, shape: Shape, limits: Limits, within: Mask | None, taken: Ints | None) -> Ints:
    """How many pods of a shape each node can take, by all but the rules between them."""
    fits = around.capacity.fitting(shape, taken)
    if within is not None:
        fits[~within] = 0
    limits.apply(fits)
    return fits


def _named(capacity: Capacity, filled: Filled) -> Iterator[tuple[str, int]]:
    """The nodes that get pods, in the order of their names."""
    nodes = capacity.in_order(filled.nodes)
    for index, count in zip(nodes.tolist(), filled.counts[nodes].tolist(), strict=True):
        name = capacity.names[index]
        assert name is not None, "a node that is gone has no room"
        yield name, count
