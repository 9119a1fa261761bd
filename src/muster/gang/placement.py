"""Place all pods of a gang together, or none.

For pods of one shape the result is exact: the gang fits if and only if the number of pods that fit on the nodes adds up
to its size. Several shapes are placed one by one, scarcest first, and in a few other orders if that fails. If all
orders fail, a small gang whose pods only need room is packed exactly. `Refusal.proven` tells whether a refusal is
certain.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations

from msgspec import Struct
from msgspec.structs import astuple

from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.fit.around import Around
from muster.gang.fit.filling import Filled, fill
from muster.gang.fit.packing import Bin, Effort, Unpacked, is_small, pack
from muster.gang.fit.rules import ShapeLimits, has_own_wishes, limits_of
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Shape

# The maximum number of shapes for which all orders are tried: 24 orders.
_ALL_ORDERS = 4

# The largest gang for which several preferences are satisfied, which is slow because pods are placed one by one.
_WISHES_TRIED = 500


class Placement(Struct, frozen=True):
    """The nodes for the pods of each shape, with the number of pods on each node."""

    nodes: Mapping[Shape, tuple[tuple[str, int], ...]]

    def expand(self, shape: Shape) -> Iterator[str]:
        """Yield the name of the node of each pod of a shape."""
        for node, count in self.nodes[shape]:
            yield from (node for _ in range(count))


class Refusal(Struct, frozen=True):
    """The result that a gang does not fit now.

    shape: the first shape whose pods did not all fit.
    wanted: the number of pods of that shape.
    fits: the number of pods of that shape that would fit.
    """

    shape: Shape
    wanted: int
    fits: int
    proven: bool  # False: other shapes of the gang use the room, and another packing may exist

    @property
    def is_of_room(self) -> bool:
        """Whether the gang lacks only room.

        Rules between pods can change at any time, as pods are added and removed.
        """
        return not self.shape.meets_others


class NoPacking(Refusal, frozen=True):
    """The refusal of a gang whose shapes each fit alone, with proof that no packing of all shapes exists."""


# Places a gang, given extra use of the nodes as in `place`. None means that it fits, on nodes that are not computed.
Placing = Callable[[Ints], Placement | Refusal | None]


def place(
    capacity: Capacity,
    gang: Mapping[Shape, int],
    *,
    within: Mask | None = None,
    extra_use: Ints | None = None,
    effort: Effort | None = None,
) -> Placement | Refusal:
    """Return the nodes for all pods of a gang; or why there are none. The caller assigns the pods.

    within: the nodes that may be used, by index; None for all nodes.
    extra_use: additional use by resource row and node index, as `Capacity.sum_use` returns it; negative for freed room.
    effort: the remaining steps for exact packing, in a decision that places a gang many times; None otherwise.
    """
    around = Around(capacity)
    if len(gang) == 1:
        ((shape, count),) = gang.items()
        if within is not None or extra_use is not None or shape.meets_others:
            return _place_in_order(around, gang, list(gang), within, extra_use)
        if (room := capacity.find_known_room(shape)) is not None and room < count:
            return Refusal(shape, count, room, proven=True)
        outcome = _place_in_order(around, gang, list(gang))
        if isinstance(outcome, Refusal) and outcome.proven:
            capacity.note_room(shape, outcome.fits)
        return outcome
    alone: dict[Shape, int] = {}
    rooms: dict[Shape, Ints] = {}
    for shape, count in gang.items():
        fits = rooms[shape] = _find_room(around, shape, limits_of(around, shape, mates=True), within, extra_use)
        alone[shape] = int(np.minimum(fits, count).sum())
        if alone[shape] < count:
            return Refusal(shape, count, alone[shape], proven=True)
    refusal: Refusal | None = None
    for order in _list_orders(gang, alone):
        outcome = _place_in_order(around, gang, order, within, extra_use)
        if isinstance(outcome, Placement):
            return outcome
        refusal = refusal or outcome
    assert refusal is not None, "an empty gang is placed by its first order"
    if any(shape.meets_others for shape in gang):
        return refusal
    return _pack(capacity, gang, rooms, extra_use, refusal, effort)


def _pack(
    capacity: Capacity,
    gang: Mapping[Shape, int],
    rooms: Mapping[Shape, Ints],
    extra_use: Ints | None,
    refusal: Refusal,
    effort: Effort | None,
) -> Placement | Refusal:
    """Search for a packing that no order of shapes finds.

    rooms: how many pods of each shape each node takes if it takes only that shape.
    refusal: the result if the search finds no packing.
    """
    usable = np.logical_or.reduce([room > 0 for room in rooms.values()])
    nodes = capacity.in_order(np.flatnonzero(usable))
    if not is_small(sum(gang.values()), len(nodes)):
        return refusal
    rows = sorted({capacity.rows()[resource] for shape in gang for resource, _ in shape.requests})
    free = capacity.free() if extra_use is None else capacity.free() - extra_use
    fits = np.array([rooms[shape][nodes] for shape in gang])
    bins = [
        Bin(tuple(has), tuple(most)) for has, most in zip(free[rows][:, nodes].T.tolist(), fits.T.tolist(), strict=True)
    ]
    amounts = [{capacity.rows()[resource]: amount for resource, amount in shape.requests} for shape in gang]
    requests = [tuple(asked.get(row, 0) for row in rows) for asked in amounts]
    packed = pack(bins, requests, tuple(gang.values()), effort)
    if isinstance(packed, Unpacked):
        return NoPacking(*astuple(refusal)) if packed is Unpacked.IMPOSSIBLE else refusal
    nodes_by_shape: dict[Shape, tuple[tuple[str, int], ...]] = {}
    for number, shape in enumerate(gang):
        counts = np.zeros(len(capacity.names), np.int64)
        counts[nodes] = [way[number] for way in packed]
        nodes_by_shape[shape] = _list_nodes(capacity, Filled(counts))
    return Placement(nodes_by_shape)


def find_refusal(capacity: Capacity, gang: Mapping[Shape, int], extra_use: Ints) -> Refusal | None:
    """Return why a gang does not fit; None if it fits. Cheaper than `place` where choosing nodes costs more."""
    if len(gang) == 1:
        ((shape, count),) = gang.items()
        if not shape.meets_others:
            fits = int(room_of(capacity, shape, extra_use=extra_use).sum())
            return Refusal(shape, count, fits, proven=True) if fits < count else None
    outcome = place(capacity, gang, extra_use=extra_use)
    return outcome if isinstance(outcome, Refusal) else None


def room_of(capacity: Capacity, shape: Shape, *, within: Mask | None = None, extra_use: Ints | None = None) -> Ints:
    """Return how many pods of a shape each node can take if no other node takes any, by node index.

    within: the nodes that may be used, by index; None for all nodes.
    extra_use: additional use of the nodes; None for none.
    """
    around = Around(capacity)
    return _find_room(around, shape, limits_of(around, shape, mates=True), within, extra_use)


def sum_placement_use(capacity: Capacity, placement: Placement) -> Ints:
    """Return the room that a placement uses, in the form of `extra_use` of `place`."""
    use = np.zeros_like(capacity.free())
    for shape, nodes in placement.nodes.items():
        use += capacity.sum_use(shape, capacity.counts(dict(nodes)))
    return use


def fit_in_any_order(capacity: Capacity, pods: Mapping[Shape, int]) -> bool:
    """Return whether the pods fit, shape after shape, whichever shape is placed first.

    If there are many shapes, some orders are skipped, but each shape is placed first once and last once.
    """
    shapes = list(pods)
    if len(shapes) <= _ALL_ORDERS:
        orders: Iterable[Sequence[Shape]] = permutations(shapes)
    else:
        orders = ([*shapes[first:], *shapes[:first]] for first in range(len(shapes)))
    around = Around(capacity)
    return all(isinstance(_place_in_order(around, pods, order), Placement) for order in orders)


def _list_orders(gang: Mapping[Shape, int], alone: Mapping[Shape, int]) -> Iterator[Sequence[Shape]]:
    """Yield orders in which to place shapes: scarcest first, largest request first, and the reverse of the first.

    In each order, shapes with affinity to other pods follow the other shapes.
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
    extra_use: Ints | None = None,
) -> Placement | Refusal:
    """Place the shapes one after the other; return the refusal of the first shape that finds too little room."""
    capacity = around.capacity
    nodes: dict[Shape, tuple[tuple[str, int], ...]] = {}
    for shape in order:
        filled = _fill(around, shape, gang[shape], within, extra_use)
        if (fits := filled.total) < gang[shape]:
            proven = filled.exact and len(gang) == 1
            return Refusal(shape, gang[shape], fits, proven)
        nodes[shape] = _list_nodes(capacity, filled)
        if len(order) > 1:
            used = capacity.sum_use(shape, filled.counts)
            extra_use = used if extra_use is None else extra_use + used
            around = around.with_placed(shape, filled.counts)
    return Placement(nodes)


def _fill(around: Around, shape: Shape, pods: int, within: Mask | None, extra_use: Ints | None) -> Filled:
    """Return how many pods of a shape each node gets, by the shape's preferences.

    The preferences are ignored if they leave no room for all pods.
    """
    if has_own_wishes(around, shape):
        limits = limits_of(around, shape, wishes=True)
        if len(limits.rules) == 1 or pods <= _WISHES_TRIED:
            fits = _find_room(around, shape, limits, within, extra_use)
            filled = fill(around, shape, fits, limits, pods, extra_use, wishes=True)
            if filled.total == pods:
                return filled
    limits = limits_of(around, shape)
    return fill(around, shape, _find_room(around, shape, limits, within, extra_use), limits, pods, extra_use)


def _find_room(around: Around, shape: Shape, limits: ShapeLimits, within: Mask | None, extra_use: Ints | None) -> Ints:
    """Return how many pods of a shape each node can take, by node index.

    All limits apply except rules between those pods.
    """
    fits = around.capacity.count_fitting(shape, extra_use)
    if within is not None:
        fits[~within] = 0
    limits.apply(fits)
    return fits


def _list_nodes(capacity: Capacity, filled: Filled) -> tuple[tuple[str, int], ...]:
    """Return the names of the nodes that get pods, each with the number of pods, sorted by name."""
    nodes = capacity.in_order(filled.nodes)
    names = [name for index in nodes.tolist() if (name := capacity.names[index]) is not None]
    return tuple(zip(names, filled.counts[nodes].tolist(), strict=True))  # a removed node has no room
