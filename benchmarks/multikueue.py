"""Jobs through a manager to three workers, each a process of its own (`muster up`) with simulated nodes, over HTTPS.

    python benchmarks/multikueue.py [--jobs 1000] [--workers 3] [--idle SECONDS]

Beside it, in the same run, the same jobs in one such cluster alone. "running" is when the Job, where it was created,
says that its pod is active or has ended, as a client sees that by a watch. Each job has one pod that ends at once. All
processes share the machine: what depends on it least is the time of the processor that each of them took for a job.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from muster.actions.server.home import Home
from muster.api.batch import JOB, Job
from muster.api.kueue import MULTI_KUEUE_CLUSTER
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.simulated import RUN_TIME
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.ids import Random
from muster.runtime.kube.https import HttpsTransport
from muster.runtime.kube.kubeconfig_files import load

MUSTER = str(Path(sys.executable).parent / "muster")
# Creates of the client under way together.
AT_ONCE = 64
# For what still follows the last job, and a new connection.
SETTLE_SECONDS = 5.0
# Jobs that come one at a time, before all the others.
SINGLE = 9
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: all}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: any, resources: [{name: cpu, nominalQuota: 100000}]}]
"""
CHECK = """  admissionChecksStrategy: {admissionChecks: [{name: multikueue}]}
"""
LOCAL_QUEUE = """---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: all, namespace: default}
spec: {clusterQueue: all}
"""
MULTIKUEUE = """---
apiVersion: v1
kind: Namespace
metadata: {name: kueue-system}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: multikueue}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: all}
"""


def muster(*arguments: str, home: str, text: str = "") -> None:
    environment = os.environ | {"MUSTER_HOME": home}
    for name in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):  # what is installed has its byte code
        environment.pop(name, None)
    subprocess.run([MUSTER, *arguments], env=environment, check=True, capture_output=True, input=text.encode())


def joined(workers: dict[str, str]) -> str:
    """The manifests that tell the manager of its workers."""
    config = {"clusters": list(workers)}
    documents: list[dict[str, Any]] = [_document("MultiKueueConfig", "all", config)]
    for name, kubeconfig in workers.items():
        secret = {"metadata": {"name": name, "namespace": "kueue-system"}, "stringData": {"kubeconfig": kubeconfig}}
        documents.append({"apiVersion": "v1", "kind": "Secret"} | secret)
        source = {"kubeConfig": {"location": name, "locationType": "Secret"}}
        documents.append(_document("MultiKueueCluster", name, {"clusterSource": source}))
    return "".join(f"---\n{json.dumps(document)}\n" for document in documents)


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


@asynccontextmanager
async def client_of(home: str) -> AsyncIterator[Client]:
    config = load(environ={"KUBECONFIG": f"{home}/kubeconfig"})
    transport = HttpsTransport(config, RealClock(), Random(1))
    try:
        yield Client(transport)
    finally:
        await transport.close()


def job(number: int) -> Job:
    container = {"name": "c", "image": "none", "command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {RUN_TIME: "0s"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    document = {
        "metadata": {"name": f"j{number}", "namespace": "default", "labels": {QUEUE_NAME_LABEL: "all"}},
        "spec": {"parallelism": 1, "completions": 1, "template": template},
    }
    return msgspec.convert(document, Job)


async def dispatch(home: str, jobs: range) -> list[tuple[float, float, float]]:
    """When each job of these numbers was created, ran, and had ended."""
    created, running, ended = dict[str, float](), dict[str, float](), dict[str, float]()
    async with client_of(home) as client, client.watch(JOB, "default") as events:

        async def create(numbers: range) -> None:
            for number in numbers:
                created[f"j{number}"] = time.perf_counter()
                await client.create(JOB, job(number))

        made = asyncio.gather(*(create(jobs[start::AT_ONCE]) for start in range(AT_ONCE)))
        async for event in events:
            seen, now = event.object, time.perf_counter()
            if seen is None or seen.metadata.name not in created:  # a bookmark, or a job of before
                continue
            if seen.status.active or seen.status.succeeded:
                running.setdefault(seen.metadata.name, now)
            if finish(seen) is not None:
                ended.setdefault(seen.metadata.name, now)
            if len(ended) == len(jobs):
                break
        await made
    return [(created[name], running[name], ended[name]) for name in created]


def pid(home: str) -> int:
    """Of a server."""
    found = Home(Path(home)).server_pid()
    assert found is not None
    return found


def resident(home: str) -> float:
    """Of a server, in MB."""
    return int(Path(f"/proc/{pid(home)}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor(homes: Mapping[str, str]) -> dict[str, float]:
    """What servers have taken of it since they began, in ms."""
    fields = {
        name: Path(f"/proc/{pid(home)}/stat").read_text().rpartition(")")[2].split() for name, home in homes.items()
    }
    return {name: 1000 * (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK") for name, said in fields.items()}


def carried(home: str) -> dict[str, int]:
    """Bytes that a server has sent and got over each of its connections to others; none without `ss` to say it."""
    if shutil.which("ss") is None:
        return {}
    said = subprocess.run(["ss", "-tinpH", "state", "established"], check=True, capture_output=True, text=True).stdout
    found = {}
    for text in re.split(r"\n(?=\S)", said):
        _, _, local, peer, *_ = text.split()
        if f"pid={pid(home)}," in text and not local.endswith(f":{port(home)}"):
            found[f"{local} {peer}"] = sum(map(int, re.findall(r"bytes_(?:sent|received):(\d+)", text)))
    return found


def port(home: str) -> str:
    """Where a server is listening."""
    return str(urlsplit(load(environ={"KUBECONFIG": f"{home}/kubeconfig"}).cluster.server).port)


async def until_connected(home: str, workers: int) -> None:
    async with client_of(home) as client:
        while True:
            found = (await client.list(MULTI_KUEUE_CLUSTER)).items
            if sum(any(one.status == "True" for one in each.status.conditions) for each in found) == workers:
                return
            await asyncio.sleep(0.2)


def start(home: str, queue: str) -> None:
    muster("up", "--detach", "--port", "0", "--nodes", "simulated:20,cpu=1000,pods=10000", home=home)
    muster("apply", "-f", "-", home=home, text=queue)


def measured(homes: Mapping[str, str], jobs: range) -> dict[str, float]:
    """What becomes of jobs that are created in the first of these clusters, some of them singly, before the others."""
    first = next(iter(homes.values()))
    single = [asyncio.run(dispatch(first, jobs[number : number + 1])) for number in range(SINGLE)]
    before, together = processor(homes), jobs[SINGLE:]
    created, running, ended = zip(*(times := asyncio.run(dispatch(first, together))), strict=True)
    time.sleep(SETTLE_SECONDS)
    took = {name: (after - before[name]) / len(together) for name, after in processor(homes).items()}
    waits = sorted(run - made for made, run, _ in times)
    return {
        "one job at a time, created to running, median s": statistics.median(
            run - made for ((made, run, _),) in single
        ),
        "created/s": len(together) / (max(created) - min(created)),
        "running/s": len(together) / (max(running) - min(created)),
        "ended/s": len(together) / (max(ended) - min(created)),
        "created to running, median s": statistics.median(waits),
        "created to running, 99 % s": waits[int(len(waits) * 0.99)],
        "processor, ms a job": sum(took.values()),
        **{f"of it {name}": ms for name, ms in took.items()},
        **{f"memory, MB, {name}": resident(home) for name, home in homes.items()},
    }


def idle(homes: Mapping[str, str], seconds: float) -> dict[str, float]:
    """What a manager and its workers need while there is nothing to do."""
    manager = next(iter(homes.values()))
    before, bytes_before = processor(homes), carried(manager)
    time.sleep(seconds)
    minutes = seconds / 60
    took = {name: (after - before[name]) / minutes for name, after in processor(homes).items()}
    traffic = sum(count - bytes_before.get(connection, 0) for connection, count in carried(manager).items())
    return {
        "bytes a minute for each worker": traffic / (len(homes) - 1) / minutes,
        **{f"processor, ms a minute, {name}": ms for name, ms in took.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=1, help="in so many parts, those of either kind in turns")
    parser.add_argument(
        "--idle", type=float, default=60.0, help="for how many seconds nothing is done, to measure that"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        alone = {"alone": f"{folder}/alone"}
        workers = {name: f"{folder}/{name}" for name in (f"w{i}" for i in range(given.workers))}
        homes = {"manager": f"{folder}/manager", **workers}
        try:
            for name, home in (alone | homes).items():
                start(home, QUEUE + (CHECK if name == "manager" else "") + LOCAL_QUEUE)
            by_itself = resident(homes["manager"])
            kubeconfigs = {name: Path(home, "kubeconfig").read_text() for name, home in workers.items()}
            muster("apply", "-f", "-", home=homes["manager"], text=MULTIKUEUE + joined(kubeconfigs))
            asyncio.run(until_connected(homes["manager"], given.workers))
            time.sleep(SETTLE_SECONDS)
            grown = (resident(homes["manager"]) - by_itself) / given.workers
            report("idle", [{"memory of the manager, MB for each worker": grown} | idle(homes, given.idle)])
            parts = [range(given.jobs)[part :: given.rounds] for part in range(given.rounds)]
            found = [(measured(alone, part), measured(homes, part)) for part in parts]
        finally:
            for home in (alone | homes).values():
                muster("down", home=home)
    report("alone", [rows for rows, _ in found])
    report("dispatched", [rows for _, rows in found])


def report(what: str, rounds: list[dict[str, float]]) -> None:
    """The mean of all rounds; of memory, the last."""
    for row, last in rounds[-1].items():
        value = last if row.startswith("memory") else statistics.mean(rows[row] for rows in rounds)
        print(f"| {what}: {row} | {value:,.2f} |", flush=True)


if __name__ == "__main__":
    main()
