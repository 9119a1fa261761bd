"""A day of each kind of user, from the README's first line to the last command of the evening."""

import os
import pwd
import re
import signal
import subprocess
import time

import pytest
from tests.e2e.conftest import ROOT


@pytest.fixture
def shell(muster, tmp_path):
    """Type a line as the user does, in the user's directory; return what it prints."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    muster.environment = {"HOME": str(tmp_path)}

    def run(line, code=0):
        done = subprocess.run(
            ["bash", "-c", line],
            env=muster.env(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{line}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


def wait_for(look, text):
    """Look until the text is there."""
    deadline = time.monotonic() + 100
    while text not in (seen := look()):
        assert time.monotonic() < deadline, f"{text!r} never came:\n{seen}"
        time.sleep(0.2)


STEPS = """
import os, pathlib, time

kept = pathlib.Path(os.environ["MUSTER_STATE"], "step")
first = int(kept.read_text()) if kept.exists() else 0
print("begins at step", first, flush=True)
kept.write_text("7")
while not pathlib.Path("enough").exists():
    time.sleep(0.1)
"""

FUNCTION = """
import muster

print(muster.run(pow, (2, 10)).result())
print(muster.job("again").state)
"""


def test_a_workstation(muster, shell, tmp_path):
    [first] = re.findall(r"^    pip install .* && (muster run .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert "bit-identical on all workers" in shell(first)
    assert not muster.processes(), "the cluster of a single run ends with it"

    shell("muster up --detach --port 0 --nodes process,cpu=4,memory=8Gi,gpus=2:fake")
    (tmp_path / "steps.py").write_text(STEPS)
    shell("muster run --detach --name again --gpus 1 -- python steps.py")
    shell("muster run --detach --name both --gpus 2 -- true")
    wait_for(lambda: shell("muster logs again"), "begins at step 0")
    assert re.search(r"^both +Queued ", shell("muster ps"), re.MULTILINE)
    assert "again" in shell("muster why both")
    assert "error" not in shell("muster top").lower()

    server = int((muster.home / "lock").read_text())  # somebody trips over the cable
    os.kill(server, signal.SIGKILL)
    shell("muster up --detach")
    assert re.search(r"^again +Running ", shell("muster ps"), re.MULTILINE)

    shell("muster hold again && muster release again")
    wait_for(lambda: shell("muster logs again"), "begins at step 7")
    (tmp_path / "session.py").write_text(FUNCTION)
    assert shell("python session.py") == "1024\nRunning\n"
    shell("muster run --array 0-3%2 --name tune -- sh -c 'test $MUSTER_INDEX != 3'", code=1)
    (tmp_path / "enough").touch()
    shell("muster wait again both")
    shell("muster run --name tune -- true", code=1)  # the name is taken
    shell("muster cancel --delete tune && muster run --name tune -- true")

    rows = [row.split()[2:4] for row in shell("muster history").splitlines()[1:]]
    assert sorted(row for row in rows if not row[0].startswith("pow-")) == [
        ["again", "Completed"],
        ["both", "Completed"],
        ["tune", "Completed"],
        ["tune", "Failed"],
    ]
    shell("muster down")
    assert not muster.processes()


SCRIPT = """#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2 --ntasks-per-node=2
#SBATCH --time=10:00 --mem=100M
#SBATCH --output=logs/%x-%j.out
#SBATCH --signal=B:USR1@60
trap 'echo saved; exit 0' USR1
srun bash -c 'echo "task $SLURM_PROCID of $SLURM_NTASKS"' | sort
until test -e enough; do sleep 0.1; done
echo trained
"""

ARRAY = """#!/bin/bash
#SBATCH -J trials -a 1-3%2 -t 5
echo "trial $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_TASK_COUNT"
exit $((SLURM_ARRAY_TASK_ID / 3))
"""

# What the hands type, and the command that Muster names instead.
HABITS = {
    "sinfo": "muster top",
    "sbatch train.sh": "muster run --detach",
    "squeue --me": "muster ps",
    "scancel 4711": "muster cancel JOB",
    "sacct": "muster history",
}


def test_the_habits_of_slurm(muster, shell, tmp_path):
    shell("muster up --detach --port 0 --nodes process,cpu=8,memory=8Gi")
    for habit, command in HABITS.items():
        assert f"did you mean: {command}\n" in shell(f"muster {habit}", code=2)

    (tmp_path / "logs").mkdir()
    (tmp_path / "train.sh").write_text(SCRIPT)
    (tmp_path / "trials.sh").write_text(ARRAY)
    train, idle = (shell("muster run -d train.sh 2> said").strip() for _ in range(2))
    trials = shell("muster run -d trials.sh 2> said").strip()
    assert re.fullmatch(r"train-\w+", train)
    assert train != idle

    mine = shell(f"muster ps --user {pwd.getpwuid(os.geteuid()).pw_name} -o name").split()
    assert sorted(mine) == sorted([train, idle, trials])
    wait_for(lambda: "".join(log.read_text() for log in (tmp_path / "logs").glob("train-*.out")), "task 3 of 4")
    shell(f"muster hold {idle}")  # scontrol hold
    assert re.search(rf"^{idle} +Held ", shell("muster ps --state Held"), re.MULTILINE)
    shell(f"muster cancel {idle}")  # scancel
    shell(f"muster wait {idle}", code=1)

    shell(f"muster wait {trials}", code=1)
    assert sorted(shell(f"muster logs {trials}").splitlines()) == [f"[{n}] trial {n} of 3" for n in (1, 2, 3)]
    assert re.search(rf"^{trials} +Failed +2/3 .*trial 3 ended with exit code 1", shell("muster ps"), re.MULTILINE)

    (tmp_path / "enough").touch()
    shell(f"muster wait {train}")
    [log] = [path for path in (tmp_path / "logs").iterdir() if "trained" in path.read_text()]
    assert log.read_text().splitlines() == [*(f"task {n} of 4" for n in range(4)), "trained"]

    table = {row.split()[2]: row.split()[3] for row in shell("muster history").splitlines()[1:]}  # sacct
    assert table == {train: "Completed", idle: "Cancelled", trials: "Failed"}
    shell("muster down")
    assert not muster.processes()
