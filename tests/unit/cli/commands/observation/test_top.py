"""The tables of `muster top`."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from muster.cli.commands.observation.top import _make_users_table


def test_the_table_of_jobs_names_their_owners() -> None:
    asked = Counter(cpu=2000, pods=1)
    users = {
        ("default", "train", "system:serviceaccount:muster-users:ada", "vision"): asked,
        ("default", "lost", "", "-"): Counter(pods=1),
    }
    header, train, lost = _make_users_table(users, ["cpu", "pods"], {}).splitlines()
    assert header.split()[:6] == ["NAMESPACE", "NAME", "OWNER", "CLUSTERQUEUE", "CPU", "PODS"]
    assert train.split()[:6] == ["default", "train", "ada", "vision", "2", "1"]
    assert lost.split()[:6] == ["default", "lost", "-", "-", "0", "1"]


@pytest.mark.parametrize(("term", "fault"), [("dumb", "TERM is dumb"), ("", "TERM is not set")])
def test_a_terminal_that_cannot_be_drawn_on_is_not_taken_for_a_pipe(term: str, fault: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TERM": term, "MUSTER_HOME": str(tmp_path)}
    leader, terminal = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "muster.cli", "top", "--watch"],
            stdout=terminal,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
            check=False,
        )
    finally:
        os.close(leader)
        os.close(terminal)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"Error: --watch cannot draw on this terminal: {fault}"
