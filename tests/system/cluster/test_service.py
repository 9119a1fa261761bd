"""A service from its installation to its removal, with a real server and a small stand-in for systemd."""

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.systemd import install_stand_in

from muster.actions.server import service
from muster.actions.server.home import Home
from muster.actions.server.serveroptions import read_options
from muster.cli.main import cli
from muster.cluster.nodes.disk.leftovers import reap


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with all that the machine has: a home, and systemd."""
    install_stand_in(tmp_path)
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(service, "BOOTED", tmp_path)
    for name in ("MUSTER_HOME", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    home = Home(tmp_path / "home/.muster")
    if home.server_pid() is not None:
        muster("down", "--yes")
    reap(home.path)


def muster(*words: str) -> Result:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done


@pytest.fixture
def manager(machine: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """What hears for systemd that a server serves."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(machine / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(machine / "notify"))
        manager.settimeout(60)
        yield manager


def test_the_life_of_a_service(machine: Path, manager: socket.socket) -> None:
    home = Home(machine / "home/.muster")
    unit = machine / "home/.config/systemd/user/muster.service"
    installed = muster("service", "install", "--port", "0", "--nodes", "process:2,cpu=1").stdout
    first = home.server_pid()
    assert installed.startswith(f"installed {unit}\nready: https://127.0.0.1:")
    assert f", process {first}, of muster.service\n" in installed
    assert manager.recv(100) == b"READY=1"
    assert "ends, with its jobs, at your last logout; to prevent both: loginctl enable-linger" in installed
    assert muster("service", "status").stdout.startswith(f"{unit}: active, enabled\n")
    mark = machine / "go"
    muster("run", "--detach", "--name", "j", "--", "sh", "-c", f"while [ ! -e {mark} ]; do sleep 0.1; done")
    while "1/1" not in muster("ps").stdout:
        time.sleep(0.3)

    restarted = muster("restart", "--nodes", "process:3,cpu=1").stdout
    second = home.server_pid()
    assert second not in (None, first)
    assert f", process {second}, of muster.service\n" in restarted
    assert manager.recv(100) == b"READY=1"
    assert (machine / "main").read_text() == f"{second}\n"
    assert read_options(home).nodes == ("process:3,cpu=1",)
    mark.touch()
    muster("wait", "j")

    again = CliRunner().invoke(cli, ["service", "install", "--nodes", "simulated"])
    assert "--nodes process:3,cpu=1, not --nodes simulated" in str(again.exception)
    unit.write_text(unit.read_text().replace("Type=notify", "Type=exec"))  # as earlier releases wrote
    outdated = f"{unit} is not what this release writes; write it again: muster service install\n"
    assert muster("status").stdout.splitlines(keepends=True)[1] == f"service  {outdated}"
    assert muster("service", "status").stdout.endswith(outdated)
    assert f"process {second} serves already" in muster("service", "install").stdout
    assert "is not what" not in muster("status").stdout + muster("service", "status").stdout
    refused = CliRunner().invoke(cli, ["service", "remove"])
    assert str(refused.exception) == "the unit's server runs: `muster down` first"
    assert (home.server_pid(), unit.exists()) == (second, True)
    muster("down")
    assert home.server_pid() is None
    while (machine / "main").exists():  # a server that was asked to stop is not started again
        time.sleep(0.1)
    muster("service", "remove")
    assert (unit.exists(), (machine / "enabled").exists()) == (False, False)
