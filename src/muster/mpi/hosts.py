"""Name the workers of a job as hosts, and write the host files of the MPI launchers. Pure."""

from msgspec import Struct

# The placeholder for the rank in a pattern.
_RANK = "{}"


class Hosts(Struct, frozen=True):
    """The workers of a job as hosts for MPI launchers.

    pattern: the host name of a worker, with {} in place of its rank.
    workers: the number of workers.
    slots: the number of MPI processes per worker.
    port: the TCP port on which the agents listen.
    """

    pattern: str
    workers: int
    slots: int
    port: int

    def name(self, rank: int) -> str:
        """Return the host name of the worker with this rank."""
        return self.pattern.replace(_RANK, str(rank))

    @property
    def names(self) -> list[str]:
        """The host names of all workers, by rank."""
        return [self.name(rank) for rank in range(self.workers)]


def open_mpi_hosts(hosts: Hosts) -> str:
    """Return the content of the hostfile for Open MPI and PRRTE."""
    return "".join(f"{name} slots={hosts.slots}\n" for name in hosts.names)


def hydra_hosts(hosts: Hosts) -> str:
    """Return the content of the host file for Hydra, the launcher of MPICH and Intel MPI."""
    return "".join(f"{name}:{hosts.slots}\n" for name in hosts.names)
