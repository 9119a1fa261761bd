"""Draw UIDs, generated names and random delays.

Only this module reads the machine's random numbers, except that the dashboard draws the secrets of sessions itself.

Without a seed, `Ids` and `Random` draw from the operating system. With a seed they draw the same values in each run, so
that a run of the whole system can be replayed.
"""

import random

# The letters of generated names: no vowels and no look-alikes, so that no word appears by accident.
SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"

# The bits of a UUID that are not random, and their values in version 4 (RFC 9562).
_FIXED = 0xF000 << 64 | 0xC000 << 48
_VERSION_4 = 0x4000 << 64 | 0x8000 << 48


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

    def uid(self) -> str:
        """Return a version 4 UUID in its text form."""
        # Every request and every object needs one, and `uuid.UUID` takes half as long again.
        digits = f"{self._random.getrandbits(128) & ~_FIXED | _VERSION_4:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def suffix(self, length: int = 5) -> str:
        """Return random letters for the end of a generated name."""
        return "".join(self._random.choices(SAFE_ALPHABET, k=length))

    def hexadecimal(self, digits: int = 16) -> str:
        """Return random lower-case hexadecimal digits."""
        return f"{self._random.getrandbits(4 * digits):0{digits}x}"
