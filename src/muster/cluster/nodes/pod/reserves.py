"""Start shims of main containers while the pod's barrier waits, so that containers start as soon as it opens.

Only a barrier justifies idle processes: other init containers may take hours, but all pods of a group start together.
These shims share the node's slots for starts. A shim is started only if its container still waits when a slot is free.
"""

from collections.abc import Callable
from contextlib import suppress

from muster.api.core import Pod
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.shims import ReservedShim, ShimError


class Reserves:
    """The shims of one pod that were started in advance, by container."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._made: dict[str, ReservedShim] = {}

    def __contains__(self, container: str) -> bool:
        return container in self._made

    async def make(self, pod: Pod, container: str, waits: Callable[[], bool]) -> None:
        """Start a container's shim in advance when a slot is free, if `waits()` is still true then.

        Do nothing if the shim needs its whole spec, or its user, from the start. A failure here is ignored; the later
        start of the container reports it.
        """
        isolation = self._kit.isolation
        if isolation.kind == "bubblewrap" or self._kit.accounts is not None:
            return  # the shim needs the whole spec, or its user, from the start
        async with self._kit.start_slots.hold(pod):
            if waits():
                with suppress(ShimError):
                    self._made[container] = ReservedShim(
                        isolation.kind,
                        own_pids=isolation.own_pids,
                        lifeline=self._kit.lifeline,
                        fence=self._kit.fence_of(pod)[0],
                    )

    def take(self, container: str) -> ReservedShim | None:
        """Remove and return the shim started in advance for a container; None if there is none.

        The caller sends the spec to the shim.
        """
        return self._made.pop(container, None)

    def close(self) -> None:
        """Close the unused shims, which then exit by themselves."""
        for reserve in self._made.values():
            reserve.close()
        self._made.clear()
