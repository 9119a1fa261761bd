"""A manager and its workers in virtual time, and lines between them that a test cuts, mutes or falsifies."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
from msgspec.structs import replace
from tests.system.first_objects import seeded_plane
from tests.system.plane import World, running

from muster.api.conditions import find
from muster.api.config import EMBEDDED, Configuration
from muster.api.core import NAMESPACE, SECRET, Namespace, Secret
from muster.api.kueue import (
    ADMISSION_CHECK,
    MULTI_KUEUE_CLUSTER,
    MULTI_KUEUE_CONFIG,
    AdmissionCheck,
    MultiKueueCluster,
    MultiKueueConfig,
)
from muster.api.kueue.names import ACTIVE, MULTI_KUEUE_CONTROLLER
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.controllers.engine import Part, assemble
from muster.multicluster.links.clusters import Fleet
from muster.multicluster.links.reach import Reach
from muster.runtime.client import error_of
from muster.runtime.clock import Clock, VirtualClock, run_virtual
from muster.runtime.ids import Random
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.tasks import cancel
from muster.runtime.transport import Request, Response, Transport, TransportError

# Nothing is collected: what a test puts into a worker stays there.
KEEPING = replace(EMBEDDED, multi_kueue=replace(EMBEDDED.multi_kueue, gc_interval=0))

Spoil = Callable[[Request], Response | None]


class Line:
    """The way to a worker: what a test does to it holds for all who go that way."""

    def __init__(self, plane: ControlPlane) -> None:
        self.transports = 0  # that are open
        self.token = "good"
        self.seconds: Callable[[Request], float] = lambda _request: 0.0  # that it takes
        self.delay = 0.0  # seconds that each answer takes
        self.spoil: Spoil = lambda _request: None  # an answer in place of the worker's
        self.server: Transport = InProcessTransport(plane.server)
        self._mute = False
        self._cut = asyncio.Event()

    def cut(self) -> None:
        """Nothing gets through, and all streams break."""
        self._cut.set()

    def mute(self) -> None:
        """Nothing is ever answered, and streams say no more."""
        self._mute = True

    def break_streams(self) -> None:
        """The streams break; new ones begin at once."""
        self._cut.set()
        self._cut = asyncio.Event()

    def mend(self) -> None:
        """All is well again."""
        self.break_streams()
        self._mute = False

    def lead_to(self, plane: ControlPlane) -> None:
        """Another server is at its end from now on."""
        self.server = InProcessTransport(plane.server)
        self.break_streams()

    def transport(self, config: ConnectionConfig) -> Transport:
        self.transports += 1
        return _Way(self, config.user.token)

    async def ask(self, request: Request, token: str) -> Response | None:
        """An answer that is not the worker's."""
        await asyncio.sleep(self.seconds(request))
        if self.delay:
            await asyncio.sleep(self.delay)
        if self._cut.is_set():
            raise TransportError(f"{request.method} {request.path}: the line is cut")
        if self._mute:
            await asyncio.sleep(request.timeout_seconds or 60.0)
            raise TransportError(f"{request.method} {request.path}: no answer")
        if token != self.token:
            return status(401, "Unauthorized")
        return self.spoil(request)

    async def pieces(self, chunks: AsyncIterator[bytes], idle_seconds: float) -> AsyncIterator[bytes]:
        cut = self._cut
        while True:
            piece = asyncio.ensure_future(_next(chunks))
            ended = asyncio.ensure_future(cut.wait())
            waits: list[asyncio.Task[Any]] = [piece, ended]
            try:
                await asyncio.wait(waits, timeout=idle_seconds, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel(waits)
            if cut.is_set():
                raise TransportError("the line is cut")
            if self._mute or piece.cancelled():
                await asyncio.sleep(idle_seconds)
                raise TransportError("nothing came")
            if not (found := piece.result()):
                return
            yield found


async def _next(chunks: AsyncIterator[bytes]) -> bytes:
    return await anext(chunks, b"")


class _Way:
    """A transport over a line."""

    def __init__(self, line: Line, token: str) -> None:
        self._line, self._token = line, token
        self._closed = False

    async def request(self, request: Request) -> Response:
        if self._closed:
            raise TransportError("the client is closed")
        return await self._line.ask(request, self._token) or await self._line.server.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        answer = await self._line.ask(request, self._token)
        if answer is not None:
            if answer.status >= 400:
                raise error_of(answer)
            yield _once(answer.body)
            return
        async with self._line.server.stream(request) as chunks:
            yield self._line.pieces(chunks, 90.0)

    async def close(self) -> None:
        self._closed = True
        self._line.transports -= 1


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def status(code: int, reason: str, message: str = "") -> Response:
    document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message or reason}
    return Response(code, json.dumps(document).encode())


class Workers:
    """A manager, and its workers by name."""

    def __init__(self, manager: World, fleet: Fleet, workers: dict[str, World], lines: dict[str, Line]) -> None:
        self.manager, self.fleet, self.workers, self.lines = manager, fleet, workers, lines

    async def secret(self, name: str, *, server: str = "", token: str = "good", insecure: bool = False) -> None:
        """The kubeconfig of a worker, in a Secret of its name."""
        data = kubeconfig(server or f"https://{name}", token, insecure=insecure)
        document = {"metadata": {"name": name}, "data": {"kubeconfig": base64.b64encode(data).decode()}}
        old = await self.manager.client.find(SECRET, name, "kueue-system")
        if old is not None:
            await self.manager.client.patch(SECRET, name, {"data": document["data"]}, "kueue-system")
        else:
            await self.manager.client.create(SECRET, msgspec.convert(document, Secret), "kueue-system")

    async def cluster(self, name: str, **source: Any) -> None:
        """A MultiKueueCluster, of the Secret of its name unless it is said otherwise."""
        spec = {"clusterSource": source or {"kubeConfig": {"location": name, "locationType": "Secret"}}}
        document = {"metadata": {"name": name}, "spec": spec}
        await self.manager.client.create(MULTI_KUEUE_CLUSTER, msgspec.convert(document, MultiKueueCluster))

    async def check(self, *clusters: str, name: str = "check") -> None:
        """A MultiKueue check of some clusters, and its configuration."""
        reference = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": name}
        check = {
            "metadata": {"name": name},
            "spec": {"controllerName": MULTI_KUEUE_CONTROLLER, "parameters": reference},
        }
        config = {"metadata": {"name": name}, "spec": {"clusters": clusters}}
        await self.manager.client.create(ADMISSION_CHECK, msgspec.convert(check, AdmissionCheck))
        await self.manager.client.create(MULTI_KUEUE_CONFIG, msgspec.convert(config, MultiKueueConfig))

    async def active(self, name: str) -> tuple[str, str, str]:
        """Status, reason and message of a cluster's condition."""
        found = find((await self.manager.client.get(MULTI_KUEUE_CLUSTER, name)).status.conditions, ACTIVE)
        return (found.status, found.reason, found.message) if found else ("", "", "")

    async def of_check(self, name: str = "check") -> tuple[str, str, str]:
        """The same of a check."""
        found = find((await self.manager.client.get(ADMISSION_CHECK, name)).status.conditions, ACTIVE)
        return (found.status, found.reason, found.message) if found else ("", "", "")

    async def until_active(self, name: str, reason: str = "Active", message: str = "") -> str:
        """Wait until a cluster's condition has a reason, and a message with these words; returns the message."""

        async def holds() -> bool:
            _, found, said = await self.active(name)
            return found == reason and message in said

        await self.manager.until(holds, 2000)
        return (await self.active(name))[2]


def kubeconfig(server: str, token: str, *, insecure: bool) -> bytes:
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": insecure}}],
        "users": [{"name": "u", "user": {"token": token}}],
    }
    return json.dumps(document).encode()


@asynccontextmanager
async def managed(
    names: Iterable[str] = ("one",),
    configuration: Configuration = KEEPING,
    parts: tuple[Part, ...] = (Part.MULTICLUSTER,),
    *,
    alive: bool = False,
) -> AsyncIterator[Workers]:
    """A manager with these parts of the engine, and its workers. Only on a virtual loop.

    alive: the workers have all their controllers; else none.
    """
    lines: dict[str, Line] = {}

    def reach(config: ConnectionConfig, _clock: Clock, _random: Random) -> Transport:
        return lines[config.cluster.server.removeprefix("https://")].transport(config)

    async with AsyncExitStack() as stack:
        workers = {}
        for seed, name in enumerate(names, 2):
            plane = await stack.enter_async_context(running(controllers=alive, seed=seed))
            workers[name], lines[name] = World(plane), Line(plane)
        plane, fleet = await stack.enter_async_context(_manager(configuration, parts, reach))
        manager = World(plane)
        await manager.client.create(NAMESPACE, msgspec.convert({"metadata": {"name": "kueue-system"}}, Namespace))
        yield Workers(manager, fleet, workers, lines)
    assert not any(line.transports for line in lines.values()), "all transports are closed at the end"


@asynccontextmanager
async def _manager(
    configuration: Configuration, parts: tuple[Part, ...], reach: Reach
) -> AsyncIterator[tuple[ControlPlane, Fleet]]:
    async with seeded_plane(VirtualClock(), 1, configuration) as plane:
        engine = assemble(plane.manager, plane.events, configuration, parts, reach=reach)
        assert engine.fleet is not None
        run = asyncio.create_task(plane.manager.run())
        await plane.manager.ready.wait()
        try:
            yield plane, engine.fleet
        finally:
            await plane.manager.stop()
            await run


def with_workers(
    *names: str, configuration: Configuration = KEEPING, alive: bool = False
) -> Callable[[Callable[[Workers], Awaitable[None]]], Callable[[], None]]:
    """Run a test of a manager and these workers in virtual time."""

    def decorate(test: Callable[[Workers], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with managed(names, configuration, alive=alive) as world:
                await test(world)

        def run() -> None:
            run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate
