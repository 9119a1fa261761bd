"""A move from a real Kueue, and the way back, as far as one of its managers is on this machine."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from tests.cluster.conftest import QUEUES, Cluster, Replica, install_kinds, until
from tests.cluster.real_kueue import (
    IS_NEW,
    NAMESPACE,
    SECRET,
    Manager,
    apply,
    gates,
    install,
    install_definitions,
    manifests,
    needs_kueue,
    needs_new_kueue,
    pod,
    settled,
)
from tests.documents import needs_the_peers
from tests.kubeplane import kube_plane, needs_kubernetes

from muster.webhooks import certificates

pytestmark = [needs_kubernetes, needs_kueue, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

BOTH = ["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"]
Begin = Callable[..., Manager]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own."""
    home = tmp_path / "plane"
    home.mkdir()
    with kube_plane(home, "kube-controller-manager") as plane:
        found = Cluster(plane)
        found.kubectl("create", "namespace", NAMESPACE)
        yield found


@pytest.fixture
def begin(alone: Cluster, tmp_path: Path) -> Iterator[Begin]:
    """Start Kueue's manager; all are stopped at the end."""
    started: list[Manager] = []

    def start(features: Mapping[str, bool] = {}) -> Manager:
        started.append(Manager(alone, tmp_path / f"kueue-{len(started)}", features))
        return started[-1]

    yield start
    for manager in started:
        manager.stop()


@pytest.fixture
def lead(alone: Cluster, tmp_path: Path) -> Iterator[Callable[..., Replica]]:
    """Start a replica of Muster that leads; it is killed at the end."""
    started: list[Replica] = []

    def start(more: str = "") -> Replica:
        started.append(Replica(alone.plane, tmp_path / f"muster-{len(started)}.log", settings=SETTINGS + more))
        until(lambda: started[-1].said(" leads "))
        return started[-1]

    yield start
    for replica in started:
        replica.process.kill()
        replica.process.wait()


SETTINGS = "integrations: {frameworks: [batch/job, pod]}\n"


def adopt(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("muster")), "adopt", "--kubeconfig", str(cluster.plane.kubeconfig)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def stop(replica: Replica) -> None:
    replica.process.send_signal(signal.SIGTERM)
    assert replica.process.wait(60) == 0


def test_pods_that_kueues_webhook_has_gated_twice_start_after_the_move(
    alone: Cluster, begin: Begin, lead: Callable[..., Replica]
) -> None:
    install(alone, kinds=True)
    manager = begin({"TopologyAwareScheduling": True})
    settled(manager)
    alone.kubectl("apply", "-f", "-", text=QUEUES if IS_NEW else QUEUES.replace("v1beta2", "v1beta1"))
    alone.job("runs", 3)
    until(lambda: alone.pods("runs") == 3)
    apply(alone, [pod("alone"), pod("g-0", "g", 2), pod("g-1", "g", 2)])
    until(lambda: len(alone.get("workloads")["items"]) == 3)
    assert gates(alone) == dict.fromkeys(("alone", "g-0", "g-1"), BOTH)
    manager.stop()
    if not IS_NEW:
        move_kinds(alone)
    before = podsets(alone)

    report = adopt(alone, "--dry-run", "-o", "json")
    counts = {gate["name"]: gate["pods"] for gate in json.loads(report.stdout)["gates"]}
    assert counts == dict.fromkeys(BOTH, 3)
    lead()
    until(lambda: alone.get("clusterqueue", "cq").get("status", {}).get("pendingWorkloads") == 2)
    assert podsets(alone) == before
    assert alone.pods("runs") == 3
    alone.kubectl("delete", "job", "runs")
    until(lambda: not any(gates(alone).values()))


def podsets(cluster: Cluster) -> dict[str, Any]:
    """Those of each Workload; other fields of the older version go with any write."""
    return {each["metadata"]["name"]: each["spec"]["podSets"] for each in cluster.get("workloads")["items"]}


def move_kinds(cluster: Cluster) -> None:
    """Put the definitions that Muster knows in the place of an older Kueue's; kinds without objects go.

    What is stored here has the same fields in both versions, so that no conversion is needed.
    """
    for each in manifests():
        if each["kind"] == "CustomResourceDefinition":
            name = each["metadata"]["name"]
            versions = {version["name"] for version in each["spec"]["versions"]}
            if "v1beta1" not in versions:
                cluster.kubectl("delete", "crd", name)
    install_kinds(cluster, "kueue")


def test_kueues_manager_starts_on_the_certificates_that_muster_leaves(
    alone: Cluster, begin: Begin, lead: Callable[..., Replica]
) -> None:
    install_definitions(alone)
    install(alone, kinds=False)
    manager = begin()
    settled(manager)
    manager.stop()
    kueues = manager.data()

    replica = lead()
    until(lambda: manager.data() != kueues)
    held = certificates.read(manager.data())
    assert held.signer is not None
    assert held.unusable == (), "Kueue's authority has the serial number 0"
    stop(replica)
    assert adopt(alone, "--back").returncode == 0
    again = begin()
    settled(again)
    again.stop()

    # As an earlier version of Muster left it: the key of Kueue's authority in another form.
    spoil(alone, kueues)
    hangs = begin()
    until(lambda: hangs.said("while parsing CA key"))
    time.sleep(5)
    assert not hangs.is_ready()
    hangs.stop()
    given = adopt(alone, "--back")
    assert (given.returncode, f"Secret {NAMESPACE}/{SECRET} is emptied" in given.stderr) == (0, True)
    settled(begin())


def spoil(cluster: Cluster, data: Mapping[str, bytes]) -> None:
    key = serialization.load_pem_private_key(data["ca.key"], None)
    form = serialization.PrivateFormat.PKCS8
    rewritten = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    patch = {"stringData": {name: value.decode() for name, value in {**data, "ca.key": rewritten}.items()}}
    cluster.kubectl("patch", "secret", "-n", NAMESPACE, SECRET, "--type=merge", "-p", json.dumps(patch))


def grow(cluster: Cluster, size: int) -> None:
    cluster.kubectl("patch", "job", "grows", "--type=merge", "-p", json.dumps({"spec": {"parallelism": size}}))


def slices(cluster: Cluster) -> dict[str, int]:
    """The sizes of the Workloads of the Job `grows` that are not finished; `+` before those that hold quota."""
    found = {}
    for each in cluster.get("workloads")["items"]:
        true = {one["type"] for one in each.get("status", {}).get("conditions", ()) if one["status"] == "True"}
        if each["metadata"]["ownerReferences"][0]["name"] == "grows" and "Finished" not in true:
            sign = "+" if "QuotaReserved" in true else ""
            found[sign + each["metadata"]["name"]] = each["spec"]["podSets"][0]["count"]
    return found


def open_pods(cluster: Cluster) -> tuple[int, int]:
    """How many pods the Job `grows` has that no gate holds, and how many in all."""
    pods = cluster.get("pods", "-l", "job-name=grows")["items"]
    return sum(not each["spec"].get("schedulingGates") for each in pods), len(pods)


@needs_new_kueue
def test_an_elastic_job_goes_on_growing_after_the_move_and_after_the_way_back(
    alone: Cluster, begin: Begin, lead: Callable[..., Replica]
) -> None:
    install(alone, kinds=True)
    manager = begin()
    settled(manager)
    alone.kubectl("apply", "-f", "-", text=QUEUES)
    alone.job("runs", 1)
    meta = {
        "name": "grows", "labels": {"kueue.x-k8s.io/queue-name": "lq"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }  # fmt: skip
    template = {"spec": pod("x")["spec"]}
    spec = {"parallelism": 1, "completions": 9, "template": template}
    apply(
        alone, [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {**meta, "namespace": "default"}, "spec": spec}]
    )
    until(lambda: open_pods(alone) == (1, 1))
    grow(alone, 3)
    until(lambda: sorted(slices(alone).values()) == [1, 3] and open_pods(alone) == (1, 3))
    (old,), (new,) = ([name for name in slices(alone) if name.startswith("+") is held] for held in (True, False))
    manager.stop()

    replica = lead()
    until(lambda: slices(alone) == {old: 3, new: 3})
    assert open_pods(alone) == (1, 3)
    alone.kubectl("delete", "job", "runs")
    until(lambda: slices(alone) == {old: 3} and open_pods(alone) == (3, 3))
    grow(alone, 5)
    until(lambda: slices(alone) == {old: 5} and open_pods(alone) == (3, 5))
    stop(replica)
    assert adopt(alone, "--back").returncode == 0
    assert slices(alone) == {old: 3}

    again = begin()
    settled(again)
    until(lambda: sorted(slices(alone).values()) == [3, 5])
    assert open_pods(alone) == (3, 5)
    alone.kubectl("apply", "-f", "-", text=QUEUES.replace("nominalQuota: 3", "nominalQuota: 9"))
    until(lambda: list(slices(alone).values()) == [5] and open_pods(alone) == (5, 5))
    assert old not in slices(alone)


FLAVORS = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: best}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: worst}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: cq}
spec:
  namespaceSelector: {}
  concurrentAdmissionPolicy: {migration: {mode: TryPreferredFlavors}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: best, resources: [{name: cpu, nominalQuota: 2}]}
    - {name: worst, resources: [{name: cpu, nominalQuota: 4}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: lq, namespace: default}
spec: {clusterQueue: cq}
"""
VARIANTS = {"ConcurrentAdmission": True}


def flavor_of(cluster: Cluster, job: str) -> str:
    """The flavor that a Job runs on; "" if it waits."""
    for each in cluster.get("workloads")["items"]:
        admission = each.get("status", {}).get("admission")
        if each["metadata"]["ownerReferences"][0]["name"] == job and admission:
            return str(admission["podSetAssignments"][0]["flavors"]["cpu"])
    return ""


def family(cluster: Cluster, job: str) -> dict[str, tuple[bool, bool]]:
    """The variants of a Job's Workload by flavor: whether each is active, and whether it holds quota."""
    found = cluster.get("workloads")["items"]
    owners = {each["metadata"]["uid"] for each in found if each["metadata"]["ownerReferences"][0]["name"] == job}
    return {
        each["metadata"]["annotations"]["kueue.x-k8s.io/workload-allowed-resource-flavors"]: (
            each["spec"]["active"],
            "admission" in each.get("status", {}),
        )
        for each in found
        if each["metadata"]["ownerReferences"][0]["uid"] in owners
    }


@needs_new_kueue
def test_jobs_move_to_better_flavors_after_the_move_and_after_the_way_back(
    alone: Cluster, begin: Begin, lead: Callable[..., Replica]
) -> None:
    install(alone, kinds=True)
    manager = begin(VARIANTS)
    settled(manager)
    alone.kubectl("apply", "-f", "-", text=FLAVORS)
    for name in ("first", "second", "third"):
        alone.job(name, 2)
        until(partial(flavor_of, alone, name))
    until(lambda: family(alone, "second") == {"best": (True, False), "worst": (True, True)})
    assert [flavor_of(alone, name) for name in ("first", "second", "third")] == ["best", "worst", "worst"]
    manager.stop()
    before = {name: family(alone, name) for name in ("first", "second", "third")}

    replica = lead("featureGates: {ConcurrentAdmission: true}\n")
    until(lambda: alone.pods("third") == 2)
    assert {name: family(alone, name) for name in before} == before
    alone.kubectl("delete", "job", "first")
    until(lambda: flavor_of(alone, "second") == "best" and alone.pods("second") == 2)
    until(lambda: family(alone, "second") == {"best": (True, True), "worst": (False, False)})
    assert flavor_of(alone, "third") == "worst"
    alone.job("fourth", 2)
    until(lambda: flavor_of(alone, "fourth") == "worst")
    stop(replica)
    assert adopt(alone, "--back").returncode == 0

    again = begin(VARIANTS)
    settled(again)
    assert [flavor_of(alone, name) for name in ("second", "third", "fourth")] == ["best", "worst", "worst"]
    alone.kubectl("delete", "job", "second")
    until(lambda: sorted(flavor_of(alone, name) for name in ("third", "fourth")) == ["best", "worst"])
