"""Sweeps where Kubernetes' own Job controller makes the pods, and nothing of Muster's is installed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, until
from tests.kubeplane import needs_kubernetes

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

INDEX = "batch.kubernetes.io/job-completion-index"


def muster(cluster: Cluster, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).with_name("muster")), *arguments[:1], "--kubeconfig"]
    whole = [*command, str(cluster.plane.kubeconfig), *arguments[1:]]
    return subprocess.run(whole, capture_output=True, text=True, timeout=120, check=False)


def pods(cluster: Cluster, job: str) -> list[Any]:
    found = json.loads(cluster.kubectl("get", "pods", "-l", f"job-name={job}", "-o", "json"))
    return [pod for pod in found["items"] if pod["status"]["phase"] in ("Pending", "Running")]


def end(cluster: Cluster, job: str, failing: set[str]) -> int:
    """End the pods of a job that are there, as kubelets would, and say how many there were."""
    found = pods(cluster, job)
    for pod in found:
        phase = "Failed" if pod["metadata"]["annotations"][INDEX] in failing else "Succeeded"
        status = json.dumps({"status": {"phase": phase}})
        cluster.kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--type=merge", "-p", status)
    return len(found)


def test_upstream_runs_a_sweep_and_what_failed_of_it_again(bare: Cluster) -> None:
    until(lambda: "default" in bare.kubectl("get", "serviceaccount", "-o", "name"))
    run = ["run", "--name", "tune", "--array", "10-50:10%2", "--image", "x", "--detach", "--", "./trial"]
    assert muster(bare, *run).stdout == "tune\n"
    at_once: list[int] = []

    def is_over() -> bool:
        at_once.append(end(bare, "tune", {"1", "3"}))
        return "conditions" in bare.get("job", "tune")["status"]

    until(is_over)
    assert max(at_once) <= 2
    assert "2 of 5 trials failed (20,40)" in muster(bare, "wait", "tune").stderr
    trials = json.loads(muster(bare, "ps", "tune", "--trials", "-o", "json").stdout)
    assert [row["index"] for row in trials if row["state"] == "Failed"] == [20, 40]
    again = muster(bare, "retry", "tune", "--name", "again")
    assert "2 of 5 trials again" in again.stderr
    until(lambda: len(pods(bare, "again")) == 2)
    end(bare, "again", set())
    assert muster(bare, "wait", "again").returncode == 0
