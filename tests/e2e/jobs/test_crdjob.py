"""The controller of docs/podgroup-controllers.md as a program of its own: killed in the middle, it goes on."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "podgroup-controllers.md").read_text()

[JOB] = re.findall(r"<<'END'\n(.*?)^END$", PAGE, re.MULTILINE | re.DOTALL)


def block(language):
    [found] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def controller(up, tmp_path):
    """Starts the program; what was started ends with the test."""
    program = tmp_path / "crdjob.py"
    program.write_text(block("python"))
    started = []

    def start():
        environment = up.env() | {"KUBECONFIG": str(up.home / "kubeconfig")}
        started.append(subprocess.Popen([sys.executable, str(program)], env=environment))
        return started[-1]

    yield start
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.wait(10)


def test_a_controller_of_ones_own(up, controller, tmp_path):
    def kubectl(*arguments):
        command = ["kubectl", "--kubeconfig", str(up.home / "kubeconfig"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    definition, job = tmp_path / "definition.yaml", tmp_path / "job.yaml"
    definition.write_text(block("yaml"))
    job.write_text(JOB)
    first = controller()
    kubectl("apply", "-f", str(definition))
    kubectl("wait", "--for=condition=Established", "crd/crdjobs.example.com", "--timeout=30s")
    kubectl("apply", "-f", str(job))
    first.send_signal(signal.SIGKILL)
    first.wait(10)
    controller()
    end = time.monotonic() + 60
    while json.loads(kubectl("get", "crdjob", "sweep", "-o", "json")).get("status", {}).get("succeeded") != 2:
        assert time.monotonic() < end, kubectl("get", "pods,podgroups,events")
        time.sleep(0.2)
    described = up("podgroups", "describe", "sweep").stdout
    assert "2 succeeded" in described
    kubectl("delete", "crdjob", "sweep", "--cascade=foreground", "--timeout=30s")
    assert up("podgroups", "list").stderr == "no PodGroups\n"
