"""From the last pod of a JobSet's group that starts to the first and the last main container that begins.

    python -m benchmarks.group_start [--rounds N] [processes PODS ... | simulated PODS ... | decisions JOBS ...]

processes: process nodes and real processes; all but the last pod wait at their barrier for two seconds. The times are
those that the shims write down of their containers, so they are of the very exec.
simulated: the embedded server and the controllers of Jobs and JobSets in this process, which plays the nodes: each pod
is a status that it writes and a connection that it opens. The writes are those of the controllers.
decisions: what one look at a JobSet of so many child Jobs costs, while its group waits.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec
from benchmarks.jobs import Silent
from msgspec.structs import replace

from muster.api.config.types import GroupScheduling
from muster.api.core import CONFIG_MAP, POD, Pod
from muster.api.jobset import JOB_SET, JobSet
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.controlplane import control_plane
from muster.cluster.store import MemoryJournal
from muster.controllers.job import JobController
from muster.controllers.jobset import JobSetController
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.decide import decide
from muster.jobs.jobset.start.decide import StartedPods
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.process.descriptors import DESCRIPTORS, allow_descriptors
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, Request, Response

T = TypeVar("T")

MUSTER = str(Path(sys.executable).parent / "muster")
LATE_SECONDS = 2.0
MANIFEST = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: group}}
spec:
  groupSchedulingConfig: {{timeoutAfterSeconds: 300}}
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        template:
          spec:
            initContainers:
            - name: late
              image: none
              command: [sh, -c, 'test "$JOB_COMPLETION_INDEX" != {last} || sleep {late}']
            containers:
            - {{name: main, image: none, command: [sleep, "0.5"], resources: {{requests: {{cpu: 1m}}}}}}
"""


def muster(*arguments: str, home: str, text: str = "") -> None:
    environment = os.environ | {"MUSTER_HOME": home}
    for name in ("KUBECONFIG", "PYTHONDONTWRITEBYTECODE"):  # what is installed has its byte code
        environment.pop(name, None)
    subprocess.run([MUSTER, *arguments], env=environment, check=True, capture_output=True, input=text.encode())


def starts(home: str, container: str, key: str = "started") -> list[float]:
    """When the containers of a name began (or whatever else is written down of them), in seconds."""
    states = Path(home).glob(f"nodes/*/pods/*/containers/{container}/0/state")
    return sorted(record[key] / 1e9 for state in states if (record := json.loads(state.read_text())).get(key))


def measure(pods: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        muster("up", "--detach", "--port", "0", "--nodes", f"process:1,cpu=64,pods={pods + 10}", home=home)
        late = LATE_SECONDS + pods / 10  # the others have to be there before it
        manifest = MANIFEST.format(pods=pods, last=pods - 1, late=late)
        began = time.time()
        muster("apply", "-f", "-", home=home, text=manifest)
        while len(starts(home, "main", "finished")) < pods:
            time.sleep(0.5)
        barriers, mains = starts(home, "group-scheduling-init"), starts(home, "main")
        ends = starts(home, "group-scheduling-init", "finished")
        muster("down", home=home)
    assert len(mains) == pods
    last = barriers[-1]
    return {
        "all but one wait": barriers[-2] - began,
        "first barrier opens": (ends[0] - last) * 1000,
        "last barrier opens": (ends[-1] - last) * 1000,
        "first main": (mains[0] - last) * 1000,
        "last main": (mains[-1] - last) * 1000,
        "skew": (mains[-1] - mains[0]) * 1000,
    }


# Simulated.


class Counted(InProcessTransport):
    """Counts what the controllers write, by resource."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.writes: Counter[str] = Counter()

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            self.writes[next(name for name in (*OURS, "other") if name == "other" or f"/{name}" in request.path)] += 1
        return await super().request(request)


OURS = ("jobsets", "configmaps", "jobs", "pods")
ROOT = "group-scheduling-init"


def job_set(pods: int) -> JobSet:
    container = {"name": "main", "image": "none", "command": ["x"]}
    spec = {"parallelism": pods, "completions": pods, "template": {"spec": {"containers": [container]}}}
    roles = [{"name": "workers", "template": {"spec": spec}}]
    given = {"replicatedJobs": roles, "groupSchedulingConfig": {"timeoutAfterSeconds": 600}}
    return msgspec.convert({"metadata": {"name": "group"}, "spec": given}, JobSet)


async def barrier(endpoint: str) -> float:
    """A barrier that waits; when it heard its word."""
    host, port, secret = endpoint.split()
    while True:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"1 {secret}\n".encode())
        word = await reader.readline()
        heard = time.perf_counter()
        writer.close()
        if word == f"started {secret.partition('.')[0]} 1\n".encode():
            return heard
        await asyncio.sleep(1)


async def arrive(client: Client, pod: Pod) -> None:
    statuses = [{"name": ROOT, "image": "", "imageID": "", "state": {"running": {}}}]
    status = {"status": {"phase": "Pending", "initContainerStatuses": statuses}}
    await client.patch(POD, pod.metadata.name, status, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


async def until(found: Callable[[], Awaitable[T | None]]) -> T:
    while (it := await found()) is None:
        await asyncio.sleep(0.05)
    return it


async def simulate(pods: int) -> dict[str, float]:
    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        wire = Counted(plane.server)
        manager = Manager(Client(wire), RealClock(), Random())
        manager.add(JobController(manager, Silent()))
        release = GroupScheduling(bind_address="127.0.0.1:0")
        manager.add(JobSetController(manager, Silent(), start=release))
        running = asyncio.create_task(manager.run())
        await manager.ready.wait()
        client = plane.client()
        await client.create(JOB_SET, job_set(pods), "default")

        async def there() -> list[Pod] | None:
            found = (await client.list(POD, "default")).items
            return found if len(found) == pods else None

        *early, last = await until(there)
        words = (await client.get(CONFIG_MAP, "group-group-scheduling", "default")).data["endpoint"]
        waiting = [asyncio.create_task(barrier(words)) for _ in range(pods)]
        wire.writes.clear()
        for pod in early:
            await arrive(client, pod)
        await asyncio.sleep(3)
        before = time.perf_counter()
        await arrive(client, last)
        heard = sorted(await asyncio.gather(*waiting))

        async def written() -> bool | None:
            data = (await client.get(CONFIG_MAP, "group-group-scheduling", "default")).data
            return True if data.get("started", "").endswith(" 1") else None

        await until(written)
        await asyncio.sleep(1)
        writes = dict(wire.writes)
        await manager.stop()
        await running
    return {
        "first hears": (heard[0] - before) * 1000,
        "last hears": (heard[-1] - before) * 1000,
        "skew": (heard[-1] - heard[0]) * 1000,
        "writes of the JobSet": writes.get("jobsets", 0),
        "writes of the ConfigMap": writes.get("configmaps", 0),
        "writes of Jobs": writes.get("jobs", 0),
        "writes of pods": writes.get("pods", 0),
    }


def measure_simulated(pods: int) -> dict[str, float]:
    gc.collect()
    return asyncio.run(simulate(pods))


# Decisions.


def measure_decision(jobs: int) -> dict[str, float]:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    given = job_set(1)
    role = replace(given.spec.replicated_jobs[0], replicas=jobs)
    given = replace(given, spec=replace(given.spec, replicated_jobs=(role,)))
    made = decide(given, (), now=now)
    while made.more or len(made.create) < jobs:
        children = Children(given)
        made = replace(made, create=tuple(children.job(role, index) for index in range(jobs)), more=False)
    standing = StartedPods({job.metadata.uid: {"0"} for job in made.create[1:]})
    given = replace(given, status=made.status)
    seconds = []
    for _ in range(5):
        before = time.perf_counter()
        decide(given, made.create, now=now, group=standing)
        seconds.append(time.perf_counter() - before)
    return {"one look": min(seconds) * 1000}


MEASURES = {"processes": measure, "simulated": measure_simulated, "decisions": measure_decision}
SIZES = {"processes": [8, 10, 100], "simulated": [100, 1000, 5000], "decisions": [1, 100, 10_000]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    allow_descriptors(DESCRIPTORS)
    for size in arguments.sizes or SIZES[arguments.what]:
        rounds = [MEASURES[arguments.what](size) for _ in range(arguments.rounds)]
        for name in rounds[0]:
            values = [found[name] for found in rounds]
            unit = "" if name.startswith("writes") else "s" if name == "all but one wait" else "ms"
            print(f"{size:6}  {name:24} {statistics.median(values):8.1f} {unit:2} (worst {max(values):.1f})")


if __name__ == "__main__":
    main()
