"""Which cluster a command means."""

import socket
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.actions.server.session import Target, find_connection, find_unused_home, has_cluster
from muster.cluster.store.directory import DataDirectory


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("MUSTER_HOME", str(tmp_path / "home"))
    return tmp_path


def test_no_job_runs_beside_a_system_server_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(home / "m.sock"))
    monkeypatch.setenv("MUSTER_SOCKET", str(home / "m.sock"))
    assert has_cluster(Target())
    with pytest.raises(UserError, match=r"the server of this machine does not answer at .*m\.sock"):
        find_connection(Target())


def test_without_any_server_there_is_no_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_SOCKET", raising=False)
    monkeypatch.setattr("muster.actions.server.systemserver.SYSTEM_SOCKET", str(home / "missing.sock"))
    assert not has_cluster(Target())
    with pytest.raises(UserError, match="no cluster: nothing runs in"):
        find_connection(Target())


def test_a_server_whose_kubeconfig_was_removed_writes_it_again(home: Path) -> None:
    running = DataDirectory(home / "home")
    assert has_cluster(Target())
    with pytest.raises(UserError, match=r"kubeconfig does not exist: .* If it was removed: muster restart"):
        find_connection(Target())
    running.release()


def test_a_kubeconfig_in_the_environment_leaves_an_explicit_home_unused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Home(home / "home")
    assert find_unused_home(Target(), own) is None
    monkeypatch.setenv("KUBECONFIG", str(own.kubeconfig))
    assert find_unused_home(Target(), own) is None
    monkeypatch.setenv("KUBECONFIG", str(home / "other"))
    assert find_unused_home(Target(), own) == own.path
    assert find_unused_home(Target(kubeconfig=str(home / "third")), own) is None
    monkeypatch.delenv("MUSTER_HOME")
    assert find_unused_home(Target(), own) is None
