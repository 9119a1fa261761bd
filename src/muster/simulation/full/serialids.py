"""Create UIDs in ascending order for the objects of a simulated cluster.

Between jobs that are otherwise equal, the engine decides by their UIDs, which are random in a real cluster. Here the
UIDs follow the order in which jobs were submitted, as in the fast engine.
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
