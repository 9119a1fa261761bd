"""What the guide says can be done, done as it says. (Jobs that change size: test_elastic.)"""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def kubectl(muster, *arguments, input=""):
    command = ["kubectl", "--kubeconfig", str(muster.home / "kubeconfig"), *arguments]
    return subprocess.run(command, input=input, capture_output=True, text=True, timeout=60, check=True).stdout


def manifests(page, word):
    """The one manifest on a page that has this word."""
    blocks = re.findall(r"```yaml\n(.*?)```|<<END\n(.*?)END\n", (ROOT / "docs" / page).read_text(), re.DOTALL)
    [found] = [text for block in blocks for text in block if word in text]
    return found


GPUS = 'echo "${CUDA_VISIBLE_DEVICES-unset} ${CUDA_DEVICE_ORDER-unset}"'


def test_workers_get_gpus_of_their_own_or_none(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "process,gpus=4:fake")
    done = muster("run", "--workers", "2", "--gpus", "2", "--env", "CUDA_VISIBLE_DEVICES=7", "--", "sh", "-c", GPUS)
    assert sorted(done.stdout.split("\n")) == ["", "[0] 0,1 PCI_BUS_ID", "[1] 2,3 PCI_BUS_ID"]
    assert muster("run", "--", "sh", "-c", GPUS).stdout == " unset\n"


def test_only_the_first_gpus_may_be_offered(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "process,gpus=4:fake,nvidia.com/gpu=2")
    assert re.search(r"^node-0 .* 0/2 ", muster("top").stdout, re.MULTILINE)
    assert muster("run", "--gpus", "2", "--", "sh", "-c", GPUS).stdout == "0,1 PCI_BUS_ID\n"


def test_without_gpus_nothing_is_said_of_them(muster):
    if Path("/proc/driver/nvidia/gpus").is_dir():
        pytest.skip("this machine has GPUs")
    assert muster("run", "--", "sh", "-c", GPUS).stdout == "unset unset\n"


@pytest.mark.kubectl
def test_a_secret_is_a_variable_and_a_file(shared_up):
    kubectl(shared_up, "create", "secret", "generic", "wandb", "--from-literal=WANDB_API_KEY=s3cret")
    shared_up("apply", "-f", "-", "--wait", input=manifests("data.md", "secretKeyRef"))
    assert "the same" in shared_up("logs", "report").stdout
    for role, answer in (("view", "no"), ("edit", "yes")):
        kubectl(shared_up, "create", "rolebinding", role, "--clusterrole", role, "--user", role)
        asked = [
            "kubectl",
            "--kubeconfig",
            str(shared_up.home / "kubeconfig"),
            "auth",
            "can-i",
            "get",
            "secrets",
            "--as",
            role,
        ]
        assert subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() == answer


@pytest.mark.kubectl
def test_jobs_of_another_namespace_wait_for_the_same_quota(shared_up):
    kubectl(shared_up, "create", "namespace", "lab")
    kubectl(shared_up, "apply", "-f", "-", input=manifests("keeping.md", "LocalQueue"))
    shared_up("run", "--detach", "-n", "lab", "--name", "job", "--", "true")
    assert re.search(r"^job .* default ", shared_up("ps", "-n", "lab").stdout, re.MULTILINE)


def test_a_server_that_is_killed_instead_of_ended_leaves_jobs_to_the_next(up, tmp_path):
    script = f"until test -e {tmp_path}/done; do sleep 0.1; done; echo trained"
    up("run", "--detach", "--name", "train", "--", "sh", "-c", script)
    subprocess.run(["sh", "-c", f"kill -9 $(cat {up.home}/lock)"], check=True)
    up("up", "--detach", "--port", "0")
    (tmp_path / "done").touch()
    up("wait", "train")
    assert "trained" in up("logs", "train").stdout


def test_the_manifest_of_a_run_is_applied(shared_up):
    printed = shared_up("run", "--dry-run", "--name", "train", "--workers", "2", "--", "sh", "-c", "echo $RANK").stdout
    shared_up("apply", "-f", "-", "--wait", input=printed)
    assert sorted(shared_up("logs", "train").stdout.split()) == ["0", "1", "[0]", "[1]"]


ALL_TOGETHER = (
    ("wide", "--workers", "2", "--cpus", "5", "--run-time", "10m"),
    ("late", "--workers", "2", "--cpus", "4"),
    ("big", "--workers", "2", "--cpus", "64"),
    ("tall", "--cpus", "6"),
)


def test_what_does_not_start_says_why_as_the_guide_shows_it(muster):
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:2,cpu=8")
    shown = {}
    for name, *options in ALL_TOGETHER:
        muster("run", "--detach", "--name", name, *options, "--", "true")
        [row] = re.findall(rf"^{name} .*$", (ROOT / "docs/why.md").read_text(), re.MULTILINE)
        cells = re.split(r" {3,}", row)
        shown[name] = (cells[1], cells[6] if len(cells) > 6 else "")

    def found():
        return {row["name"]: (row["state"], row["reason"]) for row in json.loads(muster("ps", "-o", "json").stdout)}

    tries = 50
    while found() != shown and tries:
        tries -= 1
    assert found() == shown


@pytest.mark.kubectl
def test_gangs_take_turns_at_devices_that_they_claim(muster, tmp_path):
    config = tmp_path / "config.yaml"
    mapping = "resources: {deviceClassMappings: [{name: gpus, deviceClassNames: [gpu.example.com]}]}"
    config.write_text(f"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n{mapping}\n")
    nodes = "simulated:2,device/gpu.example.com=4"
    muster("up", "--detach", "--port", "0", "--nodes", nodes, "--config", str(config))
    muster("queue", "create", "team", "--cpu", "8", "--quota", "gpus=16")
    text = manifests("gpus.md", "ResourceClaimTemplate")
    plays = "    metadata: {annotations: {muster.dev/run-time: 10s}}\n"
    played = text.replace("    spec:\n      restartPolicy", f"{plays}    spec:\n      restartPolicy")
    assert played != text
    muster("apply", "-f", "-", input=played)
    muster("apply", "-f", "-", input=played.replace("name: train", "name: second"))
    needs = "Each pod asks for devices of class gpu.example.com 2"
    deadline = time.monotonic() + 60
    while needs not in muster("why", "second").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    muster("wait", "train", "second")
