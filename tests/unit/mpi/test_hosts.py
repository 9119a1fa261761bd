"""The files by which launchers of MPI know the workers."""

from muster.mpi.hosts import Hosts, hydra_hosts, open_mpi_hosts

HOSTS = Hosts("sum-workers-0-{}.sum", workers=3, slots=2, port=14000)


def test_each_worker_is_a_host_with_its_slots():
    assert open_mpi_hosts(HOSTS).splitlines() == [f"sum-workers-0-{rank}.sum slots=2" for rank in range(3)]
    assert hydra_hosts(HOSTS).splitlines() == [f"sum-workers-0-{rank}.sum:2" for rank in range(3)]
