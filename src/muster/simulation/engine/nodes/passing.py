"""Determine quickly which gangs cannot pass the head (the first waiting gang), so that few gangs are tried. Pure.

The results agree with those of an attempt. A gang for which the result is unknown is tried.
"""

from muster.controllers.scheduler.order import OrderCriteria
from muster.controllers.scheduler.pending import Head, PendingGangs
from muster.gang.nodes.capacity import Capacity
from muster.gang.order.ends import EndTime
from muster.gang.order.reservation import Reservation, ends_in_time
from muster.gang.placement import room_of
from muster.gang.shapes import Shape

# The shape and the number of pods that all have one shape without rules about other pods.
Uniform = tuple[Shape, int]


class Passing:
    """The first waiting gang (the head), and the spare room alongside it for pods of the head's shape."""

    def __init__(self, pending: PendingGangs, capacity: Capacity) -> None:
        self._pending = pending
        self._capacity = capacity
        # The number of further pods of the head's shape that fit, and the reservation and version for which it is
        # valid.
        self._spare = 0
        self._spare_since: tuple[Reservation | None, int] = (None, -1)

    def is_behind_head(self, key: str, standing: OrderCriteria, now: float) -> bool:
        """Return whether a gang comes after the head and the head's reservation is up to date; False without a head."""
        head = self._pending.current_head
        if head is None or head.key == key or self._pending.is_nominated(key):
            return False
        return not head.is_overdue(now) and self._pending.precedes(head, key, standing)

    def would_delay_head(self, of_head: Uniform | None, shape: Shape, pods: int, end: EndTime | None) -> bool:
        """Return whether a gang behind the head takes room that the head needs; False if that is not known cheaply.

        of_head: the shape and number of the head's pods. The result is only known if the gang's pods have the same
        shape.
        pods: the number of the gang's pods.
        end: the time at which the gang ends; None if unknown.
        """
        head = self._pending.current_head
        if head is None or of_head is None or of_head[0] != shape:
            return False
        reservation = head.reservation
        if ends_in_time(reservation, end) or (reservation.shadow is None and not reservation.is_firm):
            return False
        return pods > self._count_spare(head, *of_head)

    def _count_spare(self, head: Head, shape: Shape, pods: int) -> int:
        """Return how many pods of the head's shape fit beside the head's own `pods` when the head may start."""
        reservation, version = head.reservation, self._capacity.version
        if self._spare_since[0] is not reservation or self._spare_since[1] != version:
            self._spare = int(room_of(self._capacity, shape, extra_use=reservation.room).sum()) - pods
            self._spare_since = reservation, version
        return self._spare
