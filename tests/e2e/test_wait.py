"""Waiting for several jobs, on the embedded cluster."""

import os
import pty
import subprocess

import pytest
from tests.e2e.conftest import Muster

pytestmark = pytest.mark.timeout(120)


def test_the_first_of_several_or_all_of_them_or_no_longer_than_that(up: Muster) -> None:
    up("run", "--detach", "--name", "long", "--", "sleep", "600")
    up("run", "--detach", "--name", "short", "--", "sh", "-c", "exit 3")
    done = up("wait", "long", "nonesuch", "short", "--any", check=False)
    assert done.returncode == 3
    assert "Error: nonesuch: there is no job nonesuch" in done.stderr
    assert "short: failed" in done.stderr
    assert "long" not in done.stderr.replace("long: running", "")
    late = up("wait", "long", "--timeout", "1s", check=False)
    assert (late.returncode, late.stderr.splitlines()[-1]) == (124, "not finished within 1 s; the jobs go on")
    assert up("wait", "nonesuch", "--any", check=False).returncode == 1
    assert "is no time" in up("wait", "long", "--timeout", "soon", check=False).stderr
    up("cancel", "long")
    assert up("wait", "long", "short", check=False).returncode == 3


def test_on_a_terminal_it_shows_how_far_a_gang_is(up: Muster) -> None:
    up("run", "--detach", "--name", "train", "--workers", "2", "--", "sleep", "600")
    ours, theirs = pty.openpty()
    waiting = subprocess.Popen([up.command, "wait", "train"], env=up.env(), stderr=theirs)
    shown = b""
    while b"2 of 2 workers run" not in shown:
        shown += os.read(ours, 4096)
    up("cancel", "train")
    while b"train: cancelled\r\n" not in shown:
        shown += os.read(ours, 4096)
    assert waiting.wait(timeout=60) == 1
    os.close(ours)
    os.close(theirs)
