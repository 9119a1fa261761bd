"""Simulated nodes beside kube-apiserver, kube-controller-manager and kube-scheduler: pods run on them, and end."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cluster.conftest import Cluster, until
from tests.kubeplane import kube_plane, needs_kubernetes

from muster.cluster.nodes.simulated.nodes import NOWHERE

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

GRACE_SECONDS = 50  # after which a node controller gives up a node of which it hears nothing


def test_pods_run_on_them_and_they_stay_ready(tmp_path: Path) -> None:
    with kube_plane(tmp_path, "kube-controller-manager", "kube-scheduler") as plane:
        cluster = Cluster(plane)
        options = ["--kubeconfig", str(plane.kubeconfig), "--nodes", "simulated:50,cpu=2"]
        command = [str(Path(sys.executable).with_name("muster")), "nodes", *options]
        playing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert playing.stdout is not None
        assert playing.stdout.readline() == "50 nodes registered\n"
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        annotations = {"muster.dev/run-time": "5s"}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"parallelism": 100, "completions": 100, "template": template}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
        cluster.kubectl("create", "-f", "-", text=json.dumps(job))
        until(lambda: cluster.get("job", "j")["status"].get("succeeded") == 100)
        (pod, *_) = cluster.kubectl("get", "pods", "-o", "name").split()
        with pytest.raises(AssertionError, match=NOWHERE):
            cluster.kubectl("logs", pod)
        before = cluster.get("node", "sim-7")["metadata"]["uid"]
        cluster.kubectl("delete", "node", "sim-7")
        until(lambda: "sim-7" in cluster.kubectl("get", "nodes", "-o", "name"))
        assert cluster.get("node", "sim-7")["metadata"]["uid"] != before
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > GRACE_SECONDS + 15)
        nodes = cluster.get("nodes")["items"]
        ready = [one["status"] for node in nodes for one in node["status"]["conditions"] if one["type"] == "Ready"]
        assert ready == ["True"] * 50
        playing.send_signal(signal.SIGTERM)
        assert playing.wait(60) == 0
        playing.stdout.close()
