"""An installation without the server's parts: commands against a cluster work, and the others say what they need."""

import os
from collections.abc import Collection
from pathlib import Path

import pytest
from tests.e2e.conftest import Muster

from muster.actions.server.serverparts import PACKAGES

# As if these packages were not installed: Python reads this before all else.
LACKING = "import sys; sys.modules.update(dict.fromkeys({!r}))\n"
JOBS = """
apiVersion: batch/v1
kind: Job
metadata: {name: small}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: any, command: [sh, -c, "echo said"], resources: {requests: {cpu: 10m}}}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: large}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: any, command: [sleep, "60"], resources: {requests: {cpu: 10k}}}]
"""


def client_of(home: Path, directory: Path, lacking: Collection[str] = PACKAGES) -> Muster:
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(LACKING.format(sorted(lacking)))
    path = os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])
    return Muster(home, {"PYTHONPATH": path})


def test_commands_against_a_cluster(up: Muster, tmp_path: Path) -> None:
    client, file = client_of(up.home, tmp_path / "lacking"), tmp_path / "jobs.yaml"
    file.write_text(JOBS)
    for arguments, said in (
        (("apply", "-f", str(file)), "job.batch/large created"),
        (("wait", "small"), "small: completed"),
        (("logs", "small"), "said"),
        (("ps",), "large"),
        (("status",), "ready"),
        (("top",), "muster-default"),
        (("queue", "list"), "muster-default"),
        (("why", "large"), "cpu"),
        (("why", "small"), "small"),
        (("hold", "large"), "large"),
        (("release", "large"), "large"),
        (("cancel", "large", "--yes"), "large cancelled"),
        (("history",), "small"),
        (("run", "--name", "later", "--workers", "2", "--", "echo", "hello"), "hello"),
        (("manifests",), "kind: Deployment"),
    ):
        done = client(*arguments)
        assert said in done.stdout + done.stderr, arguments


@pytest.mark.parametrize(
    ("arguments", "needing"),
    [
        (("up", "--port", "0"), "muster up"),
        (("up", "--detach", "--port", "0"), "muster up"),
        (("run", "--", "true"), "a cluster in this process"),
        (("controllers",), "muster controllers"),
    ],
)
@pytest.mark.parametrize("lacking", [PACKAGES, {"numpy"}], ids=["all", "one that is imported late"])
def test_what_needs_the_server_says_how_to_install_it(muster, tmp_path, arguments, needing, lacking) -> None:
    done = client_of(muster.home, tmp_path / "lacking", lacking)(*arguments, check=False)
    assert done.returncode == 1
    assert f"Error: {needing} needs " in done.stderr
    assert "which a client-only installation lacks: pip install 'muster-batch[server]'" in done.stderr
    assert "Traceback" not in done.stderr
