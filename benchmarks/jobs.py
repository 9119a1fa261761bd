"""Jobs from creation to Complete: durable store, API server in process, Job controller, and who runs the pods.

    python benchmarks/jobs.py [--by cluster,player] [--sizes 500,1000,2500,5000] [--jobs 1000] [--memory]

By the cluster: the scheduler binds each gang, simulated nodes start and end the pods, as in `muster up --nodes
simulated:N`. By a player, which writes the same and thinks nothing: what the Job controller and the server take alone.
Writes are those that the store acknowledged, from the first Job on: to pods, and to Jobs by itself. Events are left
out (they are aggregated and limited apart). "look" is one decision of the Job controller about all pods of a Job, the
work that must not grow with every event.
"""

import argparse
import asyncio
import gc
import tempfile
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from muster.api.batch import JOB, Job
from muster.api.core import POD, ObjectReference, Pod
from muster.api.ours.embedded import SERVER_MACHINE
from muster.api.ours.simulated import RUN_TIME
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.nodes.simulated.nodes import SimulatedNodes
from muster.cluster.store import Journal, MemoryJournal
from muster.cluster.store.sqlite import SqliteJournal
from muster.controllers.integrations.table import gang_sources
from muster.controllers.job import JobController
from muster.controllers.job import controller as shell
from muster.controllers.scheduler.scheduler import Scheduler
from muster.jobs.job.conditions import finish
from muster.jobs.job.decide import decide
from muster.jobs.job.plan import JobPlan
from muster.runtime.clock import RealClock
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventType
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.transport import STRATEGIC_MERGE_PATCH

SPACE = "default"
# Requests of the player under way together: that of many nodes.
AT_ONCE = 256
# A node of the cluster has 32 CPUs, and each pod takes one.
PODS_PER_NODE = 32
TEMPLATE = {
    "metadata": {"annotations": {RUN_TIME: "0s"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [
            {
                "name": "main",
                "image": "none",
                "command": ["true"],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
            }
        ],
    },
}


class Silent:
    """A recorder that tells nobody."""

    def event(
        self, regarding: ObjectReference, type: EventType, reason: str, message: str, *, series: bool = False
    ) -> None:
        pass


@dataclass
class Looks:
    """What the decisions of the controller cost."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0

    def decide(self, job: Job, pods: list[Pod], **rest: Any) -> JobPlan:
        start = time.perf_counter()
        plan = decide(job, pods, **rest)
        spent = time.perf_counter() - start
        self.count += 1
        self.seconds += spent
        self.longest = max(self.longest, spent)
        return plan


class Finish:
    """Knows when the last Job has ended, and how often Jobs were written until then."""

    def __init__(self, manager: Manager, jobs: int) -> None:
        self.reached = asyncio.Event()
        self.job_writes = 0
        self._waiting = jobs
        manager.informer(JOB).on_change(self._job_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        self.job_writes += 1
        if old is not None and new is not None and finish(old) is None and finish(new) is not None:
            self._waiting -= 1
            if not self._waiting:
                self.reached.set()


class Player:
    """Binds, starts and ends every pod, one write after the other as each is seen."""

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        manager.informer(POD).on_change(self._pod_changed)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is None and new is not None:
            task = asyncio.create_task(self._play(new))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _play(self, pod: Pod) -> None:
        name, uid = pod.metadata.name, pod.metadata.uid
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": datetime.now().astimezone()}
        ended = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        ended |= {"state": {"terminated": {"exitCode": 0, "finishedAt": datetime.now().astimezone()}}}
        async with self._limit:
            target = {"metadata": {"name": name, "uid": uid}, "target": {"kind": "Node", "name": "node"}}
            await self._client.post(POD, name, SPACE, "binding", target)
            await self._status(name, {"phase": "Running", "conditions": [ready]})
            not_ready = ready | {"status": "False"}
            await self._status(name, {"phase": "Succeeded", "conditions": [not_ready], "containerStatuses": [ended]})

    async def _status(self, name: str, status: dict[str, Any]) -> None:
        patch = {"status": status}
        await self._client.patch(POD, name, patch, SPACE, type=STRATEGIC_MERGE_PATCH, subresource="status")


async def run(by: str, jobs: int, size: int, journal: Journal) -> str:
    """Create the Jobs and wait until all are Complete; a line of the table."""
    looks = Looks()
    setattr(shell, "decide", looks.decide)  # noqa: B010  (to mypy the shell does not export it)
    async with control_plane(journal, ExternalInputs(RealClock(), Ids(), Random())) as plane:
        client, manager, store = plane.client(), plane.manager, plane.store
        manager.add(JobController(manager, Silent()))
        end = Finish(manager, jobs)
        nodes = add_nodes(plane, jobs * size) if by == "cluster" else None
        player = None if nodes else Player(manager)
        running = asyncio.create_task(manager.run())
        await manager.ready.wait()
        if nodes is not None:
            await nodes.ready.wait()
        # As the embedded cluster does when it has started.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        first, start, cpu = store.revision, time.perf_counter(), time.process_time()
        limit = asyncio.Semaphore(AT_ONCE)

        async def create(number: int) -> None:
            spec = {"completionMode": "Indexed", "completions": size, "parallelism": size, "template": TEMPLATE}
            job = msgspec.convert({"metadata": {"name": f"job-{number}"}, "spec": spec}, Job)
            async with limit:
                await client.create(JOB, job, SPACE)

        await asyncio.gather(*map(create, range(jobs)))
        await end.reached.wait()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        writes = store.revision - first
        del player
        await manager.stop()
        await running
    pods = jobs * size
    return (
        f"{by:8} {jobs:5} {size:6} {seconds:8.2f} {pods / seconds:8.0f} {(writes - end.job_writes) / pods:12.2f}"
        f" {end.job_writes / jobs:12.2f} {cpu / pods * 1e3:11.3f}"
        f" {looks.count:7} {looks.seconds / cpu * 100:7.1f} {looks.longest * 1e3:11.1f}"
    )


def add_nodes(plane: ControlPlane, pods: int) -> SimulatedNodes:
    """A scheduler, and nodes on which all pods find room at once."""
    plane.manager.add(Scheduler(plane.manager, Silent(), gang_sources()))
    names = [f"node-{number}" for number in range(-(-pods // PODS_PER_NODE))]
    nodes = SimulatedNodes(plane.manager, names, labels={SERVER_MACHINE: "true"})
    plane.manager.add(nodes)
    return nodes


def measure(by: str, jobs: int, size: int, memory: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        journal: Journal = MemoryJournal() if memory else SqliteJournal(Path(directory))
        main: Coroutine[Any, Any, str] = run(by, jobs, size, journal)
        print(asyncio.run(main), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--by", default="cluster,player", help="who runs the pods: cluster, player")
    parser.add_argument("--sizes", default="500,1000,2500,5000", help="pods of the one Job")
    parser.add_argument("--jobs", type=int, default=1000, help="Jobs of 5 pods")
    parser.add_argument("--memory", action="store_true", help="a store without a disk")
    options = parser.parse_args()
    print("by        jobs   pods  seconds   pods/s  writes/pod   writes/Job  CPU ms/pod   looks  look %  longest ms")
    for by in options.by.split(","):
        for size in map(int, filter(None, options.sizes.split(","))):
            measure(by, 1, size, options.memory)
        if options.jobs:
            measure(by, options.jobs, 5, options.memory)


if __name__ == "__main__":
    main()
