"""Decide whether a gang that waits for room starts now, from the whole state of the scheduler. Pure."""

from collections.abc import Hashable
from typing import Protocol

from msgspec import Struct

from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import Head, PendingGangs
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
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
    def criteria(self) -> OrderCriteria:
        """Its criteria in the order of gangs."""
        ...

    def place(self, capacity: Capacity, taken: Ints | None = None) -> Chosen | Refusal:
        """Return the pods to place and their nodes, in addition to the use in `taken`, or why no pod is placed."""
        ...

    def end(self, now: float) -> EndTime | None:
        """Return when its pods end if they start now; None if that is unknown."""
        ...


class KeptRoom(Struct, frozen=True):
    """The answer that there is room, but it is kept for the head, or (None) for gangs whose victims freed it."""

    head: Head | None = None


def decide_start(pending: PendingGangs, ask: Asking, capacity: Capacity, now: float) -> Chosen | Refusal | KeptRoom:
    """Return the pods that start now and their nodes, or why none does; record the answer in `pending`."""
    outcome: Chosen | Refusal | None = pending.get_refusal(ask.alike)
    if outcome is None:
        if (head := pending.recall_delayed_head(ask.key, ask.alike, ask.criteria, ask.end(now))) is not None:
            return KeptRoom(head)
        outcome = ask.place(capacity)
    if isinstance(outcome, Refusal):
        pending.record_refusal(ask.alike, outcome)
        return outcome
    if (nominated := pending.sum_nominated_room(ask.key, ask.criteria)) is not None:
        outcome = ask.place(capacity, nominated)
        if isinstance(outcome, Refusal):
            return KeptRoom()
    if pending.head is not None:
        taken, end = taken_by(capacity, outcome.placement), ask.end(now)
        if (head := pending.find_delayed_head(ask.key, ask.alike, ask.criteria, taken, end, now)) is not None:
            return KeptRoom(head)
    return outcome
