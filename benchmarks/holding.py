"""What the engine holds of a big cluster: memory and time of `muster controllers` until it has started.

    python benchmarks/holding.py [--workloads 100000] [--pods 200000] [--nodes 5000]

The engine with all its parts beside a server that only lists, page by page: workloads that wait in one queue without
quota, and running pods of others, some 3 KB each with managedFields. The objects are made as they are asked for, so
that a process holds what the engine holds and no more. Each row is a process of its own; "each" is what an object takes
beyond an empty cluster. The time of the processor is that of making the objects, too.
"""

import argparse
import asyncio
import gc
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from muster.api.config import DEFAULT
from muster.operator.replica import Replica
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import Request, Response

NOW = "2026-01-01T00:00:00Z"
SETTLE_SECONDS = 5.0
# Of the two pods of a workload that waits.
ASKED = {"cpu": "2", "memory": "8Gi"}


def _meta(name: str, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {f"f:field-{number}": {".": {}, "f:name": {}} for number in range(20)}
    managed = {"manager": "someone", "operation": "Update", "time": NOW, "fieldsType": "FieldsV1", "fieldsV1": fields}
    space = {"namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": NOW}
    return {"name": name, **space, "generation": 1, "managedFields": [managed, managed], **more}


def _container(cpu: str, run: str) -> dict[str, Any]:
    """run: of which job it is: what that job alone has."""
    resources = {"requests": {"cpu": cpu, "memory": "4Gi"}, "limits": {"cpu": cpu, "memory": "4Gi"}}
    variables = [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(8)]
    return {"name": "main", "image": "registry/image:1", "command": ["python", "train.py", run], "env": variables,
            "resources": resources, "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets"}]}  # fmt: skip


def _true(*types: str) -> list[dict[str, Any]]:
    return [{"type": type_, "status": "True", "reason": "R", "lastTransitionTime": NOW} for type_ in types]


def pod(number: int, nodes: int) -> dict[str, Any]:
    """One that runs."""
    job = f"job-{number // 2}"
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": f"u-{number // 2}"}
    labels = {"batch.kubernetes.io/job-name": job, "app": "train"}
    spec = {"containers": [_container("1m", job)], "nodeName": f"node-{number % nodes}", "restartPolicy": "Never",
            "schedulerName": "default-scheduler", "serviceAccountName": "default",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
            "volumes": [{"name": "token", "projected": {"sources": [{"configMap": {"name": "ca"}}]}}]}  # fmt: skip
    state = {"name": "main", "ready": True, "restartCount": 0, "image": "i", "imageID": "i",
             "state": {"running": {"startedAt": NOW}}}  # fmt: skip
    status = {"phase": "Running", "podIP": "10.1.2.3", "hostIP": "10.0.0.1", "startTime": NOW, "qosClass": "Guaranteed",
              "conditions": _true("PodScheduled", "Initialized", "ContainersReady", "Ready"),
              "containerStatuses": [state]}  # fmt: skip
    meta = _meta(f"pod-{number}", labels=labels, ownerReferences=[{**owner, "controller": True}])
    return {"metadata": meta, "spec": spec, "status": status}


def workload(number: int) -> dict[str, Any]:
    """One that waits, as the engine has left it."""
    owner = {"apiVersion": "example.com/v1", "kind": "Run", "name": f"run-{number}", "uid": f"r-{number}"}
    template = {"spec": {"restartPolicy": "Never", "containers": [_container("1", f"run-{number}")]}}
    spec = {"queueName": "q", "priority": 0, "active": True,
            "podSets": [{"name": "main", "count": 2, "template": template}]}  # fmt: skip
    seen = {"status": "False", "lastTransitionTime": NOW, "observedGeneration": 1}
    lacks = ", ".join(
        f"insufficient quota for {name} in flavor f, previously considered podsets requests (0) + current podset"
        f" request ({amount}) > maximum capacity (0)"
        for name, amount in ASKED.items()
    )
    waits = f"couldn't assign flavors to pod set main: {lacks}"
    conditions = [
        {"type": "QuotaReserved", "reason": "ExceedsMaxQuota", "message": waits, **seen},
        {"type": "Admitted", "reason": "NoReservation", "message": "The workload has no reservation", **seen},
    ]
    asked = [{"name": "main", "resources": ASKED}]
    meta = _meta(f"w-{number}", ownerReferences=[{**owner, "controller": True}])
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions, "resourceRequests": asked}}


def node(number: int) -> dict[str, Any]:
    """One that is ready."""
    size = {"cpu": "64", "memory": "512Gi", "pods": "250"}
    labels = {"kubernetes.io/hostname": f"node-{number}", "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    status = {"allocatable": size, "capacity": size, "conditions": _true("Ready")}
    return {"metadata": _meta(f"node-{number}", labels=labels), "status": status}


def queues() -> dict[str, list[dict[str, Any]]]:
    resources = [{"name": name, "nominalQuota": 0} for name in ("cpu", "memory")]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "f", "resources": resources}]}
    return {
        "resourceflavors": [{"metadata": _meta("f", finalizers=["kueue.x-k8s.io/resource-in-use"]), "spec": {}}],
        "clusterqueues": [{"metadata": _meta("q"), "spec": {"namespaceSelector": {}, "resourceGroups": [group]}}],
        "localqueues": [{"metadata": _meta("q"), "spec": {"clusterQueue": "q"}}],
        "namespaces": [{"metadata": _meta("default")}],
    }


class Still:
    """A server on which nothing changes: a transport that lists."""

    def __init__(self, sizes: Mapping[str, tuple[int, Callable[[int], dict[str, Any]]]]) -> None:
        """sizes: of each resource how many there are, and how one is made."""
        self._sizes = dict(sizes)
        for name, each in queues().items():
            self._sizes[name] = (len(each), each.__getitem__)
        self.asked: Counter[str] = Counter()

    async def request(self, request: Request) -> Response:
        resource = request.path.rpartition("/")[2]
        if request.method != "GET":
            self.asked[f"{request.method} {request.path.split('/')[3]}"] += 1
            return Response(404, b"{}")
        if resource not in self._sizes and "limit" not in request.query:
            return Response(404, b"{}")
        many, make = self._sizes.get(resource, (0, lambda _: {}))
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or many)
        end = min(start + limit, many)
        await asyncio.sleep(0)
        meta = {"resourceVersion": "1", "continue": str(end) if end < many else ""}
        return Response(200, msgspec.json.encode({"metadata": meta, "items": [make(n) for n in range(start, end)]}))

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        yield _silence()

    async def close(self) -> None:
        pass


async def _silence() -> AsyncIterator[bytes]:
    await asyncio.get_running_loop().create_future()
    yield b""


def _megabytes(what: str) -> float:
    found = re.search(rf"{what}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) / 1e3 if found else 0.0


async def hold(workloads: int, pods: int, nodes: int) -> None:
    """Start the engine, and print what it has come to: seconds, of the processor; megabytes, at most, and then."""
    server = Still({
        "workloads": (workloads, workload), "pods": (pods, lambda number: pod(number, nodes)), "nodes": (nodes, node)
    })  # fmt: skip
    election = msgspec.structs.replace(DEFAULT.leader_election, leader_elect=False)
    settings = msgspec.structs.replace(DEFAULT, leader_election=election)
    replica = Replica(server, ExternalInputs(RealClock(), Ids(), Random()), settings, "muster_benchmark")
    running = asyncio.create_task(replica.run())
    begun = time.process_time()
    while not replica.began.is_set() or replica.unready():
        await asyncio.wait([running], timeout=0.05)
        if running.done():
            running.result()
    started = time.process_time() - begun
    await asyncio.sleep(SETTLE_SECONDS)
    pause = time.perf_counter()
    gc.collect()
    pause = time.perf_counter() - pause
    print(json.dumps([started, _megabytes("VmHWM"), _megabytes("VmRSS"), pause, server.asked]))
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--hold", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.hold is not None:
        uvloop.run(hold(*options.hold))
        return
    empty = 0.0
    for sizes in [(0, 0, 1), (options.workloads, 0, 1), (0, options.pods, options.nodes),
                  (options.workloads, options.pods, options.nodes)]:  # fmt: skip
        command = [sys.executable, __file__, "--hold", *map(str, sizes)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        cpu, most, now, pause, asked = json.loads(answer.splitlines()[-1])
        empty = empty or now
        number = sizes[0] + sizes[1]
        each = f"{(now - empty) * 1e6 / number:8,.0f} bytes each" if number else ""
        print(f"{sizes[0]:>8,} workloads {sizes[1]:>8,} pods: {now:8,.0f} MB, {most:8,.0f} at most, CPU {cpu:6.1f} s,"
              f" a collection {pause:.1f} s {each} {asked or ''}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
