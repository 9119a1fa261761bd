"""Measure the emptyDir volumes that have a size limit, and evict pods that exceed a limit, as the kubelet does."""

import asyncio
from collections.abc import Mapping

from muster.cluster.nodes.pod.runner import PodRunner
from muster.cluster.nodes.volumes.sizes import describe_overfull, find_overfull, size_limits
from muster.runtime.clock import Clock

# The kubelet's interval between two measurements.
_LOOK_SECONDS = 10.0


class VolumeKeeper:
    """The enforcer of volume size limits on one node. `runners` contains the runners of the node's pods, by pod key."""

    def __init__(self, runners: Mapping[str, PodRunner], clock: Clock) -> None:
        self._runners = runners
        self._clock = clock

    async def run(self) -> None:
        """Measure the volumes of the pods at an interval until cancelled, and evict pods over a limit."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            for runner in list(self._runners.values()):
                if runner.holds and not runner.is_ending and (limits := size_limits(runner.pod)):
                    await self._check(runner, limits)

    @staticmethod
    async def _check(runner: PodRunner, limits: Mapping[str, int]) -> None:
        if name := await asyncio.to_thread(find_overfull, limits, runner.volume_sources()):
            runner.evict(describe_overfull(runner.pod, name))
