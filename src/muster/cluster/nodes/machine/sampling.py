"""Keeps memory limits where no cgroup does: decides from readings once a second which containers are over theirs.

The node reads, and ends containers. A container may be over its limit for a second before it is ended.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from muster.cluster.nodeconnection import Reading
from muster.cluster.nodes.machine.consumption import Key, Metered

SAMPLE_SECONDS = 1.0
# Each of so many samples counts shared pages once in the containers that seem to hold more than ever.
EXACT_EVERY = 30


class Excess(NamedTuple):
    """A container that holds more memory than its limit, in bytes."""

    container: Key
    used: int


def find_thresholds(containers: Mapping[Key, Metered], peaks: Mapping[Key, int], *, exact: bool) -> dict[Key, int]:
    """Return how much memory each container to read may seem to hold before its shared pages are counted once.

    peaks: the most that each container has held so far. exact: whether this sample looks for new peaks, too. If not, it
    reads no container without a limit.
    """
    thresholds = {}
    for key, container in containers.items():
        bounds = [container.memory_limit] if container.memory_limit else []
        bounds += [peaks.get(key, 0)] if exact else []
        if bounds:
            thresholds[key] = min(bounds)
    return thresholds


def find_excesses(containers: Mapping[Key, Metered], readings: Mapping[Key, Reading]) -> Iterator[Excess]:
    """Yield the containers that hold more memory than their limits."""
    for key, reading in readings.items():
        if 0 < containers[key].memory_limit < reading.memory_bytes:
            yield Excess(key, reading.memory_bytes)
