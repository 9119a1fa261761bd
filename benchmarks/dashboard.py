"""What the dashboard costs: the first view of each page, a change until it is shown, and many open pages.

    PYTHONPATH=. python benchmarks/dashboard.py [--jobs 5000] [--nodes 5000] [--queues 100] [--pages 50]
    PYTHONPATH=. python benchmarks/dashboard.py --admission CONFIGURATION [--fraction 0.2] [--turns 5] [--viewers 1]

Server, store in memory and dashboard are in one process, with objects as a busy cluster has them: most jobs wait, the
others have pods on nodes. No controller runs, so that what is measured is the dashboard. Server time is CPU of this
process, with that of the client. The first viewer of the server comes by a link, a second after it was made, as a
browser takes to start. The first view of each page is then that of a viewer with a cookie who has seen no other page.
The aims are 300 ms and 100 KB for a first view, 1 s for a change, and 10 % of a core for 50 pages at 20 changes a
second.

With --admission, the benchmark of admission is played without open pages and with ten, in turns. The aim is 5 % more
CPU of the server for each workload. With --viewers 10, each page is that of a user of its own: half of these may look
at the whole cluster, half at one namespace.
"""

import argparse
import asyncio
import itertools
import ssl
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import admission
import aiohttp
import msgspec
import uvloop
from yarl import URL

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Node, Pod
from muster.api.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from muster.api.kueue.names import JOB_UID_LABEL
from muster.cluster.apiserver.front.flow import Flow
from muster.cluster.apiserver.front.https import LIMITS
from muster.cluster.apiserver.front.listener import Listener
from muster.cluster.apiserver.front.pages import Pages, PlainFront
from muster.cluster.apiserver.identity.users import ADMIN, User
from muster.cluster.controlplane import ControlPlane, control_plane
from muster.cluster.entrance import connect_viewer
from muster.cluster.store import MemoryJournal
from muster.dashboard.app import LINKS, Dashboard
from muster.dashboard.pages import ROUTES
from muster.dashboard.root import ROOT
from muster.dashboard.viewing.hosts import EmbeddedHost, Proof
from muster.dashboard.viewing.sessions import Sessions
from muster.dashboard.visits import Page
from muster.runtime.client import Client
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.process.garbage import settle

NAMESPACE = "default"
# Each job of so many runs, from the first on; the others wait.
RUNS_EACH = 5
AT_ONCE = 64
_BROWSER_SECONDS = 1.0  # from a link to its use


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
        runs = number % RUNS_EACH == 0
        container = {"name": "main", "image": "none", "command": ["train"], "resources": {"requests": {"cpu": "2"}}}
        pod_spec = {"restartPolicy": "Never", "containers": [container]}
        labels = {"kueue.x-k8s.io/queue-name": queue}
        size = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "suspend": not runs}
        document = {"metadata": {"name": name, "labels": labels}, "spec": size | {"template": {"spec": pod_spec}}}
        job = await self._client.create(JOB, msgspec.convert(document, Job), NAMESPACE)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": job.metadata.uid, "controller": True}
        podset = {"name": "main", "count": 2, "template": {"spec": pod_spec}}
        head: dict[str, Any] = {"name": f"job-{name}", "ownerReferences": [owner]}
        head["labels"] = {JOB_UID_LABEL: job.metadata.uid}
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
        requests = [{"name": "main", "resources": {"cpu": "4"}}]
        return {"conditions": [pending | {"lastTransitionTime": since}], "resourceRequests": requests}
    assigned = {"name": "main", "count": 2, "flavors": {"cpu": "nodes"}, "resourceUsage": {"cpu": "4"}}
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted", "PodsReady")
    ]
    return {"admission": {"clusterQueue": queue, "podSetAssignments": [assigned]}, "conditions": conditions}


@dataclass(frozen=True)
class Site:
    """The dashboard of a busy cluster.

    sign_in: returns a client of a viewer who has seen no page yet, with a cookie of an earlier start of the server.
    use_link: returns that of a viewer who asked for a link, and whose browser then took a while to start.
    """

    plane: ControlPlane
    sign_in: Callable[[], Awaitable[aiohttp.ClientSession]]
    use_link: Callable[[], Awaitable[aiohttp.ClientSession]]


@asynccontextmanager
async def site(size: Size) -> AsyncIterator[Site]:
    """Serve the dashboard of a busy cluster."""
    numbers = itertools.count()

    async def identify(proof: Proof) -> User:
        return User(proof.authorization, ADMIN.groups)

    async with (
        control_plane(MemoryJournal(), ExternalInputs(RealClock(), Ids(), Random())) as plane,
        AsyncExitStack() as stack,
    ):
        import_module("numpy")  # as the scheduler of a server has
        settle()  # as a server does once it has started
        await Filling(plane.client(), size).fill()
        clock = RealClock()
        host = EmbeddedHost(identify, partial(connect_viewer, plane, Flow(plane.server.metrics, LIMITS)))
        sessions = Sessions(clock)
        dashboard = Dashboard(host, sessions, clock, Random())
        listener = Listener(PlainFront(Pages(ROOT, dashboard)), None)
        url = f"http://127.0.0.1:{await listener.start('127.0.0.1', 0)}"
        stack.push_async_callback(listener.stop, 0.1)
        stack.push_async_callback(dashboard.close)

        async def sign_in() -> aiohttp.ClientSession:
            session = await stack.enter_async_context(open_session(url))
            cookie = sessions.open("", Proof(authorization=f"viewer-{next(numbers)}"))
            session.cookie_jar.update_cookies({"muster-session": cookie}, URL(url))
            return session

        async def use_link() -> aiohttp.ClientSession:
            session = await stack.enter_async_context(open_session(url))
            link = dashboard.make_link(Proof(authorization=f"viewer-{next(numbers)}"))
            await asyncio.sleep(_BROWSER_SECONDS)
            await enter(session, link)
            return session

        yield Site(plane, sign_in, use_link)


def open_session(url: str) -> aiohttp.ClientSession:
    """Return a client that keeps cookies and has as many connections as it needs."""
    return aiohttp.ClientSession(
        url, cookie_jar=aiohttp.CookieJar(unsafe=True), connector=aiohttp.TCPConnector(limit=0)
    )


async def enter(session: aiohttp.ClientSession, link: str) -> None:
    """Turn a link into a session."""
    async with session.get(link, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()


def addresses(jobs: int) -> list[str]:
    """Return an address for each page, and that of a job that waits."""
    values = {"{namespace}": NAMESPACE, "{name}": "train-0"}
    found = []
    for route in ROUTES:
        if isinstance(route, Page):
            path = route.pattern
            for name, value in values.items():
                path = path.replace(name, "queue-0" if "queue" in path and name == "{name}" else value)
            found.append(ROOT + path.replace("/nodes/train-0", "/nodes/node-0"))
    return [*found, f"{ROOT}/jobs/{NAMESPACE}/train-{find_waiting_job(min(jobs, 100))}"]


def find_waiting_job(jobs: int) -> int:
    """Return the number of the last job that waits, of so many."""
    return max(number for number in range(jobs) if number % RUNS_EACH)


async def view(session: aiohttp.ClientSession, path: str) -> tuple[float, int, int]:
    """Return the CPU in milliseconds that a page took, its compressed bytes, and its status."""
    before = time.process_time()
    async with session.get(path, headers={"Accept-Encoding": "identity"}) as answer:
        body = await answer.read()
    return (time.process_time() - before) * 1e3, len(zlib.compress(body, 6)), answer.status


async def views(site: Site, size: Size) -> None:
    """Print what the first and later views of each page take, each for a new viewer."""
    print("\n| page | first view, ms of CPU | again | KB compressed |\n|---|---:|---:|---:|")
    for number, path in enumerate([f"{ROOT}/", *addresses(size.jobs)]):
        session = await (site.sign_in() if number else site.use_link())
        first, length, status = await view(session, path)
        again = statistics.median([(await view(session, path))[0] for _ in range(3)])
        note = ("" if number else ", by a link") + ("" if status == 200 else f" ({status})")
        print(f"| {path}{note} | {first:.0f} | {again:.0f} | {length / 1e3:.1f} |", flush=True)


async def change(site: Site, size: Size) -> None:
    """Print how long changes take until an open page has them."""
    session, client, delays = await site.sign_in(), site.plane.client(), []
    job = find_waiting_job(size.jobs)
    async with session.get("/ui/live", params={"at": f"/ui/jobs?text=train-{job}"}) as answer:
        events = answer.content
        await _next_event(events)
        for number in range(10):
            await asyncio.sleep(1.5)
            start = time.perf_counter()
            status = _status(f"queue-{job % size.queues}", runs=not number % 2)
            await client.patch(WORKLOAD, f"job-train-{job}", {"status": status}, NAMESPACE, subresource="status")
            await _next_event(events)
            delays.append(time.perf_counter() - start)
    print(f"\na change is shown after {statistics.median(delays):.2f} s, at most {max(delays):.2f} s")


async def _next_event(events: aiohttp.StreamReader) -> None:
    async with asyncio.timeout(30):
        while not (await events.readline()).startswith((b"event: whole", b"event: pieces")):
            continue


async def open_pages(site: Site, size: Size, pages: int, seconds: float) -> None:
    """Print what open pages cost while jobs change 20 times a second.

    Each page is rendered twice soon after it is opened, which tells what it takes, and more rarely later.
    """
    session = await site.sign_in()
    for count in (0, pages):
        async with reading([session], list_addresses(count, size.jobs)):
            for when in (" at first", " later") if count else ("",):
                rate, share = await change_jobs(site, size, seconds)
                print(f"{count:4} open pages{when}, {rate:.0f} changes a second: {share:.1%} of a core", flush=True)


async def change_jobs(site: Site, size: Size, seconds: float) -> tuple[float, float]:
    """Change jobs 20 times a second; return how many changes a second there were, and the part of a core used."""
    before, start = time.process_time(), time.perf_counter()
    number = 0
    while (now := time.perf_counter() - start) < seconds:
        patch = {"metadata": {"labels": {"step": f"{start}-{number}"}}}
        await site.plane.client().patch(JOB, f"train-{number * 7 % min(size.jobs, 1_000)}", patch, NAMESPACE)
        number += 1
        await asyncio.sleep(max(0.0, number / 20 - now))
    return number / seconds, (time.process_time() - before) / (time.perf_counter() - start)


def list_addresses(count: int, jobs: int) -> list[str]:
    """Return the addresses of so many pages of a busy cluster."""
    kinds = ("/ui/jobs?page={page}", "/ui/", "/ui/queues", f"/ui/jobs/{NAMESPACE}/train-{{number}}")
    return [kinds[number % len(kinds)].format(page=number % 10 + 1, number=number % jobs) for number in range(count)]


@asynccontextmanager
async def reading(sessions: Sequence[aiohttp.ClientSession], addresses: Sequence[str]) -> AsyncIterator[None]:
    """Have another process keep pages open, which the viewers of some sessions share out among them."""
    cookies = ["; ".join(f"{cookie.key}={cookie.value}" for cookie in one.cookie_jar) for one in sessions]
    command = [sys.executable, __file__, "--url", str(sessions[0]._base_url), "--cookies", *cookies]  # noqa: SLF001
    reader = await asyncio.create_subprocess_exec(*command, "--open", *addresses, stdout=asyncio.subprocess.PIPE)
    assert reader.stdout is not None
    try:
        assert await reader.stdout.readline(), "the pages cannot be opened"
        await asyncio.sleep(3)
        yield
        assert reader.returncode is None, "the pages were not open all the time"
    finally:
        if reader.returncode is None:
            reader.terminate()
        await reader.wait()


async def keep_open(url: str, cookies: Sequence[str], addresses: Sequence[str]) -> None:
    """Keep pages open, read what comes, and print a line once each has come for the first time."""
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0)) as session:
        shown = [asyncio.Event() for _ in addresses]
        async with asyncio.TaskGroup() as group:
            for address, event, cookie in zip(addresses, shown, itertools.cycle(cookies), strict=False):
                group.create_task(_read_page(session, address, cookie, event))
            await asyncio.gather(*(event.wait() for event in shown))
            print("shown", flush=True)
            await asyncio.Event().wait()


async def _read_page(session: aiohttp.ClientSession, address: str, cookie: str, shown: asyncio.Event) -> None:
    headers, forever = {"Cookie": cookie}, aiohttp.ClientTimeout(None)
    async with session.get("/ui/live", params={"at": address}, headers=headers, timeout=forever) as answer:
        assert answer.status == 200, await answer.text()
        while data := await answer.content.readany():
            if b"event: whole" in data or b"event: trouble" in data:
                shown.set()


# Admission with open pages.


async def play_admission(path: Path, fraction: float, turns: int, viewers: int) -> None:
    """Print what ten open pages add to the server's CPU and to the time of the benchmark of admission."""
    pages = list_admission_pages(path, fraction)
    costs: dict[int, list[admission.Cost]] = {0: [], len(pages): []}
    for turn in range(turns):
        for count in sorted(costs, reverse=bool(turn % 2)):
            with tempfile.TemporaryDirectory() as directory:
                accompany = partial(view_beside, pages[:count], viewers)
                costs[count].append(await admission.run(path, Path(directory), fraction, accompany))
    alone, beside = costs.values()
    whose = "one viewer" if viewers == 1 else f"{viewers} viewers"
    print(f"\n{path.stem}, {alone[0].workloads:,} workloads, {len(pages)} open pages of {whose}, {turns} turns")
    for what, field in (("CPU of the server", "cpu"), ("wall time", "wall")):
        before, after = ([float(getattr(one, field)) for one in some] for some in (alone, beside))
        ratios = sorted(b / a - 1 for a, b in zip(before, after, strict=True))
        means = [statistics.mean(before), statistics.mean(after)]
        spread = f"{statistics.median(ratios):+.1%} ({ratios[0]:+.1%} to {ratios[-1]:+.1%})"
        print(f"  {what}: {means[0]:.2f} s, and {means[1]:.2f} s with them: {spread}")


def list_admission_pages(path: Path, fraction: float) -> tuple[str, ...]:
    """Return the addresses of ten pages about the workloads of a configuration."""
    first = admission.plan(path, fraction).arrivals[0]
    own = (f"/ui/queues/cluster/{first.queue}", f"/ui/queues/{NAMESPACE}/{first.queue}")
    job = f"/ui/jobs/{NAMESPACE}/{first.name}"
    lists = ("/ui/jobs", "/ui/jobs?page=2", "/ui/jobs?page=3", "/ui/queues", "/ui/nodes", "/ui/clusters")
    return ("/ui/", *own, job, *lists)


@asynccontextmanager
async def view_beside(addresses: Sequence[str], viewers: int, port: int, admin: ssl.SSLContext) -> AsyncIterator[None]:
    """Have pages of a server open. viewers: how many users share them; a single one is the administrator."""
    if not addresses:
        yield
        return
    url = f"https://127.0.0.1:{port}"
    async with AsyncExitStack() as stack:
        proofs = [(admin, "")]
        if viewers > 1:
            nobody = ssl._create_unverified_context()  # noqa: SLF001  (a server of this machine, without a certificate)
            proofs = [(nobody, f"Bearer {await make_user(url, admin, number)}") for number in range(viewers)]
        sessions = []
        for context, authorization in proofs:
            async with (
                aiohttp.ClientSession(url, headers={"Authorization": authorization} if authorization else {}) as api,
                api.post(LINKS, ssl=context) as answer,
            ):
                link = urlsplit(msgspec.json.decode(await answer.read())["url"])
            sessions.append(await stack.enter_async_context(open_session(f"http://127.0.0.1:{port}")))
            await enter(sessions[-1], f"{link.path}?{link.query}")
        async with reading(sessions, addresses):
            yield


async def make_user(url: str, admin: ssl.SSLContext, number: int) -> str:
    """Make a user who may look at everything, or at one namespace if the number is odd; return the user's token."""
    name, rbac = f"viewer-{number}", "/apis/rbac.authorization.k8s.io/v1"
    where = f"/namespaces/{NAMESPACE}" if number % 2 else ""
    scope = "" if number % 2 else "Cluster"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": f"{scope}Role", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    head = {"metadata": {"name": name}}
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    async with aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(ssl=admin)) as api:

        async def post(path: str, document: dict[str, Any]) -> Any:
            async with api.post(path, json=document) as answer:
                assert answer.status == 201, await answer.text()
                return await answer.json()

        await post(accounts, head)
        await post(f"{rbac}{where}/{scope.lower()}roles", head | {"rules": rules})
        await post(f"{rbac}{where}/{scope.lower()}rolebindings", head | {"roleRef": role, "subjects": subjects})
        made = await post(f"{accounts}/{name}/token", {"spec": {}})
    return str(made["status"]["token"])


async def run(size: Size, pages: int, seconds: float) -> None:
    """Measure all of a busy cluster."""
    async with site(size) as busy:
        print(f"{size.jobs:,} jobs, {size.nodes:,} nodes, {size.queues:,} queues")
        await views(busy, size)
        await change(busy, size)
        await open_pages(busy, size, pages, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=5_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0, help="of each play of open pages")
    parser.add_argument("--admission", type=Path, help="a configuration of the benchmark of admission")
    parser.add_argument("--fraction", type=float, default=0.2, help="of its workloads")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--viewers", type=int, default=1, help="of the pages beside the benchmark of admission")
    parser.add_argument("--open", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--cookies", nargs="*", default=(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open is not None:
        asyncio.run(keep_open(options.url, options.cookies, options.open))
    elif options.admission is not None:
        uvloop.run(play_admission(options.admission, options.fraction, options.turns, options.viewers))
    elif options.jobs < 2 or options.nodes < 1 or options.queues < 1:
        parser.error("it takes two jobs (one runs, one waits), a node and a queue at least")
    else:
        asyncio.run(run(Size(options.jobs, options.nodes, options.queues), options.pages, options.seconds))


if __name__ == "__main__":
    main()
