"""How many pods of one shape go to each node, so that all go or as many as can.

Without rules between the pods, or with one, the answer is exact. With several the pods are placed one after the other,
as a scheduler of single pods would: what is found is right, but not to find a way is no proof that there is none.
"""

import numpy as np
from msgspec import Struct

from muster.gang.fit.around import Around
from muster.gang.fit.rules import Even, Limits, Rule, limits_of
from muster.gang.fit.scoring import Floats, welcome, worths
from muster.gang.nodes.capacity import Capacity, Ints, Strategy
from muster.gang.shapes import Shape

# No more pods than that, over all nodes, are weighed one by one: beyond, they are packed tightly.
_WORTHS = 4_000_000

# So many pods times nodes are looked at one after the other, in a second or two: more would hold up all others.
MOST_TURNS = 10_000_000

_HUGE, _SHORT = int(np.iinfo(np.int64).max), int(np.iinfo(np.int16).max)


class Filled(Struct, frozen=True):
    """How many pods each node gets, by node index.

    exact: if they are fewer than wanted, more do not fit. one: the node that gets all, if that is known.
    """

    counts: Ints
    exact: bool = True
    one: int | None = None

    @property
    def total(self) -> int:
        """How many pods have a node."""
        return int(self.counts.sum() if self.one is None else self.counts[self.one])

    @property
    def nodes(self) -> Ints:
        """Those with pods."""
        return np.flatnonzero(self.counts) if self.one is None else np.array([self.one], np.int64)


def fill(around: Around, shape: Shape, fits: Ints, limits: Limits, wanted: int, taken: Ints | None) -> Filled:
    """Where so many pods go; of nodes that are as good as each other, the first by name. `fits` is changed."""
    if len(limits.rules) > 1:
        if (few := _few_by_one_rule(limits, fits, wanted)) is not None:
            return Filled(few)
        if wanted * len(fits) > MOST_TURNS:
            return Filled(np.zeros_like(fits), exact=False)
        return _one_by_one(around, shape, fits, wanted, taken)
    roomiest = int(fits.max(initial=0))
    if not limits.rules and roomiest < wanted and int(np.minimum(fits, wanted).sum()) < wanted:
        return Filled(fits)
    capacity, liked = around.capacity, welcome(around, shape)
    if not limits.rules and liked is None and capacity.strategy is Strategy.TIGHT and 0 < wanted <= roomiest:
        return _on_one(capacity, fits, wanted)
    order = capacity.by_name
    liked = liked[order] if liked is not None else None
    rule = limits.rules[0] if limits.rules else None
    if rule is not None and not isinstance(rule, Even):
        fits[rule.closed()] = 0
    counts, ordered = np.zeros_like(fits), fits[order]
    most = min(int(fits.max(initial=0)), wanted)  # once the rule has closed some
    tight = capacity.strategy is Strategy.TIGHT or most * len(fits) > _WORTHS
    if rule is None and tight:
        counts[order] = _pack(ordered, wanted, liked)
        return Filled(counts)
    np.minimum(ordered, wanted, out=ordered)  # so that sums stay numbers
    places, quotas = np.zeros_like(fits), np.array([wanted])
    if rule is not None:
        places, quotas = _quotas(rule, rule.places[order], ordered, wanted)
    if tight:
        counts[order] = _pack_by_place(ordered, places, quotas, liked)
    else:
        worth = worths(capacity, shape, taken, most)[order]
        counts[order] = _best_by_place(worth, ordered, places, quotas, liked)
    return Filled(counts)


def _few_by_one_rule(limits: Limits, fits: Ints, wanted: int) -> Ints | None:
    """Where pods can go by one of the rules alone, if by that alone not all can."""
    for rule in limits.rules:
        room = np.minimum(fits, wanted)
        if not isinstance(rule, Even):
            room[rule.closed()] = 0
        places, quotas = _quotas(rule, rule.places, room, wanted)
        if int(quotas.sum()) < wanted:
            return _pack_by_place(room, places, quotas, None)
    return None


def _on_one(capacity: Capacity, fits: Ints, wanted: int) -> Filled:
    """All on the node that it leaves the least room of those that take all: as `_pack` has it, without sorting."""
    left = (fits - wanted).view(np.uint64)  # what is too little is then more than any
    order, counts = capacity.by_name, np.zeros_like(fits)
    one = int(order[left[order].argmin()])
    counts[one] = wanted
    return Filled(counts, one=one)


def _pack(fits: Ints, wanted: int, liked: Ints | None) -> Ints:
    """The most welcome and roomiest are filled up, and the rest goes where it leaves the least room."""
    if liked is None:
        small = int(fits.max(initial=0)) <= _SHORT  # as most are: these are sorted in one pass
        order = np.argsort(-fits.astype(np.int16) if small else -fits, kind="stable")
    else:
        order = np.lexsort((-fits, -liked))
    room = np.cumsum(np.minimum(fits[order], wanted))
    full = int(np.searchsorted(room, wanted, side="left"))  # as many nodes as the gang needs, less one
    counts = np.zeros_like(fits)
    counts[order[:full]] = fits[order[:full]]
    rest = wanted - int(counts.sum())
    if rest:
        suits = (fits >= rest) & (counts == 0)
        if liked is not None:
            suits &= liked == liked[order[full]]
        counts[int(np.argmin(np.where(suits, fits, _HUGE)))] = rest
    return counts


def _quotas(rule: Rule, places: Ints, fits: Ints, wanted: int) -> tuple[Ints, Ints]:
    """A place for every node, and how many pods each place gets; nodes in no place are one, and go first."""
    size = int(places.max(initial=-1)) + 1
    places = np.where(places < 0, size, places)
    room = np.bincount(places, fits, size + 1).astype(np.int64)
    free = min(wanted, int(room[size]))
    return places, np.append(rule.quotas(room[:size], wanted - free), free)


def _pack_by_place(fits: Ints, places: Ints, quotas: Ints, liked: Ints | None) -> Ints:
    """In each place the most welcome and roomiest nodes."""
    order = np.lexsort((-fits, places) if liked is None else (-fits, -liked, places))
    counts = np.zeros_like(fits)
    counts[order] = np.clip(quotas[places[order]] - _before(fits[order], places[order]), 0, fits[order])
    return counts


def _best_by_place(worth: Floats, fits: Ints, places: Ints, quotas: Ints, liked: Ints | None) -> Ints:
    """In each place, pod by pod, the most welcome node and the one where the pod is worth most."""
    nodes, turns = np.nonzero(np.arange(worth.shape[1]) < fits[:, None])
    worth = worth[nodes, turns]
    order = np.lexsort((-worth, places[nodes]) if liked is None else (-worth, -liked[nodes], places[nodes]))
    nodes = nodes[order]
    goes = _before(np.ones_like(nodes), places[nodes]) < quotas[places[nodes]]
    return np.bincount(nodes[goes], minlength=len(fits)).astype(np.int64)


def _before(amounts: Ints, places: Ints) -> Ints:
    """What those before have of the same place, of which all are side by side."""
    before = np.cumsum(amounts) - amounts
    found: Ints = before - before[np.searchsorted(places, places, side="left")]
    return found


def _one_by_one(around: Around, shape: Shape, fits: Ints, wanted: int, taken: Ints | None) -> Filled:
    """Each where it leaves the others most ways: in the emptiest place, and there on the best node."""
    capacity, counts = around.capacity, np.zeros_like(fits)
    for _ in range(wanted):
        now = around.with_placed(shape, counts)
        limits = limits_of(now, shape)
        left = fits - counts
        limits.apply_to_next(left)
        nodes = capacity.by_name
        nodes = nodes[left[nodes] > 0]
        if not len(nodes):
            return Filled(counts, exact=False)
        crowd = np.zeros(len(nodes), np.int64)
        for rule in limits.rules:
            if isinstance(rule, Even):
                crowd += rule.counts[rule.places[nodes]]
        liked = welcome(now, shape)
        keys = [left[nodes] if capacity.strategy is Strategy.TIGHT else -_worth(now, shape, counts, taken)[nodes]]
        keys += [-liked[nodes]] if liked is not None else []
        best = np.arange(len(nodes))
        for key in (crowd, *reversed(keys)):
            least = key[best]
            best = best[least == least.min()]
        counts[nodes[best[0]]] += 1
    return Filled(counts)


def _worth(around: Around, shape: Shape, counts: Ints, taken: Ints | None) -> Floats:
    used = around.capacity.taking(shape, counts)
    found: Floats = worths(around.capacity, shape, used if taken is None else taken + used, 1)[:, 0]
    return found
