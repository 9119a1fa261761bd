"""Compute how long to wait before the next retry: exponential, with jitter, between two bounds."""

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from muster.runtime.ids import Random

# Beyond this many failures the delay has reached any sensible limit. The bound keeps the power small.
_MOST_DOUBLINGS = 40


class Backoff(Struct, frozen=True):
    """A sequence of delays that doubles with each failure, from `first` to `limit` seconds.

    The upper half of each delay is random. Every delay lies between `first` and `limit`, and even at the limit two
    waiters seldom wake together.
    """

    first: float
    limit: float

    def delay(self, failures: int, random: "Random") -> float:
        """Return the seconds to wait after this many failures in a row (1 means the first failure)."""
        assert failures >= 1
        step = min(self.first * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), max(self.limit / 2.0, self.first))
        return min(random.jitter(step), self.limit)


# client-go's reflector starts at 0.8 s and ends at 30 s.
RECONNECT = Backoff(first=0.8, limit=30.0)
