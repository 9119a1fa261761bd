"""Decide which commands are MPI launchers, and how many processes they start on each worker. Pure."""

from collections.abc import Sequence
from pathlib import PurePath

from muster.api.values import quantity

_PROGRAMS = frozenset({"mpirun", "mpiexec", "orterun", "prterun"})
# Debian and Intel use such names so that several launchers can be installed: mpirun.openmpi, mpiexec.hydra.
_FLAVORS = frozenset({"hydra", "mpich", "openmpi"})


def is_launcher(command: Sequence[str]) -> bool:
    """Return whether the program of a command is an MPI launcher, by its name (`mpirun`)."""
    program, dot, flavor = PurePath(command[0]).name.partition(".")
    return program in _PROGRAMS and (not dot or flavor in _FLAVORS)


def count_slots(cpus: str, gpus: int) -> int:
    """Return the number of MPI processes of a worker: one per GPU, else one per whole CPU, at least one.

    cpus: the CPU request of the worker, as a Kubernetes quantity; "" for none.
    """
    return gpus or max(quantity.parse_thousandths(cpus) // 1000 if cpus else 0, 1)


def count_threads(cpus: str, gpus: int) -> int:
    """Return the number of threads per MPI process: the worker's whole CPUs divided by its processes, at least 1."""
    return max((quantity.parse_thousandths(cpus) // 1000 if cpus else 0) // count_slots(cpus, gpus), 1)
