"""Run one replica of the engine: wait for the Lease, run while holding it, and report readiness.

All its writes, to this cluster and to workers, pass the Lease's fence: a replica that has lost the Lease writes nothing
more, even if its parts still try. A replica leads only once: after losing the Lease it starts as a new process.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

from muster.api.config import Configuration
from muster.api.config.frameworks import BUILT_IN
from muster.api.values.durations import SECOND
from muster.cluster.apiserver.cel import device_matches
from muster.controllers.engine import Part, assemble
from muster.controllers.queueing.status.visibility import Visibility
from muster.controllers.trimming import ObjectTrimmer
from muster.multicluster.links.reach import Reach, over_https
from muster.operator.holders import other_manager
from muster.operator.leaderlabel import LeaderLabel
from muster.operator.precedence import beside_others, place
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.control.leases import Election, Timing
from muster.runtime.control.manager import Manager
from muster.runtime.control.pace import paced_as
from muster.runtime.control.yielding import YieldingTransport
from muster.runtime.events.recorder import EventSink
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Random
from muster.runtime.metrics import Registry
from muster.runtime.tasks import cancel
from muster.runtime.transport import Transport

if TYPE_CHECKING:
    from muster.runtime.kube.kubeconfig import ConnectionConfig

# The parts that run beside kube-controller-manager, which creates the pods of Jobs.
PARTS = tuple(part for part in Part if part is not Part.JOBS)
# The field manager of Muster's writes.
FIELD_MANAGER = "muster"
# After this time, the log says what the start still waits for.
PATIENCE_SECONDS = 10.0

Fence: TypeAlias = Callable[[Transport], Transport]

log = logging.getLogger(__name__)


class OtherManagerError(Exception):
    """Another program's manager that leads. The message names it and says what to do."""


class Replica:
    """A replica of the engine, which runs its components while it leads.

    alone: set when no other program's manager leads in the cluster.
    began: set when the replica starts to lead, before its components run.
    started: set when all components run.
    visibility: the pending workloads, after the replica has started to lead; None if it runs no queues.
    """

    def __init__(
        self,
        transport: Transport,
        inputs: ExternalInputs,
        configuration: Configuration,
        identity: str,
        parts: Iterable[Part] = PARTS,
        reach: Reach = over_https,
        pod: str = "",
    ) -> None:
        """Create a replica that does not run yet.

        parts: the components to run while it leads.
        reach: opens transports to worker clusters.
        pod: the name of the replica's own pod, which is labelled while the replica leads.
        """
        self.registry = Registry(process=True)
        self.alone, self.began, self.started = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._transport = transport
        self._inputs = inputs
        self._configuration = beside_others(configuration)
        self._identity = identity
        self._parts = tuple(parts)
        self._reach = reach
        self._pod = pod
        self.visibility: Visibility | None = None
        self._ways = WeakSet[Transport]()  # the transports to worker clusters
        self._manager: Manager | None = None
        self._label: LeaderLabel | None = None
        self._stopping = asyncio.Event()

    def unready(self) -> str:
        """Return why the replica is not ready; "" if it is. A standby is ready."""
        return self._manager.unready() if self._manager is not None else ""

    def selected(self) -> AbstractContextManager[None]:
        """Keep the leader's label on this replica's pod inside the `with` block.

        Services for parts that only the leader serves select pods by that label.
        """
        return self._label.wanted() if self._label is not None else nullcontext()

    async def run(self) -> None:
        """Stand by, lead, and release the Lease after `stop`.

        Raises `OtherManagerError`, `LeadershipLostError`, `ApiError`, `TransportError`, or the error of a failed part.
        """
        leading = asyncio.create_task(self._lead())
        standing_down = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([leading, standing_down], return_when=asyncio.FIRST_COMPLETED)
            if leading.done() or self._manager is not None:
                await leading
        finally:
            await cancel([leading, standing_down])

    async def stop(self) -> None:
        """Finish the current writes, and let another replica lead."""
        self._stopping.set()
        if self._manager is not None:
            await self._manager.stop()

    async def _lead(self) -> None:
        settings = self._configuration.leader_election
        client = Client(self._transport, field_manager=FIELD_MANAGER)
        namespace, name = place(self._configuration)
        await self._require_no_other(client, namespace, name)
        self.alone.set()
        if not settings.leader_elect:
            await self._run_engine(_keep_open)
            return
        seconds = (settings.lease_duration, settings.renew_deadline, settings.retry_period)
        election = Election(
            client,
            self._inputs.clock,
            self._inputs.random,
            namespace=namespace,
            name=name,
            identity=self._identity,
            timing=Timing(*(each / SECOND for each in seconds)),
        )
        await election.run(lambda: self._run_engine(election.fence), self._hang_up)

    async def _require_no_other(self, client: Client, namespace: str, name: str) -> None:
        holder = await other_manager(client, self._inputs.clock, self._configuration, log.info)
        if holder:
            raise OtherManagerError(
                f"{holder} holds the Lease {namespace}/{name}: Kueue's manager runs, and two engines would undo each"
                f" other's work; stop it first: kubectl -n {namespace} scale deployment kueue-controller-manager"
                " --replicas=0"
            )

    async def _run_engine(self, fence: Fence) -> None:
        """Assemble the engine, with all its writes behind the fence, and run it until it stops."""
        clock, ids, random = self._inputs.clock, self._inputs.ids, self._inputs.random
        # The rate limit is outside the fence, so the fence also stops delayed writes; the Lease itself has no rate
        # limit.
        transport = paced_as(fence(self._transport), clock, self._configuration.client_connection)
        events = EventSink(Client(transport), clock, ids, random)
        yielding = YieldingTransport(transport, clock, events.recorder("muster"))
        client = Client(yielding, field_manager=FIELD_MANAGER)
        manager = Manager(client, clock, random, registry=self.registry, transform=ObjectTrimmer())
        manager.add(events)
        off = [name for name in BUILT_IN if name not in self._configuration.integrations.frameworks]
        if off and Part.QUEUEING in self._parts:
            log.info("integrations.frameworks does not name %s: objects of these kinds do not queue", ", ".join(off))
        reach = fence_reach(self._reach_and_remember, fence)
        engine = assemble(manager, events, self._configuration, self._parts, reach=reach, matches=device_matches)
        self.visibility = engine.visibility
        if self._pod and engine.visibility is not None:
            self._label = LeaderLabel(manager, self._configuration.namespace, self._pod)
            manager.add(self._label)
        self._manager = manager
        self.began.set()
        if self._stopping.is_set():  # `stop` came first, and found no manager to stop
            return
        logging_task = asyncio.create_task(self._log_obstacles(manager))
        starting = asyncio.create_task(self._start(manager))
        try:
            await manager.run()
        finally:
            logging_task.cancel()
            starting.cancel()

    def _reach_and_remember(self, config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
        way = self._reach(config, clock, random)
        self._ways.add(way)
        return way

    async def _hang_up(self) -> None:
        """Close the transports to this cluster and to workers, so that running and waiting requests fail.

        Reconciles that wait for the rate limit or for a retry then return at once.
        """
        if self._manager is not None:
            self._manager.skip_grace()
        await asyncio.gather(*(way.close() for way in (self._transport, *self._ways)))

    async def _start(self, manager: Manager) -> None:
        await manager.ready.wait()
        self.started.set()

    async def _log_obstacles(self, manager: Manager) -> None:
        """Log at an interval, until the start is complete, what it waits for: usually missing definitions or rights."""
        while not manager.ready.is_set():
            await self._inputs.clock.sleep(PATIENCE_SECONDS)
            if problem := self.unready():
                log.warning("not started yet: %s", problem)


def fence_reach(reach: Reach, fence: Fence) -> Reach:
    """Return a function like `reach`, whose transports to workers refuse writes when the fence is closed."""

    def way(config: "ConnectionConfig", clock: Clock, random: Random) -> Transport:
        return fence(reach(config, clock, random))

    return way


def _keep_open(transport: Transport) -> Transport:
    """Return the transport without a fence, for a replica that takes part in no election."""
    return transport
