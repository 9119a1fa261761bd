"""Decide whether a waiting gang starts now: it must fit, and must not delay gangs for which room is reserved.

`decide_start` does no I/O; it records its result in the `PendingGangs`.
"""

from collections.abc import Hashable
from typing import Protocol

from msgspec import Struct

from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import Head, PendingGangs
from muster.gang.arrays import Ints
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
from muster.gang.placement import Refusal, sum_placement_use
from muster.gang.quorum import Chosen


class Asking(Protocol):
    """A gang, or a part of it that is placed together, that requests room."""

    @property
    def key(self) -> str:
        """The key of the gang."""
        ...

    @property
    def alike(self) -> Hashable:
        """The key of the gang's equivalence class: gangs with the same key get the same refusal."""
        ...

    @property
    def criteria(self) -> OrderCriteria:
        """The gang's position in the order of waiting gangs."""
        ...

    def place(self, capacity: Capacity, extra_use: Ints | None = None) -> Chosen | Refusal:
        """Choose nodes; return the pods that get a node, or the refusal.

        extra_use: the amounts on each node that others also use.
        """
        ...

    def end(self, now: float) -> EndTime | None:
        """Return when the pods end if they start now; None if that is unknown.

        now: the current time, in seconds since the epoch.
        """
        ...


class KeptRoom(Struct, frozen=True):
    """The result that a gang fits but must not start, because the room is reserved.

    head: the gang for which the room is reserved; None if it is reserved for gangs that preempted pods to get it.
    """

    head: Head | None = None


def decide_start(pending: PendingGangs, ask: Asking, capacity: Capacity, now: float) -> Chosen | Refusal | KeptRoom:
    """Decide whether a gang starts now: return its pods with their nodes, or why it waits.

    The result is recorded in `pending`.
    """
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
        gang_use, end = sum_placement_use(capacity, outcome.placement), ask.end(now)
        if (head := pending.find_delayed_head(ask.key, ask.alike, ask.criteria, gang_use, end, now)) is not None:
            return KeptRoom(head)
    return outcome
