"""The gangs that wait for room: in which order, who is at the head, and who may pass it.

Broken gangs, which run without some of their pods, go first; then high priorities; then tenants that hold less of the
cluster; then the oldest. Gangs that ask for the same are an equivalence class: one refusal answers for all of it until
something comes free. For the gang at the head room is reserved in time; the surplus of a gang reserves nothing.
"""

from collections import deque
from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from muster.controllers.scheduler.roster import Carried, Roster
from muster.gang.nodes.capacity import Ints
from muster.gang.order.ends import End
from muster.gang.order.reservation import MOST_OVERTAKINGS, Reservation, may_pass, passed, reserve
from muster.gang.placement import Placement, Placing, Refusal, taken_by

Rank: TypeAlias = tuple[bool, int, float, datetime, str]


class Standing(Struct, frozen=True):
    """What decides who goes first.

    broken: it runs without some of its pods. tenant: for whom it runs. created: when the oldest of its pods was.
    """

    broken: bool
    priority: int
    tenant: str
    created: datetime


class Waiter(Struct, frozen=True):
    """A gang that waits. alike: what its class asks for."""

    alike: Hashable
    standing: Standing


class Head(Struct, frozen=True, eq=False):
    """The gang that is to start next. alike: what it asks for. placing: where it goes beside what is taken."""

    key: str
    alike: Hashable
    rank: Rank
    placing: Placing
    reservation: Reservation


class PendingGangs:
    """The gangs that wait, their order, and what is kept for some of them.

    All of it is a cache; what is reserved too, but for how often who is or was at the head was overtaken.
    """

    def __init__(self, roster: Roster, carried: Carried, overtakings: int = MOST_OVERTAKINGS) -> None:
        """`overtakings`: how many gangs whose end is not known may pass the head."""
        self._roster = roster
        self._carried = carried
        self._overtakings = overtakings
        self._waiting: dict[str, Waiter] = {}
        self._told: dict[str, str] = {}  # why they wait, as people were told
        self._refusals: dict[Hashable, Refusal] = {}
        self._looking: set[Hashable] = set()  # classes that were refused for more than room: for the pods around them
        self._classes: dict[Hashable, deque[str]] = {}  # of each class, those that the last sweep has yet to look at
        self._totals: dict[str, int] = {}  # all that there is, by resource
        self._nominated: dict[str, tuple[Standing, Placement]] = {}  # where gangs go once their victims are gone
        # Up to which priority a class has looked for victims in vain, and why, for people.
        self._tried: dict[Hashable, tuple[int, str]] = {}
        self._head: Head | None = None
        self._heads: dict[str, Reservation] = {}  # of those that were at the head before, and how they were overtaken
        self._stale = False  # something happened that the reservation does not know

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def head(self) -> Head | None:
        """The gang for which room is reserved."""
        return self._head

    def get(self, key: str) -> Waiter | None:
        """A gang, if it waits."""
        return self._waiting.get(key)

    def refusal(self, alike: Hashable) -> Refusal | None:
        """What was found for another of its class since anything came free."""
        return self._refusals.get(alike)

    def freed(self) -> None:
        """Room came free, or something else happened that could help."""
        self._forget_refusals()
        self._tried.clear()
        self._totals.clear()
        self._stale = True

    def met_others(self) -> bool:
        """The pods on the nodes changed. Whether that could help a gang that looks at others, or is looked at."""
        helped = bool(self._looking)
        for alike in self._looking:
            del self._refusals[alike]
        self._looking.clear()
        return helped

    def refused(self, alike: Hashable, refusal: Refusal) -> None:
        """There is no room for a class, until something comes free."""
        self._refusals[alike] = refusal
        if refusal.is_of_room:
            self._looking.discard(alike)
        else:
            self._looking.add(alike)

    def wait(self, key: str, waiter: Waiter) -> None:
        """A gang waits."""
        self._waiting[key] = waiter

    def forget(self, key: str) -> bool:
        """A gang waits no more. Whether that could help others."""
        if self._head is not None and self._head.key == key:
            self._head = None
        self._heads.pop(key, None)
        self.withdraw(key)
        self._told.pop(key, None)
        return self._waiting.pop(key, None) is not None

    def told(self, key: str) -> str:
        """Why a gang waits, as people were told."""
        return self._told.get(key, "")

    def tell(self, key: str, sentence: str) -> None:
        """People were told why a gang waits."""
        if key in self._waiting:
            self._told[key] = sentence

    def tried(self, alike: Hashable, standing: Standing) -> str | None:
        """What came of it when a gang of the class, of no lower priority, last looked for victims in vain."""
        known = self._tried.get(alike)
        return known[1] if known is not None and known[0] >= standing.priority else None

    def try_no_more(self, alike: Hashable, standing: Standing, words: str) -> None:
        """There are no victims for a class, until something comes free. words: why, for people."""
        self._tried[alike] = standing.priority, words

    def try_again(self) -> None:
        """There may be victims where there were none: what was in the way has changed."""
        self._tried.clear()

    def nominate(self, key: str, standing: Standing, placement: Placement) -> None:
        """A gang goes there once what is there has gone."""
        self._nominated[key] = standing, placement

    def is_nominated(self, key: str) -> bool:
        """Whether a gang has its place, and waits for what is there to go."""
        return key in self._nominated

    def withdraw(self, key: str) -> bool:
        """Nothing is nominated to a gang any more. Whether anything was, so that others could go there."""
        if self._nominated.pop(key, None) is None:
            return False
        self._refusals.clear()
        return True

    def kept_for_others(self, key: str, standing: Standing) -> Ints | None:
        """What was nominated to gangs that go before this one; None if nothing was."""
        if not self._nominated:
            return None
        rank, capacity = self.rank(key, standing), self._roster.capacity
        kept = [
            taken_by(capacity, placement)
            for other, (its, placement) in self._nominated.items()
            if other != key and self.rank(other, its) < rank
        ]
        return sum(kept[1:], start=kept[0]) if kept else None

    def in_order(self) -> list[str]:
        """The first goes first."""
        return sorted(self._waiting, key=lambda key: self.rank(key, self._waiting[key].standing))

    def sweep(self) -> list[str]:
        """The first of each class, in order; `next_alike` has the others."""
        self._classes = {}
        for key in self.in_order():
            self._classes.setdefault(self._waiting[key].alike, deque()).append(key)
        return [alike.popleft() for alike in self._classes.values()]

    def next_alike(self, alike: Hashable) -> str | None:
        """The one to look at once another of its class found room."""
        left = self._classes.get(alike, ())
        while left:
            if (key := left.popleft()) in self._waiting:
                return key
        return None

    def rank(self, key: str, standing: Standing) -> Rank:
        """The place of a gang among those that wait; the least goes first."""
        share = self._roster.shares.share(standing.tenant, self._all())
        return not standing.broken, -standing.priority, share, standing.created, key

    def keep_for(self, key: str, waiter: Waiter, placing: Placing, now: float) -> Refusal | None:
        """There is no room for a gang: if none that waits goes first, room is reserved for it.

        Returns why it never fits, if so; then it reserves nothing. placing: where it goes beside what is taken.
        """
        head, rank = self._head, self.rank(key, waiter.standing)
        if head is not None:
            overdue = head.reservation.shadow is not None and head.reservation.shadow <= now
            known = head.key == key and head.alike == waiter.alike and not self._stale and not overdue
            if known or (head.key != key and head.rank < rank):
                return None
        return self._reserve(key, waiter.alike, rank, placing, now)

    def kept_for(self, key: str, standing: Standing, taken: Ints, end: End | None, now: float) -> Head | None:
        """The head, if a gang that fits must not start, as it would wait longer. If it may, it counts as started.

        taken: what it would use. end: when it would end.
        """
        head = self._head
        if head is not None and (self._stale or head.reservation.room.shape != taken.shape):
            self._reserve(head.key, head.alike, head.rank, head.placing, now)
            head = self._head
        if head is None or head.key == key or self.rank(key, standing) < head.rank:
            return None
        passing = may_pass(head.reservation, head.placing, taken, end)
        if passing is None:
            return head
        self._head = replace(head, reservation=passed(head.reservation, passing, taken))
        return None

    def _forget_refusals(self) -> None:
        self._refusals.clear()
        self._looking.clear()

    def _reserve(self, key: str, alike: Hashable, rank: Rank, placing: Placing, now: float) -> Refusal | None:
        head = self._head
        previous = head.reservation if head is not None and head.key == key else self._heads.get(key)
        running = self._roster.running(now, self._carried)
        outcome = reserve(self._roster.capacity, key, placing, running, now, previous, self._overtakings)
        if isinstance(outcome, Refusal):
            if head is not None and head.key == key:
                self._head = None
            return outcome
        if head is not None and head.key != key:
            self._heads[head.key] = head.reservation.without_room()
        self._head, self._stale = Head(key, alike, rank, placing, outcome), False
        return None

    def _all(self) -> Mapping[str, int]:
        if not self._totals:
            capacity = self._roster.capacity
            self._totals = {resource: int(capacity.allocatable_of(resource).sum()) for resource in capacity.rows()}
        return self._totals
