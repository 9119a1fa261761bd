"""The agent of docs/jobsets.md: when one worker fails, all begin anew in their pods, and together."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "jobsets.md").read_text()
CHAPTER = PAGE.partition("## Restarts in place\n")[2].partition("\n## ")[0]

ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: agent}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: agent}
rules:
- {apiGroups: [jobset.x-k8s.io], resources: [jobsets], verbs: [get, list, watch]}
- {apiGroups: [""], resources: [pods], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: agent}
subjects: [{kind: ServiceAccount, name: agent}]
---
"""

# One pod fails the first time; the others would run on for ever if they were not restarted.
TRAIN = """
import os, sys, time
from pathlib import Path
notes = Path(sys.argv[1])
pod = os.environ["POD_NAME"]
starts = len(list(notes.glob(f"{pod}.*"))) + 1
(notes / f"{pod}.{starts}").write_text(str(time.time()))
if starts == 1:
    while "-0-0-" in pod and len(list(notes.glob("*.1"))) < 4:
        time.sleep(0.05)
    sys.exit(3) if "-0-0-" in pod else time.sleep(600)
"""


def block(language):
    [found] = re.findall(rf"^```{language}\n(.*?)^```", CHAPTER, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.kubectl
def test_all_begin_anew_in_their_pods_and_together(up, tmp_path):
    def kubectl(*arguments, text=""):
        command = ["kubectl", "--kubeconfig", str(up.home / "kubeconfig"), *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True).stdout

    agent, train, notes = tmp_path / "agent.py", tmp_path / "train.py", tmp_path / "notes"
    agent.write_text(block("python"))
    train.write_text(TRAIN)
    notes.mkdir()
    command = json.dumps([sys.executable, str(agent), sys.executable, str(train), str(notes)])
    job_set = block("yaml").replace("[python3, agent.py, python3, train.py]", command)
    job_set = job_set.replace("/home/ada/ring", str(tmp_path))
    kubectl("apply", "-f", "-", text=ACCOUNT + job_set)
    assert "condition met" in kubectl("wait", "--for=condition=Completed", "--timeout=50s", "jobset/ring")
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    assert len(pods) == 4, "none was replaced"
    names = {pod["metadata"]["name"] for pod in pods}
    assert {note.name for note in notes.iterdir()} == {f"{name}.{start}" for name in names for start in (1, 2)}
    status = json.loads(kubectl("get", "jobset", "ring", "-o", "json"))["status"]
    attempts = status["previousInPlaceRestartAttempt"], status["currentInPlaceRestartAttempt"], status["restarts"]
    assert attempts == (0, 1, 0)
    first_again = min(float(note.read_text()) for note in notes.glob("*.2"))
    assert first_again > max(float(note.read_text()) for note in notes.glob("*.1"))
