"""A worker requests a CPU by default, so jobs beyond the machine's CPUs wait."""

import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def usual(muster):
    """The command as users have it, with an embedded cluster of three CPUs running."""
    muster.environment = {"MUSTER_DEFAULT_CPUS": ""}
    muster("up", "--detach", "--port", "0", "--nodes", "process,cpu=3")
    return muster


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.5)


def test_a_loop_of_submissions_queues(usual):
    for number in range(5):
        usual("run", "-d", "--name", f"job-{number}", "--", "sleep", "1000")
    until(lambda: usual("ps").stdout.count("Running") == 3)
    assert usual("ps").stdout.count("Queued") == 2


def test_a_gang_larger_than_the_machine_starts(usual):
    done = usual("run", "-w", "5", "--", "sh", "-c", "echo begun")
    assert done.stdout.count("begun") == 5


def test_the_printed_manifest_of_such_a_gang_starts_too(usual, tmp_path):
    manifest = tmp_path / "train.yaml"
    manifest.write_text(usual("run", "--dry-run", "--name", "train", "-w", "5", "--", "echo", "begun").stdout)
    assert "cpu: 600m" in manifest.read_text()
    usual("apply", "-f", manifest, "--wait")
    assert usual("logs", "train").stdout.count("begun") == 5


FUNCTIONS = """
import time, muster
for _ in range(4):
    muster.run(time.sleep, [1000])
"""


def test_functions_queue_likewise(usual):
    subprocess.run([sys.executable, "-c", FUNCTIONS], env=usual.env(), check=True, timeout=60)
    until(lambda: usual("ps").stdout.count("Running") == 3)
    assert usual("ps").stdout.count("Queued") == 1


def test_a_setting_that_is_no_number_of_cpus_is_refused(usual):
    usual.environment = {"MUSTER_DEFAULT_CPUS": "many"}
    done = usual("run", "--", "true", check=False)
    assert "MUSTER_DEFAULT_CPUS: 'many' is no quantity" in done.stderr
    assert done.returncode != 0
