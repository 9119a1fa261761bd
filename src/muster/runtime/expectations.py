"""What a controller has asked for and not yet seen in its cache.

A cache runs behind the server. A controller that has just made three pods and looks again at once would see none and
make three more. So it says beforehand what it is about to make or delete, its event handlers say what they saw,
and until both agree it does not count pods. An expectation older than five minutes is forgotten: some event was
missed, and doing nothing for ever is worse than doing something twice (client-go's rule and number).

Pure: the time is given, in seconds of `Clock.monotonic`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

EXPIRY_SECONDS = 300.0


@dataclass(slots=True)
class _Expected:
    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)  # uids


class Expectations:
    """By key of the controlling object: creations as a number, deletions by uid."""

    def __init__(self) -> None:
        self._expected: dict[str, _Expected] = {}

    def expect(self, key: str, now: float, *, creations: int = 0, deletions: Iterable[str] = ()) -> None:
        """Call before sending the requests. Adds to what is still expected."""
        expected = _Expected(now) if self.satisfied(key, now) else self._expected[key]
        self._expected[key] = expected
        expected.since = now
        expected.creations += creations
        expected.deletions.update(deletions)

    def created(self, key: str, count: int = 1) -> None:
        """A creation was seen, or its request failed."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.creations = max(expected.creations - count, 0)

    def deleted(self, key: str, uid: str) -> None:
        """A deletion (or the mark of one) was seen, or its request failed. Seeing one twice is fine."""
        expected = self._expected.get(key)
        if expected is not None:
            expected.deletions.discard(uid)

    def satisfied(self, key: str, now: float) -> bool:
        """Whether the cache shows all that was asked for, or it is no use waiting any longer."""
        expected = self._expected.get(key)
        if expected is None:
            return True
        return not (expected.creations or expected.deletions) or now - expected.since > EXPIRY_SECONDS

    def expires_in(self, key: str, now: float) -> float | None:
        """Seconds until the key must be looked at again even if no event comes; None if nothing is awaited."""
        if self.satisfied(key, now):
            return None
        return self._expected[key].since + EXPIRY_SECONDS - now

    def forget(self, key: str) -> None:
        """The controlling object is gone."""
        self._expected.pop(key, None)
