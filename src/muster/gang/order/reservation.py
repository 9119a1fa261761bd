"""Reserve future room for the head of the queue that does not fit yet, and decide which gangs may pass it.

This is EASY backfill. The shadow time is the earliest time at which the head is expected to fit into the room that is
free then. A gang behind the head may start now if it ends by the shadow time, or if the head still fits at that time
alongside it.

If the ends of gangs are unknown, there is no shadow time. Then a limited number of gangs may pass unconditionally. A
limited number may also pass when gangs end later than expected. After `most` such events a *hold* starts: free room,
and the room of gangs that started before the hold, is kept for the head. From then on, a gang passes only if a limit
ends it by the shadow time, or if the head still fits alongside it once all gangs from before the hold have ended. The
head therefore waits no longer than those gangs run.

A head that does not fit even after all gangs that ever end have ended reserves nothing, and blocks no other gang.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from muster.gang import arrays as np
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.ends import EndTime
from muster.gang.order.ledger import GangLedger
from muster.gang.placement import Placing, Refusal

# The number of gangs without a known end that may pass, plus late ends, before a hold starts.
MOST_OVERTAKINGS = 32

# The extra seconds for a gang that should have ended; doubled while the gang continues to run.
_GRACE = 30.0

# The shadow time is moved to an earlier time only if the gain exceeds this fraction of the remaining time.
_STEADY = 0.1


def _make_empty_room() -> Ints:
    return np.zeros((0, 0), np.int64)


class Reservation(Struct, frozen=True, eq=False):
    """The room that is reserved for the first waiting gang, the head.

    shadow: the time at which the head is expected to start; None if it is unknown.
    spent: how often a gang without a known end passed, or the shadow time became later.
    held_since: the start of the hold; gangs that started later do not count as ending for the head. None without a
    hold.
    room: the room that will be free at the shadow time but is not free now, in the form of `extra_use` of `place`;
    valid until the next change.
    """

    key: str
    room: Ints
    shadow: float | None = None
    spent: int = 0
    held_since: float | None = None
    most: int = MOST_OVERTAKINGS

    @property
    def is_firm(self) -> bool:
        """Whether no gang may pass any more that could delay the head."""
        return self.spent >= self.most

    def without_room(self) -> Self:
        """Return the reservation without its room, to keep it while another gang is the head."""
        return replace(self, room=_make_empty_room())


class Passing(Enum):
    """The reason why a gang may start before the head."""

    IN_TIME = "it ends before"
    HARMLESS = "the head still fits"
    OVERTAKING = "one of a few that may"


def reserve(
    capacity: Capacity,
    key: str,
    placing: Placing,
    running: GangLedger,
    now: float,
    previous: Reservation | None = None,
    most: int = MOST_OVERTAKINGS,
) -> Reservation | Refusal:
    """Return the reservation for the head; or why the head never fits.

    placing: places the head, given extra use of the nodes.
    running: all gangs that use room.
    previous: the last reservation of the same head.
    most: the number of events after which a hold starts.
    """
    before = previous if previous is not None and previous.key == key else Reservation(key, _make_empty_room())
    held_since = before.held_since if before.held_since is not None else now if before.spent >= most else None
    releases = _Releases.of(capacity, running, held_since, now)
    outcome = placing(releases.holdings.freed())
    if isinstance(outcome, Refusal):
        return outcome
    if held_since is not None and isinstance(placing(releases.counted()), Refusal):
        # A node was lost, or a gang ahead used the room, so the head also waits for the gangs that run now.
        held_since = now
        releases = _Releases.of(capacity, running, held_since, now)
    shadow = releases.shadow(placing, now)
    if shadow is not None:
        shadow = _choose_steady_shadow(shadow, before.shadow, now)
    slipped = before.shadow is not None and (shadow is None or shadow > before.shadow)
    room = releases.counted() if shadow is None else releases.by(shadow)
    return Reservation(key, room, shadow, before.spent + slipped, held_since, most)


def may_pass(reservation: Reservation, placing: Placing, gang_use: Ints, end: EndTime | None) -> Passing | None:
    """Return the reason why a gang behind the head may start now; None if it may not.

    placing: places the head, given extra use of the nodes.
    gang_use: the room that the gang would use.
    end: the time at which the gang would end if it started now; None if it is unknown.
    """
    if ends_in_time(reservation, end):
        return Passing.IN_TIME
    if reservation.shadow is None and not reservation.is_firm:
        return Passing.OVERTAKING
    return None if isinstance(placing(reservation.room + gang_use), Refusal) else Passing.HARMLESS


def ends_in_time(reservation: Reservation, end: EndTime | None) -> bool:
    """Return whether a gang with this end has ended by the time at which the head is expected to start."""
    shadow = reservation.shadow
    return shadow is not None and end is not None and end.at <= shadow and (end.is_enforced or not reservation.is_firm)


def record_passing(reservation: Reservation, passing: Passing, gang_use: Ints) -> Reservation:
    """Return the reservation after a gang has passed the head.

    passing: the reason why it may pass.
    gang_use: the room that it uses.
    """
    match passing:
        case Passing.IN_TIME:
            return replace(reservation, room=reservation.room - gang_use)
        case Passing.HARMLESS:
            return reservation
        case Passing.OVERTAKING:
            return replace(reservation, spent=reservation.spent + 1)


class _Releases(Struct, frozen=True, eq=False):
    """The running gangs, sorted by the time at which they end and free their room.

    holdings: the node use of the gangs: first the gangs with a known end, sorted by end; then the other gangs that the
    head waits for; then the rest.
    times: the known ends, sorted.
    waited: the number of gangs that the head waits for.
    """

    holdings: Holdings
    times: Sequence[float]
    waited: int

    @classmethod
    def of(cls, capacity: Capacity, running: GangLedger, held_since: float | None, now: float) -> Self:
        """Return the running gangs of a ledger, sorted by end.

        held_since: the start of the hold; None without a hold, when the head waits for all gangs. In a hold the head
        waits only for gangs that started before it, and for gangs whose end is certain.
        """
        terms = running.terms()
        known, expected = ~np.isnan(terms.ends), terms.ends.copy()
        for late in np.flatnonzero(terms.ends <= now).tolist():
            expected[late] = _expect_end(float(terms.ends[late]), now)
        rest = np.zeros_like(known)
        if held_since is not None:
            rest = (terms.started > held_since) & ~terms.enforced
        sort = np.where(rest, 2, np.where(known, 0, 1))
        order = np.lexsort((expected, sort))
        counted = np.bincount(sort, minlength=3)
        times = expected[order[: counted[0]]].tolist()
        return cls(running.holdings(capacity, terms.numbers[order]), times, int(counted[0] + counted[1]))

    def counted(self) -> Ints:
        """Return the room that is free once every gang that the head waits for has ended."""
        return self.holdings.freed(self.waited)

    def by(self, time: float) -> Ints:
        """Return the room that running gangs are expected to free until `time`, in seconds since the epoch."""
        return self.holdings.freed(bisect_right(self.times, time))

    def shadow(self, placing: Placing, now: float) -> float | None:
        """Return the earliest known end after which the head fits; None if the head fits after none of them."""

        def fits(ended: int) -> bool:
            return not isinstance(placing(self.holdings.freed(ended)), Refusal)

        ended = bisect_left(range(len(self.times) + 1), True, key=fits)
        return None if ended > len(self.times) else self.times[ended - 1] if ended else now


def _expect_end(end: float, now: float) -> float:
    """Return when a gang is expected to end: at `end`, or later if it is overdue.

    An overdue gang gets extra time, which is doubled until the expected end lies in the future.
    """
    if end > now:
        return end
    grace = _GRACE
    while end + grace <= now:
        grace *= 2
    return end + grace


def _choose_steady_shadow(shadow: float, before: float | None, now: float) -> float:
    """Return the shadow time to use. It moves to an earlier time only if the gain is large enough.

    shadow: the newly computed time.
    before: the time used so far; None if there is none.
    """
    if before is None or not shadow < before:
        return shadow
    return before if before - shadow <= _STEADY * (before - now) else shadow
