"""Create UIDs in ascending order for the objects of a simulated cluster.

If all else is equal, decisions depend on UIDs, which are random in a real cluster. Here, as in the fast engine, they
then depend on the order in which jobs were submitted.
"""

import uuid
from itertools import count

from muster.runtime.ids import Ids

# A UID starts with its number, and ends with random bits.
_RANDOM_BITS = 96


class SerialIds(Ids):
    """A source of ids whose UIDs are ascending, so that runs are reproducible."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._numbers = count(1)

    def uid(self) -> str:
        """Return a version 4 UUID that is greater than all earlier ones."""
        random = self._random.getrandbits(_RANDOM_BITS)
        return str(uuid.UUID(int=(next(self._numbers) << _RANDOM_BITS) + random, version=4))
