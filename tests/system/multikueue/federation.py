"""A manager cluster and its workers in virtual time, each with its own server, engine and simulated node."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
from tests.system.integrations.queued_jobs import Queued, noded
from tests.system.jobs.job_cluster import Wire
from tests.system.plane import World, running
from tests.system.workers.worker_world import Line, Workers

from muster.api.batch import JOB, Job
from muster.api.config import EMBEDDED, Configuration
from muster.api.core import NAMESPACE, Namespace
from muster.api.ours.simulated import RUN_TIME
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.controlplane import ControlPlane
from muster.controllers.engine import Part, assemble
from muster.runtime.client import Client
from muster.runtime.clock import Clock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.ids import Random
from muster.runtime.kube.kubeconfig import ConnectionConfig
from muster.runtime.transport import Request, Response, Transport, TransportError


class Budget:
    """How many writes a process may make before it is killed; None: as many as it likes. made: what it wrote."""

    def __init__(self, writes: int | None = None) -> None:
        self.left, self.made = writes, 0

    def spend(self, request: Request) -> None:
        if request.method == "GET":
            return
        if self.left == 0:
            raise TransportError("the process is dead")
        self.left = None if self.left is None else self.left - 1
        self.made += 1


@dataclass(frozen=True, slots=True)
class Metered:
    """A transport of a process with a budget."""

    transport: Transport
    budget: Budget

    async def request(self, request: Request) -> Response:
        self.budget.spend(request)
        return await self.transport.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.transport.stream(request)

    async def close(self) -> None:
        await self.transport.close()


class Dispatch:
    """The part of the manager that dispatches, as a process of its own."""

    def __init__(
        self, plane: ControlPlane, lines: Mapping[str, Line], configuration: Configuration, writes: int | None = None
    ) -> None:
        self.budget = Budget(writes)

        def reach(config: ConnectionConfig, _clock: Clock, _random: Random) -> Transport:
            line = lines[config.cluster.server.removeprefix("https://")]
            return Metered(line.transport(config), self.budget)

        inputs = plane.inputs
        self.wire = Wire(InProcessTransport(plane.server))
        client = Client(Metered(self.wire, self.budget))
        self._manager = Manager(client, inputs.clock, inputs.random)
        self.registry = self._manager.registry
        engine = assemble(self._manager, plane.events, configuration, (Part.MULTICLUSTER,), reach=reach)
        assert engine.fleet is not None
        self.fleet = engine.fleet
        self._run = asyncio.create_task(self._manager.run())

    async def stop(self) -> None:
        await self._manager.stop()
        await self._run


class Federation:
    """What a test says and sees. here: the manager's cluster."""

    dispatch: Dispatch

    def __init__(
        self, here: Queued, workers: dict[str, Queued], lines: dict[str, Line], configuration: Configuration
    ) -> None:
        self.here, self.workers, self.lines = here, workers, lines
        self._configuration = configuration

    async def stop(self) -> None:
        """Of what dispatches alone: all else goes on."""
        await self.dispatch.stop()

    async def restart(self) -> None:
        """What dispatches begins anew, with nothing but what is stored."""
        await self.stop()
        await self.begin()

    async def begin(self, seconds: float = 10.0) -> None:
        """It does, after a stop."""
        self.dispatch = Dispatch(self.here.world.plane, self.lines, self._configuration)
        await self.settle(seconds)

    async def settle(self, seconds: float = 10.0) -> None:
        await self.here.world.settle(seconds)

    async def queues(self, cpu: int = 100, **workers: int) -> None:
        """The queue `cq` everywhere: at the manager with the check, at each worker with so many CPUs."""
        await self.here.queue(cpu, admissionChecksStrategy={"admissionChecks": [{"name": "multikueue"}]})
        for name, worker in self.workers.items():
            await worker.queue(workers.get(name, 4))
        await self.settle()

    async def job(self, name: str = "j", workers: int = 2, *, seconds: float | None = None, **spec: Any) -> Job:
        """A Job at the manager, each of whose pods runs for so long; None: for ever."""
        annotations = {RUN_TIME: f"{seconds}s" if seconds is not None else "1000000s"}
        return await self.here.job(name, workers, template={"metadata": {"annotations": annotations}}, **spec)

    async def where(self, name: str = "j") -> dict[str, int]:
        """In which clusters a Job's pods are that have not ended, and how many."""
        found = {}
        for cluster, q in {"here": self.here, **self.workers}.items():
            pods = [pod for pod in await q.world.pods(name) if pod.status.phase in ("Pending", "Running")]
            if pods:
                found[cluster] = len(pods)
        return found

    async def clones(self, name: str = "j") -> list[str]:
        """The clusters that have a Workload or a Job of it."""
        found = []
        for cluster, q in self.workers.items():
            workloads = [one for one in await q.workloads() if f"-{name}-" in one.metadata.name]
            jobs = [job for job in (await q.client.list(JOB, "default")).items if job.metadata.name == name]
            found += [cluster] if workloads or jobs else []
        return found

    async def check(self, name: str = "j") -> str:
        """What the check says of a Job's workload: `State: message`."""
        (check,) = (await self.here.workload(name)).status.admission_checks
        return f"{check.state}: {check.message}"


@asynccontextmanager
async def federation(
    configuration: Configuration, names: Sequence[str], writes: int | None = None
) -> AsyncIterator[Federation]:
    """Workers of these names and their manager, with the check `multikueue` that dispatches to all.

    writes: how many the part that dispatches makes before it is killed.
    """
    async with AsyncExitStack() as stack:
        workers, lines = {}, {}
        for seed, name in enumerate(names, 2):
            plane = await stack.enter_async_context(running(seed=seed))
            workers[name], lines[name] = Queued(World(plane)), Line(plane)
            await stack.enter_async_context(noded(workers[name]))
        parts = [part for part in Part if part is not Part.MULTICLUSTER]
        plane = await stack.enter_async_context(running(configuration=configuration, engine=parts))
        here = Queued(World(plane))
        await stack.enter_async_context(noded(here))
        await here.client.create(NAMESPACE, msgspec.convert({"metadata": {"name": "kueue-system"}}, Namespace))
        f = Federation(here, workers, lines, configuration)
        f.dispatch = Dispatch(plane, lines, configuration, writes)
        stack.push_async_callback(f.stop)
        said = Workers(here.world, f.dispatch.fleet, {name: q.world for name, q in workers.items()}, lines)
        for name in names:
            await said.secret(name)
            await said.cluster(name)
        await said.check(*names, name="multikueue")
        await f.settle()
        yield f


def federated(
    *names: str, configuration: Configuration = EMBEDDED
) -> Callable[[Callable[[Federation], Awaitable[None]]], Callable[[], None]]:
    """A test in virtual time with a manager and connected workers of these names: `a` and `b`."""

    def decorate(test: Callable[[Federation], Awaitable[None]]) -> Callable[[], None]:
        async def body() -> None:
            async with federation(configuration, names or ("a", "b")) as f:
                await test(f)

        def run() -> None:
            run_virtual(body())

        run.__name__, run.__doc__ = getattr(test, "__name__", "run"), test.__doc__
        return run

    return decorate
