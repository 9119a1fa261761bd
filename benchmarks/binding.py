"""From the creation of pods to their last binding, through the embedded API server; and what waiting gangs cost.

    python benchmarks/binding.py [--memory]

1. One Job of so many pods on 100 nodes with room for all: pods/s from its creation to the last binding, the writes and
   the CPU time that each pod costs, server and controllers in one process.
2. Many Jobs that find no room: what telling them costs, what an idle second writes, and what it costs to look at all
   that wait when one pod has ended, with as many classes as there are different Jobs.
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from benchmarks.jobs import Silent

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Node, Pod
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import Journal, MemoryJournal
from muster.cluster.store.sqlite import SqliteJournal
from muster.controllers.integrations.table import gang_sources
from muster.controllers.job import JobController
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

SPACE = "default"
AT_ONCE = 32


def template(cpu: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "command": ["x"], "resources": {"requests": {"cpu": cpu}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


class Bound:
    """Counts bindings as an informer sees them."""

    def __init__(self, plane: ControlPlane) -> None:
        self._seen: set[str] = set()
        self._waits: list[tuple[int, asyncio.Event]] = []
        plane.manager.informer(POD).on_change(self._changed)

    def _changed(self, _: Pod | None, new: Pod | None) -> None:
        if new is not None and new.spec.node_name:
            self._seen.add(new.metadata.uid)
            for count, event in self._waits:
                if len(self._seen) >= count:
                    event.set()

    async def reach(self, count: int) -> None:
        event = asyncio.Event()
        self._waits.append((count, event))
        if len(self._seen) < count:
            await event.wait()


@asynccontextmanager
async def cluster(journal: Journal, nodes: int) -> AsyncIterator[tuple[ControlPlane, Bound]]:
    async with control_plane(journal, ExternalInputs(RealClock(), Ids(), Random())) as plane:
        manager = plane.manager
        manager.add(JobController(manager, Silent()))
        manager.add(Scheduler(manager, Silent(), gang_sources()))
        bound = Bound(plane)
        running = asyncio.create_task(manager.run())
        await manager.ready.wait()
        client = plane.client()
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        for number in range(nodes):
            name = f"node-{number}"
            await client.create(NODE, msgspec.convert({"metadata": {"name": name}}, Node))
            status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
            await client.patch(NODE, name, {"status": status}, subresource="status")
        # As the embedded cluster does when it has started.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        yield plane, bound
        await manager.stop()
        await running


async def create(plane: ControlPlane, name: str, workers: int, cpu: str) -> None:
    spec = {
        "completionMode": "Indexed", "completions": workers, "parallelism": workers, "template": template(cpu)
    }  # fmt: skip
    await plane.client().create(JOB, msgspec.convert({"metadata": {"name": name}, "spec": spec}, Job), SPACE)


async def start(journal: Journal, pods: int) -> str:
    async with cluster(journal, 100) as (plane, bound):
        await quiet(plane)  # the server's own first writes would count as a neighbour that is active
        first, began, cpu = plane.store.revision, time.perf_counter(), time.process_time()
        await create(plane, "job", pods, "1")
        await bound.reach(pods)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        writes = plane.store.revision - first
    return f"{pods:8} {seconds:8.2f} {pods / seconds:8.0f} {writes / pods:11.2f} {cpu / pods * 1e3:11.3f}"


async def wait(journal: Journal, gangs: int, classes: int) -> str:
    """Gangs of 3 on one node that is full but for one pod, and then one of those that run ends."""
    async with cluster(journal, 1) as (plane, bound):
        for number in range(2):
            await create(plane, f"running-{number}", 1, "31")
        await bound.reach(2)
        limit = asyncio.Semaphore(AT_ONCE)
        cpu = time.process_time()

        async def one(number: int) -> None:
            async with limit:
                await create(plane, f"waiting-{number}", 3, f"{10_000 + number % classes}m")

        await asyncio.gather(*(one(number) for number in range(gangs)))
        await quiet(plane)
        told = time.process_time() - cpu
        before = plane.store.revision
        cpu = time.process_time()
        await asyncio.sleep(5)
        idle, idle_cpu = plane.store.revision - before, (time.process_time() - cpu) / 5
        before, cpu, client = plane.store.revision, time.process_time(), plane.client()
        [pod] = (await client.list(POD, SPACE, labels="batch.kubernetes.io/job-name=running-0")).items
        await client.patch(POD, pod.metadata.name, {"status": {"phase": "Succeeded"}}, SPACE, subresource="status")
        await quiet(plane)
        swept = time.process_time() - cpu
        writes = plane.store.revision - before
    told, idle_cpu, swept = told / gangs * 1e3, idle_cpu * 1e3, swept * 1e3
    return f"{gangs:8} {classes:8} {told:15.2f} {idle:12} {idle_cpu:14.1f} {swept:15.1f} {writes:7}"


async def quiet(plane: ControlPlane) -> None:
    """Until nothing has been written for a second."""
    seen = -1
    while seen != plane.store.revision:
        seen = plane.store.revision
        await asyncio.sleep(1)


def measure(run: Callable[[Journal], Any], *, memory: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        journal: Journal = MemoryJournal() if memory else SqliteJournal(Path(directory))
        print(asyncio.run(run(journal)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", default="1000,3000", help="pods of the one Job")
    parser.add_argument(
        "--gangs", default="1000:1,1000:30,10000:30", help="gangs that wait, and how many are different"
    )
    parser.add_argument("--memory", action="store_true", help="a store without a disk")
    options = parser.parse_args()
    asyncio.run(start(MemoryJournal(), 10))  # the first start of a process imports numpy
    if options.pods:
        print("    pods  seconds   pods/s  writes/pod  CPU ms/pod")
        for pods in map(int, options.pods.split(",")):
            measure(lambda journal, pods=pods: start(journal, pods), memory=options.memory)  # type: ignore[misc]
    if options.gangs:
        print("\n   gangs  classes  CPU ms to wait  idle writes  idle CPU ms/s  CPU ms a sweep  writes")
        for gangs, classes in (map(int, one.split(":")) for one in options.gangs.split(",")):
            measure(lambda journal, g=gangs, c=classes: wait(journal, g, c), memory=options.memory)  # type: ignore[misc]


if __name__ == "__main__":
    main()
