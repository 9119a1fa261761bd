"""The process with all controllers, which may die at any write, lose answers, and hear of changes late."""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace
from tests.system.jobs.job_cluster import Wire

from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.controllers.queueing.status.visibility import Visibility
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink

Disturb = Callable[[Wire], None]
"""Sets the troubles of the wire of a process that is about to start."""


def leave_alone(wire: Wire) -> None:
    """Cause no trouble."""
    del wire


class Engine:
    """The process with all controllers. disturb: called for each process that takes the place of a dead one."""

    def __init__(self, plane: ControlPlane, disturb: Disturb = leave_alone) -> None:
        self.deaths = 0
        self.wire: Wire
        self._plane, self._disturb = plane, disturb
        self._running: tuple[Manager, asyncio.Task[None]]

    async def start(self, disturb: Disturb = leave_alone) -> None:
        """Start a process, with the troubles that `disturb` sets."""
        inputs = self._plane.inputs
        self.wire = Wire(InProcessTransport(self._plane.server))
        disturb(self.wire)
        client = Client(self.wire)
        manager = Manager(client, inputs.clock, inputs.random)
        events = EventSink(client, inputs.clock, inputs.ids, inputs.random)
        manager.add(events)
        visibility = replace(self._plane, manager=manager, events=events).add_controllers().visibility
        assert visibility is not None
        self.visibility: Visibility = visibility
        self._running = manager, asyncio.create_task(manager.run())
        await manager.ready.wait()

    async def restart(self, disturb: Disturb = leave_alone) -> None:
        """Kill the process and start another one."""
        await self.stop()
        await self.start(disturb)

    async def stop(self) -> None:
        """Kill the process: nothing that it sends arrives any more."""
        self.wire.writes_left = 0
        manager, task = self._running
        await manager.stop()
        await task

    async def live(self, seconds: float) -> None:
        """Let the process work; if it is dead afterwards, another one starts, with troubles of its own."""
        await self._plane.inputs.clock.sleep(seconds)
        if self.wire.writes_left == 0:
            self.deaths += 1
            await self.restart(self._disturb)
