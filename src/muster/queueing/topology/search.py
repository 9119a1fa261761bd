"""Which domains of a topology the pods of a podset go to, from how many of them each lowest domain has room for.

The rules are Kueue's (KEP-2724, tas_flavor_snapshot.go). First the room is summed up, level by level. Then the level is
found whose one domain takes all pods: the one asked for, or, if it is only preferred, the next wider one that does; if
none does, the pods go to several of the widest. Then it goes down again, at each level to as few domains as will do.

*Best fit* takes the roomiest domains first, and as the last one the tightest that takes the rest. Who asks for no level
gets the *least free capacity*: what is nearly full is filled up first.

Pods may have to be together in slices: then it is slices that are counted, down to the level that they keep to. And a
podset may have a leader, one pod of another podset, that is to be near it: then a domain has room with it and without.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, field

from muster.gang.nodes.domains import Ints, Level, summed

_MOST = np.iinfo(np.int64).max


class Ask(Struct, frozen=True):
    """What is looked for.

    count: pods. level: index of the level that is asked for.
    required: only one domain of that level will do. anywhere: the level does not matter, least free capacity does.
    slice_size: pods in a slice. slice_level: index of the level that a slice keeps to.
    inner: by index of a narrower level, the size of the smaller slices that keep to it.
    leader: whether one pod of another podset goes with them.
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
        """How many slices there are."""
        return self.count // self.slice_size


class Short(Struct, frozen=True):
    """There is no room, or only for `fits` of the slices."""

    fits: int


class Found(Struct, frozen=True):
    """Lowest domains, by number, with how many pods each; and where the leader is, if there is one."""

    domains: tuple[tuple[int, int], ...]
    leader: tuple[tuple[int, int], ...] = ()


class _Rooms(Struct, eq=False):
    """Of each domain of a level, by number: how much of the podset it takes, or, further down, is to take.

    pods, slices: without the leader. pods_led, slices_led: beside the leader. leaders: how many leaders, 0 or 1.
    """

    pods: Ints
    slices: Ints
    pods_led: Ints
    slices_led: Ints
    leaders: Ints


def find(levels: Sequence[Level], room: Ints, ask: Ask, *, led: Ints | None = None) -> Found | Short:
    """Domains for all pods. `levels` has the domain that is asked for.

    room: how many pods each lowest domain takes. led: how many beside the leader; -1 where that has no room itself.
    """
    return _Search(levels, room, ask, room if led is None else led).run()


class _Search:
    def __init__(self, levels: Sequence[Level], room: Ints, ask: Ask, led: Ints) -> None:
        self._levels = levels
        self._ask = ask
        self._rooms = _summed_up(levels, room, led, ask)

    def run(self) -> Found | Short:
        ask, last = self._ask, len(self._levels) - 1
        fit = self._level_that_fits(ask.level)
        if isinstance(fit, Short):
            return fit
        level, chosen = fit
        chosen = self._narrow(level, chosen, ask.count, ask.leader, ask.slice_size, by_slice=True)
        # Above the level of slices only whole slices count, so the domains of several may be looked at together.
        while level < min(last, ask.slice_level):
            level += 1
            below = np.flatnonzero(np.isin(self._levels[level].parents, chosen))
            chosen = self._narrow(
                level, self._sorted(level, below), ask.count, ask.leader, ask.slice_size, by_slice=True
            )
        while level < last:
            level += 1
            chosen = self._inside(level, chosen)
        rooms = self._rooms[last]
        chosen = sorted(chosen)
        pods = tuple((i, int(rooms.pods[i])) for i in chosen if rooms.pods[i])
        return Found(pods, tuple((i, 1) for i in chosen if rooms.leaders[i]) if ask.leader else ())

    def _inside(self, level: int, above: list[int]) -> list[int]:
        """What each of the domains above was given, in the domains of a level within it."""
        size = self._ask.inner.get(level, 1)
        rooms, over = self._rooms[level], self._rooms[level - 1]
        chosen: list[int] = []
        for domain in above:
            below = np.flatnonzero(self._levels[level].parents == domain)
            order = self._sorted(level, below)
            if size > 1:
                rooms.slices[below] = rooms.pods[below] // size
                rooms.slices_led[below] = rooms.pods_led[below] // size
            leader = bool(over.leaders[domain]) and self._ask.leader
            chosen += self._narrow(level, order, int(over.pods[domain]), leader, size, by_slice=size > 1)
        return chosen

    def _level_that_fits(self, level: int) -> tuple[int, list[int]] | Short:
        """The level, and those of its domains that take all, in the order in which they are used."""
        ask, rooms = self._ask, self._rooms[level]
        order = self._sorted_with_leader(level)
        if not len(order):
            return Short(0)
        need = ask.slices
        enough = order[(rooms.slices_led[order] >= need) & (rooms.leaders[order] >= ask.leader)].tolist()
        if enough:
            return level, [enough[0] if ask.anywhere else self._tightest(level, enough, need, ask.leader)]
        if ask.required:
            return Short(int(rooms.slices[order[-1 if ask.anywhere else 0]]))
        if level > 0 and not ask.anywhere:
            return self._level_that_fits(level - 1)
        return self._several(level, order.tolist())

    def _several(self, level: int, order: list[int]) -> tuple[int, list[int]] | Short:
        """No domain takes all: the leader goes first, where it costs the others nothing, and then as few as can be."""
        ask, rooms = self._ask, self._rooms[level]
        chosen, rest = [], ask.slices
        if ask.leader:
            order = self._leader_first(level, order, ask.count, ask.slice_size, by_slice=True)
            if not rooms.leaders[order[0]]:
                return Short(0)
            chosen, rest, order = [order[0]], rest - int(rooms.slices_led[order[0]]), order[1:]
            order = self._sorted(level, np.array(order, np.int64))
        while rest > 0 and order:
            domain = order[0]
            if not ask.anywhere and rooms.slices[domain] >= rest:
                domain = self._tightest(level, order, rest, leader=False)
            chosen.append(domain)
            order.remove(domain)
            rest -= int(rooms.slices[domain])
        return (level, chosen) if rest <= 0 else Short(ask.slices - rest)

    def _narrow(
        self, level: int, order: list[int], count: int, leader: bool, size: int, *, by_slice: bool
    ) -> list[int]:
        """As few of the domains as take so many pods, each with what it is to take from now on.

        They do take them: that is what was summed up.
        """
        rooms = self._rooms[level]
        room, led = (rooms.slices, rooms.slices_led) if by_slice else (rooms.pods, rooms.pods_led)
        unit = size if by_slice else 1
        if leader:
            order = self._leader_first(level, order, count, size, by_slice=by_slice)
        rest, chosen = count // unit, []
        for i, first in enumerate(order):
            have = led if leader else room
            domain = first
            if not self._ask.anywhere and have[first] >= rest and rooms.leaders[first] >= leader:
                domain = self._tightest_of(order[i:], have, rooms.leaders, rest, leader)
            given = min(int(have[domain]), rest)
            rooms.pods[domain] = given * unit
            rooms.leaders[domain] = leader
            chosen.append(domain)
            rest, leader = rest - given, False
            if rest <= 0:
                break
        assert rest <= 0, "what was summed up is there"
        return chosen

    def _leader_first(self, level: int, order: list[int], count: int, size: int, *, by_slice: bool) -> list[int]:
        """With the first domain at the front that takes the leader and leaves room for all the others."""
        rooms = self._rooms[level]
        room, led = (rooms.slices, rooms.slices_led) if by_slice else (rooms.pods, rooms.pods_led)
        spare = int(room[order].sum()) - (count // size if by_slice else count)
        for domain in order:
            if rooms.leaders[domain] and room[domain] - led[domain] <= spare:
                return [domain, *(other for other in order if other != domain)]
        return order

    def _tightest(self, level: int, order: list[int], need: int, leader: bool) -> int:
        rooms = self._rooms[level]
        return self._tightest_of(order, rooms.slices_led if leader else rooms.slices, rooms.leaders, need, leader)

    @staticmethod
    def _tightest_of(order: list[int], room: Ints, leaders: Ints, need: int, leader: bool) -> int:
        """Of those that take so much the first with the least room."""
        enough = [i for i in order if room[i] >= need and leaders[i] >= leader]
        return min(enough, key=lambda i: int(room[i]), default=order[0])

    def _sorted(self, level: int, domains: Ints) -> list[int]:
        """The roomiest first, for who wants little of the lowest level; the other way round for least free capacity."""
        rooms = self._rooms[level]
        slices = rooms.slices[domains]
        order = np.lexsort((domains, rooms.pods[domains], slices if self._ask.anywhere else -slices))
        found: list[int] = domains[order].tolist()
        return found

    def _sorted_with_leader(self, level: int) -> Ints:
        """All of a level; those that take the leader come first."""
        rooms = self._rooms[level]
        slices = rooms.slices_led if self._ask.anywhere else -rooms.slices_led
        return np.lexsort((np.arange(len(slices)), rooms.pods_led, slices, -rooms.leaders))


def _summed_up(levels: Sequence[Level], room: Ints, led: Ints, ask: Ask) -> list[_Rooms]:
    """By level, from the widest: what each domain has room for."""
    last = len(levels) - 1
    leaders = (led >= 0).astype(np.int64)
    rooms = [_Rooms(room.copy(), np.zeros_like(room), np.maximum(led, 0), np.zeros_like(room), leaders)]
    _slice(rooms[0], last, ask)
    for level in range(last - 1, -1, -1):
        rooms.insert(0, _parents(rooms[0], level, levels, ask))
        _slice(rooms[0], level, ask)
    return rooms


def _parents(below: _Rooms, level: int, levels: Sequence[Level], ask: Ask) -> _Rooms:
    size, parents = len(levels[level].names), levels[level + 1].parents
    inner = ask.inner.get(level + 1, 1)
    if not ask.leader:
        pods = summed(parents, below.pods // inner * inner, size)
        slices = summed(parents, below.slices, size)
        return _Rooms(pods, slices, pods, slices, np.ones(size, np.int64))
    pods, pods_led = (room // inner * inner for room in (below.pods, below.pods_led))
    able = below.leaders > 0
    leaders = np.zeros(size, np.int64)
    np.maximum.at(leaders, parents, below.leaders)
    return _Rooms(
        summed(parents, pods, size),
        summed(parents, below.slices, size),
        _beside_leader(parents, pods, pods_led, able, size),
        _beside_leader(parents, below.slices, below.slices_led, able, size),
        leaders,
    )


def _beside_leader(parents: Ints, room: Ints, led: Ints, able: Ints | np.ndarray, size: int) -> Ints:
    """What is left beside the leader where it costs least; nothing where it has no room."""
    cost = np.full(size, _MOST)
    np.minimum.at(cost, parents[able], (room - led)[able])
    return np.where(cost < _MOST, summed(parents, room, size) - cost, 0)


def _slice(rooms: _Rooms, level: int, ask: Ask) -> None:
    """At the level that slices keep to, count them; above they are summed up, and below there are none."""
    if level == ask.slice_level:
        rooms.slices = rooms.pods // ask.slice_size
        rooms.slices_led = rooms.pods_led // ask.slice_size


def fitting_inside(levels: Sequence[Level], room: Ints, level: int, sizes: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Of the domain of a level with most slices, how many slices fit in it, for each level and size of them."""
    by_level = [room]
    for narrower in range(len(levels) - 1, 0, -1):
        by_level.insert(0, summed(levels[narrower].parents, by_level[0], len(levels[narrower - 1].names)))
    counts = [_up(levels, by_level[at] // size, at, level) for at, size in sizes]
    best = int(np.argmax(counts[0])) if len(counts[0]) else 0
    for count in counts:
        yield int(count[best]) if len(count) else 0


def _up(levels: Sequence[Level], amounts: Ints, start: int, end: int) -> Ints:
    for level in range(start, end, -1):
        amounts = summed(levels[level].parents, amounts, len(levels[level - 1].names))
    return amounts
