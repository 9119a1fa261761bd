"""A cluster that stays: `up`, what can be done with it, and `down`."""

import fcntl
import json
import os
import re
import shlex
import signal
import socket
import stat
import subprocess
import time
from pathlib import Path

import pytest
import yaml
from tests.e2e.conftest import Muster

from muster.api.values.quantity import parse_amount

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  completions: {workers}
  parallelism: {workers}
  completionMode: Indexed
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: none
        command: [sh, -c, '{script}']
"""


def job(name="j", workers=2, script="echo I am $JOB_COMPLETION_INDEX"):
    return JOB.format(name=name, workers=workers, script=script)


def test_a_day_with_a_cluster(up):
    done = up("apply", "-f", "-", "--wait", input=job())
    assert done.stdout == "job.batch/j created\n"
    assert "j: completed" in done.stderr
    assert sorted(up("logs", "j").stdout.splitlines()) == ["[0] I am 0", "[1] I am 1"]
    assert up("logs", "j", "--rank", "1").stdout == "I am 1\n"
    [row] = json.loads(up("ps", "-o", "json").stdout)
    assert (row["name"], row["state"], row["ready"], row["wanted"]) == ("j", "Completed", 2, 2)
    assert "Completed" in up("ps").stdout
    assert "unchanged" in up("apply", "-f", "-", input=job()).stdout
    assert up("wait", "j").returncode == 0
    assert "1 completed" in up("status").stdout
    assert "cpu" in up("top").stdout.lower()
    up("cancel", "--delete", "j")
    assert "there is no job j " in up("logs", "j", check=False).stderr


def test_detach_prints_what_to_do_next(shared_up):
    done = shared_up("run", "--detach", "--workers", "2", "--name", "later", "--", "sh", "-c", "exit 5")
    assert done.stdout == "later\n"
    assert "muster logs -f later" in done.stderr
    assert shared_up("wait", "later", check=False).returncode == 5
    assert shared_up("logs", "-f", "later", check=False).returncode == 5


def test_logs_show_lines_as_they_were_printed(shared_up):
    shared_up("run", "--detach", "--name", "bar", "--", "printf", "10%%\\r20%%\nend")
    shared_up("wait", "bar")
    done = subprocess.run(
        [shared_up.command, "logs", "bar"], env=shared_up.env(), capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"10%\r20%\nend"


@pytest.mark.timeout(120)
def test_every_attempt_of_a_container_is_followed(shared_up, tmp_path):
    script = f"echo attempt; echo x >> {tmp_path}/n; printf end; test $(wc -l < {tmp_path}/n) = 3"
    text = job("again", 1, script).replace("restartPolicy: Never", "restartPolicy: OnFailure")
    shared_up("apply", "-f", "-", input=text.replace("backoffLimit: 0", "backoffLimit: 6"))
    assert shared_up("logs", "-f", "again").stdout == "attempt\nend\nattempt\nend\nattempt\nend"


def test_scale(shared_up):
    shared_up("apply", "-f", "-", input=job("elastic", 1, "sleep 1000"))
    assert "from 1 to 3" in shared_up("scale", "elastic", "3").stdout
    done = shared_up("scale", "elastic", "0", check=False)
    assert done.returncode == 1
    assert "is complete, which cannot be taken back (`muster hold elastic` pauses it); --force if" in done.stderr
    shared_up("scale", "elastic", "0", "--force")
    assert shared_up("wait", "elastic").returncode == 0


def test_status_names_the_process_though_its_own_kubeconfig_is_exported(up):
    plain = up("status").stdout
    assert re.search(r"process \d+, data in", plain)
    up.environment = {"KUBECONFIG": str(up.home / "kubeconfig")}
    assert up("status").stdout == plain


def test_status_counts_jobs_as_ps_shows_them(up):
    up("apply", "-f", "-", input=job("runs", 1, "sleep 60"))
    large = job("waits", 1).replace("image: none", "image: none\n        resources: {requests: {cpu: 500}}")
    up("apply", "-f", "-", input=large)
    while {row["name"]: row["state"] for row in json.loads(up("ps", "-o", "json").stdout)}["runs"] != "Running":
        time.sleep(0.5)
    assert "1 queued, 1 running" in up("status").stdout


@pytest.mark.kubectl
def test_status_names_cordoned_nodes_and_is_not_well_if_no_node_takes_pods(up):
    assert up("status").returncode == 0
    kubeconfig = f"--kubeconfig={up.home}/kubeconfig"
    subprocess.run(["kubectl", kubeconfig, "cordon", "node-0"], check=True, capture_output=True)
    cordoned = up("status", check=False)
    assert "1 of 1 ready; cordoned, so no new pods start there: node-0 (kubectl uncordon NODE)" in cordoned.stdout
    assert cordoned.returncode == 1
    subprocess.run(["kubectl", kubeconfig, "uncordon", "node-0"], check=True, capture_output=True)
    assert up("status").returncode == 0


def test_the_kubeconfig_is_private(shared_up):
    assert stat.S_IMODE(os.stat(shared_up.home / "kubeconfig").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(shared_up.home).st_mode) == 0o700


def test_of_two_that_are_started_at_once_one_serves_and_the_other_says_so(muster):
    both = [muster.start("up", "--detach", "--port", "0") for _ in range(2)]
    said = [each.communicate(timeout=60) for each in both]
    assert [each.returncode for each in both] == [0, 0], said
    assert sorted(out.partition(":")[0] for out, _ in said) == ["already running", "ready"]


def test_of_two_that_are_started_at_once_with_different_options_one_is_refused(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:1")
    muster("down")
    both = [muster.start("up", "--detach", "--nodes", nodes) for nodes in ("simulated:2", "simulated:3")]
    outputs = [each.communicate(timeout=60) for each in both]
    assert sorted(each.returncode for each in both) == [0, 1], outputs
    [refused] = [stderr for each, (_, stderr) in zip(both, outputs, strict=True) if each.returncode]
    assert re.search(r"the server has other options: --nodes simulated:[23], not --nodes simulated:[23]\. ", refused)


@pytest.mark.parametrize("detach", [[], ["--detach"]])
def test_a_second_server_is_told_where_the_first_one_is(shared_up, detach):
    server = yaml.safe_load((shared_up.home / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    done = shared_up("up", "--port", "0", *detach)
    assert re.fullmatch(
        rf"already running: {server}, process \d+, data in {shared_up.home}; `muster down` ends it\n"
        rf"export KUBECONFIG={shared_up.home}/kubeconfig\n",
        done.stdout,
    )
    assert shared_up("status").returncode == 0


def test_without_a_kubeconfig_no_line_names_it(up):
    (up.home / "kubeconfig").unlink()
    done = up("up", "--detach", check=False)
    assert done.returncode == 1
    assert re.fullmatch(rf"already running: process \d+, data in {up.home}; `muster down` ends it\n", done.stdout)
    assert done.stderr.endswith(
        "kubeconfig does not exist: the server writes it when it starts. If it was removed: muster restart\n"
    )


def test_the_line_for_kubectl_can_be_typed_as_it_stands_whatever_the_home_is_called(muster, tmp_path):
    muster.home = tmp_path / "a höme"
    for _ in ("started", "found"):
        line = muster("up", "--detach", "--port", "0").stdout.splitlines()[-1]
        done = subprocess.run(["sh", "-c", f'{line}; test -f "$KUBECONFIG"'], check=False)
        assert done.returncode == 0, line


def test_down_says_what_it_ends(up):
    up("run", "--detach", "--workers", "2", "--name", "two", "--", "sleep", "1000")
    while "2/2" not in up("ps").stdout:
        time.sleep(0.5)
    done = up("down")
    assert done.stdout == "stopped\n"
    assert re.fullmatch(r"stopping process \d+; 2 pods of 1 job end: two \(\w+\)\n", done.stderr)
    assert up("down").stdout == f"not running ({up.home})\n"


def test_a_taken_port_is_one_clear_line(shared_up, tmp_path):
    port = yaml.safe_load((shared_up.home / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"].rpartition(
        ":"
    )[2]
    other = Muster(tmp_path / "other", {})
    done = other("up", "--port", port, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: 127.0.0.1:{port} is taken by another process: "
        "stop it or choose another port with --port (0 takes any free one)\n"
    )
    own = other("up", "--port", "0", "--listen", f"127.0.0.1:{port}", check=False)
    assert f":{port} is taken by another process: stop it or choose another port with --listen" in own.stderr


def test_a_start_that_fails_leaves_the_containers_of_a_killed_server_alone(muster, tmp_path):
    process = muster.start("up", "--port", "0")
    try:
        assert "ready" in process.stdout.readline()
        touched = tmp_path / "done"
        muster("apply", "-f", "-", input=job("survivor", 1, f"sleep 4; echo still here; touch {touched}"))
        while not muster("ps", "-o", "json").stdout.count('"Running"'):
            time.sleep(0.5)
    finally:
        process.kill()
        process.communicate()
    with socket.create_server(("127.0.0.1", 0)) as other:
        done = muster("up", "--port", str(other.getsockname()[1]), check=False)
    assert "is taken by another process" in done.stderr
    muster("up", "--detach", "--port", "0")
    assert muster("wait", "survivor").returncode == 0
    assert touched.exists()
    assert muster("logs", "survivor").stdout == "still here\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_down_ends_everything(muster, how):
    process = muster.start("up", "--port", "0")
    try:
        assert "ready" in process.stdout.readline()
        muster("apply", "-f", "-", input=job("forever", 2, "sleep 1000"))
        process.send_signal(how)
        process.communicate(timeout=40)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert not muster.processes()


def test_what_was_stored_is_there_after_a_restart(muster):
    muster("up", "--detach", "--port", "0")
    muster("apply", "-f", "-", "--wait", input=job())
    muster("down")
    assert muster("down", check=False).returncode == 0
    muster("up", "--detach", "--port", "0")
    assert "Completed" in muster("ps").stdout


def test_process_nodes_share_the_machine(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "process:2,cpu=1", "--nodes", "process")
    rows = muster("top").stdout.splitlines()
    nodes = [row.split() for row in rows if row.startswith("node-")]
    assert [name for name, *_ in nodes] == ["node-0", "node-1", "node-2"]
    memory = [cells[3].partition("/")[2] for cells in nodes]
    assert len(set(memory)) == 1
    whole = int(Path("/proc/meminfo").read_text().split()[1]) << 10
    assert sum(parse_amount("memory", part) for part in memory) <= whole


def test_what_a_job_prints_while_the_cluster_stops_is_seen(up):
    script = "trap 'echo bye; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    process = up.start("run", "--", "sh", "-c", script)
    try:
        assert process.stdout.readline() == "started\n"
        up("down")
        out, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert out == "bye\n"


def test_gpus_that_the_machine_does_not_have_are_said_at_the_start_and_in_the_status(muster):
    said = "node-0 offers 0 of 4096 nvidia.com/gpu: the machine has no more"
    assert said in muster("up", "--detach", "--port", "0", "--nodes", "process,nvidia.com/gpu=4096").stdout
    [line] = [line for line in muster("status").stdout.splitlines() if line.startswith("mend")]
    assert said in line
    muster("down")


def test_a_detached_server_leaves_the_session_the_directory_and_the_files_of_its_caller(muster: Muster) -> None:
    """A caller that waits for the end of a pipe, as a CI job does, would otherwise wait for the server."""
    reading, writing = os.pipe()
    high = fcntl.fcntl(writing, fcntl.F_DUPFD, 200)  # above the soft limit that the shell sets afterwards
    script = f"ulimit -S -n 100; exec {shlex.quote(muster.command)} up --detach --port 0"
    done = subprocess.run(
        ["sh", "-c", script], env=muster.env(), pass_fds=[high], capture_output=True, text=True, timeout=60, check=True
    )
    os.close(writing)
    os.close(high)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""
    os.close(reading)
    [pid] = [int(word) for word in re.findall(r"process (\d+)", done.stdout)]
    assert os.getsid(pid) == pid
    place = Path(f"/proc/{pid}")
    standard = [(place / "fd" / number).readlink() for number in "012"]
    assert standard == [Path("/dev/null"), muster.home / "server.log", muster.home / "server.log"]
    assert (place / "cwd").readlink() == Path("/")
