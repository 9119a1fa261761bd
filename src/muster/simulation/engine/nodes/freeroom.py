"""Measure the free room on the nodes, and how many pods of each source of work would fit there."""

from collections.abc import Iterable
from itertools import islice

from muster.gang import arrays as np
from muster.gang.nodes.capacity import Capacity
from muster.gang.shapes import Shape
from muster.simulation.outcome.fragmentation import FreeRoom, FreeRooms

# The maximum number of sources of work to measure.
_MOST_WORKS = 6
_PODS = "pods"


def measure_rooms(rooms: FreeRooms, capacity: Capacity, shapes: Iterable[tuple[str, Shape]], now: float) -> None:
    """Add a sample of the room for each source of work's pods to `rooms`, if a sample is due.

    shapes: pairs of a source of work and a shape of its pods; only the first shape of each source is measured. Only the
    first few sources are measured.
    """
    if not rooms.is_due(now):
        return
    first: dict[str, Shape] = {}
    for work, shape in shapes:
        first.setdefault(work, shape)
    free, rows = np.maximum(capacity.free(), 0), capacity.rows()
    for work, shape in islice(first.items(), _MOST_WORKS):
        room = rooms.by_work.get(work)
        if room is None:
            resource, amount = find_scarcest(capacity, shape)
            room = rooms.by_work[work] = FreeRoom(work, resource, amount)
        row = rows.get(room.resource)
        unused = 0 if row is None else int(free[row][capacity.eligible(shape)].sum())
        room.add(now, unused, int(capacity.count_fitting(shape).sum()))
    rooms.schedule_next(now)


def find_scarcest(capacity: Capacity, shape: Shape) -> tuple[str, int]:
    """Return the resource of which a pod needs the largest share of all nodes, and the amount that it needs."""
    total = sum_capacity(capacity)
    asked = [(resource, amount) for resource, amount in shape.requests if resource != _PODS] or list(shape.requests)
    return max(asked, key=lambda one: one[1] / max(total.get(one[0], 0), 1))


def sum_capacity(capacity: Capacity) -> dict[str, int]:
    """Return the total capacity of the nodes, by resource."""
    return {resource: int(capacity.allocatable_of(resource).sum()) for resource in capacity.rows()}
