"""A day of each kind of user, from the README's first line to the last command of the evening."""

import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.conftest import ROOT
from tests.e2e.openinstallation import make_open_installation
from tests.e2e.typed_lines import require_code, run_line, wait_for
from tests.e2e.unixpeople import CAN_MAKE_USERS, WHY_NOT, new_people, until

from muster.cluster.nodes.disk.leftovers import find_shared


@pytest.fixture
def shell(muster, tmp_path):
    """Type a line as the user does, in the user's directory; return what it prints."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    muster.environment = {"HOME": str(tmp_path)}

    def run(line, code=0):
        return require_code(run_line(["bash", "-c", line], env=muster.env(), cwd=tmp_path), line, code)

    return run


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
    assert "its workers end now" in shell(f"muster hold {idle}")  # scontrol hold
    wait_for(lambda: shell("muster ps --state Held"), f"{idle}   Held ")
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


@pytest.fixture
def people(muster):
    """Three users of a machine, and what each of them prints who types a line."""
    place = Path(tempfile.mkdtemp(prefix="muster-test-", dir="/run"))  # everybody can pass through it
    place.chmod(0o755)
    path = muster.env()["PATH"]

    def type_line(person, line, code=0):
        return require_code(person.type(line, path), f"{person.name}: {line}", code)

    try:
        with new_people(place / "socket" / "muster.sock", "muster-cleo", "muster-dan", "muster-eve") as found:
            if found[0].type("muster --version", path).returncode:  # this Python lies in root's home
                path = os.pathsep.join([make_open_installation(place), os.defpath])
            yield [partial(type_line, person) for person in found]
            muster("down", "--yes", check=False)  # what runs as a user ends before the user does
    finally:
        shutil.rmtree(place)
        shutil.rmtree(find_shared(muster.home), ignore_errors=True)


@pytest.fixture
def socket(people):
    """The socket that the users know."""
    return people[0].args[0].socket


WAITS = "sh -c 'echo secret of $USER; until test -e enough; do sleep 0.1; done'"


@pytest.mark.skipif(not CAN_MAKE_USERS, reason=WHY_NOT)
@pytest.mark.timeout(900)
def test_an_administrator(muster, shell, people, socket, tmp_path):
    cleo, dan, eve = people
    nodes = "--nodes process,cpu=8,memory=8Gi,gpus=4:fake"
    assert "every user of this machine" in shell(f"muster up --detach --port 0 --socket {socket} {nodes}")

    # The users come, each with nothing but the command.
    printed = cleo("muster run --gpus 1 -- sh -c 'id -un; pwd; echo GPU $CUDA_VISIBLE_DEVICES; touch made'")
    assert "muster-cleo\n/home/muster-cleo\nGPU 0\n" in printed
    assert (cleo.args[0].home / "made").stat().st_uid == cleo.args[0].uid
    assert "Running" in cleo("muster run -- muster ps")  # a job reaches the server, too
    trials = dan("muster run --array 0-3%2 --name trials -- sh -c 'echo trial $MUSTER_INDEX' 2> said")
    assert sorted(trials.splitlines()) == [f"[{n}] trial {n}" for n in range(4)]
    cleo(f"muster run --detach --name train --gpus 3 --cpus 1 -- {WAITS}")
    wait_for(lambda: cleo("muster logs train"), "secret of muster-cleo")
    cleo("muster hold train")
    wait_for(lambda: cleo("muster ps train"), "Held")
    cleo("muster release train")
    wait_for(lambda: cleo("muster ps train"), "Running")
    cleo("muster run --detach --name mistake -- sleep 600")
    cleo("muster cancel mistake")
    cleo("muster wait mistake", code=1)

    # None of them reaches what is another's.
    for line in ("logs train", "cancel train", "exec train -- id", "hold train", "why train"):
        verb, *rest = line.split(" ", 1)
        assert "you (unix:muster-dan) may not" in dan(f"muster {verb} -n user-muster-cleo {rest[0]}", code=1)
    assert "train" not in dan("muster ps --all")
    seen = dan("muster top")
    assert re.search(r"^node-0 +Ready +-/8 .* -/4 ", seen, re.MULTILINE), "his own jobs are not all there is"
    assert re.search(r"^muster-default .* 3/4$", seen, re.MULTILINE)
    assert "Free" not in seen
    assert "muster-cleo" not in dan("muster ps --all -o wide")
    assert "Permission denied" in dan("muster run -- ls /home/muster-cleo", code=2)
    dan("muster queue create mine --cpu 8", code=1)
    assert dan("muster down").startswith("not running (/home/muster-dan/")

    # Eve wants all GPUs. The administrator sees who has them, and makes two teams.
    greedy = f"muster run --detach --name greedy --gpus 4 --cpus 1 -- {WAITS}"
    eve(greedy)
    until(lambda: "nvidia.com/gpu" in eve("muster why greedy"))
    assert "user-muster-cleo/train" in shell("muster why greedy -n user-muster-eve")
    owners = {row.split()[1]: row.split()[7] for row in shell("muster ps -A").splitlines()[1:] if "greedy" not in row}
    assert (owners["train"], owners["trials"]) == ("muster-cleo", "muster-dan")
    assert shell("muster ps -A --user muster-eve -o name").split() == ["greedy"]
    shell("muster queue create vision --share 2 --gpus 3 --cpus 4 --users muster-cleo")
    shell("muster queue create speech --share 1 --gpus 1 --cpus 2 --users muster-eve")
    cleo("muster cancel --delete train")
    eve(f"muster cancel --delete greedy && {greedy}")
    wait_for(lambda: eve("muster ps greedy"), "Running")  # it borrows what nobody uses
    assert re.search(r"^greedy .* speech ", eve("muster ps greedy"), re.MULTILINE), "the queue was not named"
    cleo(f"muster run --detach --name train --gpus 3 --cpus 1 -- {WAITS}")
    wait_for(lambda: cleo("muster ps train"), "Running")
    assert re.search(r"^greedy +Queued ", eve("muster ps greedy"), re.MULTILINE)
    assert "interrupted by the cluster once" in eve("muster why greedy")
    dan("muster run -- true", code=1)  # Dan has no team
    shell("muster queue edit muster-default --without-team")
    dan("muster run -- true")

    # Upgrades, accidents and backups in the afternoon: nobody's work is lost.
    shell(f"muster backup {tmp_path}/today.backup")
    assert (tmp_path / "today.backup").stat().st_mode & 0o777 == 0o600
    shell("muster restart --yes")
    os.kill(int((muster.home / "lock").read_text()), signal.SIGKILL)
    shell("muster up --detach")
    assert re.search(r"^train +Running ", cleo("muster ps train"), re.MULTILINE)
    assert cleo("muster logs train") == "secret of muster-cleo\n"

    # Dan leaves. His account goes with what he has here.
    dan(f"muster run --detach --name late --cpus 1 -- {WAITS}")
    wait_for(lambda: shell("muster ps -n user-muster-dan late"), "Running")
    shell("muster cancel --all --delete --yes -n user-muster-dan")
    subprocess.run(["userdel", "--force", "--remove", "muster-dan"], check=True, capture_output=True)
    wait_for(lambda: shell("muster ps -n user-muster-dan"), "no jobs")

    (cleo.args[0].home / "enough").touch()
    cleo("muster wait train")
    (eve.args[0].home / "enough").touch()
    eve("muster wait greedy")
    rows = [row.split() for row in shell("muster history -A").splitlines()[1:]]
    assert {("train", "Completed"), ("greedy", "Completed"), ("trials", "Completed")} <= {
        (word, row[at + 1]) for row in rows for at, word in enumerate(row[:-1])
    }
    shell("muster down")
    assert not muster.processes()
    assert "no cluster" in cleo("muster ps", code=1) or "muster.sock" in cleo("muster ps", code=1)
