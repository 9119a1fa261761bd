"""Another node for the pods of one that is lost, as near to the others as their topology asks for.

Required: in the domain where the others are, or nowhere. Preferred: there first, then in each wider domain around them,
then anywhere. Of slices that the node leaves incomplete, in the domain of that slice. Only where the lowest domains are
single nodes: a rack is not lost with one of its nodes.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from muster.gang.nodes.capacity import Mask
from muster.gang.nodes.domains import Ints, Level
from muster.queueing.model import FlavorSpec, Places, PodSet, TopologyRequest
from muster.queueing.topology import search
from muster.queueing.topology.assigning import ANYWHERE, ask_of, shape_of
from muster.queueing.topology.ledger import Ledger


def lost_of(places: Places, lost: str) -> int:
    """How many pods the assignment has on a node."""
    return sum(count for values, count in places.domains if values[-1] == lost)


def replaced(
    places: Places, podset: PodSet, flavors: Mapping[str, FlavorSpec], ledger: Ledger, lost: str
) -> Places | str:
    """The places with another node for the pods on the lost one; or why there is none. Nothing is taken."""
    flavor = next(flavors[name] for name in places.flavors if name in flavors and flavors[name].levels)
    field = ledger.field(flavor)
    leaves = field.levels[-1]
    number = {name[-1]: i for i, name in enumerate(leaves.names)}
    kept = replace(places, domains=tuple(one for one in places.domains if one[0][-1] != lost))
    if stale := [values[-1] for values, _ in kept.domains if values[-1] not in number]:
        return (
            "Cannot replace the node, because the existing topologyAssignment is invalid, as it contains the stale"
            f" domain {stale[0]}"
        )
    ledger.give([places])
    ledger.take([kept])
    try:
        room = ledger.room(flavor, shape_of(podset, flavor)).pods
    finally:
        ledger.give([kept])
        ledger.take([places])
    if lost in number:
        room[number[lost]] = 0
    there = _counts(kept, number, len(room))
    count = lost_of(places, lost)
    request, last = podset.topology or ANYWHERE, len(field.levels) - 1
    broken = next(((level, size) for level, size in request.slices[::-1] if count % size), None)
    ask = ask_of(request, flavor.levels or (), count, leader=False) if broken is None else None
    if not isinstance(ask, search.Ask):
        ask = search.Ask(count, last, slice_level=last)
    near = _around(request, field.levels, there) if broken is None else _incomplete(*broken, field.levels, there, count)
    for domain in near:
        found = search.find(field.levels, np.where(domain, room, 0), ask)
        if isinstance(found, search.Found):
            for leaf, more in found.domains:
                there[leaf] += more
            domains = tuple((leaves.names[i][-1:], int(there[i])) for i in np.flatnonzero(there))
            return replace(places, domains=domains)
    return f"cannot find replacement assignment for unhealthy node: {lost}"


def _counts(places: Places, number: Mapping[str, int], size: int) -> Ints:
    counts = np.zeros(size, np.int64)
    for values, pods in places.domains:
        counts[number[values[-1]]] += pods
    return counts


def _incomplete(label: str, size: int, levels: Sequence[Level], there: Ints, count: int) -> Iterator[Mask]:
    """The domains whose slices these pods complete."""
    above = _at(levels, [level.label for level in levels].index(label))
    for domain in np.unique(above):
        if (int(there[above == domain].sum()) + count) % size == 0:
            yield above == domain


def _around(request: TopologyRequest, levels: Sequence[Level], there: Ints) -> Iterator[Mask]:
    """Where to look, the nearest to the others first."""
    if there.any() and request.level:
        level = [each.label for each in levels].index(request.level)
        for narrow in [level] if request.how == "required" else range(level, -1, -1):
            above = _at(levels, narrow)
            yield np.isin(above, above[there > 0])
    if not there.any() or request.how != "required":
        yield np.ones_like(there, np.bool_)


def _at(levels: Sequence[Level], level: int) -> Ints:
    """The domain of a level that each lowest domain is in."""
    numbers = np.arange(len(levels[-1].names))
    for narrower in range(len(levels) - 1, level, -1):
        numbers = levels[narrower].parents[numbers]
    return numbers
