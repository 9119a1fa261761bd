"""Decide the sizes of elastic gangs: which gangs shrink so that another can start, and which gangs grow.

Every decision assumes that pods which are being deleted are gone already. A shrink in progress is therefore taken into
account, and is not requested twice.

1. A waiting elastic gang that does not fit takes the largest smaller size that fits. So does a running gang that lost
members and finds no room for them, even before the replacement pods exist.
2. Otherwise elastic gangs of the same or a lower priority shrink for the waiting gang if that suffices, and by no more
than the waiting gang needs. Gangs of the lowest priority lose pods first; among equals, the youngest gang does.
3. If no waiting gang can be helped, gangs grow into the room that is free now: highest priority first. Gangs of equal
priority get one pod per round, the oldest gang first.

Growth therefore never takes room that a gang waits for, and a grown gang shrinks when another gang needs the room.
`least` and `most` bound these decisions, but not the size that a user sets. A gang that a user made larger than `most`
does not grow but may shrink; a gang that a user made smaller than `least` is not resized.

At size n the indexes 0 to n - 1 run, so a shrink removes the pods with the highest indexes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.gang import arrays as np
from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, fit_in_any_order, place
from muster.gang.shapes import Guest, Shape, guest_like

# The maximum value of a Job's `completions`.
_LARGEST = 2**31 - 1


class WaitingGang(Struct, frozen=True):
    """A gang that does not fit and waits.

    name: the name for messages.
    pods: the number of pods of each shape to place together.
    count: the number of such sets of pods that wait; each set is useful without the others.
    """

    key: str
    name: str
    priority: int
    pods: Mapping[Shape, int]
    count: int = 1


class ElasticGang(Struct, frozen=True):
    """A gang that may be resized.

    least: the size below which the gang does not shrink; all indexes that have permanently ended are below it.
    most: the size above which the gang does not grow; at most `size` if the gang must not grow.
    shape: the shape of each pod of the gang.
    bound: the UIDs of the pods that have a node, by index; pods with an index of at least `size` are being deleted.
    done: the number of indexes that have permanently ended.
    """

    key: str
    priority: int
    created: datetime
    size: int
    least: int
    most: int
    shape: Shape
    bound: Mapping[int, str]
    done: int = 0

    def count_missing(self, size: int) -> dict[Shape, int]:
        """Return how many pods of each shape are missing until the gang runs at this size."""
        count = size - self.done - sum(index < size for index in self.bound)
        return {self.shape: count} if count > 0 else {}

    def list_pods_between(self, low: int, high: int) -> list[str]:
        """Return the UIDs of the bound pods whose index is at least `low` and less than `high`."""
        return [uid for index, uid in self.bound.items() if low <= index < high]

    def above(self, size: int) -> list[str]:
        """Return the UIDs of the bound pods with an index of at least `size`, which a gang of that size lacks."""
        return self.list_pods_between(size, _LARGEST)


class Resize(Struct, frozen=True):
    """A change of a gang's size.

    why: the reason, which completes the sentence of `__str__`.
    helps: the gangs for which the gang shrinks.
    """

    key: str
    old: int
    new: int
    why: str
    helps: tuple[str, ...] = ()

    @property
    def verb(self) -> str:
        """The direction of the change: "Grown" or "Shrunk"."""
        return "Grown" if self.new > self.old else "Shrunk"

    def __str__(self) -> str:
        return f"{self.verb} from {self.old} to {self.new} workers{self.why}"


def resize(
    capacity: Capacity,
    leaving: Iterable[str],
    waiting: Sequence[WaitingGang],
    elastic: Sequence[ElasticGang],
    *,
    grow: bool = True,
) -> list[Resize]:
    """Return the changes of elastic gangs' sizes.

    leaving: the UIDs of the pods that are being deleted; their room counts as free.
    waiting: the waiting gangs, in the order in which they are helped.
    grow: whether gangs may grow.

    The capacity is unchanged when the function returns.
    """
    elastic = sorted(elastic, key=_rank_gang)
    keys = {gang.key for gang in waiting}
    with _Trial(capacity) as trial:
        trial.vacate(leaving)
        shrinking = _Shrinking(trial, elastic)
        helped = [shrinking.help(gang) for gang in shrinking.hopeful(waiting)]
        for gang in elastic:
            if gang.bound and gang.key not in keys:
                shrinking.complete(gang)
        shrinks = shrinking.resizes()
    if shrinks or any(helped) or not grow:
        return shrinks
    return _plan_growth(capacity, elastic, keys)


def limit_growth(size: int, least: int, most: int, cap: int | None = None) -> int:
    """Return the largest size to which a gang may grow; `size` if a user made it smaller than `least`.

    cap: the size above which quota does not allow the gang to grow; None without such a limit.
    """
    return size if size < least else min(most, most if cap is None else cap)


class _Trial:
    """A context manager for tentative changes to a capacity, which are undone on exit."""

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self._vacated: dict[str, tuple[str, Guest]] = {}
        self._seated: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for uid in self._seated:
            self.capacity.release(uid)
        self.restore(list(self._vacated))

    def vacate(self, uids: Iterable[str]) -> None:
        """Count the room of these pods as free."""
        for uid in uids:
            if (assignment := self.capacity.assigned(uid)) is not None:
                self._vacated[uid] = assignment
                self.capacity.release(uid)

    def restore(self, uids: Iterable[str]) -> None:
        """Undo `vacate` for these pods."""
        for uid in uids:
            if (assignment := self._vacated.pop(uid, None)) is not None:
                self.capacity.assign(uid, *assignment)

    def fits(self, pods: Mapping[Shape, int]) -> bool:
        """Return whether these pods can be placed together."""
        return isinstance(place(self.capacity, pods), Placement)

    def seat(self, pods: Mapping[Shape, int]) -> None:
        """Assign room to these pods until the end of the trial. The pods must fit."""
        placement = place(self.capacity, pods)
        assert isinstance(placement, Placement), "only what fits is seated"
        for shape in pods:
            for node in placement.expand(shape):
                uid = f"/{len(self._seated)}"  # no pod has such a UID
                self.capacity.assign(uid, node, guest_like(shape))
                self._seated.append(uid)


class _Shrinking:
    """The sizes of elastic gangs, most important gang first, while they shrink for the waiting gangs, one by one."""

    def __init__(self, trial: _Trial, elastic: Sequence[ElasticGang]) -> None:
        self._trial = trial
        self._gangs = {gang.key: gang for gang in elastic}
        self._sizes = {gang.key: gang.size for gang in elastic}
        self._whys: dict[str, str] = {}
        self._helps: dict[str, tuple[str, ...]] = {}
        for gang in elastic:
            trial.vacate(gang.above(gang.size))

    def resizes(self) -> list[Resize]:
        """Return the changed sizes, least important gang first.

        If the caller is interrupted while it writes them, no more important gang has shrunk in vain.
        """
        return [
            Resize(gang.key, gang.size, size, self._whys[gang.key], self._helps.get(gang.key, ()))
            for gang in reversed(self._gangs.values())
            if (size := self._sizes[gang.key]) != gang.size
        ]

    def hopeful(self, waiting: Sequence[WaitingGang]) -> list[WaitingGang]:
        """Return the waiting gangs that would fit if all gangs that may shrink for them shrank to their minimum."""
        fitting = []
        for priority, equals in groupby(waiting, key=lambda gang: gang.priority):
            spare = [
                uid for gang in self._gangs.values() if gang.priority <= priority for uid in self._list_spare_pods(gang)
            ]
            self._trial.vacate(spare)
            fitting += [gang for gang in equals if self._trial.fits(self._find_least_pods(gang))]
            self._trial.restore(spare)
        return fitting

    def _find_least_pods(self, waiting: WaitingGang) -> Mapping[Shape, int]:
        """Return the minimum number of pods, by shape, with which a waiting gang can start."""
        own = self._gangs.get(waiting.key)
        return waiting.pods if own is None else own.count_missing(min(own.least, self._sizes[own.key]))

    def _list_spare_pods(self, gang: ElasticGang) -> list[str]:
        """Return the UIDs of the pods that a gang can lose before it reaches its minimum."""
        return gang.list_pods_between(gang.least, self._sizes[gang.key])

    def help(self, waiting: WaitingGang) -> bool:
        """Find room for a waiting gang, by shrinking other gangs if necessary, and reserve the room.

        Return whether the gang, or some of its `count` sets of pods, can start now or once pods have been deleted.
        """
        own = self._gangs.get(waiting.key)
        if own is None:
            return self._start(_multiply(waiting.pods, waiting.count)) or self._start_at_cost_of_others(waiting)
        return self.complete(own) or self._start_least(waiting, own)

    def complete(self, gang: ElasticGang) -> bool:
        """Find room for a gang's missing pods, or shrink the gang to a size that fits.

        Return whether all its pods then have room.
        """
        return self._start(gang.count_missing(self._sizes[gang.key])) or self._start_smaller(gang)

    def _start(self, pods: Mapping[Shape, int]) -> bool:
        if not self._trial.fits(pods):
            return False
        self._trial.seat(pods)
        return True

    def _start_smaller(self, gang: ElasticGang) -> bool:
        """Shrink a gang to the largest size at which its missing pods fit; return whether there is such a size.

        The gang's bound pods above that size count as deleted, so the missing pods may use their room.
        """
        old = self._sizes[gang.key]

        def fits(size: int) -> bool:
            freed = gang.list_pods_between(size, old)
            self._trial.vacate(freed)
            answer = self._trial.fits(gang.count_missing(size))
            self._trial.restore(freed)
            return answer

        size = _find_largest(gang.least, old - 1, fits)
        if size is None:
            return False
        self._trial.vacate(gang.list_pods_between(size, old))
        self._sizes[gang.key] = size
        self._whys[gang.key] = f": {_find_scarcest(self._trial.capacity, gang.shape)} for {size} is free"
        self._trial.seat(gang.count_missing(size))
        return True

    def _start_least(self, waiting: WaitingGang, gang: ElasticGang) -> bool:
        """Shrink other gangs for the minimum size of a waiting elastic gang; return whether it then fits.

        Once those gangs have shrunk, a later call decides to which size the waiting gang shrinks.
        """
        spare = self._list_spare_pods(gang)
        self._trial.vacate(spare)
        if self._start_at_cost_of_others(replace(waiting, pods=self._find_least_pods(waiting))):
            return True
        self._trial.restore(spare)
        return False

    def _start_at_cost_of_others(self, waiting: WaitingGang) -> bool:
        """Shrink other gangs for as many of the `count` sets as possible; return whether at least one set fits.

        The other gangs first shrink as far as they may, and then get back the pods that still have room.
        """
        shrunk: list[ElasticGang] = []
        for gang in reversed(self._gangs.values()):
            if self._can_shrink(gang, waiting):
                self._trial.vacate(self._list_spare_pods(gang))
                shrunk.append(gang)
                if self._trial.fits(_multiply(waiting.pods, waiting.count)):
                    break
        count = _find_largest(1, waiting.count, lambda count: self._trial.fits(_multiply(waiting.pods, count)))
        if count is None:
            for gang in shrunk:
                self._trial.restore(self._list_spare_pods(gang))
            return False
        pods = _multiply(waiting.pods, count)
        for gang in reversed(shrunk):
            self._give_back(gang, pods, waiting.name)
        self._trial.seat(pods)
        return True

    def _can_shrink(self, gang: ElasticGang, waiting: WaitingGang) -> bool:
        shrinkable = gang.least < self._sizes[gang.key]
        return shrinkable and gang.priority <= waiting.priority and gang.key != waiting.key

    def _give_back(self, gang: ElasticGang, pods: Mapping[Shape, int], name: str) -> None:
        """Restore as many of a gang's vacated spare pods as possible while the waiting pods still fit.

        If the gang stays smaller than before, record its new size, and that it shrinks for the waiting gang.

        pods: the number of the waiting gang's pods by shape.
        name: the name of the waiting gang.
        """
        old = self._sizes[gang.key]

        def fit(size: int) -> bool:
            returned = gang.list_pods_between(gang.least, size)
            self._trial.restore(returned)
            answer = self._trial.fits(pods)
            self._trial.vacate(returned)
            return answer

        size = _find_largest(gang.least + 1, old, fit) or gang.least
        self._trial.restore(gang.list_pods_between(gang.least, size))
        if size < old:
            self._sizes[gang.key] = size
            self._helps[gang.key] = (*self._helps.get(gang.key, ()), name)
            before = self._whys.get(gang.key, "")
            self._whys[gang.key] = f"{before} and {name}" if before else f" to make room for {name}"


def _plan_growth(capacity: Capacity, elastic: Sequence[ElasticGang], waiting: set[str]) -> list[Resize]:
    """Return the growth of elastic gangs.

    elastic: the elastic gangs, most important first.
    waiting: the keys of the gangs that do not grow.

    Room for the missing pods of running gangs is reserved first.
    """
    running = [gang for gang in elastic if gang.key not in waiting]
    room = _Growth(capacity, running)
    growing = [gang for gang in running if gang.size < gang.most and _is_settled(gang)]
    for _, equals in groupby(growing, key=lambda gang: gang.priority):
        room.share(list(equals))
    return [
        Resize(gang.key, gang.size, gang.size + more, f": room for {more} more is free")
        for gang in growing
        if (more := room.granted[gang.key])
    ]


class _Growth:
    """The free room while it is divided among growing gangs.

    Invariant: all granted pods fit, together with the missing pods of running gangs, in whichever order the scheduler
    places the gangs. A grant that fits in only one order would have to be revoked.
    """

    def __init__(self, capacity: Capacity, running: Sequence[ElasticGang]) -> None:
        self.granted: Counter[str] = Counter()
        self._capacity = capacity
        self._taken: Counter[Shape] = Counter()
        for gang in running:
            self._taken.update(gang.count_missing(gang.size))
        self._open = self._fits([], 0)

    def share(self, equals: Sequence[ElasticGang]) -> None:
        """Grant one pod per gang and round, until all gangs have reached `most` or no further pod fits."""
        while self._open and equals:
            rounds = _find_largest(1, max(map(self._count_left, equals)), partial(self._fits, equals)) or 0
            self._grant(equals, rounds)
            # No further complete round fits or is wanted. Gangs that still get a single pod continue.
            equals = [gang for gang in equals if self._grant_one(gang)]

    def _grant_one(self, gang: ElasticGang) -> bool:
        if not self._count_left(gang) or not self._fits([gang], 1):
            return False
        self._grant([gang], 1)
        return True

    def _grant(self, gangs: Iterable[ElasticGang], rounds: int) -> None:
        for gang in gangs:
            more = min(rounds, self._count_left(gang))
            self.granted[gang.key] += more
            self._taken[gang.shape] += more

    def _fits(self, gangs: Iterable[ElasticGang], rounds: int) -> bool:
        """Return whether each gang can get `rounds` more pods, or as many as its `most` allows."""
        taken = self._taken.copy()
        for gang in gangs:
            taken[gang.shape] += min(rounds, self._count_left(gang))
        return fit_in_any_order(self._capacity, +taken)

    def _count_left(self, gang: ElasticGang) -> int:
        return min(gang.most, _LARGEST) - gang.size - self.granted[gang.key]


def _is_settled(gang: ElasticGang) -> bool:
    """Return whether all members of a gang run and none of its pods is being deleted."""
    return not gang.count_missing(gang.size) and not gang.above(gang.size)


def _rank_gang(gang: ElasticGang) -> tuple[int, datetime, str]:
    """Return the sort key of a gang by importance: higher priority first, then older."""
    return -gang.priority, gang.created, gang.key


def _multiply(pods: Mapping[Shape, int], count: int) -> Mapping[Shape, int]:
    return pods if count == 1 else {shape: number * count for shape, number in pods.items()}


def _find_largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """Return the largest number from `low` to `high` for which `holds` is true; None if there is none.

    The bisection assumes that `holds` is also true for every smaller number. Otherwise the result may not be the
    largest number, but `holds` is true for it.
    """
    if low > high:
        return None
    if holds(high):  # the usual case is all or nothing
        return high
    if low == high or not holds(low):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low


def _find_scarcest(capacity: Capacity, shape: Shape) -> str:
    """Return the scarcest resource: the one that limits the number of pods on the eligible nodes most.

    Returns "room" if the maximum number of pods per node is the limit.
    """
    nodes = capacity.eligible(shape)
    room = {
        resource: int((np.maximum(capacity.free_of(resource)[nodes], 0) // amount).sum())
        for resource, amount in shape.requests
    }
    scarcest = min(room, key=lambda resource: (room[resource], resource))
    return "room" if scarcest == "pods" else scarcest
