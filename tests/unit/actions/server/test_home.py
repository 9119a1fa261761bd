"""Which cluster the home of a user names."""

import os
import re
import socket
import time
from pathlib import Path

import pytest

from muster.actions.errors import UserError
from muster.actions.server.home import Home
from muster.api.ours.writtenconfig import add_mark
from muster.runtime.process import filelock


@pytest.mark.parametrize(
    ("stored", "started", "uses_login"),
    [
        pytest.param(None, None, False, id="nothing"),
        pytest.param(1, None, True, id="a login alone"),
        pytest.param(2, 1, True, id="a login after the last server"),
        pytest.param(1, 2, False, id="a server after the login, which is down"),
        pytest.param(None, 1, False, id="a server that is down"),
    ],
)
def test_the_newer_of_login_and_server_is_meant(tmp_path, stored, started, uses_login):
    home = Home(tmp_path)
    for path, seconds in ((home.login, stored), (home.options, started)):
        if seconds is not None:
            path.touch(mode=0o600)
            os.utime(path, (seconds, seconds))
    assert home.uses_login() is uses_login


def test_a_home_that_cannot_be_used_is_refused_with_advice(tmp_path):
    (tmp_path / "file").touch()
    home = Home.find({"HOME": str(tmp_path / "file")})
    text = f"cannot use {home.path}: Not a directory; choose another place with MUSTER_HOME or --data"
    for use in (home.make, home.server_pid):
        with pytest.raises(UserError, match=f"^{re.escape(text)}$"):
            use()


def test_a_home_that_cannot_be_read_has_no_login_and_its_check_says_why(tmp_path):
    (tmp_path / "file").touch()
    home = Home(tmp_path / "file")
    assert not home.uses_login()
    with pytest.raises(UserError, match="Not a directory; choose another place"):
        home.server_pid()


def test_the_socket_counts_while_the_kubeconfig_is_as_it_was_written(tmp_path):
    home = Home(tmp_path)
    assert not home.is_reached_by_socket()
    home.kubeconfig.write_bytes(add_mark(b"kind: Config\n"))
    assert not home.is_reached_by_socket()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
    assert home.is_reached_by_socket()
    if os.geteuid() == 0:
        os.chown(home.socket, 12345, 12345)
        assert not home.is_reached_by_socket(), "another user has put it there"
        os.chown(home.socket, 0, 0)
    home.kubeconfig.write_bytes(add_mark(b"kind: Config\n").replace(b"Config", b"Confih"))
    assert not home.is_reached_by_socket()


def test_a_server_whose_process_cannot_be_seen_from_a_pod_is_named_without_a_wait(tmp_path, monkeypatch):
    """A pod has a PID namespace of its own, in which /proc does not show the server."""
    unseen = Path("/proc/sys/kernel/pid_max").read_text().strip()  # no process has this id
    naps: list[float] = []
    monkeypatch.setattr(time, "sleep", naps.append)
    with (tmp_path / "lock").open("w") as lock:
        filelock.take(lock.fileno())
        lock.write(unseen)
        lock.flush()
        os.chmod(tmp_path / "lock", 0o600)
        assert (Home(tmp_path).server_pid(), naps) == (int(unseen), [])
