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
from muster.cli.commands.server import down
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
    down.stop(Home(tmp_path), server.pid)
    assert server.poll() == 3


def test_one_that_does_not_end_is_killed(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(down, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(down, "PATIENCE_SECONDS", 0.05)
    server = start(1000)
    down.stop(Home(tmp_path), server.pid)
    assert server.poll() == -9
    told = capsys.readouterr().err
    assert f"kill -9 {server.pid}, its jobs continue" in told, "the user has read what is safe before"
    assert f"process {server.pid} does not end: killing it" in told


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory whose file `state` is the state of the unit, and which gets `stopped` once the unit is stopped."""
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "systemctl").write_text(
        f'#!/bin/sh\ncase "$*" in\n*ActiveState*) cat {tmp_path}/state;;\n*) echo "$@" > {tmp_path}/stopped;;\nesac\n'
    )
    (tmp_path / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    unit = service.make_unit("user", Home(tmp_path), service.find_account(os.getuid()))
    unit.path.parent.mkdir(parents=True)
    unit.path.write_text(HEADER)
    return tmp_path


@pytest.mark.parametrize("state", ["inactive", "failed", "activating"])
@pytest.mark.parametrize("runs", [True, False])
def test_systemd_does_not_start_a_server_again_that_failed_or_was_killed(
    start: Start, systemd: Path, state: str, runs: bool
) -> None:
    """Between two starts of a server that fails again and again, no server runs."""
    (systemd / "state").write_text(state)
    unit = service.make_unit("user", Home(systemd), service.find_account(os.getuid()))
    if runs:
        start(0)
    told = CliRunner().invoke(cli, ["down", "--data", str(systemd)]).stdout
    assert (systemd / "stopped").exists() == (state == "activating")
    if state == "activating":
        assert (systemd / "stopped").read_text() == f"--user stop {unit.name}\n"
    if runs:
        assert told == "stopped\n"
    elif state == "activating":
        assert told == f"stopped {unit.name}, which was about to start the server\n"
    else:
        assert told == f"not running ({systemd})\n"


@pytest.mark.parametrize("runs", [True, False])
def test_a_systemd_that_cannot_be_asked_is_a_warning(start: Start, systemd: Path, runs: bool) -> None:
    """As in the shell of `su`, which does not reach the user's systemd."""
    (systemd / "systemctl").write_text("#!/bin/sh\necho Failed to connect to bus >&2\nexit 1\n")
    if runs:
        start(0)
    result = CliRunner().invoke(cli, ["down", "--data", str(systemd)])
    assert result.stdout == ("stopped\n" if runs else f"not running ({systemd})\n")
    assert "systemd does not say whether it starts the server again: systemctl --user show" in result.stderr
    assert result.exit_code == 0


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
