"""The API server over HTTP/1.1 and HTTP/2, and with a connection for each request; beside another one, as ratios."""

import asyncio
import json
import os
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from clients import Ask, Refused, Streams, Times, Watch, Wire, at_once

from muster.runtime.kube import kubeconfig_files
from muster.runtime.process.descriptors import allow_descriptors

MAPS = "/api/v1/namespaces/default/configmaps"
CONNECTIONS = 32  # of HTTP/1.1
MANY = 5_000  # requests of HTTP/2 at once, if the server lets so many in
ANEW = 2_000  # connections at once
WATCHES = 200
CHANGES = 1_000  # that every watch sees
WRITERS = 50
DESCRIPTORS = 10_000

_RUN = f"{time.time_ns():x}"
_NUMBERS = count()


@dataclass(frozen=True)
class Server:
    """Where it is, and how to be let in."""

    name: str
    host: str
    port: int
    authority: str
    token: str

    def _context(self, protocol: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self.authority)
        context.set_alpn_protocols([protocol])
        return context

    async def wires(self, number: int) -> list[Wire]:
        context, loop = self._context("http/1.1"), asyncio.get_running_loop()
        made = [loop.create_connection(self._wire, self.host, self.port, ssl=context) for _ in range(number)]
        return [wire for _, wire in await asyncio.gather(*made)]

    def _wire(self) -> Wire:
        return Wire(f"authorization: Bearer {self.token}\r\n")

    async def streams(self) -> tuple[Streams, int]:
        """One connection of HTTP/2, and how many requests it takes at once."""
        always = [(b"authorization", f"Bearer {self.token}".encode()), (b"user-agent", b"benchmark")]
        loop = asyncio.get_running_loop()
        _, streams = await loop.create_connection(
            lambda: Streams(always), self.host, self.port, ssl=self._context("h2")
        )
        return streams, await streams.is_greeted

    async def follow(self, path: str, seen: Callable[[bytes], None]) -> None:
        """Call `seen` with each object of a watch and with each change. A watch that the server ends begins anew."""
        make = partial(Watch, seen, path, f"authorization: Bearer {self.token}\r\n")
        loop = asyncio.get_running_loop()
        while True:
            transport, watch = await loop.create_connection(make, self.host, self.port, ssl=self._context("http/1.1"))
            try:
                await watch.ended.wait()
            finally:
                transport.close()


def server_of(kubeconfig: Path) -> Server:
    """The server that a kubeconfig names, and its token."""
    config = kubeconfig_files.load(os.environ, path=kubeconfig)
    url = urlsplit(config.cluster.server)
    authority = config.cluster.certificate_authority
    assert authority is not None, "a kubeconfig with the authority's certificate in it"
    assert config.user.token, "a kubeconfig with a token"
    assert url.hostname is not None
    return Server("other", url.hostname, url.port or 443, authority.decode(), config.user.token)


@dataclass(frozen=True)
class Result:
    rate: float
    times: Times
    note: str = ""


Row = Callable[[Server, float], Awaitable[Result]]


def config_map() -> bytes:
    name = f"m{_RUN}-{next(_NUMBERS)}"
    return json.dumps({"metadata": {"name": name, "labels": {"app": "train"}}, "data": {"a": "x" * 1000}}).encode()


async def create(ask: Ask) -> None:
    await ask("POST", MAPS, config_map())


async def some(server: Server, number: int) -> list[str]:
    """The paths of so many ConfigMaps."""
    streams, _ = await server.streams()
    bodies = [config_map() for _ in range(number)]
    await asyncio.gather(*[streams.ask("POST", MAPS, body) for body in bodies])
    streams.transport.close()
    return [f"{MAPS}/{json.loads(body)['metadata']['name']}" for body in bodies]


def over(job: str, protocol: str, in_flight: int) -> Row:
    """Creates or gets, over and over, so many at once."""

    async def run(server: Server, seconds: float) -> Result:
        paths = await some(server, 100) if job == "get" else []

        async def get(ask: Ask) -> None:
            await ask("GET", paths[next(_NUMBERS) % len(paths)], b"")

        note, asks = "", list[Ask]()
        wires = await server.wires(in_flight) if protocol == "1.1" else []
        if wires:
            asks = [wire.ask for wire in wires]
        else:
            streams, most = await server.streams()
            asks = [streams.ask] * in_flight
            note = f"it takes {most} at once" if most < in_flight else ""
        rate, times = await at_once(asks, seconds, get if job == "get" else create)
        for wire in wires:
            wire.transport.close()
        return Result(rate, times, note)

    return run


async def anew(server: Server, _seconds: float) -> Result:
    """A connection for each request, all of them at once."""
    (path,) = await some(server, 1)
    times, failed = Times(), Counter[str]()

    async def one() -> None:
        try:
            with times.one():
                (wire,) = await server.wires(1)
                await wire.ask("GET", path)
                wire.transport.close()
        except (OSError, Refused) as error:
            failed[type(error).__name__] += 1

    start = time.perf_counter()
    await asyncio.gather(*[one() for _ in range(ANEW)])
    rate = len(times.values) / (time.perf_counter() - start)  # of those that were answered
    return Result(rate, times, ", ".join(f"{number} {name}" for name, number in failed.items()) or "no errors")


async def seen(watch: asyncio.Future[bytes]) -> float | None:
    """When all changes had come; None if the server ended the watch before."""
    try:
        await watch
    except (OSError, Refused):
        return None
    return time.perf_counter()


def watches(protocol: str) -> Row:
    """Every watch sees every change."""

    async def run(server: Server, _seconds: float) -> Result:
        paths = await some(server, 100)
        writers = await server.wires(WRITERS)
        version = json.loads((await writers[0].ask("GET", paths[-1])).partition(b"\r\n\r\n")[2])
        path = f"{MAPS}?watch=1&resourceVersion={version['metadata']['resourceVersion']}"
        watching: list[asyncio.Future[bytes]] = []
        async with AsyncExitStack() as stack:
            if protocol == "1.1":
                for wire in await server.wires(WATCHES):
                    wire.changes = CHANGES
                    watching.append(wire.ask("GET", path))
                    stack.callback(wire.transport.close)
            else:
                while len(watching) < WATCHES:  # on as many connections as they need
                    streams, most = await server.streams()
                    watching += [streams.watch(path, CHANGES) for _ in range(min(most, WATCHES - len(watching)))]
                    stack.callback(streams.transport.close)
            await asyncio.sleep(1.0)
            todo, times, start = iter(range(CHANGES)), Times(), time.perf_counter()

            async def write(wire: Wire) -> None:
                for number in todo:
                    with times.one():
                        patch = b'{"metadata":{"labels":{"step":"%d"}}}' % number
                        await wire.ask("PATCH", paths[number % len(paths)], patch)

            await asyncio.gather(*map(write, writers))
            ends = await asyncio.gather(*map(seen, watching))
        for wire in writers:
            wire.transport.close()
        whole = [end - start for end in ends if end is not None]
        note = f", {WATCHES - len(whole)} watches ended early" if len(whole) < WATCHES else ""
        return Result(len(whole) * CHANGES / max(whole, default=1.0), times, f"{WRITERS} patches at once{note}")

    return run


ROWS: dict[str, Row] = {
    **{
        f"{job}s/s, {name}": over(job, protocol, in_flight)
        for job in ("create", "get")
        for name, protocol, in_flight in (
            (f"HTTP/1.1, {CONNECTIONS} connections", "1.1", CONNECTIONS),
            (f"one HTTP/2 connection, {CONNECTIONS} at once", "2", CONNECTIONS),
            (f"one HTTP/2 connection, {MANY:,} at once", "2", MANY),
        )
    },
    f"gets/s, a connection for each, {ANEW:,} at once": anew,
    f"events/s, {WATCHES} watches, HTTP/1.1, {WATCHES} connections": watches("1.1"),
    f"events/s, {WATCHES} watches, HTTP/2, as few connections as it lets": watches("2"),
}


async def measure(servers: list[Server], seconds: float) -> None:
    """A row for each server, and the ratio of the first one's rate to the other's."""
    allow_descriptors(DESCRIPTORS)
    for name, row in ROWS.items():
        rates = []
        for server in servers:
            result = await row(server, seconds)
            rates.append(result.rate)
            p50, p99 = (result.times.percentile(percent) * 1e3 for percent in (50, 99))
            ratio = f"{rates[0] / rates[1]:6.2f}" if len(rates) > 1 and rates[1] else ""
            print(
                f"  {name:<62}{server.name:<8}{result.rate:>9,.0f}   p50 {p50:8.2f} ms   p99 {p99:8.2f} ms   "
                f"{ratio} {result.note}",
                flush=True,
            )
