"""Bases a part on a controller: a name, a constructor that says what wakes it, and `_reconcile`."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from muster.runtime.controller import Result
from muster.runtime.lanes import Lane
from muster.runtime.manager import Manager
from muster.runtime.queue import namespace_of


class Reconciler(ABC):
    """A part that runs under a `Manager`: its controller calls `_reconcile` for each key in `self._controller.queue`.

    lane: which keys wait together for their turn; those of a namespace, as a rule.
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
        """Finish the running reconciles."""
        await self._controller.stop()

    @abstractmethod
    async def _reconcile(self, key: str, /) -> Result:
        """Reconcile one key; idempotent, as it may be cut between any two writes."""
