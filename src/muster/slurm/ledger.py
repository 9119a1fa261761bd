"""Divide the CPUs of a job among its steps, so that no two steps use the same CPU (`srun --exact`).

The ledger is a file in memory that exists as long as the batch script runs. Each byte of the ledger stands for one CPU
of a node, and `srun` locks the bytes of its step's CPUs. The kernel releases the locks when `srun` exits, even after a
crash.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from muster.runtime.clock import Clock
from muster.slurm.steps import StepDemand

# The variable with the path of the ledger, for the steps of a script.
LEDGER = "MUSTER_STEPS"

_RETRY_SECONDS = 0.1


def make_ledger() -> str:
    """Create the ledger in memory; return its path. This process owns it, and then executes the batch script."""
    return f"/proc/{os.getpid()}/fd/{os.memfd_create('steps', 0)}"


async def take_cpus(path: str, demand: StepDemand, room: int, clock: Clock) -> Sequence[int]:
    """Wait until enough CPUs for a step are free; lock them until this process exits, and return their nodes.

    path: the path of the ledger.
    room: the number of CPUs of each node.
    """
    ledger = os.open(path, os.O_RDWR)
    while (nodes := _try_all(ledger, demand, room)) is None:
        await clock.sleep(_RETRY_SECONDS)
    return nodes


def _try_all(ledger: int, demand: StepDemand, room: int) -> list[int] | None:
    """Lock all CPUs of a step, and return their nodes. If some are locked already, lock none and return None."""
    nodes: list[int] = []
    taken: list[int] = []
    needs = demand.cpus_of_nodes
    for node in demand.nodes:
        if len(nodes) < len(needs):
            places = _take(ledger, range(node * room, (node + 1) * room), needs[len(nodes)])
            taken += places
            nodes += [node] * bool(places)
    if len(nodes) == len(needs):
        return nodes
    _give_back(ledger, taken)
    return None


def _take(ledger: int, places: Iterable[int], number: int) -> list[int]:
    """Lock this number of the ledger's bytes, and return them. If too few are free, lock none and return []."""
    taken: list[int] = []
    for place in places:
        if len(taken) == number:
            break
        with suppress(BlockingIOError, PermissionError):  # another step has locked it
            fcntl.lockf(ledger, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            taken.append(place)
    if len(taken) == number:
        return taken
    _give_back(ledger, taken)
    return []


def _give_back(ledger: int, places: Iterable[int]) -> None:
    for place in places:
        fcntl.lockf(ledger, fcntl.LOCK_UN, 1, place)
