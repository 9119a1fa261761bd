"""How many pods of one shape go to each node, so that all go or as many as can.

Without rules between the pods, or with one, the answer is exact. With several the pods are placed one after the other,
as a scheduler of single pods would: what is found is right, but not to find a way is no proof that there is none.
"""

import numpy as np
from msgspec import Struct

from muster.gang.around import Around
from muster.gang.capacity import Ints
from muster.gang.rules import Even, Limits, Rule, limits_of
from muster.gang.shapes import Shape


class Filled(Struct, frozen=True):
    """How many pods each node gets, by node index. exact: if they are fewer than wanted, more do not fit."""

    counts: Ints
    exact: bool = True


def fill(around: Around, shape: Shape, fits: Ints, limits: Limits, wanted: int) -> Filled:
    """Few nodes, tightly. Of nodes that are as good as each other the first by name are taken. `fits` is changed."""
    if len(limits.rules) > 1:
        return _one_by_one(around, shape, fits, wanted)
    by_name = around.capacity.by_name
    counts = np.zeros_like(fits)
    if limits.rules:
        rule = limits.rules[0]
        if not isinstance(rule, Even):
            fits[rule.closed()] = 0
        counts[by_name] = _pack_by_place(rule, rule.places[by_name], fits[by_name], wanted)
    else:
        counts[by_name] = _pack(fits[by_name], wanted)
    return Filled(counts)


def _pack(fits: Ints, wanted: int) -> Ints:
    """The roomiest are filled up, and the rest goes where it leaves the least room."""
    order = np.argsort(-fits, kind="stable")
    room = np.cumsum(np.minimum(fits[order], wanted))
    full = int(np.searchsorted(room, wanted, side="left"))  # as many nodes as the gang needs, less one
    if wanted and full == len(order):
        return fits
    counts = np.zeros_like(fits)
    counts[order[:full]] = fits[order[:full]]
    rest = wanted - int(counts.sum())
    if rest:
        candidates = np.where((fits >= rest) & (counts == 0), fits, np.iinfo(np.int64).max)
        counts[int(np.argmin(candidates))] = rest
    return counts


def _pack_by_place(rule: Rule, places: Ints, fits: Ints, wanted: int) -> Ints:
    """As many in each place as the rule says, on its roomiest nodes; nodes in no place take as many as they can."""
    np.minimum(fits, wanted, out=fits)  # so that sums stay numbers
    free = np.where(places < 0, fits, 0)
    size = int(places.max(initial=-1)) + 1
    inside = np.flatnonzero((fits > 0) & (places >= 0))
    places = places[inside]
    counts = _pack(free, min(wanted, int(free.sum())))
    room = np.bincount(places, fits[inside], size).astype(np.int64)
    quotas = rule.quotas(room, wanted - int(counts.sum()))
    order = np.lexsort((-fits[inside], places))
    nodes, places = inside[order], places[order]
    before = np.cumsum(fits[nodes]) - fits[nodes]
    before -= before[np.searchsorted(places, places, side="left")]  # within the place
    counts[nodes] = np.clip(quotas[places] - before, 0, fits[nodes])
    return counts


def _one_by_one(around: Around, shape: Shape, fits: Ints, wanted: int) -> Filled:
    """Each where it leaves the others most ways: in the emptiest place, and there where it is tightest."""
    counts = np.zeros_like(fits)
    for _ in range(wanted):
        now = around.with_placed(shape, counts)
        limits = limits_of(now, shape)
        left = fits - counts
        limits.apply_to_next(left)
        open_nodes = around.capacity.by_name
        open_nodes = open_nodes[left[open_nodes] > 0]
        if not len(open_nodes):
            return Filled(counts, exact=False)
        crowd = np.zeros(len(open_nodes), np.int64)
        for rule in limits.rules:
            if isinstance(rule, Even):
                crowd += rule.counts[rule.places[open_nodes]]
        counts[open_nodes[np.lexsort((left[open_nodes], crowd))[0]]] += 1
    return Filled(counts)
