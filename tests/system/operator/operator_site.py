"""Replicas of the engine beside a server whose Jobs another program runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued
from tests.system.plane import World, running
from tests.system.queueing import queueing_world

from muster.api.batch import JOB
from muster.api.config import DEFAULT, Configuration
from muster.api.core import NAMESPACE, Namespace
from muster.api.groups.coordination import LEASE, Lease
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.controllers.engine import Part
from muster.operator.precedence import make_identity
from muster.operator.replica import Replica
from muster.runtime.client import Client
from muster.runtime.clock import Clock, run_virtual
from muster.runtime.control.leases import LeadershipLostError
from muster.runtime.refusals import ignoring
from muster.runtime.tasks import cancel
from muster.runtime.transport import ClosedError, Request, Response, Transport, TransportError

KUEUE, LEASE_NAME = "kueue-system", "c1f6bfd2.kueue.x-k8s.io"


class Cable:
    """The way of a replica to the server; wrote: what was let through, as `PATCH /path`. refuses: a part of paths."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.cut, self.refuses = False, ""
        self.wrote: list[str] = []

    async def request(self, request: Request) -> Response:
        if self.cut:
            raise TransportError("the connection is cut")
        if self.refuses and self.refuses in request.path:
            return Response(403, b'{"kind": "Status", "reason": "Forbidden", "code": 403, "message": "not you"}')
        if request.method != "GET":
            self.wrote.append(f"{request.method} {request.path}")
        return await self._transport.request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        if self.cut:
            raise TransportError("the connection is cut")
        async with self._transport.stream(request) as chunks:
            yield chunks

    async def close(self) -> None:
        await self._transport.close()

    @property
    def writes(self) -> int:
        """How many."""
        return len(self.wrote)


class Wire(Cable):
    """A way that breaks watches off, and refuses all else, once its owner closes it or it is cut: as HTTPS does."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self.closing = asyncio.Event()
        self._broken = asyncio.Event()

    async def request(self, request: Request) -> Response:
        self._require_open()
        return await super().request(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        self._require_open()
        arrived: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def pump(chunks: AsyncIterator[bytes]) -> None:
            async for chunk in chunks:
                arrived.put_nowait(chunk)
            arrived.put_nowait(None)

        async def break_off() -> None:
            await self._broken.wait()
            arrived.put_nowait(None)

        async def read() -> AsyncIterator[bytes]:
            while (chunk := await arrived.get()) is not None:
                yield chunk
            self._require_open()

        async with super().stream(request) as chunks:
            tasks = [asyncio.create_task(pump(chunks)), asyncio.create_task(break_off())]
            try:
                yield read()
            finally:
                await cancel(tasks)

    async def close(self) -> None:
        self.closing.set()
        self._broken.set()
        await super().close()

    def sever(self) -> None:
        """The server goes away."""
        self.cut = True
        self._broken.set()

    def _require_open(self) -> None:
        if self.closing.is_set():
            raise ClosedError("the client is closed")
        if self.cut:
            raise TransportError("the connection is cut")


class Site:
    """A server with kube-controller-manager's part played, and replicas."""

    def __init__(self, world: World, configuration: Configuration) -> None:
        self.world, self.client, self.queued = world, world.client, Queued(world)
        self._configuration = configuration
        self._runs: dict[str, asyncio.Task[None]] = {}
        self.replicas: dict[str, Replica] = {}
        self.cables: dict[str, Cable] = {}

    async def start(self, name: str, way: type[Cable] = Cable) -> Replica:
        plane = self.world.plane
        cable = self.cables[name] = way(InProcessTransport(plane.server))
        replica = Replica(cable, plane.inputs, self._configuration, make_identity(name, "uid"), pod=name)
        self.replicas[name] = replica
        self._runs[name] = asyncio.create_task(replica.run())
        await self.world.settle()
        return replica

    async def ended(self, name: str) -> None:
        """Wait for the end of a replica, and raise what it raised."""
        async with asyncio.timeout(120):
            await self._runs.pop(name)

    async def close(self) -> None:
        for name, replica in self.replicas.items():
            await replica.stop()
            if (run := self._runs.get(name)) is not None:
                with suppress(LeadershipLostError):
                    await run

    async def token(self, account: str) -> str:
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        answer = await self.client.raw(Request("POST", path, body=b'{"spec": {}}', content_type="application/json"))
        return str(msgspec.json.decode(answer.body)["status"]["token"])

    async def holder(self) -> str:
        return (await self.client.get(LEASE, LEASE_NAME, KUEUE)).spec.holder_identity or ""

    async def is_suspended(self, name: str) -> bool:
        return bool((await self.client.get(JOB, name, "default")).spec.suspend)


@asynccontextmanager
async def renewed(client: Client, clock: Clock, holder: str, *, ago: float = 0.0) -> AsyncIterator[None]:
    """Another program has the Lease and renews it, by a clock that is so many seconds behind."""

    def spec() -> dict[str, Any]:
        moment = (clock.now() - timedelta(seconds=ago)).replace(microsecond=1)
        return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": moment}}

    async def renew() -> None:
        while True:
            await clock.sleep(2)
            await client.patch(LEASE, LEASE_NAME, spec(), KUEUE)

    with ignoring("AlreadyExists"):
        await client.create(LEASE, msgspec.convert({"metadata": {"name": LEASE_NAME}}, Lease), KUEUE)
    await client.patch(LEASE, LEASE_NAME, spec(), KUEUE)
    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        await cancel([renewing])


def site(test: Callable[[Site], Awaitable[None]]) -> Callable[[], None]:
    """A test in virtual time, with a queue of 4 CPUs; Jobs get their pods without Muster."""
    return configured(DEFAULT)(test)


def configured(configuration: Configuration) -> Callable[[Callable[[Site], Awaitable[None]]], Callable[[], None]]:
    """A `site` with some settings."""

    def decorate(test: Callable[[Site], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with running(engine=(Part.JOBS,), configuration=configuration) as plane:
                found = Site(World(plane), configuration)
                await found.client.create(NAMESPACE, msgspec.convert({"metadata": {"name": KUEUE}}, Namespace))
                await queueing_world.flavor(found.world, "f")
                await queueing_world.queue(found.world, "cq", 4, flavor="f")
                try:
                    await test(found)
                finally:
                    await found.close()

        def run() -> None:
            run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate
