"""Sample how much of a cluster is free, and how many pods of each source of work fit there. Bounded in memory."""

from array import array

# The maximum number of samples. Above it, every other sample is dropped and the interval is doubled.
_MOST_TIMES = 600
_FIRST_SECONDS = 1.0


class FreeRoom:
    """The room for the pods of one source of work, over time.

    resource: the resource that limits its pods most.
    amount: the amount of that resource that a pod requests.
    times, free, fitting: for each sample, the time, the free amount on nodes for such pods, and how many more pods fit.
    """

    def __init__(self, work: str, resource: str, amount: int) -> None:
        self.work, self.resource, self.amount = work, resource, amount
        self.times, self.free, self.fitting = array("d"), array("q"), array("q")

    def add(self, at: float, free: int, fitting: int) -> None:
        """Add a sample of the room at a time.

        free: the free amount.
        fitting: how many more pods fit.
        """
        self.times.append(at)
        self.free.append(free)
        self.fitting.append(fitting)

    def thin(self) -> None:
        """Drop every other sample."""
        self.times, self.free, self.fitting = self.times[::2], self.free[::2], self.fitting[::2]

    def usable(self, sample: int, size: int) -> int:
        """Return the part of the free amount that whole gangs of `size` pods could use.

        sample: the index of the sample.
        """
        return self.fitting[sample] // size * size * self.amount


class FreeRooms:
    """The samples of free room for the pods of each source of work, and the time of the next sample."""

    def __init__(self, most_times: int = _MOST_TIMES) -> None:
        self.by_work: dict[str, FreeRoom] = {}
        self._most = most_times
        self._every = _FIRST_SECONDS
        self._next = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether a sample is due."""
        return now >= self._next

    def schedule_next(self, now: float) -> None:
        """Set the time of the next sample.

        If there are too many samples, drop every other one and sample half as often.
        """
        if any(len(room.times) > self._most for room in self.by_work.values()):
            self._every *= 2
            for room in self.by_work.values():
                room.thin()
        self._next = now + self._every
