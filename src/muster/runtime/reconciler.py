"""`Reconciler`: a part that keeps something right: a name, a constructor that says what wakes it, and `_reconcile`."""

from abc import ABC, abstractmethod

from muster.runtime.controller import Result
from muster.runtime.manager import Manager


class Reconciler(ABC):
    """Runs under a `Manager`. Its controller calls `_reconcile` for each key in `self._controller.queue`."""

    name: str

    def __init__(self, manager: Manager, *, workers: int = 1) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._controller = manager.controller(self.name, self._reconcile, workers=workers)

    async def run(self) -> None:
        """Reconcile until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Finish what is being written."""
        await self._controller.stop()

    @abstractmethod
    async def _reconcile(self, key: str, /) -> Result:
        """Make the world right for one key; idempotent, as it may be cut between any two writes."""
