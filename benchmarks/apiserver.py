"""The API server as its clients see it: in process, and over HTTPS from another process.

    python benchmarks/apiserver.py [--seconds 3] [--pods 5000] [--directory DIR] [--only TABLE] [--beside KUBECONFIG]

Objects are pods of about 2 KB, on disk before they are acknowledged. "lag" is how late the server's event loop runs
meanwhile: the delay of a callback that asks to run every millisecond. Times over HTTPS are the client's. Of the
protocols there is a table of its own; with `--beside` the same client asks another API server too, row by row.
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import protocols
import uvloop
from clients import Ask, Times, Wire, at_once

from muster.cluster.apiserver.front.https import HttpsFront
from muster.cluster.apiserver.identity.credentials import Credentials
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.controlplane import control_plane
from muster.cluster.store.sqlite import SqliteJournal
from muster.runtime.clock import RealClock
from muster.runtime.externalinputs import ExternalInputs
from muster.runtime.ids import Ids, Random
from muster.runtime.process.descriptors import allow_descriptors
from muster.runtime.transport import Request

PODS = "/api/v1/namespaces/default/pods"
WATCHERS = 200
BURST = 1_000  # changes that every watcher sees
AT_ONCE = 50  # of them written at once


def pod(number: int) -> bytes:
    """A pod as a Job controller makes it; stored it has some 2 KB."""
    return json.dumps({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"train-{number:07d}",
            "labels": {"app": "train", "batch.kubernetes.io/job-name": "train", "tier": "batch"},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(number), "example.com/note": "x" * 500},
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": "train", "controller": True,
                "uid": "00000000-0000-4000-8000-000000000001", "blockOwnerDeletion": True,
            }],
        },
        "spec": {
            "restartPolicy": "Never",
            "subdomain": "train",
            "containers": [{
                "name": "main",
                "image": "example.com/train:1",
                "command": ["python", "train.py", "--epochs", "10"],
                "env": [{"name": "RANK", "value": str(number)}, {"name": "WORLD_SIZE", "value": "64"}],
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            }],
        },
    }, separators=(",", ":")).encode()  # fmt: skip


class Lag:
    """How late the running loop calls what is due every millisecond."""

    def __init__(self) -> None:
        self._times = Times()
        self._loop = asyncio.get_running_loop()
        self._arm()

    def _arm(self) -> None:
        self._loop.call_later(0.001, self._tick, time.perf_counter() + 0.001)

    def _tick(self, due: float) -> None:
        self._times.values.append(max(time.perf_counter() - due, 0.0))
        self._arm()

    def take(self) -> float:
        """The 99th percentile since the last call, in seconds."""
        late: float = self.taken().percentile(99)
        return late

    def taken(self) -> Times:
        """All of it since the last call."""
        times, self._times = self._times, Times()
        return times


def resident() -> float:
    """Megabytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Target(ABC):
    """What is measured: a server in this process, or in another."""

    @abstractmethod
    def connection(self) -> Awaitable[Ask]:
        """Another connection to it."""

    @abstractmethod
    async def watch(self, version: int, changes: int) -> None:
        """See so many changes."""

    @abstractmethod
    async def state(self) -> tuple[float, float]:
        """The server's lag (p99, in seconds) since the last call, and its memory in megabytes."""


@asynccontextmanager
async def server(directory: Path) -> AsyncIterator[ApiServer]:
    """A server on disk."""
    async with control_plane(SqliteJournal(directory), ExternalInputs(RealClock(), Ids(), Random())) as plane:
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        yield plane.server


class InProcess(Target):
    def __init__(self, api: ApiServer) -> None:
        self._transport = InProcessTransport(api)
        self._lag = Lag()

    async def connection(self) -> Ask:
        async def ask(method: str, path: str, body: bytes = b"") -> bytes:
            path, _, query = path.partition("?")
            texts = dict(pair.split("=") for pair in query.split("&") if pair)
            type_ = "application/merge-patch+json" if method == "PATCH" else "application/json"
            response = await self._transport.request(Request(method, path, texts, body, type_))
            assert response.status in (200, 201), response.body
            return response.body

        return ask

    async def watch(self, version: int, changes: int) -> None:
        request = Request("GET", PODS, {"watch": "1", "resourceVersion": str(version)})
        async with self._transport.stream(request) as chunks:
            async for chunk in chunks:
                changes -= chunk.count(b"\n")
                if changes <= 0:
                    return

    async def state(self) -> tuple[float, float]:
        return self._lag.take(), resident()


class OverHttps(Target):
    def __init__(self, process: subprocess.Popen[bytes], port: int, context: ssl.SSLContext) -> None:
        self._process, self._port, self._context = process, port, context

    async def _connect(self) -> Wire:
        loop = asyncio.get_running_loop()
        _, wire = await loop.create_connection(Wire, "127.0.0.1", self._port, ssl=self._context)
        return wire

    async def connection(self) -> Ask:
        return (await self._connect()).ask

    async def watch(self, version: int, changes: int) -> None:
        wire = await self._connect()
        wire.changes = changes
        await wire.ask("GET", f"{PODS}?watch=1&resourceVersion={version}")
        wire.transport.close()

    async def state(self) -> tuple[float, float]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"\n")
        stdin.flush()
        lag, memory = json.loads(await asyncio.to_thread(stdout.readline))
        return lag, memory


async def row(target: Target, name: str, rate: float, unit: str, times: Times, note: str = "") -> None:
    lag, memory = await target.state()
    percentiles = f"p50 {times.percentile(50) * 1e3:8.2f} ms   p99 {times.percentile(99) * 1e3:8.2f} ms"
    state = f"lag p99 {lag * 1e3:6.1f} ms   {memory:5.0f} MB"
    print(f"  {name:<30}{rate:>10,.0f} {unit:<9}{percentiles}   {state}   {note}", flush=True)


async def measure(target: Target, writers: tuple[int, ...], seconds: float, pods: int) -> None:
    """One table."""
    numbers = count()
    bodies = iter(lambda: pod(next(numbers)), None)
    connections = [await target.connection() for _ in range(max(writers))]
    for ask in connections:  # the server lets go of a connection that asks for nothing for ten seconds
        await ask("GET", "/version", b"")
    await target.state()
    for number in writers:
        prepared = iter([next(bodies) for _ in range(int(12_000 * seconds))])
        rate, times = await at_once(connections[:number], seconds, lambda ask: ask("POST", PODS, next(prepared)))  # noqa: B023
        await row(target, f"create, {number} at once", rate, "/s", times)
    names = [item["metadata"]["name"] for item in json.loads(_body(await connections[0]("GET", PODS, b"")))["items"]]
    each = iter(lambda: names[next(numbers) % len(names)], None)
    for number in (1, 32):
        rate, times = await at_once(connections[:number], seconds, lambda ask: ask("GET", f"{PODS}/{next(each)}", b""))
        await row(target, f"get, {number} at once", rate, "/s", times)
    await lists(target, connections[0], len(names), pods)
    await fan_out(target, connections[:AT_ONCE], names)


def _body(answer: bytes) -> bytes:
    """What an answer holds, joined if it came in pieces."""
    if not answer.startswith(b"HTTP"):
        return answer
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head:
        return rest
    pieces = []
    while size := int(rest.partition(b"\r\n")[0], 16):
        begin = rest.index(b"\r\n") + 2
        pieces.append(rest[begin : begin + size])
        rest = rest[begin + size + 2 :]
    return b"".join(pieces)


async def lists(target: Target, ask: Ask, have: int, pods: int) -> None:
    """A list while the collection changes, and again while it does not."""
    for name in range(have, pods):
        await ask("POST", PODS, pod(10_000_000 + name))
    limit = f"{PODS}?limit={pods}"
    await target.state()
    times, size = Times(), 0
    for number in range(20):
        await ask("POST", PODS, pod(20_000_000 + number))
        with times.one():
            size = len(await ask("GET", limit, b""))
    await row(
        target, f"list {pods:,}, changing", len(times.values) / sum(times.values), "/s", times, f"{size / 1e6:.1f} MB"
    )
    times = Times()
    for _ in range(20):
        with times.one():
            await ask("GET", PODS, b"")
    total = max(have, pods) + 20
    await row(target, f"list all {total:,}, again", len(times.values) / sum(times.values), "/s", times)


async def fan_out(target: Target, connections: list[Ask], names: list[str]) -> None:
    """Every watcher sees every change."""
    answer = json.loads(_body(await connections[0]("GET", f"{PODS}?limit=1", b"")))
    version = int(answer["metadata"]["resourceVersion"])
    watchers = [asyncio.create_task(target.watch(version, BURST)) for _ in range(WATCHERS)]
    await asyncio.sleep(1.0)
    await target.state()
    times, stamps = Times(), count()
    start = time.perf_counter()
    todo = iter(names[:BURST] * (BURST // len(names[:BURST]) + 1))
    for _ in range(BURST // len(connections)):

        async def write(ask: Ask) -> None:
            patch = json.dumps({"metadata": {"labels": {"step": str(next(stamps))}}}).encode()
            with times.one():
                await ask("PATCH", f"{PODS}/{next(todo)}", patch)

        await asyncio.gather(*map(write, connections))
    await asyncio.gather(*watchers)
    rate = WATCHERS * BURST / (time.perf_counter() - start)
    await row(target, f"watch, {WATCHERS} watchers", rate, "events/s", times, f"{len(connections)} patches at once")


async def serve(directory: Path) -> None:
    """The server for the other process: its state for every line on standard input, until that ends."""
    allow_descriptors(protocols.DESCRIPTORS)
    credentials = Credentials.load(directory / "pki", RealClock().now(), Ids())
    async with server(directory / "data") as api:
        front = HttpsFront(api, credentials.authenticator(), credentials.server_context())
        port = await front.start("127.0.0.1", 0)
        print(port, flush=True)
        lag, ended = Lag(), asyncio.Event()

        def answer() -> None:
            if not os.read(0, 1):
                asyncio.get_running_loop().remove_reader(0)
                ended.set()
                return
            print(json.dumps([lag.take(), resident()]), flush=True)

        asyncio.get_running_loop().add_reader(0, answer)
        await ended.wait()
        await front.stop()


@contextmanager
def other_process(directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, Credentials]]:
    """A server that serves; its port, and who may ask it."""
    command = [sys.executable, __file__, "--serve", str(directory)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        yield process, port, Credentials.load(directory / "pki", RealClock().now(), Ids())
        process.stdin.close()


async def over_https(directory: Path, seconds: float, pods: int) -> None:
    with other_process(directory) as (process, port, credentials):
        context = ssl.create_default_context(cadata=credentials.authority_pem.decode())
        context.load_cert_chain(credentials.admin.file)
        await measure(OverHttps(process, port, context), (1, 16, 32, 128), seconds, pods)


async def by_protocol(directory: Path, seconds: float, beside: Path | None) -> None:
    with other_process(directory) as (_, port, credentials):
        servers = [protocols.Server("muster", "127.0.0.1", port, credentials.authority_pem.decode(), credentials.token)]
        if beside is not None:
            servers.append(protocols.server_of(beside))
        await protocols.measure(servers, seconds)


async def in_process(directory: Path, seconds: float, pods: int) -> None:
    async with server(directory) as api:
        await measure(InProcess(api), (1, 16, 256), seconds, pods)


def main() -> None:
    """Both tables, on the loop that the server uses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--pods", type=int, default=5_000)
    parser.add_argument("--directory", type=Path, default=None)
    parser.add_argument("--only", choices=("in-process", "https", "protocols"), help="one table of the three")
    parser.add_argument("--beside", type=Path, metavar="KUBECONFIG", help="another API server, with a token for it")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        uvloop.run(serve(options.serve))
        return
    size = len(pod(0))
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, pods of {size:,} bytes as sent")
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        tables: dict[str, tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = {
            "in-process": ("in process", lambda: in_process(Path(directory) / "a", options.seconds, options.pods)),
            "https": (
                "over HTTPS, the client in another process",
                lambda: over_https(Path(directory) / "b", options.seconds, options.pods),
            ),
            "protocols": (
                "by protocol; ConfigMaps of about 1 KB",
                lambda: by_protocol(Path(directory) / "c", options.seconds, options.beside),
            ),
        }
        for name in [options.only] if options.only else tables:
            title, table = tables[name]
            print(f"\n{title}")
            uvloop.run(table())


if __name__ == "__main__":
    main()
