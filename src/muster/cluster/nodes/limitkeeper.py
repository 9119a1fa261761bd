"""Sample the containers' memory if no cgroup measures it, and kill containers that exceed their memory limits."""

import asyncio
import itertools
import logging
from collections.abc import Mapping

from muster.cluster.nodes.machine.consumption import Key, Metered, read_usage
from muster.cluster.nodes.machine.sampling import EXACT_EVERY, SAMPLE_SECONDS, find_excesses, find_thresholds
from muster.cluster.nodes.pod.runner import PodRunner
from muster.runtime.clock import Clock

log = logging.getLogger(__name__)


class LimitKeeper:
    """The enforcer of memory limits on one node. `runners` contains the runners of the node's pods, by pod key."""

    def __init__(self, runners: Mapping[str, PodRunner], clock: Clock) -> None:
        self._runners = runners
        self._clock = clock

    async def run(self) -> None:
        """Sample the containers' memory at an interval until cancelled, and kill the containers over their limits."""
        for number in itertools.count():
            try:
                await self._take_sample(exact=number % EXACT_EVERY == 0)
            except OSError as error:  # such as too many open files
                log.warning("cannot read what the containers use: %s", error)
            await self._clock.sleep(SAMPLE_SECONDS)

    async def _take_sample(self, *, exact: bool) -> None:
        runners = {runner.uid: runner for runner in self._runners.values()}
        containers: dict[Key, Metered] = {
            (uid, name): metered for uid, runner in runners.items() for name, metered in runner.list_metered()
        }
        peaks = {(uid, name): runner.peak(name) for uid, runner in runners.items() for name, _ in runner.list_metered()}
        thresholds = find_thresholds(containers, peaks, exact=exact)
        if not thresholds:
            return
        readings = await asyncio.to_thread(read_usage, {key: containers[key] for key in thresholds}, thresholds)
        if exact:
            for (uid, name), reading in readings.items():
                runners[uid].note_memory(name, reading.memory_bytes)
        for (uid, name), used in find_excesses(containers, readings):
            runners[uid].end_over_limit(name, containers[uid, name].pid, used)
