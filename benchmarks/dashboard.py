"""What the dashboard costs: the first view of each page, a change until it is shown, and many open pages.

    PYTHONPATH=. python benchmarks/dashboard.py [--jobs 5000] [--nodes 5000] [--queues 100] [--pages 50]

Server, store in memory and dashboard are in one process, with objects as a busy cluster has them: most jobs wait, the
others have pods on nodes. No controller runs, so that what is measured is the dashboard. Server time is CPU of this
process, without the client's. The aims are 300 ms and 100 KB for a first view, 1 s for a change, and 10 % of a core for
50 pages at 20 changes a second.
"""

import argparse
import asyncio
import statistics
import sys
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Node, Pod
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.front.pages import Pages, PlainFront
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.store import MemoryJournal
from muster.dashboard.app import Dashboard
from muster.dashboard.pages import ROUTES
from muster.dashboard.root import ROOT
from muster.dashboard.viewing.hosts import EmbeddedHost, Proof
from muster.dashboard.viewing.sessions import Sessions
from muster.dashboard.visits import Page
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random

NAMESPACE = "default"
# So many of a hundred jobs run; the others wait.
RUNNING_PERCENT = 20
AT_ONCE = 64


@dataclass(frozen=True)
class Size:
    """How much there is."""

    jobs: int
    nodes: int
    queues: int


class Filling:
    """Makes the objects of a busy cluster."""

    def __init__(self, client: Client, size: Size) -> None:
        self._client = client
        self._size = size

    async def fill(self) -> None:
        """Make all."""
        await self._create(RESOURCE_FLAVOR, {"metadata": {"name": "nodes"}})
        await self._each(self._size.queues, self._make_queue)
        await self._each(self._size.nodes, self._make_node)
        await self._each(self._size.jobs, self._make_job)

    async def _each(self, count: int, make: Any) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def one(number: int) -> None:
            async with limit:
                await make(number)

        await asyncio.gather(*map(one, range(count)))

    async def _create(self, kind: Any, document: dict[str, Any], namespace: str = "") -> Any:
        return await self._client.create(kind, msgspec.convert(document, kind.type), namespace)

    async def _make_queue(self, number: int) -> None:
        quota = [{"name": "cpu", "nominalQuota": "400"}, {"name": "memory", "nominalQuota": "1600Gi"}]
        group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "nodes", "resources": quota}]}
        spec = {"cohortName": f"cohort-{number % 10}", "namespaceSelector": {}, "resourceGroups": [group]}
        await self._create(CLUSTER_QUEUE, {"metadata": {"name": f"queue-{number}"}, "spec": spec})
        local = {"metadata": {"name": f"queue-{number}"}, "spec": {"clusterQueue": f"queue-{number}"}}
        await self._create(LOCAL_QUEUE, local, NAMESPACE)

    async def _make_node(self, number: int) -> None:
        name = f"node-{number}"
        labels = {"topology.kubernetes.io/zone": f"zone-{number % 4}", "example.com/rack": f"rack-{number % 100}"}
        await self._client.create(NODE, msgspec.convert({"metadata": {"name": name, "labels": labels}}, Node))
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await self._client.patch(NODE, name, {"status": status}, subresource="status")

    async def _make_job(self, number: int) -> None:
        name, queue = f"train-{number}", f"queue-{number % self._size.queues}"
        runs = number % 100 < RUNNING_PERCENT
        container = {"name": "main", "image": "none", "command": ["train"], "resources": {"requests": {"cpu": "2"}}}
        pod_spec = {"restartPolicy": "Never", "containers": [container]}
        labels = {"kueue.x-k8s.io/queue-name": queue}
        size = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "suspend": not runs}
        document = {"metadata": {"name": name, "labels": labels}, "spec": size | {"template": {"spec": pod_spec}}}
        job = await self._client.create(JOB, msgspec.convert(document, Job), NAMESPACE)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid, "controller": True}
        podset = {"name": "main", "count": 2, "template": {"spec": pod_spec}}
        head = {"name": f"job-{name}", "ownerReferences": [owner]}
        workload = {"metadata": head, "spec": {"queueName": queue, "podSets": [podset]}}
        await self._create(WORKLOAD, workload, NAMESPACE)
        await self._client.patch(
            WORKLOAD, f"job-{name}", {"status": _status(queue, runs=runs)}, NAMESPACE, subresource="status"
        )
        if runs:
            for index in range(2):
                await self._make_pod(name, index, owner, pod_spec, f"node-{(2 * number + index) % self._size.nodes}")

    async def _make_pod(self, job: str, index: int, owner: dict[str, Any], spec: dict[str, Any], node: str) -> None:
        labels = {
            "batch.kubernetes.io/job-name": job,
            "job-name": job,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        head = {"name": f"{job}-{index}", "labels": labels, "ownerReferences": [owner], "annotations": {}}
        await self._client.create(
            POD, msgspec.convert({"metadata": head, "spec": spec | {"nodeName": node}}, Pod), NAMESPACE
        )
        ready = {"type": "Ready", "status": "True"}
        state = {
            "name": "main",
            "ready": True,
            "restartCount": 0,
            "image": "none",
            "imageID": "",
            "state": {"running": {}},
        }
        status = {"phase": "Running", "conditions": [ready], "containerStatuses": [state]}
        await self._client.patch(POD, f"{job}-{index}", {"status": status}, NAMESPACE, subresource="status")


def _status(queue: str, *, runs: bool) -> dict[str, Any]:
    since = "2026-01-01T00:00:00Z"
    if not runs:
        said = (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor nodes, 4 more needed"
        )
        pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": said}
        return {"conditions": [pending | {"lastTransitionTime": since}]}
    assigned = {"name": "main", "count": 2, "flavors": {"cpu": "nodes"}, "resourceUsage": {"cpu": "4"}}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted", "PodsReady")
    ]
    return {"admission": {"clusterQueue": queue, "podSetAssignments": [assigned]}, "conditions": conditions}


@asynccontextmanager
async def site(size: Size) -> AsyncIterator[tuple[ControlPlane, aiohttp.ClientSession]]:
    """Serve the dashboard of a busy cluster, with a client that has signed in."""
    async with control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        await Filling(plane.client(), size).fill()

        async def identify(_: Proof) -> User:
            return ADMIN

        clock = RealClock()
        host = EmbeddedHost(identify, lambda user: plane.client(user, "muster-dashboard"))
        dashboard = Dashboard(host, Sessions(clock), clock, Random())
        listener = Listener(PlainFront(Pages(ROOT, dashboard)), None)
        url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(
            url, cookie_jar=aiohttp.CookieJar(unsafe=True), connector=connector
        ) as session:
            async with session.get(dashboard.make_link(Proof(owner=True)), allow_redirects=False) as answer:
                assert answer.status == 303
            try:
                yield plane, session
            finally:
                await dashboard.close()
                await listener.stop(0.1)


def addresses() -> list[str]:
    """Return an address for each page."""
    values = {"{namespace}": NAMESPACE, "{name}": "train-0"}
    found = []
    for route in ROUTES:
        if isinstance(route, Page):
            path = route.pattern
            for name, value in values.items():
                path = path.replace(name, "queue-0" if "queue" in path and name == "{name}" else value)
            found.append(ROOT + path.replace("/nodes/train-0", "/nodes/node-0"))
    return found


async def view(session: aiohttp.ClientSession, path: str) -> tuple[float, int, int]:
    """Return the CPU in milliseconds that a page took, its compressed bytes, and its status."""
    before = time.process_time()
    async with session.get(path, headers={"Accept-Encoding": "identity"}) as answer:
        body = await answer.read()
    return (time.process_time() - before) * 1e3, len(zlib.compress(body, 6)), answer.status


async def views(session: aiohttp.ClientSession) -> None:
    """Print what the first and later views of each page take."""
    print("\n| page | first view, ms of CPU | again | KB compressed |\n|---|---:|---:|---:|")
    for path in addresses():
        first, size, status = await view(session, path)
        again = statistics.median([(await view(session, path))[0] for _ in range(3)])
        note = "" if status == 200 else f" ({status})"
        print(f"| {path}{note} | {first:.0f} | {again:.0f} | {size / 1e3:.1f} |", flush=True)


async def change(plane: ControlPlane, session: aiohttp.ClientSession) -> None:
    """Print how long changes take until an open page has them."""
    client, delays = plane.client(), []
    async with session.get("/ui/live", params={"at": "/ui/jobs?text=train-4999"}) as answer:
        events = answer.content
        await _next_event(events)
        for number in range(10):
            await asyncio.sleep(1.5)
            start = time.perf_counter()
            status = _status("queue-99", runs=not number % 2)
            await client.patch(WORKLOAD, "job-train-4999", {"status": status}, NAMESPACE, subresource="status")
            await _next_event(events)
            delays.append(time.perf_counter() - start)
    print(f"\na change is shown after {statistics.median(delays):.2f} s, at most {max(delays):.2f} s")


async def _next_event(events: aiohttp.StreamReader) -> None:
    async with asyncio.timeout(30):
        while not (await events.readline()).startswith((b"event: whole", b"event: pieces")):
            continue


async def open_pages(plane: ControlPlane, session: aiohttp.ClientSession, pages: int, seconds: float) -> None:
    """Print what open pages cost while jobs change 20 times a second. Another process has them open."""
    url = str(session._base_url)  # noqa: SLF001
    cookies = "; ".join(f"{one.key}={one.value}" for one in session.cookie_jar)
    for count in (0, pages):
        command = [sys.executable, __file__, "--open", str(count), "--url", url, "--cookies", cookies]
        reader = await asyncio.create_subprocess_exec(*command)
        try:
            await asyncio.sleep(8)
            before, start = time.process_time(), time.perf_counter()
            number = 0
            while (now := time.perf_counter() - start) < seconds:
                patch = {"metadata": {"labels": {"step": str(number)}}}
                await plane.client().patch(JOB, f"train-{number * 7 % 1_000}", patch, NAMESPACE)
                number += 1
                await asyncio.sleep(max(0.0, number / 20 - now))
            share = (time.process_time() - before) / (time.perf_counter() - start)
            print(f"{count:4} open pages, {number / seconds:.0f} changes a second: {share:.1%} of a core", flush=True)
        finally:
            reader.terminate()
            await reader.wait()


async def keep_open(url: str, cookies: str, count: int) -> None:
    """Have so many pages open, and read what comes."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector, headers={"Cookie": cookies}) as session:
        await asyncio.gather(*(_read_page(session, number) for number in range(count)))
        await asyncio.Event().wait()


async def _read_page(session: aiohttp.ClientSession, number: int) -> None:
    paths = (f"/ui/jobs?page={number % 10 + 1}", "/ui/", "/ui/queues", f"/ui/jobs/{NAMESPACE}/train-{number}")
    parameters = {"at": paths[number % len(paths)]}
    async with session.get("/ui/live", params=parameters, timeout=aiohttp.ClientTimeout(None)) as answer:
        while await answer.content.readany():
            continue


async def run(size: Size, pages: int, seconds: float) -> None:
    """Measure all."""
    async with site(size) as (plane, session):
        print(f"{size.jobs:,} jobs, {size.nodes:,} nodes, {size.queues:,} queues")
        await views(session)
        await change(plane, session)
        await open_pages(plane, session, pages, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--open", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cookies", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open is not None:
        asyncio.run(keep_open(options.url, options.cookies, options.open))
        return
    asyncio.run(run(Size(options.jobs, options.nodes, options.queues), options.pages, options.seconds))


if __name__ == "__main__":
    main()
