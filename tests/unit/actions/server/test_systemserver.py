"""Which server of the machine a command takes for root's."""

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.server.systemserver import connect_locally, describe_silence, find_socket, has_server

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
    monkeypatch.setattr("muster.actions.server.systemserver.SYSTEM_SOCKET", f"{served}.missing")
    assert not has_server({})
    monkeypatch.setattr("muster.actions.server.systemserver.SYSTEM_SOCKET", str(served))
    assert has_server({})


@pytest.mark.skipif(not ROOT, reason="only the superuser can act as another user")
@pytest.mark.parametrize("closed", ["m.sock", "."])
def test_a_server_that_is_closed_to_the_user_is_still_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    """Otherwise the user's jobs would run beside the queues of the machine."""
    with tempfile.TemporaryDirectory(dir="/run") as directory, socket.socket(socket.AF_UNIX) as listener:
        path = Path(directory) / "m.sock"
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o666)
        path.parent.chmod(0o755)
        (path.parent / closed).chmod(0o700)
        monkeypatch.setattr("muster.actions.server.systemserver.SYSTEM_SOCKET", str(path))
        assert find_socket({}) == path
        try:
            os.seteuid(65534)
            assert find_socket({}) is None
            assert has_server({})
            assert describe_silence({}).startswith("the server of this machine is closed to you")
            if closed == ".":  # whose socket is there cannot be seen
                with pytest.raises(UserError, match="the server of this machine is closed to you"):
                    find_socket({"MUSTER_SOCKET": str(path)})
        finally:
            os.seteuid(0)


def test_a_file_is_no_socket(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is no socket of root"):
        find_socket({"MUSTER_SOCKET": str(tmp_path / "file")})


@pytest.mark.skipif(not ROOT, reason="only the superuser can give a socket away")
def test_the_socket_of_another_user_is_not_trusted(served: Path) -> None:
    os.chown(served, 65534, 65534)
    with pytest.raises(UserError, match="is no socket of root"):
        find_socket({"MUSTER_SOCKET": str(served)})


@pytest.mark.skipif(not ROOT, reason="only the superuser can give a socket away")
def test_in_a_job_the_socket_of_root_belongs_to_nobody(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a job that submits jobs would run them beside the queues of the machine."""
    monkeypatch.setattr("muster.runtime.process.ownership._is_in_user_namespace", lambda: True)
    os.chown(served, 65534, 65534)
    assert find_socket({"MUSTER_SOCKET": str(served)}) == served
    os.chown(served, 54321, 54321)
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
