"""What the engine's writes cost in process: the processor's time of each, with an informer that follows.

    python benchmarks/writes.py [--objects 1500] [--directory DIR]

A column is one kind of write, eight at a time, without a disk; the least of many parts counts, as other work on the
machine only adds to it. "A status with an event" is on disk: one writer patches statuses, another creates an event
beside each, both one after the other, as an engine does that admits.
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

from muster.api.core import EVENT, POD, Event, Pod
from muster.api.kueue import WORKLOAD, Workload
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import Journal, MemoryJournal
from muster.cluster.store.sqlite import SqliteJournal
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.informer import Informer
from muster.runtime.process.garbage import settle

SPACE = "default"
AT_ONCE, PART = 8, 50
NOW = "2026-01-01T00:00:00Z"


def workload(number: int) -> Workload:
    """A workload of one pod."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queueName": "q", "priority": 5, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return WORKLOAD.typed({"metadata": {"name": f"w-{number}", "namespace": SPACE}, "spec": spec})


def pod(number: int) -> Pod:
    """A pod as a Job controller makes it."""
    annotations = {"batch.kubernetes.io/job-completion-index": str(number)}
    meta = {"name": f"p-{number}", "namespace": SPACE, "labels": {"app": "train"}, "annotations": annotations}
    requests = {"requests": {"cpu": "1", "memory": "1Gi"}}
    container = {"name": "main", "image": "example.com/train:1", "command": ["python", "t.py"], "resources": requests}
    return POD.typed({"metadata": meta, "spec": {"restartPolicy": "Never", "containers": [container]}})


def event(number: int) -> Event:
    """An event about a workload."""
    about = {"kind": "Workload", "namespace": SPACE, "name": f"w-{number}", "apiVersion": WORKLOAD.api_version}
    return EVENT.typed({
        "metadata": {"name": f"e.{number:x}", "namespace": SPACE}, "involvedObject": about, "type": "Normal",
        "reason": "QuotaReserved", "message": "Quota reserved in ClusterQueue cq", "count": 1,
        "firstTimestamp": NOW, "lastTimestamp": NOW, "source": {"component": "kueue-admission"},
    })  # fmt: skip


def admitted(*, evicted: str = "") -> dict[str, Any]:
    """The status of an admitted workload, with a condition about its eviction if `evicted` is its status."""
    true = dict.fromkeys(("QuotaReserved", "Admitted"), "True") | ({"Evicted": evicted} if evicted else {})
    conditions = [
        {"type": type_, "status": status, "reason": type_, "message": f"It is {type_}", "lastTransitionTime": NOW}
        for type_, status in true.items()
    ]
    assigned = {"name": "main", "count": 1, "flavors": {"cpu": "rf"}, "resourceUsage": {"cpu": "1"}}
    return {"conditions": conditions, "admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}}


@asynccontextmanager
async def engine(journal: Journal) -> AsyncIterator[ControlPlane]:
    """A control plane without controllers, whose informers follow workloads and pods."""
    async with control_plane(journal, ExternalInputs(RealClock(), Ids(), Random())) as plane:
        plane.manager.informer(WORKLOAD)
        plane.manager.informer(POD)
        running = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        settle()
        yield plane
        await plane.manager.stop()
        await running


async def least(numbers: Sequence[int], write: Callable[[int], Awaitable[object]]) -> float:
    """The least time of the processor that a part of the writes took, in microseconds for each."""
    spent = []
    for at in range(0, len(numbers), PART):
        left, start = iter(numbers[at : at + PART]), time.process_time()

        async def writer(left: Any = left) -> None:
            for number in left:
                await write(number)

        await asyncio.gather(*(writer() for _ in range(AT_ONCE)))
        await asyncio.sleep(0.003)  # the informers follow
        spent.append((time.process_time() - start) / len(numbers[at : at + PART]) * 1e6)
    return min(spent)


async def each(plane: ControlPlane, objects: int) -> None:
    """One row for each kind of write."""
    client = plane.manager.client
    seen: dict[Any, Informer[Any]] = {WORKLOAD: plane.manager.informer(WORKLOAD), POD: plane.manager.informer(POD)}

    def patch(kind: Any, prefix: str, status: Mapping[str, Any]) -> Callable[[int], Awaitable[object]]:
        def write(number: int) -> Awaitable[object]:
            obj = seen[kind].get(f"{SPACE}/{prefix}-{number}")
            assert obj is not None
            return client.patch_object(kind, obj, {"status": status}, subresource="status")

        return write

    def bind(number: int) -> Awaitable[object]:
        meta = {"name": f"p-{number}"}
        return client.post(POD, meta["name"], SPACE, "binding", {"metadata": meta, "target": {"name": "n"}})

    running = {"phase": "Running", "startTime": NOW, "conditions": [{"type": "Ready", "status": "True"}]}
    rows: dict[str, Callable[[int], Awaitable[object]]] = {
        "create a workload": lambda number: client.create(WORKLOAD, workload(number)),
        "admit it": patch(WORKLOAD, "w", admitted()),
        "evict it": patch(WORKLOAD, "w", admitted(evicted="True")),
        "create a pod": lambda number: client.create(POD, pod(number)),
        "bind it": bind,
        "status of a pod": patch(POD, "p", running),
        "delete it": lambda number: client.delete(POD, f"p-{number}", SPACE, grace_period_seconds=0),
        "create an event": lambda number: client.create(EVENT, event(number)),
    }
    gc.disable()
    for name, write in rows.items():
        print(f"  {name:<30}{await least(range(objects), write):8.1f} us of CPU", flush=True)
    gc.enable()


async def beside(client: Client, pairs: int) -> None:
    """Statuses of workloads, with an event beside each."""
    for number in range(50):
        await client.create(WORKLOAD, workload(number))

    async def statuses() -> None:
        for number in range(pairs):
            status = admitted(evicted=str(number // 50 % 2 == 0))
            await client.patch(WORKLOAD, f"w-{number % 50}", {"status": status}, SPACE, subresource="status")

    async def events() -> None:
        for number in range(pairs):
            await client.create(EVENT, event(number))

    start, began = time.process_time(), time.perf_counter()
    await asyncio.gather(statuses(), events())
    spent, took = time.process_time() - start, time.perf_counter() - began
    print(
        f"  {'a status with an event':<30}{spent / pairs * 1e6:8.1f} us of CPU   {took / pairs * 1e6:.0f} us",
        flush=True,
    )


async def measure(objects: int, directory: Path) -> None:
    """All rows."""
    async with engine(MemoryJournal()) as plane:
        await each(plane, objects)
    async with engine(SqliteJournal(directory)) as plane:
        await beside(plane.client(), objects)


def main() -> None:
    """One table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--objects", type=int, default=1_500)
    parser.add_argument("--directory", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        uvloop.run(measure(options.objects, Path(directory) / "data"))


if __name__ == "__main__":
    main()
