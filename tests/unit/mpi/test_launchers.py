"""Which commands start MPI, and how many processes a worker has room for."""

import pytest

from muster.mpi.launchers import count_slots, count_threads, is_launcher


@pytest.mark.parametrize(
    ("program", "launches"),
    [
        ("mpirun", True),
        ("mpiexec", True),
        ("/opt/openmpi/bin/mpirun", True),
        ("mpiexec.hydra", True),
        ("mpirun.openmpi", True),
        ("mpirun.mpich", True),
        ("orterun", True),
        ("prterun", True),
        ("./mpirun.sh", False),
        ("mpirun2", False),
        ("python", False),
        ("/opt/mpirun/python", False),
    ],
)
def test_a_launcher_is_known_by_its_name(program, launches):
    assert is_launcher([program, "python", "a.py"]) is launches


@pytest.mark.parametrize(
    ("cpus", "gpus", "processes", "each"),
    [
        ("", 0, 1, 1),
        ("500m", 0, 1, 1),
        ("1", 0, 1, 1),
        ("4", 0, 4, 1),
        ("2500m", 0, 2, 1),
        ("", 2, 2, 1),
        ("8", 2, 2, 4),
        ("1", 2, 2, 1),
    ],
)
def test_a_process_for_each_gpu_or_else_for_each_cpu(cpus, gpus, processes, each):
    assert (count_slots(cpus, gpus), count_threads(cpus, gpus)) == (processes, each)
