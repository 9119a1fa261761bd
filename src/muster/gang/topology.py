"""Gangs that keep together: all pods in one domain of a topology, or in as few as can be.

*Required* at a level: one domain of that level takes all pods, or none is bound. *Preferred*: the same is tried first,
then one domain of each wider level, then as few of the widest as can be; within a wider domain as few as can be of the
level that is preferred. Of the domains that would do, the tightest is taken, so that roomy ones stay for large gangs.

Members that run already are where the others have to go: if it is required only there, else there first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
from msgspec import Struct

from muster.gang.nodes.capacity import Capacity, Ints, Mask
from muster.gang.nodes.domains import Level, summed
from muster.gang.placement import Placement, Refusal, place, room_of
from muster.gang.shapes import Shape

# So many choices of domains are tried one after the other; of those after them not all are.
_ALL_TRIED = 32

T = TypeVar("T")


class TopologyConstraint(Struct, frozen=True):
    """How near to each other the pods of a gang are to be; anywhere if neither of the last two is said.

    levels: labels of nodes, from the widest level to the narrowest.
    required: the label of the level in whose one domain all pods must be.
    preferred: the label of the level in whose one domain they should be.
    """

    levels: tuple[str, ...]
    required: str = ""
    preferred: str = ""

    @property
    def problem(self) -> str:
        """What is wrong with it, in words; "" if nothing is."""
        if self.required and self.preferred:
            return "the topology is either required or preferred, not both"
        if self.level and self.level not in self.levels:
            return f"no topology level for label: {self.level}"
        return ""

    @property
    def level(self) -> str:
        """The level that matters; "" for none."""
        return self.required or self.preferred


class NoDomain(Refusal, frozen=True):
    """No domain takes the gang, though the whole cluster might. What `Refusal` says is so in the roomiest domain.

    level: the label of the level. domain: the roomiest, by its values; empty: no node is in any.
    running: other members run, so no other domain will do.
    """

    level: str
    domain: tuple[str, ...]
    running: bool = False

    @property
    def sentence(self) -> str:
        """For events and conditions."""
        if not self.domain:
            return f"No node that the pods may use has the labels of topology level {self.level}."
        name = "/".join(self.domain)
        where = f"{name}, where the others run," if self.running else f"the roomiest, {name},"
        if self.fits >= self.wanted:
            takes = f"has room for each of its shapes, but no way was found to fit all {self.wanted} pods"
        else:
            takes = f"takes {self.fits} of {self.wanted}"
        return f"All pods have to be in one domain of {self.level}: {where} {takes}."


class _Search(Struct, frozen=True, eq=False):
    """What is looked for, and how much room there is for it.

    rooms: how many pods of each shape each node could take, if all were of that shape.
    try_in: places the whole gang on some nodes only.
    """

    gang: Mapping[Shape, int]
    rooms: Mapping[Shape, Ints]
    levels: Sequence[Level]
    try_in: Callable[[Mask], Placement | Refusal]

    def totals(self, level: Level) -> Mapping[Shape, Ints]:
        return {shape: level.totals(room) for shape, room in self.rooms.items()}


def place_near(
    capacity: Capacity,
    gang: Mapping[Shape, int],
    constraint: TopologyConstraint,
    *,
    within: Mask | None = None,
    taken: Ints | None = None,
    running: Iterable[str] = (),
) -> Placement | Refusal:
    """Where all pods of a gang go, as near to each other as the constraint asks for, or why not.

    The constraint has no `problem`.

    within, taken: as `placement.place` has them. running: the nodes of those members that run already, one for each.
    """
    outcome = place(capacity, gang, within=within, taken=taken)
    if isinstance(outcome, Refusal) or not constraint.level:
        return outcome
    inside = np.ones(len(capacity.names), np.bool_) if within is None else within
    rooms = {shape: room_of(capacity, shape, within=inside, taken=taken) for shape in gang}

    def try_in(mask: Mask) -> Placement | Refusal:
        return place(capacity, gang, within=mask & inside, taken=taken)

    search = _Search(gang, rooms, capacity.domains(constraint.levels), try_in)
    where = capacity.counts(Counter(running))
    if constraint.required:
        return _required(search, constraint.levels.index(constraint.required), where)
    near = _preferred(search, constraint.levels.index(constraint.preferred), where)
    return near if isinstance(near, Placement) else outcome


def _required(search: _Search, depth: int, where: Ints) -> Placement | Refusal:
    level = search.levels[depth]
    domains = _tightest_first(search, level, where)
    found = _first(domains, lambda domain: search.try_in(level.of_node == domain))
    return found[1] if found is not None else _no_domain(search, level, where)


def _preferred(search: _Search, depth: int, where: Ints) -> Placement | Refusal:
    for above in range(depth, -1, -1):
        domains = _tightest_first(search, search.levels[above], where)
        found = _first(domains, partial(_in_domain, search, above, depth))
        if found is not None:
            return found[1]
    return _in_few(search, search.levels[: depth + 1], search.levels[0].of_node >= 0)


def _in_domain(search: _Search, above: int, depth: int, domain: int) -> Placement | Refusal:
    """Within a domain of the level above, in as few as can be of those down to the one that matters."""
    return _in_few(search, search.levels[above + 1 : depth + 1], search.levels[above].of_node == domain)


def _first(choices: Sequence[T], attempt: Callable[[T], Placement | Refusal]) -> tuple[T, Placement] | None:
    """The first choice that will do.

    The later have more room: of many they are tried in longer and longer steps, the last in any case, and then back.
    """
    failed, step, found = -1, 1, None
    while found is None and failed < len(choices) - 1:
        number = min(failed + step, len(choices) - 1)
        if isinstance(outcome := attempt(choices[number]), Placement):
            found = number, outcome
        else:
            failed, step = number, step if number < _ALL_TRIED else 2 * step
    if found is None:
        return None
    while found[0] - failed > 1:
        number = (found[0] + failed) // 2
        if isinstance(outcome := attempt(choices[number]), Placement):
            found = number, outcome
        else:
            failed = number
    return choices[found[0]], found[1]


def _tightest_first(search: _Search, level: Level, where: Ints) -> Sequence[int]:
    """The domains that have room for each shape alone; where members run, only theirs, that of the most first."""
    totals = search.totals(level)
    enough = np.ones(len(level.names), np.bool_)
    spare = np.zeros(len(level.names), np.int64)
    for shape, total in totals.items():
        enough &= total >= search.gang[shape]
        spare += total
    members = level.totals(where)
    if members.any():
        enough &= members > 0
    order = np.lexsort((np.arange(len(spare)), spare, -members))
    return [int(domain) for domain in order if enough[domain]]


def _in_few(search: _Search, levels: Sequence[Level], mask: Mask) -> Placement | Refusal:
    """Within some nodes, in as few domains of each level as can be, from the widest to the narrowest."""
    outcome = search.try_in(mask)
    for level in levels:
        if isinstance(outcome, Refusal):
            return outcome
        if (fewest := _fewest(search, level, mask)) is not None:
            mask, outcome = fewest
    return outcome


def _fewest(search: _Search, level: Level, mask: Mask) -> tuple[Mask, Placement] | None:
    """Domains that take the gang: no more than have room for each shape alone, if these do, else as few as is found."""
    size = len(level.names)
    totals = {shape: summed(level.of_node, np.where(mask, room, 0), size) for shape, room in search.rooms.items()}
    share = np.min([total / max(search.gang[shape], 1) for shape, total in totals.items()], axis=0)
    order = np.lexsort((np.arange(size), -share))
    sums = {shape: np.cumsum(total[order]) for shape, total in totals.items()}
    least = max(int(np.searchsorted(sums[shape], wanted)) + 1 for shape, wanted in search.gang.items())

    def nodes(count: int) -> Mask:
        chosen = order[:count].copy()
        chosen[-1] = _tightest_last(search.gang, totals, order, count)
        return mask & np.isin(level.of_node, chosen)

    found = _first(range(least, size + 1), lambda count: search.try_in(nodes(count)))
    return None if found is None else (nodes(found[0]), found[1])


def _tightest_last(gang: Mapping[Shape, int], totals: Mapping[Shape, Ints], order: Ints, count: int) -> int:
    """Beside the roomiest domains, the tightest that takes what is left."""
    full, others = order[: count - 1], order[count - 1 :]
    enough = np.ones(len(others), np.bool_)
    spare = np.zeros(len(others), np.int64)
    for shape, wanted in gang.items():
        enough &= totals[shape][others] >= wanted - int(totals[shape][full].sum())
        spare += totals[shape][others]
    return int(others[int(np.argmin(np.where(enough, spare, np.iinfo(np.int64).max)))])


def _no_domain(search: _Search, level: Level, where: Ints) -> NoDomain:
    """Why no domain takes the gang: what the roomiest of those allowed lacks most."""
    totals, members = search.totals(level), level.totals(where)
    share = np.array([total / max(search.gang[shape], 1) for shape, total in totals.items()]).reshape(len(totals), -1)
    allowed = np.flatnonzero(members > 0) if members.any() else np.arange(len(level.names))
    if not len(allowed):
        shape, wanted = next(iter(search.gang.items()))
        return NoDomain(shape, wanted, 0, proven=True, level=level.label, domain=())
    best = int(allowed[int(np.argmax(share[:, allowed].min(axis=0)))])
    scarcest = list(totals)[int(np.argmin(share[:, best]))]
    fits, wanted = int(min(totals[scarcest][best], search.gang[scarcest])), search.gang[scarcest]
    return NoDomain(
        scarcest,
        wanted,
        fits,
        proven=fits < wanted,
        level=level.label,
        domain=level.names[best],
        running=bool(members.any()),
    )
