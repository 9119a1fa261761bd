"""Groups of JobSets on real processes: they start together or not at all, whatever becomes of the server meanwhile."""

import json
import subprocess
import time

import pytest

MANIFEST = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: group, labels: {{kueue.x-k8s.io/queue-name: default}}}}
spec:
  groupSchedulingConfig: {{timeoutAfterSeconds: {timeout}}}
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            initContainers:
            - {{name: side, image: none, restartPolicy: Always, command: [sleep, "1000"]}}
            - name: late
              image: none
              command: [sh, -c, 'while test "$JOB_COMPLETION_INDEX" = 3 -a ! -e {gate}; do sleep 0.05; done']
            containers:
            - {{name: main, image: none, command: [sleep, "0.1"], resources: {{requests: {{cpu: 10m}}}}}}
"""


def kubectl(up, *arguments, text=""):
    command = ["kubectl", "--kubeconfig", str(up.home / "kubeconfig"), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=True).stdout


def attempts(up, container):
    """What the shims have written down of all attempts of a container."""
    states = up.home.glob(f"nodes/*/pods/*/containers/{container}/*/state")
    return [json.loads(state.read_text()) for state in states]


def until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def kill_server(up):
    server = int((up.home / "lock").read_text())
    subprocess.run(["kill", "-9", str(server)], check=True)
    until(lambda: server not in up.processes())


def endpoint(up):
    """Where barriers wait, and their secret."""
    return kubectl(up, "get", "configmap", "group-group-scheduling", "-o", "jsonpath={.data.endpoint}")


@pytest.mark.kubectl
@pytest.mark.parametrize("killed", ["never", "while they wait", "when they are let go"])
def test_all_begin_once_the_last_has_started(up, tmp_path, killed):
    gate = tmp_path / "gate"
    kubectl(up, "apply", "-f", "-", text=MANIFEST.format(timeout=120, gate=gate))
    until(lambda: len(attempts(up, "group-scheduling-init")) == 6)
    if killed == "while they wait":
        before = endpoint(up)
        kill_server(up)
        up("up", "--detach", "--port", "0")
        until(lambda: endpoint(up) != before)
        assert endpoint(up).split()[2] == before.split()[2], "barriers have that secret"
    gate.touch()
    if killed == "when they are let go":
        until(lambda: len(attempts(up, "main")) > 0)
        kill_server(up)
        up("up", "--detach", "--port", "0")
    assert "met" in kubectl(up, "wait", "--for=condition=Completed", "--timeout=50s", "jobset/group")
    barriers, mains = attempts(up, "group-scheduling-init"), attempts(up, "main")
    assert (len(barriers), len(mains)) == (8, 8)
    assert min(main["claimed"] for main in mains) > max(barrier["started"] for barrier in barriers)


@pytest.mark.kubectl
def test_a_group_that_one_pod_never_joins_fails_and_gives_its_quota_back(up, tmp_path):
    kubectl(up, "apply", "-f", "-", text=MANIFEST.format(timeout=2, gate=tmp_path / "never"))
    kubectl(up, "wait", "--for=condition=Failed", "--timeout=50s", "jobset/group")
    conditions = json.loads(kubectl(up, "get", "jobset", "group", "-o", "json"))["status"]["conditions"]
    told = {condition["type"]: (condition["reason"], condition["message"]) for condition in conditions}
    message = "6/8 pods started within 2 seconds; pods are missing of group-workers-0, group-workers-1"
    assert told["GroupSchedulingReady"] == ("Timeout", message)
    assert attempts(up, "main") == []

    def admitted():
        queue = json.loads(kubectl(up, "get", "clusterqueue", "muster-default", "-o", "json"))
        return queue["status"]["admittedWorkloads"]

    until(lambda: admitted() == 0)


FOUR = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: group}}
spec:
  groupSchedulingConfig: {{}}
  replicatedJobs:
  - name: workers
    replicas: 4
    template:
      spec:
        parallelism: 1
        completions: 1
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            containers:
            - name: main
              image: none
              command: [sh, -c, 'echo $HOSTNAME >> {begun}; exec sleep 1000']
              resources: {{requests: {{cpu: 100m}}}}
"""


@pytest.mark.kubectl
def test_a_group_that_ended_with_the_cluster_begins_again_once_there_is_room_for_all(muster, tmp_path):
    begun = tmp_path / "begun"
    begun.touch()

    def start(cpu):
        muster("up", "--detach", "--port", "0", "--nodes", f"process,cpu={cpu}")

    def group():
        found = json.loads(kubectl(muster, "get", "jobset", "group", "-o", "json"))["status"]["groupScheduling"]
        return found["epoch"], found.get("releasedEpoch", 0), found.get("started", 0)

    start("400m")
    kubectl(muster, "apply", "-f", "-", text=FOUR.format(begun=begun))
    until(lambda: len(begun.read_text().split()) == 4)
    muster("down")
    start("300m")
    until(lambda: group() == (2, 1, 3))
    assert len(begun.read_text().split()) == 4, "none begins"
    muster("down")
    start("400m")
    until(lambda: len(begun.read_text().split()) == 8)
    assert group() == (3, 3, 4)
    barriers = sorted(barrier["started"] for barrier in attempts(muster, "group-scheduling-init"))
    mains = sorted(main["claimed"] for main in attempts(muster, "main"))
    assert mains[-4] > barriers[-1]
