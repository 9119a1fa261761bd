"""A cluster starts again as it was, under a new server: by `muster restart`, and by a bare `muster up`."""

import json
import os
import socket
import time

import pytest
from tests.e2e.terminals import terminal

from muster.actions.server.home import Home

pytestmark = pytest.mark.timeout(240)


def wait_until_running(muster, name):
    while {row["name"]: row["state"] for row in json.loads(muster("ps", "-o", "json").stdout)}[name] != "Running":
        time.sleep(0.3)


def nodes(muster):
    return [row.split()[0] for row in muster("top").stdout.splitlines() if row.startswith(("node-", "sim-"))]


def test_jobs_go_on_under_the_new_server(muster, tmp_path):
    muster("up", "--detach", "--port", "0", "--nodes", "process:2,cpu=1")
    before = Home(muster.home).server_pid()
    mark, starts = tmp_path / "go", tmp_path / "starts"
    script = f"echo x >> {starts}; while [ ! -e {mark} ]; do sleep 0.1; done; echo done"
    muster("run", "--detach", "--name", "survivor", "--", "sh", "-c", script)
    wait_until_running(muster, "survivor")
    done = muster("restart")
    assert f"replacing process {before}; its jobs continue" in done.stderr
    assert done.stdout.startswith("ready: https://127.0.0.1:")
    assert Home(muster.home).server_pid() not in (None, before)
    assert nodes(muster) == ["node-0", "node-1"]
    mark.touch()
    assert muster("wait", "survivor").returncode == 0
    assert muster("logs", "survivor").stdout == "done\n"
    assert starts.read_text() == "x\n"


def test_what_was_simulated_stays_simulated_until_the_user_says_otherwise(muster, tmp_path):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:2")
    touched = tmp_path / "touched"
    muster("run", "--detach", "--name", "played", "--run-time", "1h", "--", "touch", str(touched))
    wait_until_running(muster, "played")
    muster("down")
    again = muster("up", "--detach")
    assert again.stderr == "as at the last start: --port 0 --nodes simulated:2\n"
    wait_until_running(muster, "played")
    assert nodes(muster) == ["sim-0", "sim-1"]
    refused = muster("up", "--nodes", "process", check=False)
    assert refused.returncode == 1
    assert refused.stdout.startswith("already running: ")
    assert refused.stderr == (
        "Error: the server has other options: --nodes simulated:2, not --nodes process. "
        "`muster restart` with your options changes them, and running jobs continue\n"
    )
    assert not touched.exists()
    muster("restart", "--nodes", "simulated:3")
    assert nodes(muster) == ["sim-0", "sim-1", "sim-2"]
    assert muster("up").stderr == ""


def test_a_restart_that_cannot_succeed_leaves_the_server_alone(up, tmp_path):
    before = Home(up.home).server_pid()
    for words, problem in ((["--config", f"{tmp_path}/missing"], "No such file"), (["--nodes", "kubelet"], "kubelet")):
        refused = up("restart", *words, check=False)
        assert refused.returncode == 2
        assert problem in refused.stderr
    assert Home(up.home).server_pid() == before


def test_a_server_whose_store_is_damaged_is_not_ended(muster, tmp_path):
    muster("up", "--detach", "--port", "0", "--nodes", "process")
    before = Home(muster.home).server_pid()
    muster("run", "--detach", "--name", "survivor", "--", "sleep", "1000")
    wait_until_running(muster, "survivor")
    with (muster.home / "store.db").open("r+b") as file:
        file.write(b"\xff" * 40_000)
    refused = muster("restart", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"Error: the store in {muster.home} is damaged: ")
    assert refused.stderr.endswith("`muster backup FILE`, then `muster down` and `muster restore --force FILE`\n")
    assert Home(muster.home).server_pid() == before
    for words in (["backup", f"{tmp_path}/backup"], ["down"], ["restore", "--force", f"{tmp_path}/backup"]):
        muster(*words)
    muster("up", "--detach")
    wait_until_running(muster, "survivor")


def test_a_server_that_remembers_no_options_is_not_restarted_with_defaults(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:2")
    before = Home(muster.home).server_pid()
    (muster.home / "up.json").unlink()
    refused = muster("restart", check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "Error: the running server's release remembers no options: give all that it had, with --forget\n"
    )
    assert Home(muster.home).server_pid() == before
    muster("restart", "--forget", "--port", "0", "--nodes", "simulated:2")
    assert nodes(muster) == ["sim-0", "sim-1"]


def test_a_user_at_a_terminal_is_asked_before_a_restart_ends_jobs(up):
    before = Home(up.home).server_pid()
    with terminal(columns=200) as shell, terminal(columns=200) as tty:
        inside = shell.start(up.command, "shell", "--name", "box", env=up.env())
        shell.reads(b"box: running")
        for words, ending in (
            ([], b"1 pod of 1 job ends: box ("),
            (["--nodes", "process,cpu=1"], b"unless they fit on the new nodes, 1 pod of 1 job ends: box ("),
        ):
            asking = tty.start(up.command, "restart", *words, env=up.env())
            assert tty.reads(ending).endswith(ending)
            tty.reads(b"); continue? [y/N]: ")
            tty.press(b"n\n")
            tty.reads(b"nothing was done")
            assert asking.wait(timeout=60) == 1
        shell.press(b"exit 5\n")
        assert inside.wait(timeout=60) == 5
        up("run", "--detach", "--name", "mine", "--", "sleep", "1000")
        wait_until_running(up, "mine")
        asking = tty.start(up.command, "restart", "--nodes", "process,cpu=1", env=up.env())
        tty.reads(b"unless they fit on the new nodes, 1 pod of 1 job ends: mine (")
        tty.press(b"n\n")
        assert asking.wait(timeout=60) == 1
    assert Home(up.home).server_pid() == before


def test_after_a_restart_that_fails_a_bare_start_has_the_former_options(up):
    before = Home(up.home).server_pid()
    with socket.create_server(("127.0.0.1", 0)) as other:
        failed = up("restart", "--port", str(other.getsockname()[1]), check=False)
    assert failed.returncode == 1
    assert "is taken by another process" in failed.stderr
    assert (
        f"The jobs of process {before} continue; `muster up --detach` starts a server with the same options"
        in failed.stderr
    )
    assert up("up", "--detach").stderr == "as at the last start: --port 0\n"


def test_a_restart_starts_a_server_where_none_runs(muster):
    assert muster("restart", "--port", "0").stdout.startswith("ready: ")
    assert muster("status").returncode == 0


@pytest.mark.parametrize("command", [["up", "--detach"], ["up"], ["restart"]])
def test_remembered_words_that_nobody_knows_are_one_clear_line(muster, command):
    muster.home.mkdir(mode=0o700)
    options = muster.home / "up.json"
    options.write_text('{"nodez": ["process"]}')
    options.chmod(0o600)
    refused = muster(*command, check=False)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        f"Error: {options} does not hold options of this release (Object contains unknown field `nodez`): "
        "give the options again, with --forget\n"
    )
    assert os.listdir(muster.home) == ["up.json"]


def test_a_user_at_a_terminal_is_asked_before_jobs_end(up):
    up("run", "--detach", "--name", "mine", "--", "sleep", "1000")
    wait_until_running(up, "mine")
    with terminal(columns=200) as tty:
        for keys, code, words in ((b"n\n", 1, b"nothing was done"), (b"y\n", 0, b"stopped")):
            asking = tty.start(up.command, "down", env=up.env())
            tty.reads(b"1 pod of 1 job ends: mine (")
            tty.reads(b"); continue? [y/N]: ")
            tty.press(keys)
            tty.reads(words)
            assert asking.wait(timeout=60) == code
        up("restart")
        wait_until_running(up, "mine")
        stopping = tty.start(up.command, "down", "--yes", env=up.env())
        tty.reads(b"stopped")
        assert stopping.wait(timeout=60) == 0
