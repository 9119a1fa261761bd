"""What pods leave on disk keeps no server from starting, serving and stopping, and a private cluster from ending."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.unit.cluster.nodes.disk.test_removal import deep

LIMIT = 60

POD = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  template:
    spec:
      restartPolicy: Never
      volumes: [{{name: v, emptyDir: {{}}}}]
      containers:
      - name: main
        image: none
        command: [sh, -c, {script}]
        volumeMounts: [{{name: v, mountPath: /v}}]
"""
# As Go's module cache leaves it.
SCRIPT = "cd /v; mkdir -p m/a; touch m/a/x; chmod 555 m/a; touch /v/done"


def until(condition):
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end, "too late"
        time.sleep(0.05)


def submit(up, name, script):
    up("apply", "-f", "-", input=POD.format(name=name, script=json.dumps(script)))


def kill(muster):
    """The server, at once."""
    pid = int((muster.home / "lock").read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])


def serves(muster, name):
    submit(muster, name, "echo served")
    muster("wait", f"job/{name}", "--for", "condition=Complete", "--timeout", "60s", check=False)
    until(lambda: "served" in muster("logs", name, check=False).stdout)


def unlock(home):
    subprocess.run(["chattr", "-R", "-f", "-i", str(home)], check=False, capture_output=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("more", ["", "chattr +i m/a/x 2>/dev/null;"])
def test_a_server_that_was_killed_starts_again_whatever_a_pod_has_left(up, more):
    """The pod waits for the kill, and ends while nobody is there to tidy up."""
    nodes = up.home / "nodes/node-0"
    try:
        submit(up, "leaves", f"{SCRIPT}; {more} while [ ! -e {up.home}/killed ]; do sleep 0.05; done")
        until(lambda: list(nodes.glob("pods/*/volumes/v/done")))
        [pod] = list(nodes.glob("pods/*"))
        deep(pod / "volumes/v/deep", 1500)
        kill(up)
        (up.home / "killed").touch()
        for number in range(2):
            up("up", "--detach", "--port", "0")
            until(lambda: not list(nodes.glob("pods/*/volumes")))
            serves(up, f"serves-{number}")
            kill(up)
        up("up", "--detach", "--port", "0")
        up("down")
    finally:
        unlock(up.home)
    up("up", "--detach", "--port", "0")
    until(lambda: list((nodes / "removed").iterdir()) == [])


def test_a_private_cluster_leaves_nothing_and_ends_as_its_job_did(muster, tmp_path):
    script = (
        "d=$(dirname $MUSTER_HOME)/tmp/muster-*/nodes/node-0/pods; cd $d/*/; "
        "mkdir -p volumes/m/a; chmod 555 volumes/m/a;"
    )
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    muster.environment = {"TMPDIR": str(temporary)}
    done = muster("run", "--env", f"MUSTER_HOME={muster.home}", "--", "sh", "-c", f"{script} exit 3", check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert list(temporary.iterdir()) == []


def test_a_private_cluster_names_what_it_cannot_remove(muster, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (tmp_path / "probe").touch()
    if subprocess.run(["chattr", "+i", str(tmp_path / "probe")], capture_output=True, check=False).returncode != 0:
        pytest.skip("files cannot be made immutable here")
    unlock(tmp_path)
    muster.environment = {"TMPDIR": str(temporary)}
    script = f"cd {temporary}/muster-*/nodes/node-0/pods/*/; touch hosts stays; chattr +i stays; exit 3"
    try:
        done = muster("run", "--", "sh", "-c", script, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
        [home] = temporary.iterdir()
        assert done.stderr.count(f"{home} cannot be removed: 'stays' in it: Operation not permitted") == 1
    finally:
        unlock(tmp_path)


DOUBLING = "".join(f"        - {{name: E{n + 1}, value: $(E{n})$(E{n})}}\n" for n in range(32))


@pytest.mark.timeout(200)
def test_variables_without_end_fail_the_pod_and_neither_the_server_nor_its_next_start(up):
    manifest = POD.format(name="endless", script="exit") + f"        env:\n        - {{name: E0, value: x}}\n{DOUBLING}"
    up("apply", "-f", "-", input=manifest.replace("spec:\n  template:", "spec:\n  backoffLimit: 0\n  template:", 1))
    until(lambda: "Failed" in up("ps", "-a", check=False).stdout or "Failed" in up("ps").stdout)
    kill(up)
    up("up", "--detach", "--port", "0")
    serves(up, "serves")
    pid = int((up.home / "lock").read_text())
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    assert int(peak.split()[1]) < 1 << 20, "a gigabyte"


def test_what_a_killed_server_ran_ends_once_its_home_is_removed(muster, tmp_path):
    """No server can take it over any more, and nobody could find it."""
    muster("up", "--detach", "--port", "0")
    written = tmp_path / "written"
    script = f"setsid sh -c 'while true; do date >> {written}; sleep 0.1; done' & exec sleep 1000"
    muster("run", "--detach", "--name", "left", "--", "sh", "-c", script)
    until(written.exists)
    kill(muster)
    shutil.rmtree(muster.home)
    assert muster.processes()
    until(lambda: not muster.processes())
    size = written.stat().st_size
    time.sleep(1)
    assert written.stat().st_size == size
