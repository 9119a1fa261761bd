"""Names the workers of a job as hosts, and writes the host files of the MPI launchers. Pure."""

from msgspec import Struct

# The place of the rank in a pattern.
_RANK = "{}"


class Hosts(Struct, frozen=True):
    """The hosts of a job.

    pattern: the host name of a worker, with {} in the place of its rank.
    workers: how many there are. slots: how many processes belong on each. port: where their agents listen.
    """

    pattern: str
    workers: int
    slots: int
    port: int

    def name(self, rank: int) -> str:
        """Return the host name of a worker."""
        return self.pattern.replace(_RANK, str(rank))

    @property
    def names(self) -> list[str]:
        """The host names of all workers."""
        return [self.name(rank) for rank in range(self.workers)]


def open_mpi_hosts(hosts: Hosts) -> str:
    """Return the hostfile of Open MPI and PRRTE."""
    return "".join(f"{name} slots={hosts.slots}\n" for name in hosts.names)


def hydra_hosts(hosts: Hosts) -> str:
    """Return the host file of Hydra, which MPICH and Intel MPI have."""
    return "".join(f"{name}:{hosts.slots}\n" for name in hosts.names)
