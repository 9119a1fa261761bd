"""`muster down` and the process that it ends."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.actions.server import service
from muster.actions.server.home import Home
from muster.actions.server.systemunit import HEADER
from muster.cli.commands import down
from muster.cli.main import cli

# Holds the directory; when it is told to end it lets go of that at once, and ends a moment later, or never.
SERVER = """
import pathlib, signal, sys, time
from muster.cluster.store.directory import DataDirectory
directory = DataDirectory(pathlib.Path(sys.argv[1]))
def end(number, frame):
    directory.release()
    time.sleep(float(sys.argv[2]))
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
while True:
    signal.pause()
"""

Start = Callable[[float], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    servers: list[subprocess.Popen[bytes]] = []

    def start(takes_seconds: float) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", SERVER, str(tmp_path), str(takes_seconds)]
        servers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        assert servers[-1].stdout is not None
        assert servers[-1].stdout.readline() == b"ready\n"
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
        server.communicate()


def test_afterwards_the_process_is_gone(start: Start, tmp_path: Path) -> None:
    server = start(0.3)
    assert not down.stop(Home(tmp_path), server.pid)
    assert server.poll() == 3


def test_one_that_does_not_end_is_killed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(down, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(down, "PATIENCE_SECONDS", 0.05)
    server = start(1000)
    assert down.stop(Home(tmp_path), server.pid)
    assert server.poll() == -9
    told = capsys.readouterr().err
    assert f"kill -9 {server.pid}, its jobs go on" in told, "the user has read what is safe before"
    assert f"process {server.pid} does not end: killing it" in told


def test_systemd_does_not_start_a_killed_server_again(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    unit = service.make_unit("user", Home(tmp_path), service.find_account(os.getuid()))
    unit.path.parent.mkdir(parents=True)
    unit.path.write_text(HEADER)
    calls = tmp_path / "calls"
    calls.touch()
    for seconds, patience, expected in ((0, 60.0, ""), (1000, 0.1, f"--user stop {unit.name}\n")):
        monkeypatch.setattr(down, "QUIET_SECONDS", 0.05)
        monkeypatch.setattr(down, "PATIENCE_SECONDS", patience)
        start(seconds)
        assert CliRunner().invoke(cli, ["down", "--data", str(tmp_path)]).stdout == "stopped\n"
        assert calls.read_text() == expected


def test_one_that_has_just_ended_is_no_error(start: Start, tmp_path: Path) -> None:
    server = start(0)
    server.kill()
    server.wait()
    down.stop(Home(tmp_path), server.pid)


def test_a_process_that_does_not_hold_the_directory_is_left_alone(start: Start, tmp_path: Path) -> None:
    server = start(0)
    (tmp_path / "other").mkdir()
    down.stop(Home(tmp_path / "other"), server.pid)
    assert server.poll() is None


@pytest.mark.parametrize(
    ("names", "pods", "text"),
    [
        ([], 0, "nothing runs"),
        (["a"], 1, "1 pod of 1 job ends: a"),
        (["a", "b"], 3, "3 pods of 2 jobs end: a, b"),
        (list("abcdefg"), 7, "7 pods of 7 jobs end: a, b, c, d, e and 2 more"),
    ],
)
def test_what_ends_is_said(names: list[str], pods: int, text: str) -> None:
    assert down.describe_ends(names, pods) == text
