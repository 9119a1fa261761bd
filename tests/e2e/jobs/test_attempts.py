"""What a job printed outlives its pods: of a cancelled job, and of each start of its workers, until the job goes."""

import json
import os
import signal
import time

import pytest

pytestmark = pytest.mark.timeout(300)

# Says which start it is, counted in a file, and goes on until it is ended.
SCRIPT = """
trap 'echo bye; exit 0' TERM
echo x >> {0}/$RANK
echo start $(wc -l < {0}/$RANK) of $RANK
while :; do sleep 0.1; done
"""


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.5)


def start(up, tmp_path, workers=2):
    up("run", "--detach", "--name", "train", "--workers", str(workers), "--", "sh", "-c", SCRIPT.format(tmp_path))


def logs(up, *options):
    return sorted(up("logs", "train", *options).stdout.splitlines())


def until_shown(up, *lines):
    """Until its log is this; else it is said what it was."""
    end = time.monotonic() + 60
    while (shown := logs(up)) != list(lines):
        assert time.monotonic() < end, (shown, up("ps", "-o", "json").stdout)
        time.sleep(0.5)


def log_files(up):
    return list((up.home / "nodes").glob("*/pods/*/containers/*/*/log.*"))


def test_a_cancelled_job_keeps_its_record_and_its_logs(up, tmp_path):
    start(up, tmp_path)
    until(lambda: len(logs(up)) == 2)
    assert up("cancel", "train").stdout == "train cancelled\n"
    assert up("wait", "train", check=False).returncode == 1
    assert "Cancelled" in up("ps").stdout
    printed = ["[0] bye", "[0] start 1 of 0", "[1] bye", "[1] start 1 of 1"]
    assert logs(up) == logs(up, "--attempt", "1") == printed
    assert sorted(up("logs", "-f", "train", check=False).stdout.splitlines()) == printed
    assert "cancelled already" in up("cancel", "train").stdout
    assert "train has 1 attempt with a log" in up("logs", "train", "--previous", check=False).stderr
    # They outlive the server too, and go with the job.
    os.kill(int(up("status").stdout.split("process ")[1].split()[0].rstrip(",")), signal.SIGKILL)
    up("up", "--detach", "--port", "0")
    assert logs(up) == printed
    assert up("cancel", "--delete", "train").stdout == "train deleted\n"
    until(lambda: not log_files(up))
    assert "there is no job train" in up("logs", "train", check=False).stderr


def test_every_start_of_a_worker_keeps_its_log(up, tmp_path):
    start(up, tmp_path, workers=1)
    for number in (1, 2, 3):
        until_shown(up, f"start {number} of 0")
        if number < 3:
            up("hold", "train")
            until_shown(up, "bye", f"start {number} of 0")
            up("release", "train")
    assert logs(up, "--previous") == logs(up, "--attempt", "2") == ["bye", "start 2 of 0"]
    assert logs(up, "--attempt", "1") == ["bye", "start 1 of 0"]
    assert "train has 3 attempts with a log" in up("logs", "train", "--attempt", "4", check=False).stderr


def test_a_worker_that_had_to_go_keeps_its_log(up, tmp_path):
    script = SCRIPT.format(tmp_path)
    up("run", "--detach", "--name", "train", "--elastic", "2:2", "--", "sh", "-c", script)
    until_shown(up, "[0] start 1 of 0", "[1] start 1 of 1")
    up("scale", "train", "1", "--force")  # below its bounds it is not made to grow again
    until_shown(up, "[0] start 1 of 0", "[1] bye", "[1] start 1 of 1")


def test_a_job_without_indexes_that_is_tried_again_has_attempts_too(up, tmp_path):
    script = f"echo x >> {tmp_path}/n; n=$(wc -l < {tmp_path}/n); echo start $n; test $n = 2"
    container = {"name": "c", "image": "none", "command": ["sh", "-c", script]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"backoffLimit": 1, "template": template}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": spec}
    (tmp_path / "job.json").write_text(json.dumps(job))
    up("apply", "--wait", "-f", str(tmp_path / "job.json"))
    assert up("logs", "train").stdout == "start 1\nstart 2\n"
    assert up("logs", "train", "--previous").stdout == up("logs", "train", "--attempt", "1").stdout == "start 1\n"
    assert up("logs", "train", "--attempt", "2").stdout == "start 2\n"


@pytest.mark.parametrize("options", [["--attempt", "1", "-f"], ["--previous", "-f"], ["--previous", "--attempt", "1"]])
def test_what_cannot_be_meant_together_is_refused(muster, options):
    assert muster("logs", "train", *options, check=False).returncode == 2


def test_a_job_that_waits_is_cancelled_at_once(up):
    up("run", "--detach", "--name", "train", "--", "true")
    up("wait", "train")
    up("run", "--detach", "--name", "big", "--", "sleep", "1000")
    up("hold", "big")
    up("cancel", "big")
    assert up("wait", "big", check=False).returncode == 1
    assert "Cancelled" in up("ps").stdout
