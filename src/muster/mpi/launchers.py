"""Decides which commands are launchers of MPI, and how many of their processes belong on one worker. Pure."""

from collections.abc import Sequence
from pathlib import PurePath

from muster.api.values import quantity

_PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
# As Debian and Intel call them, so that several can be installed: mpirun.openmpi, mpiexec.hydra.
_FLAVORS = frozenset({"hydra", "mpich", "openmpi"})


def is_launcher(command: Sequence[str]) -> bool:
    """Return whether a command is a launcher of MPI, by the name of its program."""
    program, dot, flavor = PurePath(command[0]).name.partition(".")
    return program in _PROGRAMS and (not dot or flavor in _FLAVORS)


def slots(cpus: str, gpus: int) -> int:
    """Return how many processes belong on a worker: one for each of its GPUs, else for each whole CPU, at least one."""
    return gpus or max(quantity.milli(cpus) // 1000 if cpus else 0, 1)


def threads(cpus: str, gpus: int) -> int:
    """Return how many threads each process of a worker has CPUs for, at least one."""
    return max((quantity.milli(cpus) // 1000 if cpus else 0) // slots(cpus, gpus), 1)
