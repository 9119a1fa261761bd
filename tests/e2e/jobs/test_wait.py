"""Waiting for several jobs, on the embedded cluster."""

import json
import os
import pty
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def cancelled_after(shared_up: Muster) -> Iterator[None]:
    """No job of a failed test runs on in the shared cluster."""
    yield
    shared_up("cancel", "--all", "--yes")


@pytest.mark.usefixtures("cancelled_after")
def test_the_first_of_several_or_all_of_them_or_no_longer_than_that(shared_up: Muster) -> None:
    shared_up("run", "--detach", "--name", "long", "--", "sleep", "600")
    shared_up("run", "--detach", "--name", "short", "--", "sh", "-c", "exit 3")
    done = shared_up("wait", "long", "nonesuch", "short", "--any", check=False)
    assert done.returncode == 3
    assert "Error: nonesuch: there is no job nonesuch" in done.stderr
    assert "short: failed" in done.stderr
    assert "long" not in done.stderr.replace("long: running", "")
    late = shared_up("wait", "long", "--timeout", "1s", check=False)
    assert (late.returncode, late.stderr.splitlines()[-1]) == (124, "not finished within 1 s; the jobs continue")
    assert shared_up("wait", "nonesuch", "--any", check=False).returncode == 1
    assert "is no time" in shared_up("wait", "long", "--timeout", "soon", check=False).stderr
    shared_up("cancel", "long")
    assert shared_up("wait", "long", "short", check=False).returncode == 3


@pytest.mark.usefixtures("cancelled_after")
def test_on_a_terminal_it_shows_how_far_a_gang_is(shared_up: Muster) -> None:
    shared_up("run", "--detach", "--name", "train", "--workers", "2", "--", "sleep", "600")
    ours, theirs = pty.openpty()
    waiting = subprocess.Popen([shared_up.command, "wait", "train"], env=shared_up.env(), stderr=theirs)
    shown = b""
    while b"2 of 2 workers run" not in shown:
        shown += os.read(ours, 4096)
    shared_up("cancel", "train")
    while b"train: cancelled\r\n" not in shown:
        shown += os.read(ours, 4096)
    assert waiting.wait(timeout=60) == 1
    os.close(ours)
    os.close(theirs)


STUBBORN = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: train, labels: {{kueue.x-k8s.io/queue-name: default}}}}
spec:
  replicatedJobs:
  - name: workers
    template:
      spec:
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 600
            containers:
            - name: c
              image: none
              resources: {{limits: {{nvidia.com/gpu: 1}}}}
              command: [sh, -c, "trap '' TERM; echo up; until test -e {gate}; do sleep 0.1; done"]
"""


def test_a_cancelled_job_is_waited_for_and_keeps_what_it_has_until_its_workers_have_ended(
    muster: Muster, tmp_path: Path
) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "process,gpus=1:fake")
    gate = tmp_path / "gate"
    muster("apply", "-f", "-", input=STUBBORN.format(gate=gate))
    while muster("logs", "train").stdout != "up\n":
        time.sleep(0.2)
    muster("cancel", "train")
    [row] = json.loads(muster("ps", "-o", "json").stdout)
    assert (row["state"], row["ready"], row["ended"]) == ("Cancelling", 1, None)
    why = muster("why", "train").stdout
    assert why.startswith("train: cancelling: its workers have up to 10m to end\n")
    assert "admitted by ClusterQueue" in why
    assert "Used    default/train" in muster("top").stdout
    assert muster("wait", "train", "--timeout", "1s", check=False).returncode == 124
    gate.touch()
    assert muster("wait", "train", check=False).returncode == 1
    [row] = json.loads(muster("ps", "-o", "json").stdout)
    assert (row["state"], row["ended"] is None) == ("Cancelled", False)
