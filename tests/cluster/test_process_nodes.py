"""A machine beside kube-apiserver, with the rights of a kubelet: pods run there as processes, and outlive its agent."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Replica, install, until
from tests.documents import needs_the_peers
from tests.kubeplane import KubePlane, free_port, kube_plane, needs_kubernetes

from muster.actions.submission.gang import Gang
from muster.actions.submission.manifests import make_jobset
from muster.cluster.apiserver.identity.certificates import Authority
from muster.cluster.apiserver.identity.users import MASTERS, User

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

NAME = "metal"
TOLERATION = {"key": "muster.dev/node-kind", "value": "process", "effect": "NoSchedule"}


class Agent:
    """`muster nodes --nodes process` as a process, as the user that a node's kubelet would be."""

    def __init__(self, plane: KubePlane, home: Path) -> None:
        user = f"token: {plane.token}, as: 'system:node:{NAME}', as-groups: ['system:nodes']"
        kubeconfig = plane.home / "node.kubeconfig"
        kubeconfig.write_text(plane.kubeconfig.read_text().replace(f"token: {plane.token}", user))
        options = ["--kubeconfig", str(kubeconfig), "--nodes", "process,cpu=4", "--name", NAME, "--data", str(home)]
        options += ["--client-ca", str(plane.home / "pki" / "ca.pem"), "--port", str(free_port())]
        command = [str(Path(sys.executable).with_name("muster")), "nodes", *options]
        self.log = plane.home / "agent.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


Start = Callable[..., Agent]


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that lets nodes do what is theirs, with the engine."""
    home = tmp_path_factory.mktemp("plane")
    servers = User("kube-apiserver-kubelet-client", frozenset({MASTERS}))
    certificate = Authority(home / "pki", datetime.now(UTC)).client("server", servers).file
    flags = ["--enable-admission-plugins=NodeRestriction", "--kubelet-preferred-address-types=InternalIP"]
    flags += [f"--kubelet-client-certificate={certificate}", f"--kubelet-client-key={certificate}"]
    with kube_plane(home, "kube-controller-manager", authorization="Node,RBAC", flags=flags) as plane:
        cluster = Cluster(plane)
        cluster.kubectl("create", "namespace", "kueue-system")
        install(cluster)
        replica = Replica(plane, home / "replica.log")
        until(lambda: replica.said(" leads "))
        until(lambda: _exists(cluster, "serviceaccount", "default"))
        yield cluster
        replica.process.kill()
        replica.process.wait()


@pytest.fixture
def join(beside: Cluster) -> Iterator[Start]:
    """Begin an agent; all are stopped at the end, as are their pods."""
    started: list[Agent] = []

    def begin(home: str = "home") -> Agent:
        started.append(Agent(beside.plane, beside.plane.home / home))
        return started[-1]

    yield begin
    for agent in started:
        agent.process.terminate()
        agent.process.wait(60)


def _exists(cluster: Cluster, kind: str, name: str) -> bool:
    return name in cluster.kubectl("get", kind, "--ignore-not-found", "-o", "name", name)


def _is_ready(cluster: Cluster) -> bool:
    if not _exists(cluster, "node", NAME):
        return False
    conditions = cluster.get("node", NAME)["status"].get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _pod(script: str, **spec: Any) -> dict[str, Any]:
    mounts = [{"name": "words", "mountPath": "/words"}]
    container = {"name": "c", "image": "none", "command": ["sh", "-c", script], "volumeMounts": mounts}
    own = {"containers": [container], "volumes": [{"name": "words", "configMap": {"name": "words"}}]}
    return {"restartPolicy": "Never", "schedulerName": "muster", "tolerations": [TOLERATION], **own, **spec}


def _create(cluster: Cluster, document: dict[str, Any]) -> None:
    cluster.kubectl("create", "-f", "-", text=json.dumps(document))


def _phase(cluster: Cluster, name: str) -> str:
    return str(cluster.get("pod", name)["status"]["phase"])


def test_jobs_run_as_processes_and_pods_are_found_again_after_a_kill(
    beside: Cluster, join: Start, tmp_path: Path
) -> None:
    beside.kubectl("create", "configmap", "words", "--from-literal=first=one")
    agent = join()
    until(lambda: _is_ready(beside))

    template = {"spec": _pod(f"cat /words/first | tee {tmp_path}/$HOSTNAME")}
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": template}
    _create(beside, {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec})
    until(lambda: beside.get("job", "j")["status"].get("succeeded") == 2)
    command = [str(Path(sys.executable).with_name("muster")), "logs", "j", "--kubeconfig", str(beside.plane.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("one")) == (0, 2), done.stderr
    assert {(tmp_path / f"j-{index}").read_text() for index in range(2)} == {"one"}

    told = tmp_path / "told"
    script = (
        f"echo seen; echo begun >> {told}; until test -e /words/second; do sleep 0.2; done; cat /words/second >> {told}"
    )
    _create(beside, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "long"}, "spec": _pod(script)})
    until(lambda: _phase(beside, "long") == "Running" and told.exists())
    assert beside.kubectl("logs", "long") == "seen\n"
    agent.kill()
    join()
    until(lambda: _is_ready(beside))
    beside.kubectl("patch", "configmap", "words", "-p", '{"data": {"second": "two"}}')
    until(lambda: _phase(beside, "long") == "Succeeded")
    assert told.read_text() == "begun\ntwo"


def test_a_gang_whose_worker_is_evicted_starts_again_whole_without_a_retry(
    beside: Cluster, join: Start, tmp_path: Path
) -> None:
    """As `muster run` submits it: with rules for Kubernetes' own Job controller. The other worker fails by itself."""
    join()
    until(lambda: _is_ready(beside))
    script = f"""
        echo $MUSTER_ATTEMPT >> {tmp_path}/$RANK; trap 'touch {tmp_path}/lost; exit 1' TERM
        test $MUSTER_ATTEMPT = 1 || while test ! -e {tmp_path}/lost; do sleep 0.1; done
        test $MUSTER_ATTEMPT = 1
    """
    document = make_jobset(Gang("gang", ["sh", "-c", script], workers=2, upstream=True))
    del document["spec"]["groupSchedulingConfig"]  # the kind that is installed here lacks it
    pods = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods |= {"schedulerName": "muster", "tolerations": [TOLERATION]}
    _create(beside, document)
    until(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists())
    name = beside.kubectl("get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=gang", "-o", "name").split()[0][4:]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{name}/eviction"
    beside.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(eviction))
    until(lambda: beside.get("jobset", "gang")["status"].get("terminalState"))
    status = beside.get("jobset", "gang")["status"]
    assert (status["terminalState"], status["restarts"]) == ("Completed", 1)
    assert not status.get("restartsCountTowardsMax")
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["0\n1\n"] * 2


def test_one_that_is_told_to_stop_ends_its_pods_and_says_so(beside: Cluster, join: Start, tmp_path: Path) -> None:
    agent = join()
    until(lambda: _is_ready(beside))
    spec = _pod("sleep 600", volumes=[])
    spec["containers"][0]["volumeMounts"] = []
    _create(beside, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "short"}, "spec": spec})
    until(lambda: _phase(beside, "short") == "Running")
    agent.process.send_signal(signal.SIGTERM)
    assert agent.process.wait(60) == 0
    status = beside.get("pod", "short")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
    assert not _is_ready(beside)


def test_a_node_that_is_deleted_comes_back_as_it_was(beside: Cluster, join: Start) -> None:
    join()
    until(lambda: _is_ready(beside))
    before = beside.get("node", NAME)
    beside.kubectl("delete", "node", NAME)
    until(lambda: _is_ready(beside))
    now = beside.get("node", NAME)
    assert now["metadata"]["uid"] != before["metadata"]["uid"]
    assert now["metadata"]["labels"] == before["metadata"]["labels"]
    taints = [(taint["key"], taint["effect"]) for taint in now["spec"]["taints"]]
    assert ("muster.dev/node-kind", "NoSchedule") in taints


def test_another_machine_does_not_get_the_name(beside: Cluster, join: Start) -> None:
    join()
    until(lambda: _is_ready(beside))
    other = join("other")
    assert other.process.wait(60) == 1
    assert other.log.read_text().splitlines()[-1].startswith(f"Error: node {NAME} exists already")
