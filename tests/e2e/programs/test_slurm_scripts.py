"""Scripts that were written for Slurm, as people publish them: each runs as it stands, in tests/e2e/programs/slurm.

Programs that are large or need a GPU have stand-ins, which read of the environment what the programs read.
"""

import re
import subprocess
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT

SCRIPTS = Path(__file__).parent / "slurm"

MEET = """
import os, socket, time

env = os.environ
rank, size = int(env.get("RANK", env["SLURM_PROCID"])), int(env.get("WORLD_SIZE", env["SLURM_NTASKS"]))
address = env["MASTER_ADDR"], int(env["MASTER_PORT"])
if rank:
    while True:
        try:
            with socket.create_connection(address) as connection:
                connection.sendall(str(rank).encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
else:
    with socket.create_server(address, backlog=size) as server:
        ranks = {0}
        while len(ranks) < size:
            with server.accept()[0] as connection:
                ranks.add(int(connection.recv(10)))
    print("met:", *sorted(ranks), flush=True)
"""

SAVE = """
import os, signal, sys

def say(word):
    # One write: the tasks share a pipe, and `print` writes the end of a line apart where Python does not buffer.
    os.write(1, f"{word} {os.environ['SLURM_PROCID']}\\n".encode())

def save(*_):
    say("saved")
    sys.exit(0)

signal.signal(signal.SIGUSR1, save)
say("training")
while True:
    signal.pause()
"""

JAX = """
import os

nodes, env = os.environ["SLURM_STEP_NODELIST"], os.environ
first = nodes.split(",")[0]
print(env["SLURM_PROCID"], env["SLURM_NTASKS"], env["SLURM_LOCALID"], len(env["CUDA_VISIBLE_DEVICES"].split(",")),
      first == os.environ["MASTER_ADDR"], 0 <= int(env["SLURM_JOB_ID"]) % 4096)
"""

# Starts a process for each GPU of this machine, and tells it where all of them meet.
TORCHRUN = """#!/usr/bin/env python
import os, subprocess, sys

words = sys.argv[2:] if sys.argv[1] == "launch" else sys.argv[1:]
told = dict(zip(words[::2], words[1::2]))
if sys.argv[1] == "launch":
    address, port = told["--main_process_ip"], told["--main_process_port"]
    node, each = int(told["--machine_rank"]), int(told["--num_processes"]) // int(told["--num_machines"])
    nodes = int(told["--num_machines"])
else:
    address, port = told["--rdzv_endpoint"].split(":")
    node, each, nodes = int(os.environ["SLURM_NODEID"]), int(told["--nproc_per_node"]), int(told["--nnodes"])
at = {"MASTER_ADDR": address, "MASTER_PORT": port, "WORLD_SIZE": str(nodes * each)}
ranks = [{"RANK": str(node * each + local), "LOCAL_RANK": str(local)} for local in range(each)]
calls = [subprocess.Popen([sys.executable, words[-1]], env=os.environ | at | rank) for rank in ranks]
sys.exit(max(call.wait() for call in calls))
"""

GMX = """#!/bin/sh
echo "rank $PMI_RANK of $PMI_SIZE in a job of $SLURM_NTASKS: $*"
"""

JUPYTER = """#!/bin/sh
echo "serving: $*"
"""

# The head waits until all nodes are there; the others stay until the head has gone.
RAY = """#!/usr/bin/env python
import os, socket, sys, time

def reach(address):
    host, port = address.split(":")
    while True:
        try:
            return socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            time.sleep(0.1)

if "--head" in sys.argv:
    host = next(word.partition("=")[2] for word in sys.argv if word.startswith("--node-ip-address"))
    server, nodes = socket.create_server((host, 6379), backlog=9), []
    while True:
        connection = server.accept()[0]
        if connection.recv(9) == b"status":
            while len(nodes) < 2:
                nodes.append(server.accept()[0])
            connection.sendall(b"%d nodes" % (len(nodes) + 1))
        else:
            nodes.append(connection)
elif sys.argv[1] == "status":
    with reach(os.environ["RAY_ADDRESS"]) as connection:
        connection.sendall(b"status")
        print(connection.recv(99).decode())
else:
    with reach(sys.argv[sys.argv.index("--address") + 1]) as connection:
        connection.sendall(b"node")
        connection.recv(1)
"""

# Tells how many of its kind run.
SIMULATE = """#!/bin/sh
mkdir -p running/$1
echo "seed $1 beside $(($(ls running | wc -l) - 1))"
sleep 0.2
rmdir running/$1
"""

PROGRAMS = {
    "simulate": SIMULATE,
    "torchrun": TORCHRUN,
    "accelerate": TORCHRUN,
    "gmx_mpi": GMX,
    "jupyter": JUPYTER,
    "ray": RAY,
}
FILES = {
    "meet.py": MEET,
    "save_at_signal.py": SAVE,
    "jax_cluster.py": JAX,
    "samples.txt": "liver\nheart\nbrain\n",
    "logs/.keep": "",
}


@pytest.fixture
def sbatch(shared_muster, tmp_path):
    """Run a script in a directory with its programs; return what it printed, in order."""
    muster = shared_muster
    if not muster.home.exists():
        muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=64,memory=64Gi,gpus=8:fake")
    for name, text in (FILES | {f"bin/{name}": text for name, text in PROGRAMS.items()}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "bin/mpirun").symlink_to(ROOT / "tests/system/jobs/mpi_launcher.py")
    environment = muster.env()
    environment |= {"PATH": f"{tmp_path}/bin:{environment['PATH']}", "USER": "ada"}

    def run(script, *options, code=0):
        done = subprocess.run(
            [muster.command, "run", *options, str(SCRIPTS / script)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
        return [re.sub(r"^\[\d+\] ", "", line) for line in done.stdout.splitlines()], done.stderr

    return run


def test_torchrun_on_each_node(sbatch):
    lines, said = sbatch("torchrun.sh")
    assert re.fullmatch(r"head pretrain-\w+-workers-0-0\.pretrain-\w+ has an address: yes", lines[0])
    assert lines[1:] == ["met: 0 1 2 3"]
    assert "torchrun.sh: ignored: --account (quota belongs to queues)\n" in said


def test_a_process_for_each_gpu_by_srun(sbatch, tmp_path):
    lines, said = sbatch("ddp.sh")
    [output] = (tmp_path / "logs").glob("ddp-*.out")
    assert lines == []
    assert re.fullmatch(r"gpus of the first node: \d,\d\nmet: 0 1 2 3\n", output.read_text())
    assert output.with_suffix(".err").read_text() == ""
    assert f"the output of the script is in logs/{output.name} and logs/{output.stem}.err\n" in said


def test_lightning_saves_when_its_time_is_nearly_up(sbatch):
    lines, said = sbatch("lightning.sh")
    assert sorted(lines) == ["saved 0", "saved 1", "training 0", "training 1"]
    assert "ignored: --mem=0 (no job asks for all memory of a node)\n" in said


def test_an_mpi_program_on_all_nodes(sbatch):
    lines, _ = sbatch("gromacs.sh")
    assert sorted(lines) == [f"rank {rank} of 4 in a job of 4: mdrun -deffnm md -ntomp 2" for rank in range(4)]


def test_an_mpi_program_by_srun(sbatch):
    lines, _ = sbatch("pmix.sh")
    assert sorted(lines) == [f"rank {rank} of 4 in a job of 4: mdrun -deffnm npt" for rank in range(4)]


def test_an_array_over_the_lines_of_a_file(sbatch, tmp_path):
    lines, _ = sbatch("files.sh")
    found = {path.name.rpartition("_")[2]: path.read_text() for path in tmp_path.glob("align_*.log")}
    samples = {"1": "liver", "2": "heart", "3": "brain"}
    assert found == {f"{at}.log": f"{at} of 3: {name} with 2 CPUs\n" for at, name in samples.items()}
    assert lines == []


def test_an_array_over_values(sbatch):
    lines, _ = sbatch("grid.sh")
    assert sorted(lines) == ["0 0.1", "2 0.2", "4 0.3", "6 0.4"]


def test_a_notebook(sbatch, tmp_path):
    sbatch("jupyter.sh")
    [log] = tmp_path.glob("jupyter-*.log")
    tunnel, serving = log.read_text().splitlines()
    port = re.fullmatch(r"Tunnel: ssh -N -L (\d+):\S+ ada@login", tunnel).group(1)
    assert serving.startswith("serving: lab --no-browser --ip=notebook-")
    assert serving.endswith(f"--port={port}")


def test_threads(sbatch):
    assert sbatch("openmp.sh")[0] == ["4 threads, cores"]


def test_a_cluster_of_servers_ends_with_its_script(sbatch, shared_muster):
    assert sbatch("ray.sh")[0] == ["3 nodes"]
    assert not [line for line in shared_muster.processes().values() if "bin/ray" in line]


def test_accelerate(sbatch):
    lines, said = sbatch("accelerate.sh")
    assert lines == ["met: 0 1 2 3"]
    assert "ignored: --export=ALL (" in said


def test_a_script_passes_its_signal_on_to_its_step(sbatch):
    lines, _ = sbatch("checkpoint.sh")
    training, saved = lines.index("time is nearly up"), lines.index("the step ended with 0")
    assert sorted(lines[:training]) == ["training 0", "training 1"]
    assert sorted(lines[training + 1 : saved]) == ["saved 0", "saved 1"]


def test_a_farm_of_tasks(sbatch):
    lines, _ = sbatch("farm.sh")
    assert sorted(line[:6] for line in lines) == [f"seed {seed}" for seed in range(1, 7)]
    assert {line[6:] for line in lines} <= {" beside 0", " beside 1"}


def test_jax_finds_its_processes(sbatch):
    lines, _ = sbatch("jax.sh")
    assert sorted(lines) == [f"{rank}: {rank} 4 {rank % 2} 1 True True" for rank in range(4)]


def test_the_exit_code_is_that_of_the_script(sbatch, tmp_path):
    (tmp_path / "fails.sh").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun sh -c 'exit $((SLURM_PROCID * 3))'\n")
    assert "srun: task 1 on" in sbatch(tmp_path / "fails.sh", code=3)[1]


def test_a_line_that_cannot_be_followed_makes_no_job(sbatch, shared_muster, tmp_path):
    before = shared_muster("ps", "-o", "name").stdout
    (tmp_path / "later.sh").write_text("#!/bin/bash\n#SBATCH --deadline=18:00\ntrue\n")
    _, said = sbatch(tmp_path / "later.sh", code=2)
    why = "--deadline: Muster knows no deadline of a job; limit its run with --time"
    assert said.endswith(f"Error: later.sh, line 2: {why}\n")
    assert shared_muster("ps", "-o", "name").stdout == before


def test_a_job_that_is_cancelled_leaves_no_task_behind(sbatch, shared_muster, tmp_path):
    script = tmp_path / "long.sh"
    script.write_text("#!/bin/bash\n#SBATCH -N 2 -J long\nsrun sh -c 'echo here; exec sleep 1000'\n")
    process = shared_muster.start("run", str(script))
    for _ in range(2):
        assert process.stdout.readline() == "[0] here\n"
    [name] = [one for one in shared_muster("ps", "-o", "name").stdout.split() if "long-" in one]
    shared_muster("cancel", "--delete", name.rpartition("/")[2])
    process.communicate(timeout=60)
    while any("sleep 1000" in line for line in shared_muster.processes().values()):
        pass
