"""Label the leader's pod, so that the Services of parts that only the leader serves select it.

Only the leader writes the label, while it holds the Lease, and removes it from the previous leader's pod. A replica
that does not run in a pod labels nothing.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from muster.api.core import POD
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.runtime.control.manager import Manager
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import run_until_first
from muster.runtime.transport import TransportError

LABEL: Final = "muster.dev/leader"
VALUE: Final = "true"
RETRY_SECONDS: Final = 10.0

_POD: Final = POD.seen_as(Object)

log = logging.getLogger(__name__)


class LeaderLabel:
    """The component that labels the leading replica's pod. The replica's manager runs it while the replica leads."""

    name = "leader-label"

    def __init__(self, manager: Manager, namespace: str, pod: str) -> None:
        """Make the component. pod: the name of this replica's own pod."""
        self._client, self._clock = manager.client, manager.clock
        self._namespace, self._pod = namespace, pod
        self._labelled = manager.informer(_POD, namespace=namespace, labels=f"{LABEL}={VALUE}")
        self._wanted = False
        self._changed, self._stopping = asyncio.Event(), asyncio.Event()
        self._labelled.on_change(lambda _old, _new: self._changed.set())

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Keep the label on the replica's own pod inside the `with` block, and remove it afterwards."""
        self._wanted = True
        self._changed.set()
        try:
            yield
        finally:
            self._wanted = False
            self._changed.set()

    async def run(self) -> None:
        """Add the label to the leader's pod and remove it from other pods, at each change until `stop`."""
        self._changed.set()
        while not self._stopping.is_set():
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._update_labels()
            except (ApiError, TransportError) as error:
                log.warning("the leader's pod could not be labelled: %s", error)
                await run_until_first(self._clock.sleep(RETRY_SECONDS), self._stopping.wait())
                self._changed.set()

    async def stop(self) -> None:
        """Make `run` return soon."""
        self._stopping.set()
        self._changed.set()

    async def _update_labels(self) -> None:
        labelled, wanted = (
            {pod.metadata.name for pod in self._labelled.all()},
            {self._pod} if self._wanted else set[str](),
        )
        for name in sorted(labelled - wanted):
            await self._put(name, None)
        for name in wanted - labelled:
            await self._put(name, VALUE)

    async def _put(self, pod: str, value: str | None) -> None:
        with ignoring("NotFound"):
            await self._client.patch(_POD, pod, {"metadata": {"labels": {LABEL: value}}}, self._namespace)
