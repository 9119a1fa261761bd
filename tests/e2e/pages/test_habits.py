"""Pages for those who know other systems: what they say is typed here, to submit and to look, does it.

All of it in the long form; every fourth otherwise.
"""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[3] / "docs"


def cells(first_words: tuple[str, ...]) -> list[Any]:
    """The code in the second column of the pages' tables, of the cells that begin so; each once."""
    found: dict[tuple[str, ...], str] = {}
    for page in ("slurm.md", "skypilot.md", "ray.md", "submitit.md"):
        for row in re.findall(r"^\| .* \|$", (DOCS / page).read_text(), re.MULTILINE):
            spans = tuple(re.findall(r"`([^`]+)`", re.split(r" \| ", row)[1]))
            if "--tty" in row:  # needs a terminal
                continue
            if spans and all(span.startswith(first_words) and not span.endswith(" NAME") for span in spans):
                found.setdefault(spans, page)
    return [pytest.param(spans, id=f"{page}: {', '.join(spans)}") for spans, page in found.items()]


COMMANDS = cells(("muster run ", "muster ps", "muster wait"))

PRIORITY = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 10
"""
FILES = {
    "train.py": "import os, time\nprint('loss', 0)\ntime.sleep(float(os.environ.get('SECONDS_TO_TRAIN', 0)))\n",
    "trial.py": "print('tried')\n",
    "test.py": "print('tested')\n",
    "job.sh": "#!/bin/bash\n#MUSTER --time 2:00:00\nexec python train.py\n",
    "head": "#!/bin/sh\necho head\n",
    "work": "#!/bin/sh\necho work\n",
    ".env": "B=2\n",
    "data/file": "",
}


@pytest.fixture(params=COMMANDS)
def cell(request, long):
    if not long and request.param_index % 4:
        pytest.skip("the long form has it")
    return request.param


@pytest.fixture
def desk(cell, shared_muster, tmp_path):
    """A directory of one who trains, and a cluster with a queue and a priority."""
    muster = shared_muster
    nodes = "process,cpu=64,memory=64Gi,gpus=8:fake"
    if not muster.home.exists():
        muster("up", "--detach", "--port", "0", "--nodes", nodes)
        muster("queue", "create", "vision", "--cpu", "8", "--memory", "8Gi", "--gpus", "2", check=False)
        muster("apply", "-f", "-", input=PRIORITY)
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    muster.environment = {"B": "2", "PS1": "$ ", "USER": "ada"}
    return muster


def prepare(muster, command):
    """The jobs and queues that it names are there, in a state in which it makes sense."""
    words = shlex.split(command)
    if "train" in words or "tune" in words or "cancel" in words:
        muster("cancel", "train", "tune", "--delete", check=False)
    if "--name" in words:
        return
    if "train" in words or "cancel" in words:
        # What is followed to its end comes to one.
        seconds = 0 if "wait" in words or "-f" in words else 600
        options = f"--name train -w 4 -e SECONDS_TO_TRAIN={seconds}"
        assert typed(muster, f"muster run -d {options} -- python train.py").returncode == 0
        if seconds:
            running = "until muster logs train --grep loss | grep -q 3; do :; done"
            assert typed(muster, f"timeout 60 sh -c '{running}'").returncode == 0
    if "tune" in words:
        muster("run", "-d", "--name", "tune", "--array", "0-7", "--", "sh", "-c", "exit $MUSTER_INDEX")
        muster("wait", "tune", check=False)
    if "speech" in words and "create" not in words:
        muster("queue", "create", "speech", "--cpu", "8", "--cohort", "lab", check=False)


def environment(muster):
    return muster.env() | ({"KUBECONFIG": str(muster.home / "kubeconfig")})


def typed(muster, command):
    return subprocess.run(
        ["bash", "-c", command],
        env=environment(muster),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_what_is_typed_here_does_it(desk, tmp_path, monkeypatch, cell):
    monkeypatch.chdir(tmp_path)
    for command in cell:
        prepare(desk, command)
        done = typed(desk, command)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
