"""Keep the gangs that wait for room, and decide which gang is the head and which gangs may pass it.

The *head* is the first waiting gang (`order`) that did not fit. Room is reserved for it at the time when it is expected
to fit. Another gang may start before the head if that does not delay the head. Gangs with equal requests form an
equivalence class: one refusal counts for the whole class until room becomes free.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from muster.controllers.scheduler.order import GangClasses, GangOrder, OrderCriteria, Rank, make_rank
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
from muster.gang.order.ledger import GangLedger
from muster.gang.order.reservation import (
    MOST_OVERTAKINGS,
    Reservation,
    ends_in_time,
    may_pass,
    record_passing,
    reserve,
)
from muster.gang.order.shares import Shares
from muster.gang.placement import Placement, Placing, Refusal, sum_placement_use


class Waiter(Struct, frozen=True):
    """A waiting gang.

    alike: the key of its equivalence class.
    """

    alike: Hashable
    criteria: OrderCriteria


class Head(Struct, frozen=True, eq=False):
    """The waiting gang for which room is reserved.

    alike: the key of its equivalence class.
    placing: finds nodes for the gang, in addition to the room that other gangs use.
    """

    key: str
    alike: Hashable
    criteria: OrderCriteria
    placing: Placing
    reservation: Reservation

    def is_overdue(self, now: float) -> bool:
        """Return whether the gang was expected to start before now."""
        shadow = self.reservation.shadow
        return shadow is not None and shadow <= now


class Room(Protocol):
    """A source of the cluster's capacity, and of each tenant's usage."""

    @property
    def capacity(self) -> Capacity:
        """The nodes and their free amounts."""
        ...

    @property
    def shares(self) -> Shares:
        """The amounts that each tenant's pods use."""
        ...


class PendingGangs:
    """The waiting gangs in order, the head's reservation, and the room nominated to preempting gangs.

    A restart rebuilds all of it, except how many gangs have started before each current or former head.
    """

    def __init__(self, room: Room, running: Callable[[float], GangLedger], overtakings: int = MOST_OVERTAKINGS) -> None:
        """Start without gangs.

        running: returns the running gangs with their expected ends, for a time in seconds since the epoch.
        overtakings: how many gangs with an unknown end may start before the head.
        """
        self._room = room
        self._running = running
        self._overtakings = overtakings
        self._waiting: dict[str, Waiter] = {}
        self._order = GangOrder()
        self._told: dict[str, str] = {}  # the published reasons why gangs wait
        self._refusals: dict[Hashable, Refusal] = {}
        self._looking: set[Hashable] = set()  # classes that were refused because of affinity or spread rules
        self._hopeless: set[Hashable] = set()  # classes for which no room can be reserved
        self._classes = GangClasses()
        self._swept: set[str] = set()  # gangs tried, or returned to be tried, since the last sweep began
        self._totals: dict[str, int] = {}  # the cluster's total of each resource
        # The placements that are reserved for gangs until their victims are deleted.
        self._nominated: dict[str, tuple[OrderCriteria, Placement]] = {}
        # By class, the highest priority for which the search for victims failed, and the published reason.
        self._tried: dict[Hashable, tuple[int, str]] = {}
        self._head: Head | None = None
        # The reservations of former heads, which record how many gangs started before them.
        self._heads: dict[str, Reservation] = {}
        self._stale = False  # the reservation is out of date
        # The classes whose gangs may not start because of the head, unless they end in time. Next, the reservation and
        # the capacity version for which that is known.
        self._kept: set[Hashable] = set()
        self._kept_since: tuple[Reservation | None, int] = (None, -1)

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def has_several_tenants(self) -> bool:
        """Whether gangs of more than one tenant wait, so that each start may change their order."""
        return self._order.has_several_tenants

    @property
    def head(self) -> Head | None:
        """The gang for which room is reserved; None if there is none."""
        return self._head

    @property
    def current_head(self) -> Head | None:
        """The gang for which room is reserved; None if there is none, or if the reservation is out of date."""
        return None if self._stale else self._head

    @property
    def keeps_nodes(self) -> bool:
        """Whether nodes are reserved for some gang."""
        return self._head is not None or bool(self._nominated)

    def get(self, key: str) -> Waiter | None:
        """Return the waiting gang with this key; None if it does not wait."""
        return self._waiting.get(key)

    def get_refusal(self, alike: Hashable) -> Refusal | None:
        """Return the last refusal of an equivalence class since room became free; None if there was none."""
        return self._refusals.get(alike)

    def drop_refusals(self) -> None:
        """Drop the refusals, after room became free or another change that could help."""
        self._forget_refusals()
        self._tried.clear()
        self._totals = {}
        self._stale = True

    def drop_refusals_by_other_pods(self) -> bool:
        """Drop the refusals that depend on other pods (affinity, spread), after the pods on the nodes changed.

        Return whether any was dropped.
        """
        helped = bool(self._looking)
        for alike in self._looking:
            del self._refusals[alike]
        self._looking.clear()
        return helped

    def record_refusal(self, alike: Hashable, refusal: Refusal) -> None:
        """Record why the gangs of an equivalence class do not fit.

        The record holds until room becomes free, or, if rules about other pods refused the gangs, until pods change.
        """
        self._refusals[alike] = refusal
        if refusal.is_of_room:
            self._looking.discard(alike)
        else:
            self._looking.add(alike)

    def wait(self, key: str, waiter: Waiter) -> None:
        """Add a gang to the waiting gangs, or replace what is known about it."""
        if self._waiting.get(key) == waiter:
            return
        self._drop_waiter(key)
        self._waiting[key] = waiter
        self._order.add(key, waiter.criteria)
        self._classes.add(key, waiter.alike, waiter.criteria)
        self._swept.add(key)  # the caller tries this gang, so `next_alike` skips it until the next sweep

    def forget(self, key: str) -> bool:
        """Remove a gang with its nominated room and reservation; return whether it was waiting."""
        if self._head is not None and self._head.key == key:
            self._head = None
        self._heads.pop(key, None)
        self.withdraw(key)
        self._told.pop(key, None)
        self._swept.discard(key)
        return self._drop_waiter(key)

    def _drop_waiter(self, key: str) -> bool:
        waiter = self._waiting.pop(key, None)
        if waiter is None:
            return False
        self._order.remove(key, waiter.criteria)
        self._classes.remove(key, waiter.alike, waiter.criteria)
        return True

    def get_published_reason(self, key: str) -> str:
        """Return the last published reason why a gang waits; "" if none was published."""
        return self._told.get(key, "")

    def record_published_reason(self, key: str, sentence: str) -> None:
        """Record the published reason why a gang waits."""
        if key in self._waiting:
            self._told[key] = sentence

    def get_failed_search(self, alike: Hashable, criteria: OrderCriteria) -> str | None:
        """Return why the last search for victims failed for gangs of this class with at least this priority.

        Return None if no such search has failed.
        """
        result = self._tried.get(alike)
        return result[1] if result is not None and result[0] >= criteria.priority else None

    def record_failed_search(self, alike: Hashable, criteria: OrderCriteria, words: str) -> None:
        """Record that gangs of this class, up to this priority, find no victims, until `drop_failed_searches`.

        words: the reason, for users.
        """
        self._tried[alike] = criteria.priority, words

    def drop_failed_searches(self) -> None:
        """Drop the results of failed searches for victims, after a change that may let a search succeed."""
        self._tried.clear()

    def nominate(self, key: str, criteria: OrderCriteria, placement: Placement) -> None:
        """Nominate a placement to a gang: reserve its nodes until the victims there are deleted and the gang starts."""
        self._nominated[key] = criteria, placement

    def is_nominated(self, key: str) -> bool:
        """Return whether a placement is nominated to a gang that waits until the victims on its nodes are deleted."""
        return key in self._nominated

    def withdraw(self, key: str) -> bool:
        """Remove the placement nominated to a gang, and free its nodes for others; return whether there was one."""
        if self._nominated.pop(key, None) is None:
            return False
        self._forget_refusals()
        return True

    def sum_nominated_room(self, key: str, criteria: OrderCriteria) -> Ints | None:
        """Return the room nominated to gangs that come before this one; None if there is none.

        A broken gang comes before all others, but does not get nodes that victims freed for another gang.
        """
        if not self._nominated:
            return None
        rank, capacity = self.rank(key, criteria), self._room.capacity
        nominated = [
            sum_placement_use(capacity, placement)
            for other, (its, placement) in self._nominated.items()
            if other != key and (self.rank(other, its) < rank or (criteria.broken and not its.broken))
        ]
        return sum(nominated[1:], start=nominated[0]) if nominated else None

    def list_in_order(self) -> list[str]:
        """Return the waiting gangs in their order."""
        return list(self._order.iterate(self._get_share))

    def broken_before(self, key: str, criteria: OrderCriteria) -> list[str]:
        """Return the waiting gangs that lost running pods and come before this gang, in order."""
        own = self.rank(key, criteria)
        return [other for other, rank in self._list_broken() if rank < own]

    def broken_after(self, key: str, criteria: OrderCriteria) -> list[str]:
        """Return the waiting gangs that lost running pods and come after this gang, in order."""
        own = self.rank(key, criteria)
        return [other for other, rank in self._list_broken() if rank > own]

    def _list_broken(self) -> list[tuple[str, Rank]]:
        ranks = [(key, self.rank(key, one.criteria)) for key, one in self._waiting.items() if one.criteria.broken]
        return sorted(ranks, key=lambda ranked: ranked[1])

    def sweep(self) -> list[str]:
        """Return the first gang of each class, in order; `next_alike` returns the others."""
        firsts = self._classes.list_firsts(self._get_share)
        self._swept = set(firsts)
        return firsts

    def next_alike(self, alike: Hashable) -> str | None:
        """Return the next gang of a class to try, after a gang of that class found room; None if there is none."""
        key = self._find_untried(alike)
        if key is not None:
            self._swept.add(key)
        return key

    def next_before_head(self, alike: Hashable) -> str | None:
        """Return the gang to try next, after a gang of this class had to wait for the head; None if there is none.

        That is the head itself, or a gang of the class that now comes before the head, because the shares of tenants
        have changed since the last sweep.
        """
        head = self._head
        if head is None or not self.has_several_tenants:
            return None
        if head.alike != alike and not self.is_head_overtaken():
            return None
        key = self._find_untried(alike)
        if key is None or self.rank(key, self._waiting[key].criteria) > self.rank(head.key, head.criteria):
            return None
        self._swept.add(key)
        return key

    def _find_untried(self, alike: Hashable) -> str | None:
        keys = self._classes.iterate(alike, self._get_share)
        return next((key for key in keys if key not in self._swept), None)

    def is_head_overtaken(self) -> bool:
        """Return whether a waiting gang comes before the head, by the current shares of their tenants."""
        return self._head is not None and any(True for _ in self._iterate_before(self._head))

    def may_overtake_head(self, tenant: str) -> bool:
        """Return whether another tenant's gang may now come before the head, after a gang of this tenant started.

        Gangs of classes that were refused and can get no reservation do not count.
        """
        head = self._head
        if head is None or head.criteria.tenant != tenant or not self.has_several_tenants:
            return False
        idle = self._hopeless & self._refusals.keys()
        return any(self._waiting[key].alike not in idle for key in self._iterate_before(head))

    def _iterate_before(self, head: Head) -> Iterator[str]:
        return self._order.iterate_before(self.rank(head.key, head.criteria), self._get_share)

    def rank(self, key: str, criteria: OrderCriteria) -> Rank:
        """Return the sort key of a gang among the waiting gangs."""
        return make_rank(key, criteria, self._get_share(criteria.tenant))

    def _get_share(self, tenant: str) -> float:
        return self._room.shares.share(tenant, self._sum_totals())

    def reserve_for(self, key: str, waiter: Waiter, placing: Placing, now: float) -> Refusal | None:
        """Make a gang that did not fit the head, and reserve room for it, unless the current head comes before it.

        Return the refusal if the gang would not fit even after all running gangs ended; else None.

        placing: finds nodes for the gang, in addition to the room that other gangs use.
        """
        head = self._head
        if head is not None:
            is_same = head.key == key and head.alike == waiter.alike
            if is_same and not self._stale and not head.is_overdue(now):
                return None
            if head.key != key and self.precedes(head, key, waiter.criteria):
                return None
        return self._reserve(key, waiter.alike, waiter.criteria, placing, now)

    def precedes(self, head: Head, key: str, criteria: OrderCriteria) -> bool:
        """Return whether the head comes before another gang, by the current shares of their tenants."""
        return self.rank(head.key, head.criteria) < self.rank(key, criteria)

    def recall_delayed_head(
        self, key: str, alike: Hashable, criteria: OrderCriteria, end: EndTime | None
    ) -> Head | None:
        """Return the head if an earlier decision, which is still valid, says that gangs of this class would delay it.

        Return None if `find_delayed_head` must decide.

        end: when the gang would end; None if that is unknown.
        """
        head = self._head
        if head is None or head.key == key or self._stale or self._nominated or alike not in self._list_kept(head):
            return None
        if ends_in_time(head.reservation, end) or not self.precedes(head, key, criteria):
            return None
        return head

    def _list_kept(self, head: Head) -> set[Hashable]:
        since = self._kept_since
        if since[0] is not head.reservation or since[1] != self._room.capacity.version:
            self._kept.clear()
            self._kept_since = head.reservation, self._room.capacity.version
        return self._kept

    def find_delayed_head(
        self, key: str, alike: Hashable, criteria: OrderCriteria, gang_use: Ints, end: EndTime | None, now: float
    ) -> Head | None:
        """Decide whether the start of a gang that fits would delay the head; return the head if so.

        Return None if the gang may start, and count it as started before the head.

        alike: the key of the gang's class.
        gang_use: the amounts that the gang would use on each node.
        end: when the gang would end; None if that is unknown.
        """
        head = self._head
        if head is not None and (self._stale or head.reservation.room.shape != gang_use.shape):
            self._reserve(head.key, head.alike, head.criteria, head.placing, now)
            head = self._head
        if head is None or head.key == key or not self.precedes(head, key, criteria):
            return None
        if key in self._nominated and head.criteria.broken and not criteria.broken:  # see `sum_nominated_room`
            return None
        passing = may_pass(head.reservation, head.placing, gang_use, end)
        if passing is None:
            self._list_kept(head).add(alike)
            return head
        self._head = replace(head, reservation=record_passing(head.reservation, passing, gang_use))
        return None

    def _forget_refusals(self) -> None:
        self._refusals.clear()
        self._looking.clear()
        self._hopeless.clear()

    def _reserve(
        self, key: str, alike: Hashable, criteria: OrderCriteria, placing: Placing, now: float
    ) -> Refusal | None:
        head = self._head
        previous = head.reservation if head is not None and head.key == key else self._heads.get(key)
        running = self._running(now)
        outcome = reserve(self._room.capacity, key, placing, running, now, previous, self._overtakings)
        if isinstance(outcome, Refusal):
            self._hopeless.add(alike)
            if head is not None and head.key == key:
                self._head = None
            return outcome
        if head is not None and head.key != key:
            self._heads[head.key] = head.reservation.without_room()
        self._head, self._stale = Head(key, alike, criteria, placing, outcome), False
        return None

    def _sum_totals(self) -> Mapping[str, int]:
        if not self._totals:
            capacity = self._room.capacity
            self._totals = {resource: int(capacity.allocatable_of(resource).sum()) for resource in capacity.rows()}
        return self._totals
