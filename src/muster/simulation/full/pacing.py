"""Make writes take time in a virtual cluster, so that competing actions have the same order as in a real cluster."""

from collections.abc import Sequence

from muster.cluster.store import MemoryJournal
from muster.cluster.store.journal import JournalRecord
from muster.runtime.clock import Clock

# The virtual seconds that the store takes to persist a batch of writes, like a disk.
WRITE_SECONDS = 0.01


class PacedJournal(MemoryJournal):
    """A journal that stores nothing, but takes some virtual time for each write.

    Otherwise a chain of controllers that trigger each other would overtake a scheduler that collects pods for 20 ms.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def append(self, records: Sequence[JournalRecord]) -> None:
        """Discard the records after a short wait in virtual time."""
        del records
        await self._clock.sleep(WRITE_SECONDS)
