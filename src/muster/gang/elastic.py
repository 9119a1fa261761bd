"""How large elastic gangs should be: which shrink so that another can start, and which grow into room that is free.

All is decided on the cluster as it will be once the pods that are on their way out are gone. A shrink that is under
way has therefore been counted, and is never asked for twice.

1. A waiting gang that does not fit takes, if it is elastic, the largest smaller size that fits. So does one that runs
   and has lost members for which there is no room, before there is a pod to wait.
2. Otherwise elastic gangs of no higher priority shrink for it, if that suffices, and by no more than it needs. Those
   of low priority, and among equals the young, lose their pods first.
3. If none of the waiting can be helped, gangs grow into what is free now: those of high priority first, equals in
   turns of one pod, the oldest first.

So growth never takes what a gang waits for, and a grown gang gives back what another comes to need. The sizes in
`least` and `most` bound what is decided here, not what a person does: a gang that was made larger than `most` is not
grown, but may be shrunk; one that was made smaller than `least` is left alone.

A size n means that the indexes 0 to n - 1 run, so the pods that a smaller size costs are those of the highest ones.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from muster.gang.nodes.capacity import Capacity
from muster.gang.placement import Placement, fit_in_any_order, place
from muster.gang.shapes import Guest, Shape, guest_like

# What a Job's `completions` can be.
_LARGEST = 2**31 - 1


class Waiting(Struct, frozen=True):
    """A gang that was refused.

    name: for people.
    pods: what must be placed together.
    count: how many times over; each of them is welcome without the others.
    """

    key: str
    name: str
    priority: int
    pods: Mapping[Shape, int]
    count: int = 1


class Elastic(Struct, frozen=True):
    """A gang that may be resized.

    least: it is not shrunk below. All indexes that have ended for good are below it.
    most: it is not grown above; at most `size` if it must not grow.
    shape: of each of its pods.
    bound: the UIDs of its pods that have a node, by index. Those at or above `size` are on their way out.
    done: how many indexes have ended for good.
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

    def missing(self, size: int) -> dict[Shape, int]:
        """The pods that have to be placed for it to run at that size."""
        count = size - self.done - sum(index < size for index in self.bound)
        return {self.shape: count} if count > 0 else {}

    def between(self, low: int, high: int) -> list[str]:
        """The bound pods whose index is at least `low` and below `high`."""
        return [uid for index, uid in self.bound.items() if low <= index < high]

    def above(self, size: int) -> list[str]:
        """The bound pods that have no place in a gang of that size."""
        return self.between(size, _LARGEST)


class Resize(Struct, frozen=True):
    """A gang gets another size. `why` completes the sentence."""

    key: str
    old: int
    new: int
    why: str

    @property
    def verb(self) -> str:
        """What happens to it: Grown or Shrunk."""
        return "Grown" if self.new > self.old else "Shrunk"

    def __str__(self) -> str:
        return f"{self.verb} from {self.old} to {self.new} workers{self.why}"


def resize(
    capacity: Capacity,
    leaving: Iterable[str],
    waiting: Sequence[Waiting],
    elastic: Sequence[Elastic],
    *,
    grow: bool = True,
) -> list[Resize]:
    """The sizes to change; with `grow` also upwards.

    The waiting are helped in the order given. `leaving` are pods that are being deleted and hold their room until they
    are gone. The capacity is the same afterwards as before.
    """
    elastic = sorted(elastic, key=_worth)
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
    return _grow(capacity, elastic, keys)


class _Trial:
    """Changes to a capacity, to see what would be; at the end they are undone."""

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
        """As if these pods were gone."""
        for uid in uids:
            if (held := self.capacity.assigned(uid)) is not None:
                self._vacated[uid] = held
                self.capacity.release(uid)

    def restore(self, uids: Iterable[str]) -> None:
        """As if these pods had not gone after all."""
        for uid in uids:
            if (held := self._vacated.pop(uid, None)) is not None:
                self.capacity.assign(uid, *held)

    def fits(self, pods: Mapping[Shape, int]) -> bool:
        """Whether these pods could be placed together."""
        return isinstance(place(self.capacity, pods), Placement)

    def seat(self, pods: Mapping[Shape, int]) -> None:
        """As if these pods, which fit, had been placed."""
        placement = place(self.capacity, pods)
        assert isinstance(placement, Placement), "only what fits is seated"
        for shape in pods:
            for node in placement.expand(shape):
                uid = f"/{len(self._seated)}"  # no pod's
                self.capacity.assign(uid, node, guest_like(shape))
                self._seated.append(uid)


class _Shrinking:
    """The sizes of elastic gangs, worthiest first, as they shrink for one waiting gang after the other."""

    def __init__(self, trial: _Trial, elastic: Sequence[Elastic]) -> None:
        self._trial = trial
        self._gangs = {gang.key: gang for gang in elastic}
        self._sizes = {gang.key: gang.size for gang in elastic}
        self._whys: dict[str, str] = {}
        for gang in elastic:
            trial.vacate(gang.above(gang.size))

    def resizes(self) -> list[Resize]:
        """What has changed; who writes that and is interrupted has not touched the worthier in vain."""
        return [
            Resize(gang.key, gang.size, size, self._whys[gang.key])
            for gang in reversed(self._gangs.values())
            if (size := self._sizes[gang.key]) != gang.size
        ]

    def hopeful(self, waiting: Sequence[Waiting]) -> list[Waiting]:
        """Those for which there would be room if all that may be shrunk for them were at its least."""
        found = []
        for priority, equals in groupby(waiting, key=lambda gang: gang.priority):
            spare = [uid for gang in self._gangs.values() if gang.priority <= priority for uid in self._spare(gang)]
            self._trial.vacate(spare)
            found += [gang for gang in equals if self._trial.fits(self._least_of(gang))]
            self._trial.restore(spare)
        return found

    def _least_of(self, waiting: Waiting) -> Mapping[Shape, int]:
        """What it needs to start at all."""
        own = self._gangs.get(waiting.key)
        return waiting.pods if own is None else own.missing(min(own.least, self._sizes[own.key]))

    def _spare(self, gang: Elastic) -> list[str]:
        """The pods that it may yet lose."""
        return gang.between(gang.least, self._sizes[gang.key])

    def help(self, waiting: Waiting) -> bool:
        """Find room for a gang, and take it. Whether (some of) it can start, now or when others have gone."""
        own = self._gangs.get(waiting.key)
        if own is None:
            return self._start(_times(waiting.pods, waiting.count)) or self._start_at_cost_of_others(waiting)
        return self.complete(own) or self._start_least(waiting, own)

    def complete(self, gang: Elastic) -> bool:
        """Find room for what a gang misses, or a smaller size at which there is. Whether it runs whole then."""
        return self._start(gang.missing(self._sizes[gang.key])) or self._start_smaller(gang)

    def _start(self, pods: Mapping[Shape, int]) -> bool:
        if not self._trial.fits(pods):
            return False
        self._trial.seat(pods)
        return True

    def _start_smaller(self, gang: Elastic) -> bool:
        """Its own pods above the new size give their room back to it."""
        old = self._sizes[gang.key]

        def fits(size: int) -> bool:
            given = gang.between(size, old)
            self._trial.vacate(given)
            answer = self._trial.fits(gang.missing(size))
            self._trial.restore(given)
            return answer

        size = _largest(gang.least, old - 1, fits)
        if size is None:
            return False
        self._trial.vacate(gang.between(size, old))
        self._sizes[gang.key] = size
        self._whys[gang.key] = f": {_scarcest(self._trial.capacity, gang.shape)} for {size} is free"
        self._trial.seat(gang.missing(size))
        return True

    def _start_least(self, waiting: Waiting, gang: Elastic) -> bool:
        """Others shrink only for the least that it needs. By how much it shrinks itself is seen when they have."""
        spare = self._spare(gang)
        self._trial.vacate(spare)
        if self._start_at_cost_of_others(replace(waiting, pods=self._least_of(waiting))):
            return True
        self._trial.restore(spare)
        return False

    def _start_at_cost_of_others(self, waiting: Waiting) -> bool:
        """As many as can be of the `count`: others shrink as far as they may, and then get back what they can."""
        shrunk: list[Elastic] = []
        for gang in reversed(self._gangs.values()):
            if self._may_shrink(gang, waiting):
                self._trial.vacate(self._spare(gang))
                shrunk.append(gang)
                if self._trial.fits(_times(waiting.pods, waiting.count)):
                    break
        count = _largest(1, waiting.count, lambda count: self._trial.fits(_times(waiting.pods, count)))
        if count is None:
            for gang in shrunk:
                self._trial.restore(self._spare(gang))
            return False
        pods = _times(waiting.pods, count)
        for gang in reversed(shrunk):
            self._give_back(gang, pods, waiting.name)
        self._trial.seat(pods)
        return True

    def _may_shrink(self, gang: Elastic, waiting: Waiting) -> bool:
        shrinkable = gang.least < self._sizes[gang.key]
        return shrinkable and gang.priority <= waiting.priority and gang.key != waiting.key

    def _give_back(self, gang: Elastic, pods: Mapping[Shape, int], name: str) -> None:
        """Let a gang that is at its least keep what it can while these pods still fit."""
        old = self._sizes[gang.key]

        def fit(size: int) -> bool:
            kept = gang.between(gang.least, size)
            self._trial.restore(kept)
            answer = self._trial.fits(pods)
            self._trial.vacate(kept)
            return answer

        size = _largest(gang.least + 1, old, fit) or gang.least
        self._trial.restore(gang.between(gang.least, size))
        if size < old:
            self._sizes[gang.key] = size
            before = self._whys.get(gang.key, "")
            self._whys[gang.key] = f"{before} and {name}" if before else f" to make room for {name}"


def _grow(capacity: Capacity, elastic: Sequence[Elastic], waiting: set[str]) -> list[Resize]:
    """The elastic in the order of their worth. The room of pods that are yet to come, or to be placed, is theirs."""
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
    """Hands out room.

    Invariant: all that is granted fits, together with what running gangs still miss, whichever of them the scheduler
    comes to first. What fitted in one order only would be taken back again.
    """

    def __init__(self, capacity: Capacity, running: Sequence[Elastic]) -> None:
        self.granted: Counter[str] = Counter()
        self._capacity = capacity
        self._taken: Counter[Shape] = Counter()
        for gang in running:
            self._taken.update(gang.missing(gang.size))
        self._open = self._fits([], 0)

    def share(self, equals: Sequence[Elastic]) -> None:
        """One pod each in turn, until all are at their most or nothing fits."""
        while self._open and equals:
            rounds = _largest(1, max(map(self._left, equals)), partial(self._fits, equals)) or 0
            self._grant(equals, rounds)
            # Another whole round does not fit, or none is wanted: gangs that still get a pod stay.
            equals = [gang for gang in equals if self._grant_one(gang)]

    def _grant_one(self, gang: Elastic) -> bool:
        if not self._left(gang) or not self._fits([gang], 1):
            return False
        self._grant([gang], 1)
        return True

    def _grant(self, gangs: Iterable[Elastic], rounds: int) -> None:
        for gang in gangs:
            more = min(rounds, self._left(gang))
            self.granted[gang.key] += more
            self._taken[gang.shape] += more

    def _fits(self, gangs: Iterable[Elastic], rounds: int) -> bool:
        """Whether they could have so many pods more, or as many as they may."""
        taken = self._taken.copy()
        for gang in gangs:
            taken[gang.shape] += min(rounds, self._left(gang))
        return fit_in_any_order(self._capacity, +taken)

    def _left(self, gang: Elastic) -> int:
        return min(gang.most, _LARGEST) - gang.size - self.granted[gang.key]


def _is_settled(gang: Elastic) -> bool:
    """It runs whole, and none of its pods is on its way out."""
    return not gang.missing(gang.size) and not gang.above(gang.size)


def _worth(gang: Elastic) -> tuple[int, datetime, str]:
    """Higher priority first, then the older."""
    return -gang.priority, gang.created, gang.key


def _times(pods: Mapping[Shape, int], count: int) -> Mapping[Shape, int]:
    return pods if count == 1 else {shape: number * count for shape, number in pods.items()}


def _largest(low: int, high: int, holds: Callable[[int], bool]) -> int | None:
    """The largest number from `low` to `high` for which it holds, if what holds for a number holds for the smaller.

    In any case it holds for the answer.
    """
    if low > high:
        return None
    if holds(high):  # most often it is all or nothing
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


def _scarcest(capacity: Capacity, shape: Shape) -> str:
    """The resource that the fewest pods of a shape find room of."""
    nodes = capacity.eligible(shape)
    room = {
        resource: int((np.maximum(capacity.free_of(resource)[nodes], 0) // wanted).sum())
        for resource, wanted in shape.requests
    }
    scarcest = min(room, key=lambda resource: (room[resource], resource))
    return "room" if scarcest == "pods" else scarcest
