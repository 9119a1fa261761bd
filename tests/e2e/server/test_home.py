"""A home that is not the user's alone: nothing in it is believed, and what to do is said."""

import os
import socket
import subprocess
import sys

import pytest
from tests.e2e.conftest import Muster
from tests.e2e.terminals import PATIENCE, terminal

# Holds the directory as a server does.
HOLD = """
import pathlib, signal, sys
from muster.cluster.store.directory import DataDirectory
held = DataDirectory(pathlib.Path(sys.argv[1]))
print("ready", flush=True)
signal.pause()
"""

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: trap
contexts: [{{name: trap, context: {{cluster: trap, user: trap}}}}]
clusters: [{{name: trap, cluster: {{server: "https://127.0.0.1:{port}"}}}}]
users: [{{name: trap, user: {{exec: {{
  apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["{touched}"], interactiveMode: Never}}}}}}]
"""

COMMANDS = [
    ["ps"],
    ["status"],
    ["up", "--port", "0"],
    ["up", "--detach", "--port", "0"],
    ["down"],
    ["restart"],
    ["run", "--", "true"],
    ["run", "--detach", "--", "true"],
    ["logs", "j"],
    ["cancel", "j"],
    ["queue", "list"],
    ["apply", "-f", "examples/jobs/indexed.yaml"],
]


@pytest.fixture
def trap(muster, tmp_path):
    """A home that somebody has laid out: a kubeconfig, and a process that seems to be the server."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        holder = subprocess.Popen([sys.executable, "-c", HOLD, str(muster.home)], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        text = KUBECONFIG.format(port=listener.getsockname()[1], touched=tmp_path / "touched")
        (muster.home / "kubeconfig").write_text(text)
        (muster.home / "kubeconfig").chmod(0o600)
        yield muster
        os.chown(muster.home, os.geteuid(), -1)
        muster.home.chmod(0o700)
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert not (tmp_path / "touched").exists()
        assert holder.poll() is None
        holder.kill()
        holder.communicate()


def refused(muster, message):
    for command in COMMANDS:
        done = muster(*command, check=False)
        assert done.returncode == 1, command
        assert done.stdout == "", command
        assert message in done.stderr, command
        assert done.stderr.count("\n") == 1, command


@pytest.mark.timeout(240)
@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can give a directory away")
def test_a_home_of_somebody_else(trap):
    os.chown(trap.home, 54321, -1)
    refused(trap, f"{trap.home} belongs to user 54321")


@pytest.mark.timeout(240)
def test_a_home_that_others_can_change(trap):
    trap.home.chmod(0o777)
    refused(trap, f"chmod 700 {trap.home}")


@pytest.mark.parametrize(
    "secret", ["kubeconfig", "store.db", "pki/ca.pem", "pki/admin.token", "server.log", "lock", "up.json"]
)
def test_a_secret_that_others_may_read_is_not_used_on(muster, secret):
    muster("up", "--detach", "--port", "0")
    muster("down")
    (muster.home / secret).chmod(0o644)
    done = muster("up", "--detach", "--port", "0", check=False)
    assert done.returncode == 1
    assert f"chmod 600 {muster.home / secret}" in done.stderr
    assert done.stderr.count("\n") == 1


def test_no_home_to_be_found(muster):
    unnamed = "import pwd; pwd.getpwuid = {}.__getitem__; from muster.cli.main import main; main(['ps'])"
    done = subprocess.run(
        [sys.executable, "-c", unnamed],
        env=muster.env() | {"MUSTER_HOME": "", "HOME": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == "Error: HOME is not set; name a home with MUSTER_HOME or --data\n"


@pytest.mark.parametrize("named", ["~nobody-of-that-name/x", "relative"])
def test_a_home_that_means_nothing(muster, named, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    line = f"cd {gone} && rmdir {gone} && exec {muster.command} ps"
    done = subprocess.run(
        ["sh", "-c", line],
        env=muster.env() | {"MUSTER_HOME": named},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {named}: ")
    assert done.stderr.endswith("; name a home with MUSTER_HOME or --data\n")


@pytest.mark.timeout(240)
def test_a_command_says_that_a_kubeconfig_takes_precedence_over_an_explicit_home(shared_up, tmp_path):
    """Whoever set both may mean either: the command names the cluster where it finds nothing, and on a terminal."""
    other = tmp_path / "other"
    environment = {"MUSTER_HOME": str(other), "KUBECONFIG": str(shared_up.home / "kubeconfig")}
    users = Muster(shared_up.home, environment)
    remark = f"because KUBECONFIG takes precedence over MUSTER_HOME; for the cluster of {other}, unset KUBECONFIG\n"
    for command in (["ps"], ["history"], ["why", "train"], ["logs", "train"], ["ps", "train"]):
        done = users(*command, check=False)
        assert "cluster: https://127.0.0.1:" in done.stderr, command
        assert done.stderr.count(remark) == 1, command
    assert "cluster:" not in users("queue", "list").stderr
    done = users("run", "--name", "train", "--", "true")
    assert done.stderr.count(remark) == 1
    assert "cluster:" not in users("ps").stderr

    with terminal() as screen:
        running = screen.start(users.command, "ps", env=users.env())
        assert b"cluster: https://127.0.0.1:" in screen.reads(b"unset KUBECONFIG")
        screen.reads(b"train")
        assert running.wait(PATIENCE) == 0
    with terminal() as screen:
        running = screen.start(users.command, "ps", "--kubeconfig", environment["KUBECONFIG"], env=users.env())
        assert b"cluster:" not in screen.reads(b"train")
        assert running.wait(PATIENCE) == 0
