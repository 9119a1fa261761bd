"""Definitions of the version before, and a rolling update, on a real server.

The definitions of the version before are today's with less. `test_bad_days.py` has those of the next version.
"""

import copy
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import QUEUES, Cluster, Replica, until
from tests.kubeplane import kube_plane, needs_kubernetes

from muster.api.config import load
from muster.install.documents import make_documents
from muster.install.options import Options, make_default_configuration

pytestmark = [needs_kubernetes, pytest.mark.kubectl, pytest.mark.timeout(600)]

Start = Callable[..., Replica]
Json = dict[str, Any]
TODAY = [
    each
    for each in json.loads(
        json.dumps(
            make_documents(
                Options(
                    make_default_configuration(), load(make_default_configuration()), webhooks=False, kinds=("kueue",)
                )
            )
        )
    )
    if each["kind"] == "CustomResourceDefinition"
]
# Of statuses: what no start, stop or wait rests on. A version before may lack any of it.
LACKING = (
    "accumulatedPastExecutionTimeSeconds", "admittedWorkloads", "fairSharing", "flavorsReservation", "flavorsUsage",
    "pendingWorkloads", "preemptionGates", "reclaimablePods", "reservingWorkloads", "resourceRequests",
    "schedulingStats", "unhealthyNodes",
)  # fmt: skip
QUIET_SECONDS = 8


def older() -> list[Json]:
    """Today's definitions without those fields: the server drops them from what is written."""
    found = copy.deepcopy(TODAY)
    for version in _versions(found):
        status = version["schema"]["openAPIV3Schema"]["properties"].get("status", {}).get("properties", {})
        for name in LACKING:
            status.pop(name, None)
    return found


def _versions(definitions: list[Json]) -> Iterator[Json]:
    return (version for each in definitions for version in each["spec"]["versions"])


@contextmanager
def cluster_with(home: Path, definitions: list[Json]) -> Iterator[Cluster]:
    with kube_plane(home, "kube-controller-manager") as plane:
        cluster = Cluster(plane)
        cluster.kubectl("create", "namespace", "kueue-system")
        define(cluster, definitions)
        cluster.kubectl("apply", "-f", "-", text=QUEUES)
        yield cluster


def define(cluster: Cluster, definitions: list[Json]) -> None:
    several = json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions})
    cluster.kubectl("apply", "--server-side", "--field-manager", "muster", "--force-conflicts", "-f", "-", text=several)
    cluster.kubectl("wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")


def versions(cluster: Cluster) -> dict[str, str]:
    """Which version each object that the engine writes has."""
    kinds = "workloads.kueue.x-k8s.io,clusterqueues,localqueues,jobs,pods"
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in cluster.get(kinds, "-A")["items"]}


def use(cluster: Cluster) -> None:
    """Run a job, let one wait, and let that start."""
    cluster.job("runs")
    cluster.job("waits")
    until(lambda: cluster.pods("runs") == 2)
    assert cluster.is_suspended("waits")
    time.sleep(QUIET_SECONDS / 2)
    before = versions(cluster)
    time.sleep(QUIET_SECONDS)
    assert versions(cluster) == before, "an engine at rest writes nothing, whatever the server drops"
    cluster.kubectl("delete", "job", "runs")
    until(lambda: cluster.pods("waits") == 2)
    cluster.kubectl("delete", "job", "waits")


@contextmanager
def starting(cluster: Cluster, home: Path) -> Iterator[Start]:
    started: list[Replica] = []

    def begin() -> Replica:
        started.append(Replica(cluster.plane, home / f"replica-{len(started)}.log", "--without-webhooks"))
        return started[-1]

    try:
        yield begin
    finally:
        for replica in started:
            replica.process.kill()
            replica.process.wait()


def test_an_engine_works_with_the_definitions_of_the_version_before(tmp_path: Path) -> None:
    with cluster_with(tmp_path, older()) as cluster, starting(cluster, tmp_path) as start:
        replica = start()
        until(lambda: replica.said(" leads "))
        use(cluster)
        define(cluster, TODAY)  # under its hands
        cluster.job("after")
        until(lambda: cluster.pods("after") == 2)
        until(lambda: cluster.get("clusterqueue", "cq")["status"].get("admittedWorkloads") == 1)


def test_a_rolling_update_leaves_what_runs_alone(tmp_path: Path) -> None:
    with cluster_with(tmp_path, TODAY) as cluster, starting(cluster, tmp_path) as start:
        old = start()
        until(lambda: old.said(" leads "))
        cluster.job("runs")
        cluster.job("waits")
        until(lambda: cluster.pods("runs") == 2)
        until(lambda: len(cluster.get("workloads.kueue.x-k8s.io")["items"]) == 2)
        time.sleep(QUIET_SECONDS / 2)  # why a job waits is written a second later
        before = versions(cluster)
        new = start()
        until(lambda: new.readiness() == "ok")
        old.process.send_signal(signal.SIGTERM)
        assert old.process.wait(60) == 0
        until(lambda: new.said(" leads "))
        time.sleep(QUIET_SECONDS / 2)
        assert versions(cluster) == before
        cluster.kubectl("delete", "job", "runs")
        until(lambda: cluster.pods("waits") == 2)
