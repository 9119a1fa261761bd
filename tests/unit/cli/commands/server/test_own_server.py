"""What `up`, `restart` and `down` say to a user of a machine whose system server is root's."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from muster.actions.errors import UserError
from muster.cli.commands.server import up
from muster.cli.main import cli


@pytest.fixture(autouse=True)
def system_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MUSTER_SOCKET", str(tmp_path / "m.sock"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "m.sock"))
        listener.listen()
        yield tmp_path


def test_restart_starts_no_server_beside_it(system_server: Path) -> None:
    done = CliRunner().invoke(cli, ["restart"])
    assert isinstance(done.exception, UserError)
    assert str(done.exception) == (
        f"nothing runs in {system_server}/home; the server of this machine is root's: sudo muster restart"
    )
    assert not (system_server / "home").exists()


def test_down_says_whose_server_goes_on(system_server: Path) -> None:
    done = CliRunner().invoke(cli, ["down"])
    assert done.exit_code == 0
    assert done.stdout == f"not running ({system_server}/home)\n"
    assert done.stderr == "the server of this machine is root's: sudo muster down\n"


def test_up_says_that_commands_now_go_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "start_detached", lambda home, options: None)
    done = CliRunner().invoke(cli, ["up", "--detach"])
    assert done.exit_code == 0
    assert done.stderr.startswith("root runs a server for all users of this machine; your commands go to a server of")


def test_up_says_nothing_of_it_where_it_starts_a_system_server(
    system_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "start_detached", lambda home, options: None)
    done = CliRunner().invoke(cli, ["up", "--detach", "--socket", str(system_server / "m.sock")])
    assert (done.exit_code, done.stderr) == (0, "")
