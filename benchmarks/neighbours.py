"""How long a normal job takes beside each bad neighbour: somebody else's load in another namespace, as another user.

    python benchmarks/neighbours.py [--seconds 20] [NAME]...

Each row has a cluster of its own, in a process of its own. The normal job is one pod that runs `true`, from its
creation until a watch shows that it is complete. Jobs are made one after the other, alone at first, then beside the
neighbour from the moment at which that begins. The aim is at most twice the time alone.
"""

import argparse
import asyncio
import json
import os
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from clients import Refused, Times, Wire
from submit import cluster

from muster.actions.server.session import Target, connect
from muster.api.batch import JOB
from muster.api.conditions import is_true
from muster.runtime.client import Client
from muster.runtime.kube import kubeconfig_files
from muster.runtime.transport import Request

ALONE = 8
BAD = "bad"
MAPS = f"/api/v1/namespaces/{BAD}/configmaps"
MEGABYTES = 12  # of ConfigMaps that slow clients ask for
READERS = 500


@dataclass
class Site:
    """A cluster, the admin's client and the token of the neighbour."""

    client: Client
    home: Path
    host: str
    port: int
    authority: str
    token: str
    stack: AsyncExitStack
    numbers: list[int] = field(default_factory=list)
    remark: str = ""

    def tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority)
        context.set_alpn_protocols(["http/1.1"])
        return context

    def _process(self, file: str) -> str:
        pid = int((self.home / "lock").read_text().split()[0])
        return Path(f"/proc/{pid}/{file}").read_text()

    def memory(self) -> float:
        """What the server holds, in MiB."""
        return int(self._process("statm").split()[1]) * 4096 / 2**20

    def cpu(self) -> float:
        """How many seconds of a processor the server has taken."""
        fields = self._process("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def say(self, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
        """One request on a connection of its own, as the neighbour unless another token is given."""
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls())
        content = json.dumps(body).encode() if body is not None else b""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token or self.token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        writer.write(head.encode() + content)
        answer = await reader.read()
        writer.close()
        return int(answer[9:12]), answer.partition(b"\r\n\r\n")[2]

    async def wire(self) -> Wire:
        """A connection of the neighbour's."""
        loop, lines = asyncio.get_running_loop(), f"authorization: Bearer {self.token}\r\n"
        _, wire = await loop.create_connection(lambda: Wire(lines), self.host, self.port, ssl=self.tls())
        return wire


Neighbour = Callable[[Site], Awaitable[str]]
"""Begins the load, in the background what goes on; returns what there is to say of it."""


async def nobody(_: Site) -> str:
    return ""


def pod_of(containers: int, *, volumes: int = 0, inits: int = 0, command: str = "true") -> Neighbour:
    async def begin(site: Site) -> str:
        def named(letter: str, count: int) -> list[dict[str, Any]]:
            return [{"name": f"{letter}{n}", "image": "i", "command": ["sh", "-c", command]} for n in range(count)]

        spec = {
            "restartPolicy": "Never",
            "containers": named("c", containers),
            "initContainers": named("i", inits),
            "volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(volumes)],
        }
        body = {"metadata": {"name": "wide"}, "spec": spec}
        code, answer = await site.say("POST", f"/api/v1/namespaces/{BAD}/pods", body)
        return "" if code == 201 else f"{code} {json.loads(answer)['message'][:150]}"

    return begin


def pods(count: int, containers: int) -> Neighbour:
    async def begin(site: Site) -> str:
        def body(number: int) -> dict[str, Any]:
            listed = [{"name": f"c{n}", "image": "i", "command": ["true"]} for n in range(containers)]
            return {
                "metadata": {"name": f"wide-{number}"},
                "spec": {"restartPolicy": "Never", "containers": listed},
            }

        return await many(site, f"/api/v1/namespaces/{BAD}/pods", body, count)

    return begin


def job(parallelism: int, *, suspend: bool = False, cpu: str = "0") -> dict[str, Any]:
    container = {"name": "main", "image": "i", "command": ["true"], "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "parallelism": parallelism,
        "completions": parallelism,
        "completionMode": "Indexed",
        "suspend": suspend,
        "template": template,
    }


def jobsets(count: int, replicas: int, *, suspend: bool = True) -> Neighbour:
    async def begin(site: Site) -> str:
        path = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{BAD}/jobsets"

        def body(number: int) -> dict[str, Any]:
            roles = [{"name": "w", "replicas": replicas, "template": {"spec": job(1, cpu="1000")}}]
            return {
                "apiVersion": "jobset.x-k8s.io/v1alpha2",
                "kind": "JobSet",
                "metadata": {"name": f"set-{number}"},
                "spec": {"suspend": suspend, "replicatedJobs": roles},
            }

        return await many(site, path, body, count)

    return begin


def jobs(count: int, parallelism: int, *, suspend: bool = False, cpu: str = "0") -> Neighbour:
    async def begin(site: Site) -> str:
        path = f"/apis/batch/v1/namespaces/{BAD}/jobs"

        def body(number: int) -> dict[str, Any]:
            return {"metadata": {"name": f"job-{number}"}, "spec": job(parallelism, suspend=suspend, cpu=cpu)}

        return await many(site, path, body, count)

    return begin


async def many(site: Site, path: str, body: Callable[[int], dict[str, Any]], count: int) -> str:
    """Create so many in the background on 8 connections; the first is there when this returns."""
    numbers, refusals = iter(range(count)), set[str]()

    async def one(wire: Wire, number: int) -> None:
        try:
            await wire.ask("POST", path, json.dumps(body(number)).encode())
        except Refused as error:
            refusals.add(str(error)[:200])

    async def some(wire: Wire) -> None:
        for number in numbers:
            await one(wire, number)

    wires = [await site.wire() for _ in range(8)]
    await one(wires[0], next(numbers))
    for wire in wires:
        task = asyncio.create_task(some(wire))
        site.stack.callback(task.cancel)
    return "; ".join(refusals)


def slow(path: str) -> Neighbour:
    """Clients that ask for much and read nothing of the answer."""

    async def begin(site: Site) -> str:
        for number in range(MEGABYTES):
            body = {"metadata": {"name": f"big-{number}"}, "data": {"k": "x" * 1_000_000}}
            await site.say("POST", MAPS, body)
        before = site.memory()
        writers: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

        async def one() -> None:
            reader, writer = await asyncio.open_connection(site.host, site.port, ssl=site.tls(), limit=1024)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writers.append((reader, writer))
            head = f"GET {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {site.token}\r\n\r\n"
            writer.write(head.encode())

        async def all_of_them() -> None:
            for first in range(0, READERS, 20):
                await asyncio.gather(*(one() for _ in range(first, min(first + 20, READERS))))

        task = asyncio.create_task(all_of_them())
        own = Times()

        async def ask() -> None:
            while True:
                began = time.perf_counter()
                try:
                    await site.say("GET", f"{MAPS}/kube-root-ca.crt")
                finally:  # one that has waited in vain counts
                    own.values.append(time.perf_counter() - began)
                await asyncio.sleep(0.2)

        asking = asyncio.create_task(ask())

        async def end() -> None:
            most = site.memory()
            asking.cancel()
            task.cancel()
            for _, writer in writers:
                writer.transport.abort()
            await asyncio.sleep(15)
            site.remark = (
                f"its own requests: median {statistics.median(own.values):.2f} s, "
                f"worst {max(own.values):.2f} s; memory {before:.0f} MiB before, {most:.0f} MiB beside, "
                f"{site.memory():.0f} MiB after"
            )

        site.stack.push_async_callback(end)
        return ""

    return begin


NEIGHBOURS: dict[str, Neighbour] = {
    "nobody": nobody,
    "a pod of 64 containers": pod_of(64),
    "a pod of 1,000 containers": pod_of(1000),
    "a pod of 64 init containers": pod_of(1, inits=64),
    "a pod of 255 volumes": pod_of(1, volumes=255),
    "50 pods of 20 containers": pods(50, 20),
    "a suspended JobSet of 99,999 Jobs": jobsets(1, 99_999),
    "500 suspended JobSets of 100 Jobs": jobsets(500, 100),
    "a JobSet of 5,000 Jobs that fit nowhere": jobsets(1, 5_000, suspend=False),
    "a Job of 5,000 pods that fit nowhere": jobs(1, 5_000, cpu="1000"),
    "2,000 suspended Jobs": jobs(2_000, 1, suspend=True),
    "2,000 Jobs of one pod": jobs(2_000, 1),
    "500 slow watches of 12 MB": slow(f"{MAPS}?watch=1&allowWatchBookmarks=true&sendInitialEvents=true"
                                      "&resourceVersionMatch=NotOlderThan"),
    "500 slow readers of 12 MB": slow(MAPS),
}  # fmt: skip


class Took(NamedTuple):
    """How long a job took, by the clock and by the server's processor: the latter says the same on a busy machine."""

    seconds: float
    cpu: float


async def one_job(site: Site) -> Took:
    """From the creation of a normal job to its end."""
    number = len(site.numbers)
    site.numbers.append(number)
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"normal-{number}"}, "spec": job(1)}
    began, cpu = time.perf_counter(), site.cpu()
    path = "/apis/batch/v1/namespaces/default/jobs"
    answer = await site.client.raw(
        Request("POST", path, body=json.dumps(body).encode(), content_type="application/json")
    )
    version = json.loads(answer.body)["metadata"]["resourceVersion"]
    async with site.client.watch(JOB, namespace="default", resource_version=version) as events:
        async for event in events:
            found = event.object
            if (
                found is not None
                and found.metadata.name == f"normal-{number}"
                and is_true(found.status.conditions, "Complete")
            ):
                return Took(time.perf_counter() - began, site.cpu() - cpu)
    raise RuntimeError("the watch ended")


@asynccontextmanager
async def site_at(home: Path) -> AsyncIterator[Site]:
    """Connect, and make a namespace and an account for the neighbour."""
    config = kubeconfig_files.load({}, path=home / "kubeconfig")
    url = urlsplit(config.cluster.server)
    async with connect(Target(kubeconfig=str(home / "kubeconfig")), print) as session, AsyncExitStack() as stack:
        client = session.client

        async def create(path: str, body: dict[str, Any]) -> Any:
            request = Request("POST", path, body=json.dumps(body).encode(), content_type="application/json")
            return json.loads((await client.raw(request)).body)

        await create("/api/v1/namespaces", {"metadata": {"name": BAD}})
        await create(f"/api/v1/namespaces/{BAD}/serviceaccounts", {"metadata": {"name": "eve"}})
        binding = {
            "metadata": {"name": "eve"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "eve", "namespace": BAD}],
        }
        await create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = await create(f"/api/v1/namespaces/{BAD}/serviceaccounts/eve/token", asked)
        authority = config.cluster.certificate_authority
        assert authority is not None
        text = authority.decode()
        host, port = url.hostname or "", url.port or 443
        yield Site(client, home, host, port, text, token["status"]["token"], stack)


async def row(name: str, home: Path, seconds: float) -> str:
    """Play one neighbour."""
    async with site_at(home) as site:
        await one_job(site)  # loads what jobs take
        alone = [await one_job(site) for _ in range(ALONE)]
        said = await NEIGHBOURS[name](site)
        until = time.perf_counter() + seconds
        beside: list[Took] = []
        while time.perf_counter() < until or len(beside) < 3:
            beside.append(await one_job(site))
        await site.stack.aclose()
        seconds_alone, cpu_alone = (statistics.median(each) for each in zip(*alone, strict=True))
        middle, cpu = (statistics.median(each) for each in zip(*beside, strict=True))
        worst, worst_cpu = (max(each) for each in zip(*beside, strict=True))
        columns = (
            *(f"{seconds:.2f}" for seconds in (seconds_alone, middle, worst)),
            *(f"{seconds / seconds_alone:.1f}" for seconds in (middle, worst)),
            *(f"{seconds / cpu_alone:.1f}" for seconds in (cpu, worst_cpu)),
        )
        return f"| {name} | {' | '.join(columns)} | {site.remark or said} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("names", nargs="*", default=list(NEIGHBOURS))
    chosen = parser.parse_args()
    print("| neighbour | alone, median s | beside it, median | worst | times | worst | by processor | worst | |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    for name in chosen.names:
        with tempfile.TemporaryDirectory() as directory:
            home = Path(directory) / "home"
            with cluster(home):
                print(asyncio.run(row(name, home, chosen.seconds)), flush=True)


if __name__ == "__main__":
    main()
