"""Reconcilers: under a manager, what wakes one comes to its `_reconcile`, and a stop lets that end."""

import asyncio

from tests.unit.runtime.conftest import THING, MemoryServer

from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.controller import Result
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler
from muster.runtime.ids import Random


class Slow(Reconciler):
    """Takes a second for each thing, and says what it has done."""

    name = "slow"

    def __init__(self, manager: Manager, workers: int) -> None:
        super().__init__(manager, workers=workers)
        self._controller.watch(manager.informer(THING))
        self.done: list[str] = []

    async def _reconcile(self, key: str) -> Result:
        await self._clock.sleep(1.0)
        self.done.append(key)
        return None


def done_by(workers: int, stop_after: float, server: MemoryServer) -> list[str]:
    """The keys that are done, in order, if it is stopped after so long."""

    async def main() -> list[str]:
        clock = VirtualClock()
        manager = Manager(Client(server), clock, Random(seed=1))
        slow = Slow(manager, workers)
        manager.add(slow)
        running = asyncio.create_task(manager.run())
        await manager.ready.wait()
        await clock.sleep(stop_after)
        await manager.stop()
        await running
        return slow.done

    return run_virtual(main())


def test_what_wakes_it_is_reconciled_and_a_stop_lets_that_end(server: MemoryServer) -> None:
    for name in ("a", "b", "c"):
        server.put(name)
    assert done_by(1, 5.0, server) == ["default/a", "default/b", "default/c"]
    assert done_by(1, 1.5, server) == ["default/a", "default/b"]
    assert sorted(done_by(2, 0.5, server)) == ["default/a", "default/b"]


def test_it_counts_under_its_name(server: MemoryServer) -> None:
    async def main() -> bytes:
        manager = Manager(Client(server), VirtualClock(), Random(seed=1))
        Slow(manager, workers=3)
        return manager.registry.text()

    assert b'controller_runtime_max_concurrent_reconciles{controller="slow"} 3' in run_virtual(main())
