"""`kubectl drain` of a simulated node whose pods have a disruption budget."""

import subprocess
from pathlib import Path

import pytest
from tests.peers.conftest import Release, start

pytestmark = [pytest.mark.kubectl, pytest.mark.timeout(120)]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  parallelism: 2
  completions: 2
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: none, command: [x]}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: j}
spec:
  minAvailable: 1
  selector: {matchLabels: {batch.kubernetes.io/job-name: j}}
"""
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def test_drain_waits_for_the_budget_and_comes_to_an_end(release: Release, tmp_path: Path) -> None:
    with start(tmp_path / "home", "--nodes", "simulated:2,cpu=8") as server:

        def kubectl(*arguments: str, input: str = "") -> str:
            done = subprocess.run(
                [release.path, f"--kubeconfig={server.kubeconfig}", *arguments],
                input=input,
                capture_output=True,
                text=True,
                timeout=90,
                check=False,
            )
            assert done.returncode == 0, done
            return done.stdout + done.stderr

        kubectl("apply", "-f", "-", input=JOB)
        kubectl("wait", "--for=condition=DisruptionAllowed", "pdb/j", "--timeout=20s")
        kubectl("wait", "--for=jsonpath={.status.currentHealthy}=2", "pdb/j", "--timeout=20s")
        node = kubectl("get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}")
        said = kubectl("drain", node, "--timeout=60s")
        assert (REFUSED in said, f"node/{node} drained" in said) == (True, True), said
        kubectl("wait", "--for=jsonpath={.status.currentHealthy}=2", "pdb/j", "--timeout=60s")
        assert node not in kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split()
