"""Start shims of main containers while the pod's barrier waits, so that the containers start when it opens.

Only a barrier justifies idle processes: other init containers may take hours, and all pods of a group start at one
time. Reserves take turns with all other starts of the node, and are made only for containers that still wait at their
turn.
"""

from collections.abc import Callable
from contextlib import suppress

from muster.api.core import Pod
from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.shims import ReservedShim, ShimError


class Reserves:
    """The reserved shims of one pod, by container."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._made: dict[str, ReservedShim] = {}

    def __contains__(self, container: str) -> bool:
        return container in self._made

    async def make(self, pod: Pod, container: str, waits: Callable[[], bool]) -> None:
        """Start a container's shim in advance, once a slot is free and if `waits()` is still true then.

        Do nothing if the shim needs its whole spec, or its user, from the start. The later start reports a failure.
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
        """Remove and return the shim reserved for a container; None if none is. The caller sends it the spec."""
        return self._made.pop(container, None)

    def close(self) -> None:
        """Close the unused shims, which then end by themselves."""
        for reserve in self._made.values():
            reserve.close()
        self._made.clear()
