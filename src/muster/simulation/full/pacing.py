"""Let writes take time in a virtual cluster: what competes then comes in the order that it has in a real one."""

from collections.abc import Sequence

from muster.cluster.store import MemoryJournal
from muster.cluster.store.journal import JournalRecord
from muster.runtime.clock import Clock

# How long the store takes to make a batch of writes permanent: as long as a disk.
WRITE_SECONDS = 0.01


class PacedJournal(MemoryJournal):
    """A journal that stores nothing, and takes a little virtual time for each write.

    Without that, a chain of controllers that wake each other would overtake a scheduler that gathers for 20 ms.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def append(self, records: Sequence[JournalRecord]) -> None:
        """Discard the records after a short wait in virtual time."""
        del records
        await self._clock.sleep(WRITE_SECONDS)
