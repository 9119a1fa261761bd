"""Muster in place of Kueue's manager, and back, on a real server: the world is as Kueue writes it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.conftest import Cluster, Replica, until
from tests.documents import needs_the_peers
from tests.kubeplane import needs_kubernetes
from tests.system.takeover.left_by_kueue import Kueue, podset

from muster.api.batch import JOB
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load

pytestmark = [needs_kubernetes, needs_the_peers, pytest.mark.kubectl, pytest.mark.timeout(600)]

Start = Callable[..., Replica]
KINDS = ("jobs", "pods", "workloads")


def played(cluster: Cluster, scene: Callable[[Kueue], Awaitable[None]]) -> None:
    """Let Kueue's manager write something."""

    async def body() -> None:
        transport = HttpsTransport(load(os.environ, path=str(cluster.plane.kubeconfig)), RealClock(), Random())
        try:
            now = RealClock().now().strftime("%Y-%m-%dT%H:%M:%SZ")
            await scene(Kueue(transport, lambda: asyncio.sleep(3), queue="lq", then=now))
        finally:
            await transport.close()

    asyncio.run(body())


def everything(cluster: Cluster) -> dict[str, Any]:
    """The jobs, their pods and Workloads, with who has written what."""
    return {
        kind: {
            one["metadata"]["name"]: one
            for one in json.loads(cluster.kubectl("get", kind, "-o", "json", "--show-managed-fields"))["items"]
        }
        for kind in KINDS
    }


def adopt(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("muster")), "adopt", "--kubeconfig", str(cluster.plane.kubeconfig)]
    return subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)


def test_muster_goes_on_where_kueue_stopped_and_kueue_where_muster_did(cluster: Cluster, start: Start) -> None:
    async def left(k: Kueue) -> None:
        runs = await k.job("runs", 3)
        name = await k.workload(runs, JOB, [podset(3)])
        await k.admit(name, {"main": 3}, ready=False)
        await k.start(runs, name)
        for each in ("first", "second"):
            await k.refuse(await k.workload(await k.job(each, 3), JOB, [podset(3)]), 3)
            await asyncio.sleep(1.1)  # creation times are of whole seconds

    played(cluster, left)
    until(lambda: cluster.pods("runs") == 3)
    asked = adopt(cluster, "--dry-run", "-o", "json")
    assert asked.returncode == 0, asked.stderr
    counts = {"admitted": 1, "reserved": 0, "pending": 2, "inactive": 0, "finished": 0}
    expected = {"workloads": [{"kind": "Job.batch", "handled": True, "counts": counts}], "gates": [], "findings": []}
    assert json.loads(asked.stdout) == expected
    assert "Muster can take over: stop Kueue's manager" in adopt(cluster, "--dry-run").stdout
    before = everything(cluster)
    replica = start()
    until(lambda: replica.said(" leads "))
    until(lambda: cluster.get("clusterqueue", "cq").get("status", {}).get("pendingWorkloads") == 2)
    asyncio.run(asyncio.sleep(5))
    now = everything(cluster)
    names = {kind: {name: one["metadata"]["uid"] for name, one in found.items()} for kind, found in before.items()}
    assert names == {kind: {name: one["metadata"]["uid"] for name, one in found.items()} for kind, found in now.items()}
    assert now["jobs"] == before["jobs"]
    assert [written_by_muster(one) for one in now["pods"].values()] == [set()] * 3
    said = set().union(*(written_by_muster(one) for one in now["workloads"].values()))
    assert said <= {"f:conditions"}, "that pods are not ready is said, and nothing else"

    assert f"Muster has taken over: the Lease of engines names {cluster.holder()}" in adopt(cluster, "--dry-run").stdout
    refused = adopt(cluster, "--back")
    assert refused.returncode == 1
    assert "still works: stop it first" in refused.stderr

    cluster.kubectl("delete", "job", "runs")
    until(lambda: cluster.pods("first") == 3)
    assert cluster.is_suspended("second")
    replica.process.send_signal(signal.SIGTERM)
    assert replica.process.wait(60) == 0
    first = next(name for name in everything(cluster)["workloads"] if name.startswith("job-first-"))

    given = adopt(cluster, "--back")
    assert (given.returncode, given.stdout.partition(" given back")[2]) == (0, ": Kueue's manager can start\n")
    back = cluster.get("workload", first)
    assert back["status"]["admission"]["clusterQueue"] == "cq"
    played(cluster, lambda k: k.evict(first))
    assert "admission" not in cluster.get("workload", first)["status"]
    cluster.kubectl("delete", "jobs,pods", "--all")
    cluster.kubectl("delete", "workloads", "--all", "--wait=false")


def written_by_muster(document: Any) -> set[str]:
    """The fields of an object's status, and all of the rest, that Muster has said."""
    found: set[str] = set()
    for entry in document["metadata"]["managedFields"]:
        if entry["manager"] == "muster":
            found |= set(entry["fieldsV1"].get("f:status", {})) | (set(entry["fieldsV1"]) - {"f:status"})
    return found
