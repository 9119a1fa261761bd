"""Give the objects of a simulated cluster UIDs in the order of their creation.

Where all else is equal, decisions follow the UIDs, which are random in a cluster. Here, as in the fast engine, they
then follow the order in which jobs were submitted.
"""

import uuid
from itertools import count

from muster.runtime.ids import Ids

# A UID begins with its number, and ends with random bits.
_RANDOM_BITS = 96


class SerialIds(Ids):
    """A source of ids whose UIDs ascend, so that runs are reproducible."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._numbers = count(1)

    def uid(self) -> str:
        """Return a version 4 UUID that is greater than all before."""
        random = self._random.getrandbits(_RANDOM_BITS)
        return str(uuid.UUID(int=(next(self._numbers) << _RANDOM_BITS) + random, version=4))
