"""MPI programs over the workers of a job: by the real launchers where they are installed, and by one that stands in."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT

SHOWS = 'echo "$(hostname) ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} of ${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE}, ${RANK:-no rank}"'


@pytest.fixture
def launcher(tmp_path):
    """A program called mpirun that starts processes as launchers do."""
    program = tmp_path / "bin" / "mpirun"
    program.parent.mkdir()
    shutil.copy(ROOT / "tests/system/jobs/mpi_launcher.py", program)
    return str(program)


def shown(job, workers):
    return [f"{job}-workers-0-{rank} {rank} of {workers}, no rank" for rank in range(workers)]


def told(done):
    return sorted(line.partition("] ")[2] for line in done.stdout.splitlines() if " of " in line)


@pytest.mark.parametrize("program", ["mpirun.openmpi", "mpiexec.openmpi", "mpirun.mpich", "mpiexec.hydra"])
def test_mpirun_starts_one_process_on_each_worker_and_its_exit_code_is_the_jobs(muster, program):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    done = muster("run", "--workers", "3", "--name", "sum", "--", program, "sh", "-c", SHOWS)
    assert told(done) == shown("sum", 3)
    failed = muster("run", "--workers", "2", "--name", "sum", "--", program, "sh", "-c", "exit 3", check=False)
    assert failed.returncode == 3


def test_without_a_cluster_the_literal_line_works(muster, launcher):
    done = muster("run", "--workers", "3", "--name", "sum", "--", launcher, "sh", "-c", f"{SHOWS}; echo $PMI_RANK >&2")
    assert told(done) == shown("sum", 3)
    assert sorted(line for line in done.stderr.splitlines() if line.startswith("[0] ")) == [
        f"[0] {rank}" for rank in range(3)
    ]


def test_a_script_that_calls_mpirun_runs_once(shared_up, launcher, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n#MUSTER --workers 2 --mpi --name own\necho once\nexec {launcher} sh -c '{SHOWS}'\n")
    done = shared_up("run", str(script))
    assert told(done) == shown("own", 2)
    assert done.stdout.count("once") == 1


def test_it_starts_again_as_a_whole(shared_up, launcher):
    done = shared_up("run", "--workers", "2", "--retries", "1", "--", launcher, "sh", "-c", "test $MUSTER_ATTEMPT = 1")
    assert done.returncode == 0


def test_the_input_is_the_launchers(shared_up, launcher):
    shell = f"cat; {launcher} true"
    assert shared_up("run", "--workers", "2", "--mpi", "--", "sh", "-c", shell, input="hello\n").stdout == "[0] hello\n"


def test_a_job_that_is_cancelled_leaves_nothing_behind(up, launcher):
    job = up.start("run", "--workers", "2", "--name", "sum", "--", launcher, "sh", "-c", "echo here; exec sleep 1000")
    for _ in range(2):
        assert job.stdout.readline() == "[0] here\n"
    up("cancel", "--delete", "sum")
    job.communicate(timeout=60)
    while any("sleep 1000" in line for line in up.processes().values()):
        time.sleep(0.1)


def test_a_worker_that_is_killed_ends_the_job(up, launcher):
    job = up.start("run", "--workers", "2", "--name", "sum", "--", launcher, "sh", "-c", "echo here; exec sleep 1000")
    for _ in range(2):
        assert job.stdout.readline() == "[0] here\n"
    [agent] = [pid for pid, line in up.processes().items() if "mpi-agent" in line and is_worker(pid, 1)]
    os.kill(agent, signal.SIGKILL)
    job.communicate(timeout=60)
    assert job.returncode != 0


def is_worker(pid, rank):
    return f"JOB_COMPLETION_INDEX={rank}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
