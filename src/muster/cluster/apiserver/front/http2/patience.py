"""How much a client may send that costs it nothing and leads to nothing: requests that it takes back, pings, settings.

What programs do of that in earnest is little: a few for each connection, one for each watch that ends.
"""

BURST = 10_000.0  # a program may take back all the requests of a connection at once, and again
PER_SECOND = 100.0


class Patience:
    """A bucket that fills by itself."""

    def __init__(self, now: float) -> None:
        self._left = BURST
        self._at = now

    def lasts(self, now: float, count: int = 1) -> bool:
        """Spend so many; False if there is none left."""
        self._left = min(BURST, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < count:
            return False
        self._left -= count
        return True
