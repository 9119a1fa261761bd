"""Choose topology domains for the pods of a podset, from the number of pods that fit in each lowest domain.

The rules are Kueue's (Kueue KEP-2724, tas_flavor_snapshot.go):

- The free capacity is summed up, level by level.
- The search finds a level with one domain that has room for all pods: the requested level or, if it is only preferred,
  the next wider one. If there is none, the pods are divided among several domains of the widest level.
- The search then descends, and at each level uses as few domains as possible.

*Best fit* uses the domains with the most room first, and last the smallest domain that has room for the rest. A request
without a level gets *least free capacity*: nearly full domains are filled first.

Pods may be grouped in slices: then slices are counted, down to the level that a slice must not span. A podset may have
a leader, one pod of another podset that has to be near it. Then the room of a domain is counted with and without the
leader.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from muster.gang import arrays as np
from muster.gang.arrays import Ints, Mask
from muster.gang.nodes.domains import DomainLevel, sum_by_number

_MAX_INT = 2**63 - 1  # the largest 64-bit integer


class SearchParameters(Struct, frozen=True):
    """The parameters of a search for topology domains.

    count: the number of pods.
    level: the index of the requested level.
    required: whether all pods must be in one domain of that level.
    anywhere: whether the level does not matter, so that least free capacity decides.
    slice_size: the number of pods in a slice.
    slice_level: the index of the level at which a slice must be in one domain.
    inner: the size of the smaller slices that must be in one domain of a narrower level, by its index.
    leader: whether one pod of another podset is placed with them.
    """

    count: int
    level: int
    required: bool = False
    anywhere: bool = False
    slice_size: int = 1
    slice_level: int = 0
    inner: Mapping[int, int] = field(default_factory=dict)
    leader: bool = False

    @property
    def slices(self) -> int:
        """The number of slices into which the pods are divided: `count` divided by `slice_size`."""
        return self.count // self.slice_size


class Short(Struct, frozen=True):
    """The result of a failed search.

    fits: for how many slices there is room.
    """

    fits: int


class DomainChoice(Struct, frozen=True):
    """The result of a successful search: the chosen lowest domains by number, and how many pods each gets.

    It also contains the leader's domain, if there is a leader.
    """

    domains: tuple[tuple[int, int], ...]
    leader: tuple[tuple[int, int], ...] = ()


class _Rooms(Struct, eq=False):
    """The room of each domain of one level: first the number of pods that fit, and later the number that it gets.

    pods, slices: the numbers if the leader is elsewhere.
    pods_led, slices_led: the numbers if the leader is in the same domain.
    leaders: how many leaders fit, 0 or 1.
    """

    pods: Ints
    slices: Ints
    pods_led: Ints
    slices_led: Ints
    leaders: Ints


def find(
    levels: Sequence[DomainLevel], room: Ints, ask: SearchParameters, *, led: Ints | None = None
) -> DomainChoice | Short:
    """Choose topology domains for all pods; return them, or for how many slices there is room.

    The requested domain level must be in `levels`.

    room: how many pods fit in each lowest domain.
    led: how many pods fit in each of them if the leader is there, too; -1 if it has no room for the leader. None
    without a leader.
    """
    return _Search(levels, room, ask, room if led is None else led).run()


class _Search:
    def __init__(self, levels: Sequence[DomainLevel], room: Ints, ask: SearchParameters, led: Ints) -> None:
        self._levels = levels
        self._ask = ask
        self._rooms = _sum_up(levels, room, led, ask)

    def run(self) -> DomainChoice | Short:
        """Choose domains of one level, then level by level the domains inside them that get pods."""
        ask, last = self._ask, len(self._levels) - 1
        fit = self._find_level(ask.level)
        if isinstance(fit, Short):
            return fit
        level, chosen = fit
        chosen = self._narrow(level, chosen, ask.count, ask.leader, ask.slice_size, by_slice=True)
        # Above the slice level only whole slices count, so the children of several domains may be divided together.
        while level < min(last, ask.slice_level):
            level += 1
            below = np.flatnonzero(np.isin(self._levels[level].parents, chosen))
            chosen = self._narrow(level, self._sort(level, below), ask.count, ask.leader, ask.slice_size, by_slice=True)
        while level < last:
            level += 1
            chosen = self._divide(level, chosen)
        rooms = self._rooms[last]
        chosen = sorted(chosen)
        pods = tuple((i, int(rooms.pods[i])) for i in chosen if rooms.pods[i])
        return DomainChoice(pods, tuple((i, 1) for i in chosen if rooms.leaders[i]) if ask.leader else ())

    def _divide(self, level: int, above: list[int]) -> list[int]:
        """Divide the pods assigned to each domain in `above` among its child domains; return those that get pods."""
        size = self._ask.inner.get(level, 1)
        rooms, over = self._rooms[level], self._rooms[level - 1]
        chosen: list[int] = []
        for domain in above:
            below = np.flatnonzero(self._levels[level].parents == domain)
            # As upstream, the domains are sorted before their inner slices are counted: the least room for pods first.
            order = self._sort(level, below)
            if size > 1:
                rooms.slices[below] = rooms.pods[below] // size
                rooms.slices_led[below] = rooms.pods_led[below] // size
            leader = bool(over.leaders[domain]) and self._ask.leader
            chosen += self._narrow(level, order, int(over.pods[domain]), leader, size, by_slice=size > 1)
        return chosen

    def _find_level(self, level: int) -> tuple[int, list[int]] | Short:
        """Return the level to use, and its domains that together have room for all pods, in the order of use."""
        ask, rooms = self._ask, self._rooms[level]
        order = self._sort_with_leader(level)
        if not len(order):
            return Short(0)
        need = ask.slices
        enough = order[(rooms.slices_led[order] >= need) & (rooms.leaders[order] >= ask.leader)].tolist()
        if enough:
            return level, [enough[0] if ask.anywhere else self._find_tightest(level, enough, need, ask.leader)]
        if ask.required:
            return Short(int(rooms.slices[order[0]]))
        if level > 0 and not ask.anywhere:
            return self._find_level(level - 1)
        return self._choose_several(level, order.tolist())

    def _choose_several(self, level: int, order: list[int]) -> tuple[int, list[int]] | Short:
        """Choose as few domains as possible if no single one has room for all pods; return the level and the domains.

        The leader is placed in the first domain, if that costs no room. Return `Short` if all domains together have too
        little room.
        """
        ask, rooms = self._ask, self._rooms[level]
        chosen, rest = [], ask.slices
        if ask.leader:
            order = self._move_leader_first(level, order, ask.count, ask.slice_size, by_slice=True)
            if not rooms.leaders[order[0]]:
                return Short(0)
            chosen, rest, order = [order[0]], rest - int(rooms.slices_led[order[0]]), order[1:]
            order = self._sort(level, np.array(order, np.int64))
        while rest > 0 and order:
            domain = order[0]
            if not ask.anywhere and rooms.slices[domain] >= rest:
                domain = self._find_tightest(level, order, rest, leader=False)
            chosen.append(domain)
            order.remove(domain)
            rest -= int(rooms.slices[domain])
        return (level, chosen) if rest <= 0 else Short(ask.slices - rest)

    def _narrow(
        self, level: int, order: list[int], count: int, leader: bool, size: int, *, by_slice: bool
    ) -> list[int]:
        """Choose as few of the domains as possible for `count` pods, and set the number of pods that each gets.

        The caller has checked that the domains together have room for the pods.

        level: the index of the domains' level.
        order: the domains, in order of preference.
        leader: whether the leader's pod is placed here as well.
        size: the number of pods in a slice.
        by_slice: whether domains get whole slices.
        """
        rooms = self._rooms[level]
        room, led = (rooms.slices, rooms.slices_led) if by_slice else (rooms.pods, rooms.pods_led)
        unit = size if by_slice else 1
        if leader:
            order = self._move_leader_first(level, order, count, size, by_slice=by_slice)
        rest, chosen = count // unit, []
        for i, first in enumerate(order):
            have = led if leader else room
            domain = first
            if not self._ask.anywhere and have[first] >= rest and rooms.leaders[first] >= leader:
                domain = self._find_tightest_of(order[i:], have, rooms.leaders, rest, leader)
            share = min(int(have[domain]), rest)
            rooms.pods[domain] = share * unit
            rooms.leaders[domain] = leader
            chosen.append(domain)
            rest, leader = rest - share, False
            if rest <= 0:
                break
        assert rest <= 0, "the room that was summed up is there"
        return chosen

    def _move_leader_first(self, level: int, order: list[int], count: int, size: int, *, by_slice: bool) -> list[int]:
        """Return the domains with the leader's domain first.

        It is the first domain that has room for the leader and leaves room for all other pods.

        level: the index of the domains' level.
        size: the number of pods in a slice.
        by_slice: whether domains get whole slices.
        """
        rooms = self._rooms[level]
        room, led = (rooms.slices, rooms.slices_led) if by_slice else (rooms.pods, rooms.pods_led)
        spare = int(room[order].sum()) - (count // size if by_slice else count)
        for domain in order:
            if rooms.leaders[domain] and room[domain] - led[domain] <= spare:
                return [domain, *(other for other in order if other != domain)]
        return order

    def _find_tightest(self, level: int, order: list[int], need: int, leader: bool) -> int:
        rooms = self._rooms[level]
        return self._find_tightest_of(order, rooms.slices_led if leader else rooms.slices, rooms.leaders, need, leader)

    @staticmethod
    def _find_tightest_of(order: list[int], room: Ints, leaders: Ints, need: int, leader: bool) -> int:
        """Return the domain with the least room among those with at least `need`; the first of equals."""
        enough = [i for i in order if room[i] >= need and leaders[i] >= leader]
        return min(enough, key=lambda i: int(room[i]), default=order[0])

    def _sort(self, level: int, domains: Ints) -> list[int]:
        """Return the domains sorted by room: the most room first, or the least room first for least free capacity.

        Domains with the same number of slices are sorted by the room for pods, the least first.
        """
        rooms = self._rooms[level]
        slices = rooms.slices[domains]
        order = np.lexsort((domains, rooms.pods[domains], slices if self._ask.anywhere else -slices))
        result: list[int] = domains[order].tolist()
        return result

    def _sort_with_leader(self, level: int) -> Ints:
        """Return all domains of a level, sorted; domains with room for the leader come first."""
        rooms = self._rooms[level]
        slices = rooms.slices_led if self._ask.anywhere else -rooms.slices_led
        return np.lexsort((np.arange(len(slices)), rooms.pods_led, slices, -rooms.leaders))


def _sum_up(levels: Sequence[DomainLevel], room: Ints, led: Ints, ask: SearchParameters) -> list[_Rooms]:
    """Return the room of each domain, by level, from the widest."""
    last = len(levels) - 1
    leaders = (led >= 0).astype(np.int64)
    rooms = [_Rooms(room.copy(), np.zeros_like(room), np.maximum(led, 0), np.zeros_like(room), leaders)]
    _count_slices(rooms[0], last, ask)
    for level in range(last - 1, -1, -1):
        rooms.insert(0, _sum_parents(rooms[0], level, levels, ask))
        _count_slices(rooms[0], level, ask)
    return rooms


def _sum_parents(below: _Rooms, level: int, levels: Sequence[DomainLevel], ask: SearchParameters) -> _Rooms:
    """Return the rooms of a level, from the rooms of the next narrower level. There, only whole inner slices count."""
    size, parents = len(levels[level].names), levels[level + 1].parents
    inner = ask.inner.get(level + 1, 1)
    if not ask.leader:
        pods = sum_by_number(parents, below.pods // inner * inner, size)
        slices = sum_by_number(parents, below.slices, size)
        return _Rooms(pods, slices, pods, slices, np.ones(size, np.int64))
    pods, pods_led = (room // inner * inner for room in (below.pods, below.pods_led))
    able = below.leaders > 0
    leaders = np.zeros(size, np.int64)
    np.maximum.at(leaders, parents, below.leaders)
    return _Rooms(
        sum_by_number(parents, pods, size),
        sum_by_number(parents, below.slices, size),
        _count_beside_leader(parents, pods, pods_led, able, size),
        _count_beside_leader(parents, below.slices, below.slices_led, able, size),
        leaders,
    )


def _count_beside_leader(parents: Ints, room: Ints, led: Ints, able: Ints | Mask, size: int) -> Ints:
    """Return the room beside the leader if it is placed where it costs least, by parent domain.

    A parent domain without room for the leader counts 0.
    """
    cost = np.full(size, _MAX_INT)
    np.minimum.at(cost, parents[able], (room - led)[able])
    return np.where(cost < _MAX_INT, sum_by_number(parents, room, size) - cost, 0)


def _count_slices(rooms: _Rooms, level: int, ask: SearchParameters) -> None:
    """Count slices at the slice level. Above it, they are summed up; below it, there are none."""
    if level == ask.slice_level:
        rooms.slices = rooms.pods // ask.slice_size
        rooms.slices_led = rooms.pods_led // ask.slice_size


def fitting_inside(
    levels: Sequence[DomainLevel], room: Ints, level: int, sizes: Sequence[tuple[int, int]]
) -> Iterator[int]:
    """Yield, for each level and slice size, how many such slices fit into one domain of `level`.

    That domain is the one with room for the most slices of the first size.
    """
    by_level = [room]
    for narrower in range(len(levels) - 1, 0, -1):
        by_level.insert(0, sum_by_number(levels[narrower].parents, by_level[0], len(levels[narrower - 1].names)))
    counts = [_sum_to_level(levels, by_level[at] // size, at, level) for at, size in sizes]
    best = int(np.argmax(counts[0])) if len(counts[0]) else 0
    for count in counts:
        yield int(count[best]) if len(count) else 0


def _sum_to_level(levels: Sequence[DomainLevel], amounts: Ints, start: int, end: int) -> Ints:
    """Return the amounts of the domains of level `start`, summed up by the domains of the wider level `end`."""
    for level in range(start, end, -1):
        amounts = sum_by_number(levels[level].parents, amounts, len(levels[level - 1].names))
    return amounts
