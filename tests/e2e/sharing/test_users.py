"""A colleague gets a client with one line, works in a queue of its own, and is removed."""

import json
import subprocess
from pathlib import Path

from tests.e2e.conftest import Muster


def test_a_user_from_the_line_to_the_removal(muster: Muster, tmp_path: Path) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:1,cpu=8")
    muster("queue", "create", "vision", "--cpu", "2")
    line = muster("user", "add", "ada", "--queue", "vision").stdout
    env = muster.env() | {"MUSTER_HOME": str(tmp_path / "ada")}

    def as_ada(command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, check=False)

    assert as_ada(line).returncode == 0
    assert as_ada("muster run --detach --name j --cpus 1 -- true").returncode == 0
    [row] = json.loads(muster("ps", "--user", "ada", "-o", "json").stdout)
    assert (row["name"], row["queue"]) == ("j", "vision")
    for command in ("list", "add bob", "remove bob"):
        refused = as_ada(f"muster user {command}")
        assert (refused.returncode, "only an administrator of this cluster may" in refused.stderr) == (1, True)
    muster("user", "remove", "ada")
    refused = as_ada("muster ps")
    assert (refused.returncode, "Traceback" in refused.stderr) == (1, False)
    assert muster("user", "list", "-o", "name").stdout == ""


def test_the_streams_of_a_removed_user_end(muster: Muster, tmp_path: Path) -> None:
    muster("up", "--detach", "--port", "0")
    env = muster.env() | {"MUSTER_HOME": str(tmp_path / "ada")}
    line = muster("user", "add", "ada").stdout
    assert subprocess.run(["sh", "-c", line], env=env, capture_output=True, check=False).returncode == 0
    muster("run", "--detach", "--name", "j", "--", "sh", "-c", "echo begun; sleep 1000")
    commands = {"logs": ["logs", "-f", "j"], "exec": ["exec", "j", "--", "sh", "-c", "echo begun; sleep 1000"]}
    followers = {}
    errors = {}
    try:
        for name, words in commands.items():  # one after the other: `exec` needs a worker that runs
            followers[name] = follower = subprocess.Popen(
                [muster.command, *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert follower.stdout is not None
            assert follower.stdout.readline() == "begun\n"
        muster("user", "remove", "ada")
        for name, follower in followers.items():
            output, errors[name] = follower.communicate(timeout=60)
            assert (follower.returncode, output, "Traceback" in errors[name]) == (1, "", False)
    finally:
        for follower in followers.values():
            follower.kill()
            follower.communicate()
    assert errors["logs"].count("Unauthorized") == 1
    assert muster("ps", "-o", "name").stdout == "j\n"
