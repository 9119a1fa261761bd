"""The state of a cluster with a real API server goes on in a simulation."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Replica, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n-%d}
"""
NAMES = ("one", "two", "three")
CAPACITY = {"cpu": "2", "memory": "8Gi", "pods": "110"}

CONTAINER = {
    "name": "c",
    "image": "none",
    "env": [{"name": "PASSWORD", "value": "1"}],
    "resources": {"requests": {"cpu": "1"}},
}


def muster(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("muster")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def snapshot(kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    return muster("snapshot", "--kubeconfig", str(kubeconfig))


def add_node(cluster: Cluster, number: int) -> None:
    cluster.kubectl("apply", "-f", "-", text=NODE % number)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"allocatable": CAPACITY, "capacity": CAPACITY, "conditions": [ready]}
    patch = json.dumps({"status": status})
    cluster.kubectl("patch", "node", f"n-{number}", "--subresource", "status", "--type", "merge", "-p", patch)


def simulate(folder: Path, spec: str) -> Any:
    head = "apiVersion: muster.dev/v1alpha1\nkind: Scenario\nmetadata: {name: s}\nspec:\n"
    (folder / "scenario.yaml").write_text(head + spec)
    done = muster("simulate", str(folder / "scenario.yaml"), "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["total"]


def test_kinds_that_are_not_served_are_left_out(bare: Cluster, tmp_path: Path):
    add_node(bare, 0)
    done = snapshot(bare.plane.kubeconfig)
    assert done.returncode == 0
    assert "without workloads.kueue.x-k8s.io: this cluster has no workloads" in done.stderr
    assert "without nodes" not in done.stderr
    (tmp_path / "state.yaml").write_text(done.stdout)
    assert simulate(tmp_path, "  state: state.yaml\n")["submitted"] == 0


def test_what_somebody_may_not_list_is_named(bare: Cluster, tmp_path: Path):
    bare.kubectl("create", "serviceaccount", "nobody", "-n", "kueue-system")
    bare.write_kubeconfig(tmp_path / "kubeconfig", "nobody")
    done = snapshot(tmp_path / "kubeconfig")
    assert done.returncode == 0
    assert "without nodes: you (system:serviceaccount:kueue-system:nobody) may not list nodes" in done.stderr


def test_a_cluster_goes_on_in_a_simulation(cluster: Cluster, tmp_path: Path):
    for number in range(2):
        add_node(cluster, number)
    engine = Replica(cluster.plane, tmp_path / "replica.log", "--without-webhooks")
    try:
        for name in NAMES:
            cluster.job(name, workers=2)
        until(lambda: cluster.pods("one") == 2)
        until(lambda: len(cluster.get("workloads")["items"]) == 3)
        text = snapshot(cluster.plane.kubeconfig).stdout
    finally:
        engine.process.kill()
        engine.process.wait()
    assert "PASSWORD" not in text
    (tmp_path / "state.yaml").write_text(text)
    total = simulate(tmp_path, "  state: {file: state.yaml, remaining: 100, runTime: 100}\n")
    assert (total["submitted"], total["ended"]) == (3, 3)
