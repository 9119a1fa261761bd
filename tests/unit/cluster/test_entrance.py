"""Who comes in by the socket of a home."""

import asyncio
import json
import os
import socket
from pathlib import Path

import pytest

from muster.api.status import ApiError
from muster.cluster.apiserver.front.listener import AddressUnusable
from muster.cluster.apiserver.identity.users import ADMIN
from muster.cluster.entrance import bind_in_home, find_free_port, find_owner
from muster.cluster.exposure import parse
from muster.runtime.clock import RealClock


def test_the_owner_is_the_administrator_and_nobody_else_is() -> None:
    assert asyncio.run(find_owner(os.geteuid())) == ADMIN
    with pytest.raises(ApiError, match=r"serves the user with the id \d+ alone") as refused:
        asyncio.run(find_owner(os.geteuid() + 1))
    assert refused.value.code == 403


def test_only_the_owner_may_connect(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    local = bind_in_home(tmp_path)
    assert local is not None
    assert local.path.stat().st_mode & 0o777 == 0o600
    local.close()
    assert not local.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
def test_a_socket_of_another_user_in_the_home_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "server.sock"))
        os.chown(tmp_path / "server.sock", 12345, 12345)
        with pytest.raises(AddressUnusable, match="is a socket of the user with the id 12345"):
            bind_in_home(tmp_path)


def test_a_home_that_can_have_no_socket_has_none(tmp_path: Path) -> None:
    home = tmp_path / ("long" * 30)
    home.mkdir(mode=0o700)
    assert bind_in_home(home) is None
    open_to_others = tmp_path / "open"
    open_to_others.mkdir()
    open_to_others.chmod(0o777)
    assert bind_in_home(open_to_others) is None


def test_a_last_port_that_is_taken_on_another_address_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        server = {"name": "muster", "cluster": {"server": f"https://127.0.0.1:{port}"}}
        context = {"name": "muster", "context": {"cluster": "muster", "user": ""}}
        config = {"clusters": [server], "contexts": [context], "current-context": "muster"}
        (tmp_path / "kubeconfig").write_text(json.dumps(config))
        alone, both = parse([]), parse(["127.0.0.2"])
        assert asyncio.run(find_free_port(tmp_path, alone, RealClock())) == port
        assert asyncio.run(find_free_port(tmp_path, both, RealClock())) == 0
