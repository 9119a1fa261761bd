"""Where a system server's socket may lie."""

import os
import socket
from pathlib import Path

import pytest

from muster.cluster.apiserver.front.acceptor import peer_of
from muster.cluster.apiserver.front.listener import AddressTaken, AddressUnusable
from muster.cluster.localsocket import bind_local, identify_file, remove_local


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir(mode=0o755)
    return tmp_path / "run" / "muster.sock"


def test_everybody_may_connect_and_the_kernel_says_who_does(place: Path) -> None:
    with bind_local(place) as listener, socket.socket(socket.AF_UNIX) as client:
        assert place.stat().st_mode & 0o777 == 0o666
        listener.listen()
        client.connect(str(place))
        with listener.accept()[0] as accepted:
            assert peer_of(accepted) == os.geteuid()


def test_a_socket_of_the_network_has_no_peer() -> None:
    with socket.socket(socket.AF_INET) as other:
        assert peer_of(other) is None


def test_the_socket_of_a_dead_server_is_replaced_and_a_living_one_is_not(place: Path) -> None:
    bind_local(place).close()
    with bind_local(place) as listener:
        listener.listen()
        with pytest.raises(AddressTaken, match="another process listens on"):
            bind_local(place)


def test_a_server_that_ends_removes_its_socket_and_no_other(place: Path) -> None:
    bind_local(place).close()
    former = identify_file(place)
    with bind_local(place):
        remove_local(place, former)
        assert place.is_socket()
        remove_local(place, identify_file(place))
        assert not place.exists()


def test_a_socket_that_is_gone_already_is_no_failure(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    remove_local(place, (0, 0))
    assert not caplog.records


def test_nothing_else_is_replaced(place: Path) -> None:
    place.write_text("precious")
    with pytest.raises(AddressUnusable, match="it is no socket"):
        bind_local(place)
    assert place.read_text() == "precious"


def test_a_directory_that_others_can_change_is_refused(place: Path) -> None:
    place.parent.chmod(0o1777)
    with pytest.raises(AddressUnusable, match="other users can change"):
        bind_local(place)
    assert not place.exists()
    place.parent.chmod(0o777)
    with pytest.raises(AddressUnusable, match="may be changed by others"):
        bind_local(place / "deeper" / "muster.sock")


def test_a_path_that_is_too_long_is_one_line(place: Path) -> None:
    with pytest.raises(AddressUnusable, match=r"cannot listen on .*too long"):
        bind_local(place.with_name("x" * 120))
