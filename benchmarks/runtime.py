"""How much the machinery under every controller costs: virtual time, the work queue, an informer.

    python benchmarks/runtime.py

Prints a table of operations a second, each the best of three short runs.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from muster.api.core import POD
from muster.runtime.client import Client
from muster.runtime.clock import RealClock, VirtualClock, run_virtual
from muster.runtime.control.controller import Controller, Result
from muster.runtime.control.queue import WorkQueue
from muster.runtime.ids import Random
from muster.runtime.informer import Informer
from muster.runtime.metrics import Registry
from muster.runtime.transport import Request, Response

RUNS = 3


async def wake_ups() -> int:
    """A hundred tasks that sleep for different times."""
    clock = VirtualClock()

    async def sleeper() -> None:
        for turn in range(1000):
            await clock.sleep(0.001 * (1 + turn % 7))

    await asyncio.gather(*(sleeper() for _ in range(100)))
    return 100_000


async def queue_turns() -> int:
    """Add, get, done."""
    queue = WorkQueue(RealClock(), Random(seed=1))
    keys = [f"default/pod-{number}" for number in range(1000)]
    for _ in range(100):
        for key in keys:
            queue.add(key)
        while len(queue):
            taken = await queue.get()
            assert taken
            queue.done(taken)
    return 100_000


async def delayed_adds() -> int:
    """Add with a delay, and add at once before it is over."""
    queue = WorkQueue(RealClock(), Random(seed=1))
    keys = [f"default/pod-{number}" for number in range(1000)]
    for _ in range(50):
        for key in keys:
            queue.add_after(key, 300.0)
        for key in keys:
            queue.add(key)
        while len(queue):
            taken = await queue.get()
            assert taken
            queue.done(taken)
    return 50_000


async def reconciles() -> int:
    """A controller with metrics whose reconcile does nothing."""

    async def reconcile(_key: str) -> Result:
        return None

    controller = Controller(
        "bench", reconcile, RealClock(), Random(seed=1), workers=4, observer=Registry().controller("bench")
    )
    for number in range(30_000):
        controller.queue.add(str(number))
    task = asyncio.create_task(controller.run())
    while len(controller.queue):
        await asyncio.sleep(0.001)
    await controller.stop()
    await task
    return 30_000


class Flood:
    """A server with many pods to list and many changes to tell."""

    def __init__(self, pods: int, changes: int, piece: int = 65_536) -> None:
        self._page = json.dumps(
            {"metadata": {"resourceVersion": "1"}, "items": [_pod(n, 1) for n in range(pods)]}
        ).encode()
        lines = (json.dumps({"type": "MODIFIED", "object": _pod(n % pods, n + 2)}) for n in range(changes))
        stream = ("\n".join(lines) + "\n").encode()
        self._pieces = [stream[start : start + piece] for start in range(0, len(stream), piece)]

    async def request(self, request: Request) -> Response:  # noqa: ARG002
        return Response(200, self._page)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:  # noqa: ARG002
        yield self._chunks()

    async def _chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
            await asyncio.sleep(0)
        await asyncio.get_running_loop().create_future()

    async def close(self) -> None:
        pass


def _pod(number: int, version: int) -> dict[str, Any]:
    """Some 2 KB, as a node agent would write it."""
    resources = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}}
    conditions = [
        {"type": word, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for word in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"batch.kubernetes.io/job-name": f"job-{number // 8}", "app": "train"},
            "ownerReferences": [
                {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{number // 8}", "uid": "u", "controller": True}
            ],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "command": ["python", "train.py"],
                    "env": [{"name": f"VARIABLE_{n}", "value": "x" * 20} for n in range(8)],
                    "resources": resources,
                }
            ],
            "nodeName": f"node-{number % 50}",
            "restartPolicy": "Never",
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "podIP": "127.1.2.3",
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [
                {
                    "name": "main",
                    "ready": True,
                    "restartCount": 0,
                    "image": "busybox",
                    "imageID": "",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                }
            ],
        },
    }


def _informer(flood: Flood) -> tuple[Informer[Any], Callable[[], int]]:
    heard = 0

    def on_change(_old: Any, _new: Any) -> None:
        nonlocal heard
        heard += 1

    informer = Informer(
        Client(flood), POD, RealClock(), Random(seed=1), indexes={"node": lambda pod: (pod.spec.node_name or "",)}
    )
    informer.on_change(on_change)
    return informer, lambda: heard


async def _follow(flood: Flood, changes: int) -> int:
    informer, heard = _informer(flood)
    task = asyncio.create_task(informer.run())
    while heard() < changes:
        await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait([task])
    return changes


FEW_PODS = Flood(pods=100, changes=20_000)
MANY_PODS = Flood(pods=5_000, changes=0)


async def informer_events() -> int:
    """Watch events of 2 KB pods, decoded, indexed and handed to a handler."""
    return await _follow(FEW_PODS, 20_100)


async def informer_list() -> int:
    """Pods of 2 KB in one list, decoded, indexed and handed to a handler."""
    return await _follow(MANY_PODS, 5_000)


def best(run: Callable[[Coroutine[Any, Any, int]], int], work: Callable[[], Coroutine[Any, Any, int]]) -> float:
    rates = []
    for _ in range(RUNS):
        started = time.perf_counter()
        done = run(work())
        rates.append(done / (time.perf_counter() - started))
    return max(rates)


def main() -> None:
    rows = [
        ("virtual wake-ups", best(run_virtual, wake_ups)),
        ("queue add + get + done", best(asyncio.run, queue_turns)),
        ("queue delayed + add + get + done", best(asyncio.run, delayed_adds)),
        ("empty reconciles with metrics", best(asyncio.run, reconciles)),
        ("informer watch events (2 KB pods)", best(asyncio.run, informer_events)),
        ("informer listed objects (2 KB pods)", best(asyncio.run, informer_list)),
    ]
    print(f"{'what':38} {'per second':>12}")
    for name, rate in rows:
        print(f"{name:38} {rate:12,.0f}")


if __name__ == "__main__":
    main()
