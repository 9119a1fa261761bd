"""Reserve future room for the gang at the head that does not fit yet, and decide which gangs may pass it.

This is EASY backfill. The shadow time is the earliest time at which the head is expected to fit, into the room free by
then. A gang behind the head may start now if it ends by the shadow time, or if the head still fits at that time beside
it.

If ends are unknown there is no shadow time. Then a few gangs may pass, whatever they are; a few may also pass when
gangs end later than expected. After `most` such events a *hold* begins: free room, and the room of gangs that started
before the hold, is kept for the head. From then on a gang passes only if a limit ends it by the shadow time, or if the
head still fits beside it without all gangs that ran before the hold. So the head waits no longer than those gangs run.

A head that does not fit even after everything that ever ends is gone reserves nothing, and blocks no other gang.
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

# How many gangs without a known end may pass, or ends be late, before a hold begins.
MOST_OVERTAKINGS = 32

# The grace in seconds for a gang that should have ended; it doubles while the gang runs on.
_GRACE = 30.0

# A shadow time becomes earlier only if the gain is more than this fraction of the remaining time.
_STEADY = 0.1


def _make_empty_room() -> Ints:
    return np.zeros((0, 0), np.int64)


class Reservation(Struct, frozen=True, eq=False):
    """The room that is reserved for the first waiting gang, the head.

    shadow: the time at which the head is expected to start; None if that is unknown.
    spent: how often a gang without a known end passed, or the shadow time became later.
    held_since: gangs that started after this time do not count as ending for the head.
    room: the room that will be free at the shadow time and is not free now, in the form of `place`'s `extra_use`; valid
    until a change.
    """

    key: str
    room: Ints
    shadow: float | None = None
    spent: int = 0
    held_since: float | None = None
    most: int = MOST_OVERTAKINGS

    @property
    def is_firm(self) -> bool:
        """Whether the reservation is so strict by now that no gang may pass that could delay the head."""
        return self.spent >= self.most

    def without_room(self) -> Self:
        """Return the reservation without its room, to remember it while another gang is the head."""
        return replace(self, room=_make_empty_room())


class Passing(Enum):
    """Why a gang may start before the head."""

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
    """Return the reservation for the head, or why the head never fits.

    placing: places the head.
    running: all gangs that use room.
    previous: the last reservation of the same head.
    """
    before = previous if previous is not None and previous.key == key else Reservation(key, _make_empty_room())
    held_since = before.held_since if before.held_since is not None else now if before.spent >= most else None
    releases = _Releases.of(capacity, running, held_since, now)
    outcome = placing(releases.holdings.freed())
    if isinstance(outcome, Refusal):
        return outcome
    if held_since is not None and isinstance(placing(releases.counted()), Refusal):
        # A node was lost, or a gang ahead took the room: the head waits for what runs now as well.
        held_since = now
        releases = _Releases.of(capacity, running, held_since, now)
    shadow = releases.shadow(placing, now)
    if shadow is not None:
        shadow = _steady_shadow(shadow, before.shadow, now)
    slipped = before.shadow is not None and (shadow is None or shadow > before.shadow)
    room = releases.counted() if shadow is None else releases.by(shadow)
    return Reservation(key, room, shadow, before.spent + slipped, held_since, most)


def may_pass(reservation: Reservation, placing: Placing, gang_use: Ints, end: EndTime | None) -> Passing | None:
    """Return why a gang behind the head may start now; None if it may not.

    placing: places the head.
    gang_use: the room that the gang would use.
    end: when the gang would end if it started now.
    """
    if ends_in_time(reservation, end):
        return Passing.IN_TIME
    if reservation.shadow is None and not reservation.is_firm:
        return Passing.OVERTAKING
    return None if isinstance(placing(reservation.room + gang_use), Refusal) else Passing.HARMLESS


def ends_in_time(reservation: Reservation, end: EndTime | None) -> bool:
    """Return whether a gang with this end is gone once the head is expected to start."""
    shadow = reservation.shadow
    return shadow is not None and end is not None and end.at <= shadow and (end.is_enforced or not reservation.is_firm)


def record_passing(reservation: Reservation, passing: Passing, gang_use: Ints) -> Reservation:
    """Return the reservation after a gang has passed the head.

    passing: why it was allowed to pass. gang_use: the room that it uses.
    """
    match passing:
        case Passing.IN_TIME:
            return replace(reservation, room=reservation.room - gang_use)
        case Passing.HARMLESS:
            return reservation
        case Passing.OVERTAKING:
            return replace(reservation, spent=reservation.spent + 1)


class _Releases(Struct, frozen=True, eq=False):
    """The running gangs, sorted by when they end and free their room.

    holdings: the node use of the gangs: first those whose end is known, by their end; then the others that the head
    waits for; then the rest.
    times: the known ends.
    waited: how many gangs the head waits for.
    """

    holdings: Holdings
    times: Sequence[float]
    waited: int

    @classmethod
    def of(cls, capacity: Capacity, running: GangLedger, held_since: float | None, now: float) -> Self:
        """Return the running gangs of a ledger, sorted by when they end.

        held_since: when the hold began. In a hold the head waits only for gangs that started before it, and for gangs
        whose end is sure. The result is None without a hold: the head waits for all gangs.
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
        """Return the room that will be free once every gang that the head waits for has ended."""
        return self.holdings.freed(self.waited)

    def by(self, time: float) -> Ints:
        """Return the room that running gangs are expected to free until a time, in seconds since the epoch."""
        return self.holdings.freed(bisect_right(self.times, time))

    def shadow(self, placing: Placing, now: float) -> float | None:
        """Return the earliest known end after which the head fits; None if the head fits after none of them."""

        def fits(ended: int) -> bool:
            return not isinstance(placing(self.holdings.freed(ended)), Refusal)

        ended = bisect_left(range(len(self.times) + 1), True, key=fits)
        return None if ended > len(self.times) else self.times[ended - 1] if ended else now


def _expect_end(end: float, now: float) -> float:
    """Return when a gang is expected to end: at `end`, or later if it is overdue.

    An overdue gang gets a grace time, doubled until the new end lies in the future.
    """
    if end > now:
        return end
    grace = _GRACE
    while end + grace <= now:
        grace *= 2
    return end + grace


def _steady_shadow(shadow: float, before: float | None, now: float) -> float:
    """Return the shadow time to use. It moves to an earlier time only if the gain is worth a change.

    shadow: the newly computed time. before: the one used so far; None if there is none.
    """
    if before is None or not shadow < before:
        return shadow
    return before if before - shadow <= _STEADY * (before - now) else shadow
