"""A job on a schedule, from its line to its end."""

import json
import subprocess
from collections.abc import Callable

import pytest
from tests.e2e.conftest import Muster

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(240)]


@pytest.fixture
def kubectl(up: Muster) -> Callable[..., str]:
    """Return a function that runs kubectl on the cluster, and returns what it printed."""

    def run(*arguments: str) -> str:
        command = ["kubectl", "--kubeconfig", str(up.home / "kubeconfig"), *arguments]
        return subprocess.run(command, env=up.env(), capture_output=True, text=True, check=True, timeout=60).stdout

    return run


def test_a_job_comes_again_and_again(up, kubectl):
    show = 'echo "I am $MUSTER_JOB, rank $RANK at $MASTER_ADDR"'
    done = up("run", "--cron", "0 * * * *", "--name", "tick", "--", "sh", "-c", show)
    assert done.stdout == "tick\n"
    assert "tick starts at 0 * * * *, first at " in done.stderr
    again = up("run", "--cron", "@daily", "--name", "tick", "--", "true", check=False)
    assert "there is a CronJob tick already" in again.stderr
    # As if the machine had been off for years: the last start is made up for at once.
    last = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
    kubectl("patch", "cronjob", "tick", "--subresource=status", "--type=merge", "-p", json.dumps(last))
    kubectl("wait", "cronjob", "tick", "--for=jsonpath={.status.lastSuccessfulTime}", "--timeout=60s")
    [row] = json.loads(up("ps", "-o", "json").stdout)
    name = row["name"]
    assert (name.rpartition("-")[0], row["state"], row["queue"]) == ("tick", "Completed", "default")
    assert up("logs", name).stdout == f"I am {name}, rank 0 at {name}-0.tick\n"
    reasons = kubectl("get", "events", "-o", "jsonpath={.items[?(@.involvedObject.kind=='CronJob')].reason}").split()
    assert {"SuccessfulCreate", "SawCompletedJob", "TooManyMissedTimes"} <= set(reasons)
    assert up("hold", "tick").stdout == "tick held: it starts no jobs until it is released\n"
    assert up("release", "tick").stdout == "tick released: it starts jobs again\n"
    cancelled = "tick cancelled: it starts no more jobs until it is released (--delete removes it and its jobs)\n"
    assert up("cancel", "tick").stdout == cancelled
    assert up("hold", "tick").stdout == "tick is held already\n"
    assert kubectl("get", "cronjob", "tick", "-o", "jsonpath={.spec.suspend}") == "true"
    assert up("cancel", "--delete", "tick").stdout == "tick deleted, with its jobs\n"
    kubectl("wait", "--for=delete", f"job/{name}", "service/tick", "--timeout=60s")
    assert kubectl("get", "cronjobs", "-o", "name") == ""


def test_a_cron_job_can_be_named_beside_a_job_of_its_name(up, kubectl):
    kubectl("create", "cronjob", "twin", "--image=none", "--schedule=0 3 * * *", "--", "sleep", "1")
    up("run", "--detach", "--name", "twin", "--", "sleep", "100")
    assert up("hold", "cj/twin").stdout == "twin held: it starts no jobs until it is released\n"
    assert up("release", "cronjob/twin").stdout == "twin released: it starts jobs again\n"
    assert up("cancel", "cronjob/twin").stdout.startswith("twin cancelled: it starts no more jobs")
    [row] = json.loads(up("ps", "-o", "json").stdout)
    assert row["state"] in ("Starting", "Running")
    assert up("cancel", "twin").stdout == "twin cancelled\n"


def test_a_schedule_needs_a_cluster(muster):
    refused = muster("run", "--cron", "@daily", "--", "true", check=False)
    assert refused.returncode == 2
    assert "--cron needs a running cluster; start one with: muster up --detach" in refused.stderr
