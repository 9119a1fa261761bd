"""Shares the CPUs of a job among steps that are not to disturb each other (`srun --exact`).

The ledger is a file in memory, which lives as long as the batch script. Each of its bytes stands for a CPU of a node,
and a step locks the bytes of its CPUs. So the CPUs are free as soon as srun has ended, however it ends.
"""

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from muster.runtime.clock import Clock
from muster.slurm.steps import StepDemand

# The variable that names the ledger to the steps of a script.
LEDGER = "MUSTER_STEPS"

_RETRY_SECONDS = 0.1


def make_ledger() -> str:
    """Make the ledger of this process, which is to become the script; return its path."""
    return f"/proc/{os.getpid()}/fd/{os.memfd_create('steps', 0)}"


async def take_cpus(path: str, demand: StepDemand, room: int, clock: Clock) -> Sequence[int]:
    """Wait until CPUs are free, and take them until this process ends; return the nodes that have them.

    room: how many CPUs each node has.
    """
    ledger = os.open(path, os.O_RDWR)
    while (nodes := _try_all(ledger, demand, room)) is None:
        await clock.sleep(_RETRY_SECONDS)
    return nodes


def _try_all(ledger: int, demand: StepDemand, room: int) -> list[int] | None:
    """Take the CPUs of all nodes of a step, or none. Return the nodes."""
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
    """Lock this number of places, or none; return those that are locked."""
    taken: list[int] = []
    for place in places:
        if len(taken) == number:
            break
        with suppress(BlockingIOError, PermissionError):  # another step has it
            fcntl.lockf(ledger, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            taken.append(place)
    if len(taken) == number:
        return taken
    _give_back(ledger, taken)
    return []


def _give_back(ledger: int, places: Iterable[int]) -> None:
    for place in places:
        fcntl.lockf(ledger, fcntl.LOCK_UN, 1, place)
