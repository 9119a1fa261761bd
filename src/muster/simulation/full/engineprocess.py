"""Run the engine as a separate process of a cluster, so that it can stop and start again."""

import asyncio
from collections.abc import Callable, Sequence

from muster.cluster.apiserver.cel import device_matches
from muster.cluster.controlplane import ControlPlane
from muster.controllers.engine import Part, assemble
from muster.multicluster.links.reach import Reach
from muster.runtime.control.manager import Manager
from muster.runtime.control.reconciler import Reconciler


class EngineProcess:
    """Parts of the engine that run under their own manager, and that can be stopped and started again.

    A stopped engine loses everything that is not stored on the server.
    """

    def __init__(
        self,
        plane: ControlPlane,
        parts: Sequence[Part],
        reach: Reach,
        more: Sequence[Callable[[Manager], Reconciler]] = (),
    ) -> None:
        """Prepare the parts without running them.

        reach: opens transports to worker clusters.
        more: functions that create further controllers of the process.
        """
        self._plane = plane
        self._reach = reach
        self._more = more
        self._parts = parts
        self._manager: Manager | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the parts in a new manager, which knows only what the server has stored."""
        plane = self._plane
        manager = self._manager = Manager(plane.client(), plane.inputs.clock, plane.inputs.random)
        assemble(
            manager,
            plane.events,
            plane.configuration,
            self._parts,
            plane.integrations,
            self._reach,
            matches=device_matches,
            decisions=plane.decisions,
        )
        for make in self._more:
            manager.add(make(manager))
        self._running = asyncio.create_task(manager.run(), name="engine")

    async def stop(self) -> None:
        """Stop the parts if they run. If one of them failed, raise its error."""
        manager, running = self._manager, self._running
        self._manager = self._running = None
        if manager is not None and running is not None:
            await manager.stop()
            await running
