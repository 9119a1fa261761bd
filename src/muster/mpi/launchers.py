"""Decides which commands are launchers of MPI, and how many of their processes belong on one worker. Pure."""

from collections.abc import Sequence
from pathlib import PurePath

from muster.api.values import quantity

_PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
# As Debian and Intel call them, so that several can be installed: mpirun.openmpi, mpiexec.hydra.
_FLAVORS = frozenset({"hydra", "mpich", "openmpi"})


def is_launcher(command: Sequence[str]) -> bool:
    """Return whether the program of a command is an MPI launcher, by its name (`mpirun`)."""
    program, dot, flavor = PurePath(command[0]).name.partition(".")
    return program in _PROGRAMS and (not dot or flavor in _FLAVORS)


def count_slots(cpus: str, gpus: int) -> int:
    """Return how many MPI processes belong on a worker: one for each GPU, else one for each whole CPU, at least one."""
    return gpus or max(quantity.parse_thousandths(cpus) // 1000 if cpus else 0, 1)


def count_threads(cpus: str, gpus: int) -> int:
    """Return for how many threads each MPI process of a worker has CPUs, at least one."""
    return max((quantity.parse_thousandths(cpus) // 1000 if cpus else 0) // count_slots(cpus, gpus), 1)
