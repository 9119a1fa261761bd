"""Place gangs close together: all pods in one domain of a topology, or in as few domains as possible.

*Required* at a level: one domain of that level takes all pods, or no pod is bound. *Preferred*: the same is tried
first, then one domain of each wider level, then as few of the widest domains as possible. Within a wider domain, as few
domains of the preferred level as possible are used. Of several suitable domains the tightest is used, so that roomy
domains stay free for large gangs.

If members already run, the other pods go to the domains of these members: only there if the level is required, else
there first.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.fit.packing import Effort
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.domains import DomainLevel, sum_by_number
from muster.gang.placement import Placement, Refusal, place, room_of
from muster.gang.shapes import Shape

# The maximum number of choices that are all tried; if there are more, some are skipped.
_ALL_TRIED = 32

T = TypeVar("T")


class TopologyConstraint(Struct, frozen=True):
    """A constraint on how close together the pods of a gang must be. Without a level, they may be anywhere.

    levels: node labels, from the widest level to the narrowest.
    required: the label of the level at which one domain must take all pods; "" for none.
    preferred: the label of the level at which one domain should take all pods; "" for none.
    """

    levels: tuple[str, ...]
    required: str = ""
    preferred: str = ""

    @property
    def problem(self) -> str:
        """A description of the error in the constraint; "" if it is valid."""
        if self.required and self.preferred:
            return "the topology is either required or preferred, not both"
        if self.level and self.level not in self.levels:
            return f"no topology level for label: {self.level}"
        return ""

    @property
    def level(self) -> str:
        """The label of the required or preferred level; "" for none."""
        return self.required or self.preferred


class NoDomain(Refusal, frozen=True):
    """The refusal of a gang that fits in no topology domain, although it might fit in the whole cluster.

    The fields of `Refusal` describe the roomiest domain.

    level: the label of the level.
    domain: the roomiest domain, by its values; empty if no node is in any domain.
    running: whether other members run already, so that only their domain is allowed.
    """

    level: str
    domain: tuple[str, ...]
    running: bool = False

    @property
    def sentence(self) -> str:
        """The explanation for events and conditions."""
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
    """A gang to place, and the room for it.

    rooms: how many pods of each shape each node could take if all pods were of that shape.
    try_in: places the whole gang on the given nodes only.
    """

    gang: Mapping[Shape, int]
    rooms: Mapping[Shape, Ints]
    levels: Sequence[DomainLevel]
    try_in: Callable[[Mask], Placement | Refusal]

    def totals(self, level: DomainLevel) -> Mapping[Shape, Ints]:
        return {shape: level.totals(room) for shape, room in self.rooms.items()}


def place_near(
    capacity: Capacity,
    gang: Mapping[Shape, int],
    constraint: TopologyConstraint,
    *,
    within: Mask | None = None,
    extra_use: Ints | None = None,
    running: Iterable[str] = (),
    effort: Effort | None = None,
) -> Placement | Refusal:
    """Return the nodes for all pods of a gang, as close together as the constraint requires; or why there are none.

    The constraint must be valid: its `problem` must be "".

    within, extra_use, effort: as in `placement.place`.
    running: the node of each member that already runs, one entry per member.
    """
    effort = effort if effort is not None else Effort()
    outcome = place(capacity, gang, within=within, extra_use=extra_use, effort=effort)
    if isinstance(outcome, Refusal) or not constraint.level:
        return outcome
    inside = np.ones(len(capacity.names), np.bool_) if within is None else within
    rooms = {shape: room_of(capacity, shape, within=inside, extra_use=extra_use) for shape in gang}

    def try_in(mask: Mask) -> Placement | Refusal:
        return place(capacity, gang, within=mask & inside, extra_use=extra_use, effort=effort)

    search = _Search(gang, rooms, capacity.domains(constraint.levels), try_in)
    where = capacity.counts(Counter(running))
    if constraint.required:
        return _place_required(search, constraint.levels.index(constraint.required), where)
    near = _place_preferred(search, constraint.levels.index(constraint.preferred), where)
    return near if isinstance(near, Placement) else outcome


def _place_required(search: _Search, depth: int, where: Ints) -> Placement | Refusal:
    level = search.levels[depth]
    domains = _list_tightest_first(search, level, where)
    choice = _find_first(domains, lambda domain: search.try_in(level.of_node == domain))
    return choice[1] if choice is not None else _explain_no_domain(search, level, where)


def _place_preferred(search: _Search, depth: int, where: Ints) -> Placement | Refusal:
    for above in range(depth, -1, -1):
        domains = _list_tightest_first(search, search.levels[above], where)
        choice = _find_first(domains, partial(_place_in_domain, search, above, depth))
        if choice is not None:
            return choice[1]
    return _place_in_few(search, search.levels[: depth + 1], search.levels[0].of_node >= 0)


def _place_in_domain(search: _Search, above: int, depth: int, domain: int) -> Placement | Refusal:
    """Place the gang in one domain of level `above`, in as few domains of each level down to `depth` as possible."""
    return _place_in_few(search, search.levels[above + 1 : depth + 1], search.levels[above].of_node == domain)


def _find_first(choices: Sequence[T], attempt: Callable[[T], Placement | Refusal]) -> tuple[T, Placement] | None:
    """Return the first choice for which `attempt` succeeds, with its placement; None if there is none.

    Later choices have more room. With many choices, the distance between tried choices grows, and the last choice is
    always tried. Then the search goes back to the smallest choice that succeeds.
    """
    failed, step, success = -1, 1, None
    while success is None and failed < len(choices) - 1:
        number = min(failed + step, len(choices) - 1)
        if isinstance(outcome := attempt(choices[number]), Placement):
            success = number, outcome
        else:
            failed, step = number, step if number < _ALL_TRIED else 2 * step
    if success is None:
        return None
    while success[0] - failed > 1:
        number = (success[0] + failed) // 2
        if isinstance(outcome := attempt(choices[number]), Placement):
            success = number, outcome
        else:
            failed = number
    return choices[success[0]], success[1]


def _list_tightest_first(search: _Search, level: DomainLevel, where: Ints) -> Sequence[int]:
    """Return the domains that have room for each shape alone, tightest first.

    If members already run, only their domains are returned, the domain with the most members first.
    """
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


def _place_in_few(search: _Search, levels: Sequence[DomainLevel], mask: Mask) -> Placement | Refusal:
    """Place the gang on the given nodes, in as few domains of each level as possible, widest level first."""
    outcome = search.try_in(mask)
    for level in levels:
        if isinstance(outcome, Refusal):
            return outcome
        if (fewest := _find_fewest(search, level, mask)) is not None:
            mask, outcome = fewest
    return outcome


def _find_fewest(search: _Search, level: DomainLevel, mask: Mask) -> tuple[Mask, Placement] | None:
    """Return the nodes of as few domains as possible that together take the gang, with the placement; else None.

    The fewest domains with room for each shape alone are tried first. If the gang does not fit there, more are added.
    """
    size = len(level.names)
    totals = {
        shape: sum_by_number(level.of_node, np.where(mask, room, 0), size) for shape, room in search.rooms.items()
    }
    share = np.min([total / max(search.gang[shape], 1) for shape, total in totals.items()], axis=0)
    order = np.lexsort((np.arange(size), -share))
    sums = {shape: np.cumsum(total[order]) for shape, total in totals.items()}
    least = max(int(np.searchsorted(sums[shape], wanted)) + 1 for shape, wanted in search.gang.items())

    def nodes(count: int) -> Mask:
        chosen = order[:count].copy()
        chosen[-1] = _choose_last(search.gang, totals, order, count)
        return mask & np.isin(level.of_node, chosen)

    choice = _find_first(range(least, size + 1), lambda count: search.try_in(nodes(count)))
    return None if choice is None else (nodes(choice[0]), choice[1])


def _choose_last(gang: Mapping[Shape, int], totals: Mapping[Shape, Ints], order: Ints, count: int) -> int:
    """Return which domain to add to the roomiest domains: the tightest one that takes the remaining pods."""
    full, others = order[: count - 1], order[count - 1 :]
    enough = np.ones(len(others), np.bool_)
    spare = np.zeros(len(others), np.int64)
    for shape, needed_count in gang.items():
        enough &= totals[shape][others] >= needed_count - int(totals[shape][full].sum())
        spare += totals[shape][others]
    return int(others[int(np.argmin(np.where(enough, spare, np.iinfo(np.int64).max)))])


def _explain_no_domain(search: _Search, level: DomainLevel, where: Ints) -> NoDomain:
    """Return why the gang fits in no domain, by what the roomiest allowed domain lacks most.

    where: how many running members each node has.

    The result is not `proven` if the domain has room for each shape alone.
    """
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
