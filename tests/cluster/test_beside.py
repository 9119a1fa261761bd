"""Gangs beside kube-scheduler, and when nodes are drained, tainted, lost or taken away by a real control plane."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Replica, install, until
from tests.documents import needs_the_peers
from tests.kubeplane import kube_plane, needs_kubernetes

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

NODES = 3  # of 2 CPUs
# Pods go from a node that is lost after a second, not after five minutes.
IMPATIENT = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    for what in ("not-ready", "unreachable")
]


class Site(Cluster):
    """With simulated nodes, kube-scheduler and Muster."""

    playing: subprocess.Popen[str]

    def play(self) -> None:
        command = [str(_muster()), "nodes", "--kubeconfig", str(self.plane.kubeconfig)]
        self.playing = subprocess.Popen(
            [*command, "--nodes", f"simulated:{NODES},cpu=2"], stdout=subprocess.PIPE, text=True
        )
        assert self.playing.stdout is not None
        assert self.playing.stdout.readline() == f"{NODES} nodes registered\n"

    def kill(self) -> None:
        self.playing.kill()
        self.playing.wait()
        assert self.playing.stdout is not None
        self.playing.stdout.close()

    def gang(self, name: str, workers: int, cpu: str = "1", **pods: Any) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        spec = {"restartPolicy": "Never", "containers": [container], "schedulerName": "muster"}
        template = {"metadata": {"labels": {"gang": name}}, "spec": spec | {"tolerations": IMPATIENT} | pods}
        sizes = {"parallelism": workers, "completions": workers, "completionMode": "Indexed", "backoffLimit": 100}
        document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        self.kubectl("create", "-f", "-", text=json.dumps(document | {"spec": sizes | {"template": template}}))

    def pod(self, name: str, cpu: str, **spec: Any) -> None:
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]} | spec
        self.kubectl("create", "-f", "-", text=json.dumps(document | {"spec": spec}))

    def members(self, gang: str) -> list[Any]:
        """Its pods that have not ended and are not about to."""
        pods = self.get("pods", "-l", f"gang={gang}")["items"]
        over = ("Succeeded", "Failed")
        return [
            pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in over
        ]

    def nodes_of(self, gang: str) -> list[str]:
        """Where its pods are, "" for those that are nowhere."""
        return sorted(pod["spec"].get("nodeName", "") for pod in self.members(gang))

    def is_whole(self, gang: str, workers: int) -> bool:
        """Whether all of it runs."""
        phases = [pod["status"]["phase"] for pod in self.members(gang)]
        return phases == ["Running"] * workers

    def lacks_room(self, gang: str) -> list[bool]:
        """Of each pod that has no node, whether an autoscaler would add one for it."""
        return [_unschedulable(pod) for pod in self.members(gang) if not pod["spec"].get("nodeName")]

    def end(self, *gangs: str) -> None:
        for gang in gangs:
            self.kubectl("delete", "job", gang, "--cascade=foreground")


def _muster() -> str:
    return sys.executable.rpartition("/")[0] + "/muster"


def _unschedulable(pod: Any) -> bool:
    conditions = {one["type"]: one for one in pod["status"].get("conditions", [])}
    return bool(conditions.get("PodScheduled", {}).get("reason") == "Unschedulable")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("beside")
    with kube_plane(home, "kube-controller-manager", "kube-scheduler") as plane:
        site = Site(plane)
        site.kubectl("create", "namespace", "kueue-system")
        install(site)
        site.play()
        replica = Replica(plane, home / "replica.log")
        until(lambda: replica.said(" leads "))
        yield site
        replica.process.kill()
        replica.process.wait()
        site.kill()


def test_pods_of_others_count_and_are_left_to_their_scheduler(site: Site) -> None:
    site.pod("other", "2")
    until(lambda: site.get("pod", "other")["status"]["phase"] == "Running")
    site.gang("a", 5)
    until(lambda: site.lacks_room("a") == [True] * 5)
    assert site.nodes_of("a") == [""] * 5
    events = site.get("events", "--field-selector", "involvedObject.name=other,reason=Scheduled")["items"]
    assert {event.get("reportingComponent") or event["source"]["component"] for event in events} == {
        "default-scheduler"
    }
    site.kubectl("delete", "pod", "other")
    until(lambda: site.is_whole("a", 5))
    site.end("a")


def test_a_gang_that_waits_for_quota_or_members_asks_for_no_nodes(site: Site) -> None:
    for index in range(2):
        labels = {"kueue.x-k8s.io/pod-group-name": "g", "gang": "g", "kueue.x-k8s.io/queue-name": "lq"}
        meta = {
            "name": f"g-{index}", "labels": labels, "annotations": {"kueue.x-k8s.io/pod-group-total-count": "3"}
        }  # fmt: skip
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        spec = {"containers": [container], "schedulerName": "muster"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        site.kubectl("create", "-f", "-", text=json.dumps(pod))
    site.job("q", 4)  # of a queue of 3 CPUs
    site.gang("b", 2)
    until(lambda: site.is_whole("b", 2))  # what came before was looked at
    assert site.lacks_room("g") == [False, False]
    assert site.pods("q") == 0
    site.end("b", "q")
    site.kubectl("delete", "pod", "g-0", "g-1", "--force", "--grace-period=0")


def test_a_pod_that_somebody_else_has_bound_counts_as_bound(site: Site) -> None:
    (node, *_) = sorted(one["metadata"]["name"] for one in site.get("nodes")["items"])
    site.pod("fills", "2", nodeName=node)
    until(lambda: site.get("pod", "fills")["status"]["phase"] == "Running")
    site.gang("c", 5)
    until(lambda: site.lacks_room("c") == [True] * 5)
    first = site.members("c")[0]["metadata"]["name"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": first}, "target": target}
    path = f"/api/v1/namespaces/default/pods/{first}/binding"
    site.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(binding))
    until(lambda: "" not in site.nodes_of("c"))
    assert site.nodes_of("c").count(node) == 1, "an over-filled node gets no more"
    site.end("c")
    site.kubectl("delete", "pod", "fills")


def test_a_drained_node_gives_its_pods_to_others_as_budgets_allow(site: Site) -> None:
    budget = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "d"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"gang": "d"}}},
    }  # fmt: skip
    site.kubectl("create", "-f", "-", text=json.dumps(budget))
    site.gang("d", 2)
    until(lambda: site.is_whole("d", 2))
    node = site.nodes_of("d")[0]
    site.kubectl("drain", node, "--force", "--timeout=120s")
    until(lambda: site.is_whole("d", 2))
    assert node not in site.nodes_of("d")
    site.kubectl("uncordon", node)
    site.end("d")
    site.kubectl("delete", "pdb", "d")


def test_pods_that_a_taint_sends_away_start_elsewhere(site: Site) -> None:
    site.gang("e", 2)
    until(lambda: site.is_whole("e", 2))
    node = site.nodes_of("e")[0]
    site.kubectl("taint", "node", node, "maintenance=now:NoExecute")
    until(lambda: node not in site.nodes_of("e") and site.is_whole("e", 2))
    site.kubectl("taint", "node", node, "maintenance-")
    site.end("e")


def test_pods_of_a_node_that_is_taken_away_start_elsewhere(site: Site) -> None:
    with bare_node(site, "spot"):
        site.gang("f", 3)
        until(lambda: site.nodes_of("f") == ["spot"] * 3)
    site.kubectl("delete", "node", "spot")
    until(lambda: site.is_whole("f", 3), seconds=240)
    site.end("f")


def test_pods_of_a_node_that_is_not_heard_of_start_elsewhere(site: Site) -> None:
    with bare_node(site, "lost"):
        site.gang("h", 3)
        until(lambda: site.nodes_of("h") == ["lost"] * 3)
    until(lambda: site.is_whole("h", 3), seconds=240)
    assert "lost" not in site.nodes_of("h")
    site.kubectl("delete", "node", "lost")
    site.end("h")


@contextmanager
def bare_node(site: Site, name: str) -> Iterator[None]:
    """One on which nobody is, and the only one that is open."""
    others = [one["metadata"]["name"] for one in site.get("nodes")["items"]]
    site.kubectl("cordon", *others)
    labels = {"kubernetes.io/hostname": name}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    site.kubectl("create", "-f", "-", text=json.dumps(node))
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "here"}
    status = {"status": {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}}
    site.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    yield
    site.kubectl("uncordon", *others)
