"""Decide, on a machine without cgroups, which containers exceed their memory limits. Pure.

The node samples memory once a second, and kills the containers that exceed their limits. So a container may exceed its
limit for up to a second.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from muster.cluster.nodeconnection import Reading
from muster.cluster.nodes.machine.consumption import Key, Metered

SAMPLE_SECONDS = 1.0
# Every so many samples, containers whose estimate exceeds their peak get an exact count of shared pages.
EXACT_EVERY = 30


class Excess(NamedTuple):
    """A container that uses more memory than its limit. used: its memory in bytes."""

    container: Key
    used: int


def find_thresholds(containers: Mapping[Key, Metered], peaks: Mapping[Key, int], *, exact: bool) -> dict[Key, int]:
    """Return, by container to measure, the estimate of memory in bytes above which shared pages are counted exactly.

    The cheap estimate counts a page once for each process that shares it. Only a container whose estimate exceeds its
    limit, or its peak so far, needs the exact count. If no peaks are searched for, containers without a limit are left
    out.

    peaks: the most memory that each container has used so far.
    exact: whether this sample also searches for new peaks.
    """
    thresholds = {}
    for key, container in containers.items():
        bounds = [container.memory_limit] if container.memory_limit else []
        bounds += [peaks.get(key, 0)] if exact else []
        if bounds:
            thresholds[key] = min(bounds)
    return thresholds


def find_excesses(containers: Mapping[Key, Metered], readings: Mapping[Key, Reading]) -> Iterator[Excess]:
    """Yield the containers that use more memory than their limits."""
    for key, reading in readings.items():
        if 0 < containers[key].memory_limit < reading.memory_bytes:
            yield Excess(key, reading.memory_bytes)
