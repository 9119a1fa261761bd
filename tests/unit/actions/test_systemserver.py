"""Which server of the machine a command takes for root's."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.systemserver import connect_locally, describe_silence, find_socket, has_server

ROOT = os.geteuid() == 0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "m.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield path


def test_a_socket_is_found_while_somebody_listens(served: Path) -> None:
    assert find_socket({"MUSTER_SOCKET": str(served)}) == served
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{served}.dead")
    assert find_socket({"MUSTER_SOCKET": f"{served}.dead"}) is None
    assert find_socket({"MUSTER_SOCKET": f"{served}.missing"}) is None


def test_a_server_that_does_not_answer_is_still_that_of_the_machine(served: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{served}.dead")
    silent, missing = {"MUSTER_SOCKET": f"{served}.dead"}, {"MUSTER_SOCKET": f"{served}.missing"}
    assert has_server(silent)
    assert "does not answer at" in describe_silence(silent)
    assert has_server(missing)
    assert describe_silence(missing).startswith(f"MUSTER_SOCKET names {served}.missing, and no server is there")


def test_without_a_socket_the_machine_has_no_server(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.actions.systemserver.SYSTEM_SOCKET", f"{served}.missing")
    assert not has_server({})
    monkeypatch.setattr("muster.actions.systemserver.SYSTEM_SOCKET", str(served))
    assert has_server({})


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is no socket of root"):
        find_socket({"MUSTER_SOCKET": str(tmp_path / "file")})


@pytest.mark.skipif(not ROOT, reason="only the superuser can give a socket away")
def test_the_socket_of_another_user_is_not_trusted(served: Path) -> None:
    os.chown(served, 65534, 65534)
    with pytest.raises(UserError, match="is no socket of root"):
        find_socket({"MUSTER_SOCKET": str(served)})


def test_a_socket_in_a_directory_of_others_is_not_trusted(served: Path) -> None:
    served.parent.chmod(0o777)
    with pytest.raises(UserError, match="may be changed by others"):
        find_socket({"MUSTER_SOCKET": str(served)})


def test_a_connection_has_no_credential(served: Path) -> None:
    config = connect_locally(served)
    assert (config.cluster.local_socket, config.user.token) == (str(served), "")
    assert config.namespace == ("default" if ROOT else config.namespace)
