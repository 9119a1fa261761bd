"""Sample how much the containers of a node use its GPUs."""

import asyncio
import logging
from collections.abc import Mapping

from muster.cluster.nodes.gpus.consumption import attribute_use
from muster.cluster.nodes.gpus.finding import NoAnswerError, Usage
from muster.cluster.nodes.machine.consumption import list_trees
from muster.cluster.nodes.pod.runner import PodRunner
from muster.runtime.clock import Clock

# How often the node asks the drivers.
SAMPLE_SECONDS = 10.0

log = logging.getLogger(__name__)


class GpuKeeper:
    """The sampler of GPU use on one node. `runners` contains the runners of the node's pods, by pod key."""

    def __init__(self, runners: Mapping[str, PodRunner], usage: Usage, clock: Clock) -> None:
        self._runners = runners
        self._usage = usage
        self._clock = clock

    async def run(self) -> None:
        """Sample the use of the assigned GPUs at an interval, until cancelled."""
        while True:
            await self._clock.sleep(SAMPLE_SECONDS)
            try:
                await self._take_sample()
            except (NoAnswerError, OSError) as error:
                log.debug("what containers use of the GPUs is not known: %s", error)

    async def _take_sample(self) -> None:
        runners = {runner.uid: runner for runner in self._runners.values()}
        gpus_by_container = {(uid, name): gpus for uid, runner in runners.items() for name, gpus in runner.gpus.items()}
        if not gpus_by_container:
            return
        states = await self._usage.read()
        running = {(uid, name): metered for uid, runner in runners.items() for name, metered in runner.list_metered()}
        trees = await asyncio.to_thread(list_trees, running)
        for (uid, name), use in attribute_use(states, gpus_by_container, trees).items():
            if (uid, name) in running:
                runners[uid].note_gpu_use(name, use, SAMPLE_SECONDS)
