"""Create each simulated node's Lease as soon as the node is registered, and renew it in time, as a kubelet does.

An embedded cluster does not need that. The node controller of a Kubernetes cluster does: it taints nodes without
renewals.
"""

import asyncio
import logging
from collections.abc import Sequence

from muster.api.core import NODE, Node
from muster.api.groups.coordination import LEASE, micro_time
from muster.api.status import ApiError
from muster.cluster.nodes import node_object
from muster.runtime.control.manager import Manager
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import run_together
from muster.runtime.transport import TransportError

# Half of a Lease's time, so that one renewal may be lost. A kubelet renews twice as often, but here are many nodes.
RENEW_SECONDS = node_object.LEASE_SECONDS / 2
# How many renewals run at a time. They are spread over the whole period.
_AT_ONCE = 8

log = logging.getLogger(__name__)


class SimulatedLeases:
    """A task that renews the Leases of simulated nodes. A `Manager` runs it, beside the nodes."""

    def __init__(self, manager: Manager, names: Sequence[str]) -> None:
        self.name = f"simulated-leases-{names[0]}"
        self._client, self._clock = manager.client, manager.clock
        self._nodes = manager.informer(NODE)
        self._names = sorted(names)
        self._own = frozenset(names)
        self._registered: set[str] = set()  # nodes that may have no Lease yet
        self._has_registered = asyncio.Event()
        self._stopping = asyncio.Event()
        self._nodes.on_change(self._on_node_changed)

    async def run(self) -> None:
        """Renew the Leases of the nodes until `stop`."""
        await run_together(self._renew_all(), self._renew_registered())

    def _on_node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None or new.metadata.name not in self._own:
            return
        if old is None or old.metadata.uid != new.metadata.uid:
            self._registered.add(new.metadata.name)
            self._has_registered.set()

    async def _renew_registered(self) -> None:
        """Renew the Leases of nodes as they are registered.

        A node that never had a Lease is never lost, so one whose program ends early would stay ready.
        """
        while True:
            await self._has_registered.wait()
            self._has_registered.clear()
            names, self._registered = sorted(self._registered), set()
            for few in _divide(names):
                await asyncio.gather(*map(self._renew, few))

    async def _renew_all(self) -> None:
        """Renew the Leases of all nodes, spread over the period, until `stop`."""
        while not self._stopping.is_set():
            begun, few = self._clock.monotonic(), _divide(self._names)
            for number, names in enumerate(few, 1):
                await asyncio.gather(*map(self._renew, names))
                due = begun + number * RENEW_SECONDS / len(few)
                if await self._stopped_within(due - self._clock.monotonic()):
                    return

    async def stop(self) -> None:
        """Stop renewing: the nodes count as dead once their Leases expire."""
        self._stopping.set()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _renew(self, name: str) -> None:
        node = self._nodes.get(name)
        if node is None:  # the node is not registered yet, or was deleted
            return
        moment = micro_time(self._clock.now())
        try:
            with ignoring("NotFound"):
                await self._client.patch(LEASE, name, {"spec": {"renewTime": moment}}, node_object.LEASE_NAMESPACE)
                return
            with ignoring("AlreadyExists"):  # the other task was first
                await self._client.create(LEASE, node_object.make_lease(name, node.metadata.uid, moment))
        except (ApiError, TransportError) as error:
            log.warning("%s: lease: %s", name, error)


def _divide(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
