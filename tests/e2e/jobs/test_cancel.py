"""Jobs are cancelled that are not named: after a question on a terminal, and elsewhere only if that was said before."""

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.terminals import terminal

pytestmark = pytest.mark.timeout(120)

LABELLED = """
apiVersion: batch/v1
kind: Job
metadata: {name: labelled, labels: {team: vision, kueue.x-k8s.io/queue-name: default}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: none, command: [sleep, "600"]}]}}}
"""


def test_jobs_that_are_alike_are_cancelled_when_the_user_agrees(up: Muster) -> None:
    for name in ("one", "two"):
        up("run", "--detach", "--name", name, "--", "sleep", "600")
    up("apply", "-f", "-", input=LABELLED)
    refused = up("cancel", "--all", check=False)
    assert refused.returncode == 2
    # Jobs of one second stand by name, and a fast machine makes all three within one.
    jobs = refused.stderr.partition("cancel 3 jobs of namespace default: ")[2]
    assert all(f"{name} (" in jobs for name in ("labelled", "one", "two"))
    assert "--yes skips the question" in refused.stderr
    with terminal() as tty:
        for keys, code, words in (
            (b"n\n", 1, b"nothing was done"),
            (b"\4", 130, b"interrupted"),
            (b"y\n", 0, b"two c"),
        ):
            asking = tty.start(up.command, "cancel", "--all", env=up.env())
            tty.reads(b"  labelled (")
            tty.reads(b"cancel 3 jobs of namespace default? [y/N]: ")
            tty.press(keys)
            tty.reads(words)
            assert asking.wait(timeout=60) == code
    assert up("wait", "one", "two", "labelled", check=False).returncode == 1
    assert "no such jobs are unfinished" in up("cancel", "--all").stderr
    assert up("cancel", "--all", "--delete", "--queue", "default", check=False).returncode == 2
    assert up("cancel", "-l", "team=vision", "--delete", "--yes").stdout == "labelled deleted\n"
    done = up("cancel", "--state", "cancelled", "--queue", "default", "--delete", "-y")
    assert done.stdout == "one deleted\ntwo deleted\n"
    assert "unable to parse" in up("cancel", "-l", "a b", check=False).stderr


def test_what_is_meant_is_said_in_one_way(muster: Muster) -> None:
    for arguments in ((), ("train", "--all"), ("train", "--queue", "q"), ("--all", "-l", "a=b")):
        refused = muster("cancel", *arguments, check=False)
        assert refused.returncode == 2
        assert "name jobs, or select them with --all" in refused.stderr
