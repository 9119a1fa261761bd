"""Define the base of reconcilers: a name, a constructor that follows objects, and `_reconcile` for one key."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from muster.runtime.control.controller import Result
from muster.runtime.control.lanes import Lane
from muster.runtime.control.manager import Manager
from muster.runtime.control.queue import namespace_of


class Reconciler(ABC):
    """The base class of the controllers that a `Manager` runs.

    Its controller takes keys from `self._controller.queue` and calls `_reconcile` for each key.

    lane: returns the lane of a key. Lanes take turns; by default each namespace has one.
    """

    name: str

    def __init__(self, manager: Manager, *, workers: int = 1, lane: Callable[[str], Lane] = namespace_of) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._controller = manager.controller(self.name, self._reconcile, workers=workers, lane=lane)

    async def run(self) -> None:
        """Reconcile until `stop`."""
        await self._controller.run()

    async def stop(self) -> None:
        """Finish the running reconciles, and start no more."""
        await self._controller.stop()

    @abstractmethod
    async def _reconcile(self, key: str, /) -> Result:
        """Reconcile one key. The method must be idempotent, because it may be interrupted between any two writes."""
