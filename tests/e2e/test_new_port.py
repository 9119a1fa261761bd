"""A server that is started again with `--port 0` has another port, and commands that were under way go on with it."""

import os
import signal
import time

from muster.actions.following.follow import PROBE_SECONDS
from muster.actions.home import Home


def test_a_follower_finds_the_restarted_server_after_each_outage(muster):
    muster("up", "--detach", "--port", "0")
    home = Home(muster.home)
    mark = muster.home / "go"
    script = f"echo here; while [ ! -e {mark} ]; do sleep 0.1; done; echo done"
    job = muster.start("run", "--", "sh", "-c", script)
    assert job.stdout.readline() == "here\n"
    for _ in range(2):
        before = home.kubeconfig.read_text()
        pid = home.server_pid()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while "the server does not answer; trying for 30 s" not in (line := job.stderr.readline()):
            assert line, "the follower has left"
        while home.server_pid() is not None:
            time.sleep(0.05)
        muster("up", "--detach", "--port", "0")
        assert home.kubeconfig.read_text() != before
        time.sleep(2 * PROBE_SECONDS)  # the follower probes the server and knows that it is back
    mark.touch()
    assert job.communicate(timeout=60)[0] == "done\n"
    assert job.returncode == 0
