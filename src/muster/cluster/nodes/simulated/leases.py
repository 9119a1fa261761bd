"""Renew each simulated node's Lease in time, as a kubelet does.

An embedded cluster does not need these Leases. The node controller of a Kubernetes cluster does: it taints nodes
without renewals.
"""

import asyncio
import logging
from collections.abc import Sequence

from muster.api.core import NODE
from muster.api.groups.coordination import LEASE, micro_time
from muster.api.status import ApiError
from muster.cluster.nodes import node_object
from muster.runtime.control.manager import Manager
from muster.runtime.refusals import ignoring
from muster.runtime.transport import TransportError

# Half of a Lease's time, so that one renewal may be lost. A kubelet renews twice as often, but here are many nodes.
RENEW_SECONDS = node_object.LEASE_SECONDS / 2
# How many renewals run concurrently. They are spread over the whole period.
_AT_ONCE = 8

log = logging.getLogger(__name__)


class SimulatedLeases:
    """A task that renews the Leases of simulated nodes. A `Manager` runs it, next to the nodes."""

    def __init__(self, manager: Manager, names: Sequence[str]) -> None:
        self.name = f"simulated-leases-{names[0]}"
        self._client, self._clock = manager.client, manager.clock
        self._nodes = manager.informer(NODE)
        self._names = sorted(names)
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Renew the Leases of the nodes until `stop`."""
        while not self._stopping.is_set():
            begun, few = (
                self._clock.monotonic(),
                [self._names[start : start + _AT_ONCE] for start in range(0, len(self._names), _AT_ONCE)],
            )
            for number, names in enumerate(few, 1):
                await asyncio.gather(*map(self._renew, names))
                due = begun + number * RENEW_SECONDS / len(few)
                if await self._is_stopped_within(due - self._clock.monotonic()):
                    return

    async def stop(self) -> None:
        """Stop the renewals. The nodes count as dead when their Leases have expired."""
        self._stopping.set()

    async def _is_stopped_within(self, seconds: float) -> bool:
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
            await self._client.create(LEASE, node_object.make_lease(name, node.metadata.uid, moment))
        except (ApiError, TransportError) as error:
            log.warning("%s: lease: %s", name, error)
