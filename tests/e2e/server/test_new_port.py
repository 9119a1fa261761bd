"""A server that is started again with `--port 0` has its old port if it can. Commands find it on another one, too."""

import os
import signal
import socket
import time
from contextlib import ExitStack

from muster.actions.following.follow import PROBE_SECONDS
from muster.actions.server.home import Home
from muster.cluster.entrance import find_last_port


def take_port(port: int) -> socket.socket:
    """Return a socket of another program on the port, once it is free."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(("127.0.0.1", port))
    taken.listen()
    return taken


def test_a_server_keeps_the_port_that_it_was_given(muster):
    muster("up", "--detach", "--port", "0")
    home = Home(muster.home)
    before, port = home.kubeconfig.read_text(), find_last_port(home.path)
    pid = home.server_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    while home.server_pid() is not None:
        time.sleep(0.05)
    muster("up", "--detach")
    assert (home.kubeconfig.read_text(), find_last_port(home.path)) == (before, port)
    muster("restart")
    assert home.kubeconfig.read_text() == before
    muster("down")
    with take_port(port):
        muster("up", "--detach", "--port", "0")
        assert find_last_port(home.path) not in (0, port)


def test_a_follower_finds_the_restarted_server_after_each_outage(muster):
    muster("up", "--detach", "--port", "0")
    home = Home(muster.home)
    mark = muster.home / "go"
    script = f"echo here; while [ ! -e {mark} ]; do sleep 0.1; done; echo done"
    job = muster.start("run", "--", "sh", "-c", script)
    assert job.stdout.readline() == "here\n"
    with ExitStack() as others:
        find_it_twice(muster, home, job, others)
    mark.touch()
    assert job.communicate(timeout=60)[0] == "done\n"
    assert job.returncode == 0


def find_it_twice(muster, home, job, others):
    for _ in range(2):
        before = home.kubeconfig.read_text()
        pid = home.server_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while "the server does not answer; trying for 30 s" not in (line := job.stderr.readline()):
            assert line, "the follower has left"
        while home.server_pid() is not None:
            time.sleep(0.05)
        others.enter_context(take_port(find_last_port(home.path)))
        muster("up", "--detach", "--port", "0")
        assert home.kubeconfig.read_text() != before
        time.sleep(2 * PROBE_SECONDS)  # the follower probes the server and knows that it is back
