"""Draw UIDs, generated names and random delays.

Only this module reads the machine's random numbers, except that the dashboard draws the secrets of sessions itself.

Without a seed, `Ids` and `Random` draw from the operating system. With a seed they draw the same values in each run, so
that a run of the whole system can be replayed.
"""

import random

# The letters of generated names: no vowels and no look-alikes, so that no word appears by accident.
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

# The digits of this many UIDs come from one draw, because each draw from the operating system is a system call.
_DRAWN_UIDS = 64
_VARIANT = "89ab"  # the first digits of the fourth group of a UUID (RFC 9562)


class Random:
    """A source of jitter and choices."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(seed)

    def fraction(self) -> float:
        """Return a number that is at least 0 and less than 1."""
        return self._random.random()

    def jitter(self, seconds: float, factor: float = 1.0) -> float:
        """Return a random number of seconds, at least `seconds` and less than `seconds * (1 + factor)`."""
        return seconds * (1.0 + factor * self._random.random())


class Ids:
    """A source of names that no other object has."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = random.SystemRandom() if seed is None else random.Random(seed)
        self._digits: list[str] = []  # drawn digits, 32 for each of the next UIDs

    def uid(self) -> str:
        """Return a version 4 UUID in its text form."""
        # Every request and every object needs one, and `uuid.UUID` takes three times as long.
        if not self._digits:
            drawn = self.hexadecimal(32 * _DRAWN_UIDS)
            self._digits = [drawn[first : first + 32] for first in range(0, len(drawn), 32)]
        digits = self._digits.pop()
        variant = _VARIANT[int(digits[16], 16) % 4]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def suffix(self, length: int = 5) -> str:
        """Return random letters for the end of a generated name."""
        return "".join(self._random.choices(SAFE_ALPHABET, k=length))

    def hexadecimal(self, digits: int = 16) -> str:
        """Return random lower-case hexadecimal digits."""
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"
