"""Decide whether a gang that waits for room starts now, from the whole state of the scheduler. Pure."""

from collections.abc import Hashable
from typing import Protocol

from msgspec import Struct

from muster.controllers.scheduler.pending import Head, PendingGangs, Standing
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import End
from muster.gang.placement import Refusal, taken_by
from muster.gang.quorum import Chosen


class Asking(Protocol):
    """A gang, or a part of it that is placed together, that requests room."""

    @property
    def key(self) -> str:
        """The key of the gang."""
        ...

    @property
    def alike(self) -> Hashable:
        """The key of its equivalence class."""
        ...

    @property
    def standing(self) -> Standing:
        """Its criteria in the order of gangs."""
        ...

    def place(self, capacity: Capacity, taken: Ints | None = None) -> Chosen | Refusal:
        """Return the pods to place and their nodes, in addition to the use in `taken`, or why no pod is placed."""
        ...

    def end(self, now: float) -> End | None:
        """Return when its pods end if they start now; None if that is unknown."""
        ...


class Kept(Struct, frozen=True):
    """The answer that there is room, but it is kept for the head, or (None) for gangs whose victims freed it."""

    head: Head | None = None


def decide_start(pending: PendingGangs, ask: Asking, capacity: Capacity, now: float) -> Chosen | Refusal | Kept:
    """Return the pods that start now and their nodes, or why none does; record the answer in `pending`."""
    outcome: Chosen | Refusal | None = pending.refusal(ask.alike)
    if outcome is None:
        if (head := pending.still_kept_for(ask.key, ask.alike, ask.standing, ask.end(now))) is not None:
            return Kept(head)
        outcome = ask.place(capacity)
    if isinstance(outcome, Refusal):
        pending.refused(ask.alike, outcome)
        return outcome
    if (nominated := pending.kept_for_others(ask.key, ask.standing)) is not None:
        outcome = ask.place(capacity, nominated)
        if isinstance(outcome, Refusal):
            return Kept()
    if pending.head is not None:
        taken, end = taken_by(capacity, outcome.placement), ask.end(now)
        if (head := pending.kept_for(ask.key, ask.alike, ask.standing, taken, end, now)) is not None:
            return Kept(head)
    return outcome
