"""Shims of main containers, made while the pod's barrier waits for its group: they begin the moment it opens.

Only there is it worth a process that idles: other init containers may take hours, and all pods of a group begin at one
time. In turn with all other starts of the node, and only for what still waits when its turn comes.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from muster.cluster.nodes.container.launching import Kit
from muster.cluster.nodes.shims import Reserve, ShimError


class Reserves:
    """Those of one pod, by container."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self._made: dict[str, Reserve] = {}

    def __contains__(self, container: str) -> bool:
        return container in self._made

    async def make(self, container: str, waits: Callable[[], bool]) -> None:
        """One for a container, if it still waits by then. Where there can be none, its start will say so."""
        isolation = self._kit.isolation
        if isolation.kind == "bubblewrap":  # it has to know all before
            return
        async with self._kit.starting:
            await asyncio.sleep(0)
        if waits():
            with suppress(ShimError):
                self._made[container] = Reserve(
                    isolation.kind, own_pids=isolation.own_pids, lifeline=self._kit.lifeline
                )

    def take(self, container: str) -> Reserve | None:
        """The one of a container, to be told what to run."""
        return self._made.pop(container, None)

    def close(self) -> None:
        """What was not taken is not wanted: it ends by itself."""
        for reserve in self._made.values():
            reserve.close()
        self._made.clear()
