"""Limits of CPU, memory and volumes on real processes: by the machine's cgroups, and where there are none."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(300)

# Hides the cgroups of the machine from the server, in a mount namespace of its own.
HIDE = 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"'


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.5)


def start_without_cgroups(muster):
    """Start the server as on a machine without cgroups that it may write."""
    if os.geteuid() != 0:
        pytest.skip("only root can hide the cgroups of the machine")
    words = ["unshare", "--mount", "sh", "-c", HIDE, "sh", muster.command, "up", "--detach", "--port", "0"]
    subprocess.run(words, env=muster.env(), check=True, capture_output=True)


@pytest.fixture
def bare(muster):
    """The command, with an embedded cluster running that finds no cgroups."""
    start_without_cgroups(muster)
    return muster


@pytest.fixture(params=["cgroups", "sampling"])
def either(request, muster):
    """The command, with an embedded cluster running, as the machine is and without its cgroups."""
    if request.param == "sampling":
        start_without_cgroups(muster)
    else:
        muster("up", "--detach", "--port", "0")
    return muster


GROW = "import time; kept = bytearray(400 << 20); print('grown', flush=True); time.sleep(100)"


def test_a_worker_that_needs_more_memory_than_its_limit_is_ended_and_says_so(either):
    done = either("run", "--name", "hog", "--memory", "100Mi:200Mi", "--", "python3", "-c", GROW, check=False)
    assert done.returncode == 137
    assert re.search(r"it needed more memory than its limit of 200Mi \(it used \d{3}Mi\)", done.stderr)


FORK = """
import os, time
shared = bytearray(b"x") * (120 << 20)
for _ in range(4):
    if os.fork() == 0:
        sum(shared[::4096])
        time.sleep(4)
        os._exit(0)
for _ in range(4):
    os.wait()
"""


def test_what_forked_workers_share_counts_once(either):
    assert either("run", "--memory", "250Mi", "--", "python3", "-c", FORK).returncode == 0


HOW = (
    r"^limits   memory by (cgroup v[12]|a sample a second), CPU by (cgroup v[12]|affinity masks)(: .+)?$",
    r"^limits   memory and CPU by cgroup v[12]$",
)


def test_it_is_said_how_limits_are_kept(up):
    assert any(re.search(line, up("status").stdout, re.MULTILINE) for line in HOW)


def test_it_is_said_why_no_cgroup_keeps_limits(bare):
    line = "limits   memory by a sample a second, CPU by affinity masks: there is no cgroup v2 hierarchy\n"
    assert line in bare("status").stdout


SPIN = """
import time
began, used = time.monotonic(), time.process_time()
while time.monotonic() < began + 2:
    pass
print((time.process_time() - used) / (time.monotonic() - began))
"""


def test_a_worker_gets_no_more_cpu_than_its_limit_from_cgroups(up):
    if "CPU by cgroup" not in up("status").stdout.replace("memory and CPU", "CPU"):
        pytest.skip("the server may make no cgroups here")
    assert float(up("run", "--cpus", "200m", "--", "python3", "-c", SPIN).stdout) < 0.5


MASK = "import os, time; print(*sorted(os.sched_getaffinity(0)), flush=True); time.sleep(1000)"


def start_showing_cpus(muster, name, *options):
    muster("run", "-d", "--name", name, *options, "--", sys.executable, "-c", MASK)


def list_cpus(muster, name, workers=1):
    until(lambda: len(muster("logs", name).stdout.splitlines()) == workers)
    return [re.sub(r"^\[\d\] ", "", line) for line in sorted(muster("logs", name).stdout.splitlines())]


def test_workers_have_cpus_of_their_own_without_cgroups_also_after_the_server_was_killed(bare):
    first, second = sorted(os.sched_getaffinity(0))[:2]
    start_showing_cpus(bare, "whole", "--cpus", "1")
    assert list_cpus(bare, "whole") == [str(first)]
    start_showing_cpus(bare, "halves", "-w", "2", "--cpus", "500m")
    assert list_cpus(bare, "halves", 2) == [str(second)] * 2, "both on the CPU that is left"
    until(lambda: "Running" in bare("ps", "halves").stdout)
    kill_server(bare)
    start_without_cgroups(bare)
    bare("cancel", "whole")
    start_showing_cpus(bare, "next", "--cpus", "1")
    assert list_cpus(bare, "next") == [str(first)], "that of the job that has ended"


def kill_server(muster):
    """End the server as `kill -9` does; what runs goes on."""
    pid = int(muster("status").stdout.split("process ")[1].split()[0].rstrip(","))
    os.kill(pid, 9)
    until(lambda: pid not in muster.processes())


def submit_pod(muster, directory, name, code, volume, **resources):
    """Submit a Job of one pod that runs Python code beside an emptyDir at /cache, whose place is in CACHE."""
    worker = {
        "name": "worker",
        "image": "none",
        "command": ["python3", "-c", code],
        "env": [{"name": "CACHE", "value": "/cache"}],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        "resources": resources,
    }
    volumes = [{"name": "cache", "emptyDir": volume}]
    template = {"spec": {"restartPolicy": "Never", "containers": [worker], "volumes": volumes}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    job["spec"] = {"backoffLimit": 0, "template": template}
    (directory / "job.json").write_text(json.dumps(job))
    muster("apply", "-f", str(directory / "job.json"))


FILL = """
import os, time
with open(f"{os.environ['CACHE']}/file", "wb") as file:
    for _ in range(%d):
        file.write(bytes(1 << 20))
time.sleep(1000)
"""


def test_files_in_memory_count_towards_the_limit(either, tmp_path):
    submit_pod(either, tmp_path, "files", FILL % 200, {"medium": "Memory"}, limits={"memory": "100Mi"})
    assert either("wait", "files", check=False).returncode == 137
    assert "it needed more memory than its limit of 100Mi" in either("ps", "files").stdout


def test_a_pod_that_keeps_too_much_in_an_emptydir_is_evicted(up, tmp_path):
    submit_pod(up, tmp_path, "full", FILL % 8, {"sizeLimit": "4Mi"})
    assert up("wait", "full", check=False).returncode != 0
    assert 'Usage of EmptyDir volume "cache" exceeds the limit "4Mi".' in up("ps", "full").stdout


def test_each_worker_is_shown_with_what_it_uses_and_asks_for(either):
    hold = "import time; kept = bytearray(60 << 20); print('held', flush=True); time.sleep(1000)"
    limits = ["--cpus", "500m", "--memory", "100Mi:200Mi"]
    either("run", "-d", "--name", "held", "-w", "2", *limits, "--", "python3", "-c", hold)
    until(lambda: either("logs", "held").stdout.count("held") == 2)
    _, *workers = either("top", "held").stdout.splitlines()
    shown = [re.fullmatch(r"(\d) +held-\S+ +node-0 +\d\.\d\d/0\.5 +(\d+)Mi/100Mi +200Mi", line) for line in workers]
    figures = [found.groups() for found in shown if found is not None]
    assert [rank for rank, _ in figures] == ["0", "1"], workers
    assert all(60 <= int(used) < 100 for _, used in figures)
    assert re.search(r"held .* [12]\d\dMi ", either("ps", "-o", "wide", "held").stdout)
