"""`muster up --config`: settings are read before anything starts, and hold in the server."""

import json
import subprocess
from typing import Any

import pytest

HEAD = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


@pytest.mark.kubectl
def test_settings_are_checked_first_and_then_hold(muster, tmp_path):
    file = tmp_path / "muster.yaml"
    file.write_text(HEAD + "waitForPodsReady: {requeuingStrategy: {foo: 1}}\nmuster: {elasticIndexedJobs: None}\n")
    refused = muster("up", "--detach", "--port", "0", "--config", str(file), check=False)
    assert refused.returncode == 2
    assert refused.stdout == ""
    lines = refused.stderr.splitlines()
    assert f"Error: Invalid value for --config: {file}:" in lines
    assert "  waitForPodsReady.requeuingStrategy.foo: unknown field" in lines
    assert any(line.startswith('  muster.elasticIndexedJobs: Unsupported value: "None"') for line in lines)
    assert not muster.home.exists()
    assert "No such file" in muster("up", "--config", str(tmp_path / "none"), check=False).stderr

    file.write_text(HEAD + "muster: {elasticIndexedJobs: Upstream}\n")
    muster("up", "--detach", "--port", "0", "--config", str(file))

    def kubectl(*arguments: str) -> Any:
        command = ["kubectl", "--kubeconfig", str(muster.home / "kubeconfig"), *arguments]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)

    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "command": ["true"]}]}}
    spec = {"completionMode": "Indexed", "completions": 1, "parallelism": 2, "suspend": True, "template": template}
    manifest = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    (tmp_path / "job.json").write_text(json.dumps(manifest))
    kubectl("create", "-f", str(tmp_path / "job.json"), "-o", "json")
    patch = json.dumps({"spec": {"completions": 3, "parallelism": 3}})
    patched = kubectl("patch", "job", "j", "--type", "merge", "-p", patch, "-o", "json")["spec"]
    assert (patched["completions"], patched["parallelism"]) == (3, 3)
    kubectl("scale", "job", "j", "--replicas", "2", "-o", "json")
    assert kubectl("get", "job", "j", "-o", "json")["spec"]["completions"] == 2
