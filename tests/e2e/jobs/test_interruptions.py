"""What is taken from a job on real processes: a node, the power, the server's memory. No job asks for a retry."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.timeout(400)]

# Says in a file that it starts and in which attempt, and goes on until there is another file.
SCRIPT = """
echo "$JOB_COMPLETION_INDEX $MUSTER_ATTEMPT" >> {0}/starts
until test -e {0}/go; do sleep 0.1; done
"""

GANG = ("--workers", "2", "--retries", "0")
SWEEP = (
    "--array",
    "0-1",
)
KINDS = pytest.mark.parametrize("kind", [GANG, SWEEP], ids=["gang", "sweep"])


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.2)


def starts(tmp_path):
    """The starts of workers, as (index, attempt)."""
    path = tmp_path / "starts"
    return [tuple(line.split(" ")) for line in path.read_text().splitlines()] if path.exists() else []


def begin(muster, tmp_path, kind):
    script = SCRIPT.format(tmp_path)
    muster("run", "--detach", "--name", "train", "--cpus", "1m", *kind, "--", "sh", "-c", script)
    until(lambda: len(starts(tmp_path)) == 2)


def ends_well(muster, tmp_path):
    (tmp_path / "go").touch()
    done = muster("wait", "train", check=False, timeout=120)
    assert done.returncode == 0, (done.stdout, done.stderr, muster("why", "train").stdout)


def again_whole(tmp_path):
    """Both workers have started again, and know that they do."""
    assert sorted(starts(tmp_path)[2:4]) == [("0", "1"), ("1", "1")]


def pods(muster):
    done = subprocess.run(
        ["kubectl", "--kubeconfig", str(muster.home / "kubeconfig"), "get", "pods", "-o", "json"],
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)["items"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not here")
@KINDS
def test_a_drain_moves_what_runs(muster, tmp_path, kind):
    muster("up", "--detach", "--port", "0", "--nodes", "process:2")
    begin(muster, tmp_path, kind)
    node = pods(muster)[0]["spec"]["nodeName"]
    drained = sum(pod["spec"]["nodeName"] == node for pod in pods(muster))
    command = ["kubectl", "--kubeconfig", str(muster.home / "kubeconfig"), "drain", node, "--ignore-daemonsets"]
    subprocess.run(command, check=True, capture_output=True, timeout=90)
    until(lambda: len(starts(tmp_path)) == 2 + (2 if kind == GANG else drained))
    if kind == GANG:
        again_whole(tmp_path)
    running = [pod for pod in pods(muster) if pod["status"]["phase"] == "Running"]
    assert node not in {pod["spec"]["nodeName"] for pod in running}
    ends_well(muster, tmp_path)


def server(muster):
    return int(muster("status").stdout.split("process ")[1].split()[0].rstrip(","))


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def cut_power(muster):
    """Kill the server, which would notice the rest, then the shims, which would write down the rest, and the rest."""
    first = server(muster)
    workers = [pid for pid, command in muster.processes().items() if command.startswith("sh -c")]
    for pid in (first, *map(parent, workers), *workers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not muster.processes())


@KINDS
def test_after_a_power_cut_all_start_again(up, tmp_path, kind):
    begin(up, tmp_path, kind)
    cut_power(up)
    up("up", "--detach", "--port", "0")
    until(lambda: len(starts(tmp_path)) == 4)
    again_whole(tmp_path)
    ends_well(up, tmp_path)


@KINDS
def test_a_down_after_a_crash_is_no_failure(up, tmp_path, kind):
    """It ends what the crash has left running."""
    begin(up, tmp_path, kind)
    os.kill(server(up), signal.SIGKILL)
    up("down")
    assert not up.processes()
    up("up", "--detach", "--port", "0")
    until(lambda: len(starts(tmp_path)) == 4)
    again_whole(tmp_path)
    ends_well(up, tmp_path)


@pytest.mark.parametrize(
    ("kind", "there"),
    [(GANG, "same home"), (GANG, "new home"), (GANG, "cancelled since"), (SWEEP, "new home")],
    ids=["gang-same home", "gang-new home", "gang-cancelled since", "sweep-new home"],
)
def test_what_ran_when_a_backup_was_made_starts_again_when_it_is_restored(up, tmp_path, kind, there):
    begin(up, tmp_path, kind)
    up("backup", str(tmp_path / "backup"))
    if there == "cancelled since":
        up("cancel", "train")
        until(lambda: "Cancelled" in up("ps").stdout)
    up("down")
    if there == "new home":
        up.home.rename(tmp_path / "old")
    up("restore", *(() if there == "new home" else ("--force",)), str(tmp_path / "backup"))
    up("up", "--detach", "--port", "0")
    until(lambda: len(starts(tmp_path)) == 4)
    again_whole(tmp_path)
    assert "a backup was restored, or its end was never written" in up("why", "train").stdout
    ends_well(up, tmp_path)


@KINDS
def test_a_stop_of_the_cluster_is_no_failure(up, tmp_path, kind):
    begin(up, tmp_path, kind)
    up("down")
    up("up", "--detach", "--port", "0")
    until(lambda: len(starts(tmp_path)) == 4)
    again_whole(tmp_path)
    ends_well(up, tmp_path)


def test_a_worker_that_is_killed_while_its_node_lives_has_failed(up, tmp_path):
    begin(up, tmp_path, GANG)
    worker = next(pid for pid, command in up.processes().items() if command.startswith("sh -c"))
    os.kill(worker, signal.SIGKILL)
    assert up("wait", "train", check=False, timeout=120).returncode == 137
