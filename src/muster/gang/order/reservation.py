"""Room in time for the gang at the head of the line that does not fit yet, and who may still pass it: EASY backfill.

The shadow time is the earliest time at which the head is expected to fit, on what is free and on what has ended by
then. A gang behind the head may start now if it ends by the shadow time, or if the head still fits then with it there.

Where ends are not known there is no shadow time. Then a few gangs may pass, whatever they are; so they may if ends turn
out later than was said. When `most` of that has happened, a hold begins: what is free and what ran before it is meant
for the head. From then on a gang passes only if it is sure to end by the shadow time, or if the head still fits with it
there once all is gone that ran before the hold. So the head waits no longer than that runs.

A head that does not fit even when all is gone that ever ends reserves nothing, and stops no other gang.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from enum import Enum
from typing import Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from muster.gang.nodes.capacity import Capacity, Ints
from muster.gang.nodes.holdings import Holdings
from muster.gang.order.ends import End
from muster.gang.order.ledger import Ledger
from muster.gang.placement import Placement, Placing, Refusal

# So often gangs may pass, or ends be later than was said, before the head holds what comes free.
MOST_OVERTAKINGS = 32

# What should have ended gets so many seconds more; if it runs on, as long again each time.
_GRACE = 30.0

# A shadow time that could be sooner by less than this part of what is left stays.
_STEADY = 0.1

_NOTHING: Ints = np.zeros((0, 0), np.int64)


class Reservation(Struct, frozen=True, eq=False):
    """What is kept for the gang at the head.

    shadow: when it is expected to start; None if that is not known.
    spent: how often it was overtaken without a known end, or its shadow time had to move to later.
    held_since: what started after that is not counted upon to go.
    room: what will be free then that is not free now, in the form of `place`'s `taken`; good until something happens.
    """

    key: str
    room: Ints
    shadow: float | None = None
    spent: int = 0
    held_since: float | None = None
    most: int = MOST_OVERTAKINGS

    @property
    def held(self) -> bool:
        """Whether nothing may pass any more that could make the head wait longer."""
        return self.spent >= self.most

    def without_room(self) -> Self:
        """What is to be remembered of it while another gang is at the head."""
        return replace(self, room=_NOTHING)


class Passing(Enum):
    """Why a gang may pass the head."""

    IN_TIME = "it ends before"
    HARMLESS = "the head still fits"
    OVERTAKING = "one of a few that may"


def reserve(
    capacity: Capacity,
    key: str,
    placing: Placing,
    running: Ledger,
    now: float,
    previous: Reservation | None = None,
    most: int = MOST_OVERTAKINGS,
) -> Reservation | Refusal:
    """What is kept for the head; why it never fits, if so.

    placing: where the head goes. running: all that holds room. previous: the last reservation of this very head.
    """
    before = previous if previous is not None and previous.key == key else Reservation(key, _NOTHING)
    held_since = before.held_since if before.held_since is not None else now if before.spent >= most else None
    releases = _Releases.of(capacity, running, held_since, now)
    outcome = placing(releases.holdings.freed())
    if isinstance(outcome, Refusal):
        return outcome
    if held_since is not None and isinstance(placing(releases.counted()), Refusal):
        # A node was lost, or a gang that goes first took the room: what runs now is waited for as well.
        held_since = now
        releases = _Releases.of(capacity, running, held_since, now)
    shadow = releases.shadow(placing, now)
    if shadow is not None:
        shadow = _steady(shadow, before.shadow, now)
    slipped = before.shadow is not None and (shadow is None or shadow > before.shadow)
    room = releases.counted() if shadow is None else releases.by(shadow)
    return Reservation(key, room, shadow, before.spent + slipped, held_since, most)


def may_pass(reservation: Reservation, placing: Placing, taken: Ints, end: End | None) -> Passing | None:
    """Whether a gang behind the head may start now, and why; None if it may not.

    placing: where the head goes. taken: what the gang would use. end: when it would end if it started now.
    """
    shadow, held = reservation.shadow, reservation.held
    if shadow is not None and end is not None and end.at <= shadow and (end.sure or not held):
        return Passing.IN_TIME
    if shadow is None and not held:
        return Passing.OVERTAKING
    return Passing.HARMLESS if isinstance(placing(reservation.room + taken), Placement) else None


def passed(reservation: Reservation, passing: Passing, taken: Ints) -> Reservation:
    """The reservation once a gang has passed, and uses what it took."""
    match passing:
        case Passing.IN_TIME:
            return replace(reservation, room=reservation.room - taken)
        case Passing.HARMLESS:
            return reservation
        case Passing.OVERTAKING:
            return replace(reservation, spent=reservation.spent + 1)


class _Releases(Struct, frozen=True, eq=False):
    """What ends and when.

    holdings: of those whose end is known, by their end; then of the others that the head waits for; then of the rest.
    times: when those end whose end is known. waited: how many the head waits for.
    """

    holdings: Holdings
    times: Sequence[float]
    waited: int

    @classmethod
    def of(cls, capacity: Capacity, running: Ledger, held_since: float | None, now: float) -> Self:
        """In a hold the head waits for those that were before it, and for those that are sure to be gone."""
        terms = running.terms()
        known, expected = ~np.isnan(terms.ends), terms.ends.copy()
        for late in np.flatnonzero(terms.ends <= now).tolist():
            expected[late] = _expected(float(terms.ends[late]), now)
        rest = np.zeros_like(known)
        if held_since is not None:
            rest = (terms.started > held_since) & ~terms.sure
        sort = np.where(rest, 2, np.where(known, 0, 1))
        order = np.lexsort((expected, sort))
        counted = np.bincount(sort, minlength=3)
        times = expected[order[: counted[0]]].tolist()
        return cls(running.holdings(capacity, terms.numbers[order]), times, int(counted[0] + counted[1]))

    def counted(self) -> Ints:
        """What comes free once all has ended that the head waits for."""
        return self.holdings.freed(self.waited)

    def by(self, time: float) -> Ints:
        """What has come free by then."""
        return self.holdings.freed(bisect_right(self.times, time))

    def shadow(self, placing: Placing, now: float) -> float | None:
        """When the head fits, by bisection over the ends; None: not after any of those that are known."""

        def fits(ended: int) -> bool:
            return isinstance(placing(self.holdings.freed(ended)), Placement)

        ended = bisect_left(range(len(self.times) + 1), True, key=fits)
        return None if ended > len(self.times) else self.times[ended - 1] if ended else now


def _expected(end: float, now: float) -> float:
    """What has not ended in time takes a grace longer, then twice that, and so on."""
    if end > now:
        return end
    grace = _GRACE
    while end + grace <= now:
        grace *= 2
    return end + grace


def _steady(shadow: float, before: float | None, now: float) -> float:
    """Later only if it must be; sooner only if that is worth a change."""
    if before is None or not shadow < before:
        return shadow
    return before if before - shadow <= _STEADY * (before - now) else shadow
