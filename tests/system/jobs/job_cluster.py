"""An API server with a Job controller and nothing else: no scheduler, no nodes. The test plays both.

What the controller sends can be cut off at any write, and its watches can be made late, as if it or its connection
had died; what the test sends always arrives.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Self

import msgspec
from tests.system.first_objects import seeded_plane

from muster.api.batch import JOB, Job
from muster.api.conditions import is_true
from muster.api.core import EVENT, POD, Event, Pod
from muster.api.pods import is_finished
from muster.api.status import ApiError
from muster.cluster.apiserver.inprocess import InProcessTransport
from muster.cluster.apiserver.pipeline import ApiServer
from muster.cluster.controllers.lifetimes.collector import GarbageCollector
from muster.controllers.job import JobController
from muster.controllers.job.ttl import TtlController
from muster.jobs.job.census import completion_index
from muster.jobs.job.conditions import finish
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock, run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.events.recorder import EventSink
from muster.runtime.ids import Ids, Random
from muster.runtime.metrics import Registry
from muster.runtime.transport import STRATEGIC_MERGE_PATCH, Request, Response, TransportError

NAMESPACE_NAME = "default"


class Wire:
    """The controller's connection to the server, with its troubles.

    writes_left: so many writes still arrive; after them the connection is dead for ever. None for no limit.
    lost_answers: numbers of writes (from 0) that arrive but whose answers do not.
    lags: seconds by which what is watched comes late, by resource (`pods`, `jobs`).
    answers_lag: seconds by which the answers to writes come late.
    """

    def __init__(self, inner: InProcessTransport) -> None:
        self.writes_left: int | None = None
        self.lost_answers: set[int] = set()
        self.lags: dict[str, float] = {}
        self.answers_lag = 0.0
        self.reads: list[Request] = []
        self.writes: list[Request] = []
        self._inner = inner

    def count(self, method: str) -> int:
        """How many writes of that method were sent."""
        return sum(request.method == method for request in self.writes)

    async def request(self, request: Request) -> Response:
        if request.method == "GET":
            self.reads.append(request)
            return await self._inner.request(request)
        if self.writes_left == 0:
            raise TransportError("the connection is dead")
        if self.writes_left is not None:
            self.writes_left -= 1
        number = len(self.writes)
        self.writes.append(request)
        response = await self._inner.request(request)
        if self.answers_lag:
            await asyncio.sleep(self.answers_lag)
        if number in self.lost_answers:
            raise TransportError("the answer was lost")
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        async with self._inner.stream(request) as chunks:
            yield self._late(chunks, request.path.rpartition("/")[2])

    async def _late(self, chunks: AsyncIterator[bytes], resource: str) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            if lag := self.lags.get(resource):
                await asyncio.sleep(lag)
            yield chunk

    async def close(self) -> None:
        await self._inner.close()


class JobCluster:
    """Used in virtual time: `async with JobCluster() as cluster`."""

    def __init__(self, *, collector: bool = False) -> None:
        self.clock = VirtualClock(datetime(2026, 1, 1, 12, 0, tzinfo=UTC))
        self.registry = Registry()
        self.client: Client
        self.wire: Wire
        self._server: ApiServer
        self._context = AsyncExitStack()
        self._with_collector = collector
        self._pokes = 0
        self._controllers: list[tuple[Manager, asyncio.Task[None]]] = []

    async def __aenter__(self) -> Self:
        plane = await self._context.enter_async_context(seeded_plane(self.clock, seed=1))
        self._server, self.client = plane.server, plane.client()
        if self._with_collector:
            manager = Manager(self.client, self.clock, Random(2))
            manager.add(GarbageCollector(manager, [JOB, POD]))
            await self._start(manager)
        await self.start_controller()
        return self

    async def __aexit__(self, *_: object) -> None:
        for manager, task in reversed(self._controllers):
            await manager.stop()
            await task
        await self._context.aclose()

    # The controller.

    async def start_controller(self) -> None:
        """Start one, with a wire of its own."""
        self.wire = Wire(InProcessTransport(self._server))
        client = Client(self.wire)
        manager = Manager(client, self.clock, Random(3), registry=self.registry)
        sink = EventSink(self.client, self.clock, Ids(4), Random(4))
        manager.add(sink)
        manager.add(JobController(manager, sink.recorder("job-controller")))
        manager.add(TtlController(manager))
        await self._start(manager)

    async def kill_controller(self) -> None:
        """Nothing that it sends arrives any more; then it is gone."""
        self.wire.writes_left = 0
        manager, task = self._controllers.pop()
        await manager.stop()
        await task

    async def _start(self, manager: Manager) -> None:
        task = asyncio.create_task(manager.run())
        self._controllers.append((manager, task))
        await manager.ready.wait()

    # The user.

    async def create(self, spec: dict[str, Any], name: str = "job", **metadata: Any) -> Job:
        """Create a Job from the JSON of its spec; the template is filled in."""
        template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
        job = msgspec.convert({"metadata": {"name": name, **metadata}, "spec": {"template": template} | spec}, Job)
        created = await self.client.create(JOB, job, NAMESPACE_NAME)
        await self.rest()
        return created

    async def job(self, name: str = "job") -> Job:
        """The Job as it is."""
        return await self.client.get(JOB, name, NAMESPACE_NAME)

    async def set_spec(self, name: str = "job", **fields: Any) -> Job:
        """Change the spec, in the names of its JSON."""
        return await self.client.patch(JOB, name, {"spec": fields}, NAMESPACE_NAME)

    async def scale(self, size: int, name: str = "job") -> Job:
        """Change completions and parallelism in tandem."""
        return await self.set_spec(name, completions=size, parallelism=size)

    async def poke(self, name: str = "job") -> None:
        """A change of the Job that means nothing, to make the controller look at it."""
        self._pokes += 1
        patch = {"metadata": {"annotations": {"poke": str(self._pokes)}}}
        await self.client.patch(JOB, name, patch, NAMESPACE_NAME)

    async def events(self) -> list[Event]:
        """What was told to people."""
        return (await self.client.list(EVENT, NAMESPACE_NAME)).items

    # The nodes.

    async def pods(self, name: str = "job") -> list[Pod]:
        """All pods of the Job, by index and age."""
        pods = (await self.client.list(POD, NAMESPACE_NAME, labels=f"batch.kubernetes.io/job-name={name}")).items
        return sorted(pods, key=lambda pod: (completion_index(pod), pod.metadata.creation_timestamp, pod.metadata.name))

    async def active(self, name: str = "job") -> list[Pod]:
        """Those that have not ended and are not being deleted."""
        return [
            pod
            for pod in await self.pods(name)
            if pod.status.phase not in ("Succeeded", "Failed") and pod.metadata.deletion_timestamp is None
        ]

    async def active_indexes(self, name: str = "job") -> list[int]:
        """Their indexes."""
        return [completion_index(pod) for pod in await self.active(name)]

    async def bind_all(self) -> None:
        """Every pod without a node gets one, runs and is ready."""
        for pod in (await self.client.list(POD, NAMESPACE_NAME)).items:
            waits = not pod.spec.node_name and not is_finished(pod)
            if waits and pod.metadata.deletion_timestamp is None:
                await self.bind(pod)
                await self.set_phase(pod, "Running", ready=True)

    async def bind(self, pod: Pod) -> None:
        """The pod gets a node."""
        meta = {"name": pod.metadata.name, "uid": pod.metadata.uid}
        body = {"metadata": meta, "target": {"kind": "Node", "name": "node"}}
        await self.client.post(POD, pod.metadata.name, NAMESPACE_NAME, "binding", body)

    async def set_phase(self, pod: Pod, phase: str, *, ready: bool = False, restarts: int = 0) -> None:
        """What the pod's node says of it."""
        status: dict[str, Any] = {"phase": phase}
        now = self.clock.now().replace(microsecond=0)
        container = {"name": "main", "image": "", "imageID": "", "ready": ready, "restartCount": restarts}
        if phase in ("Succeeded", "Failed"):
            container["state"] = {"terminated": {"exitCode": int(phase == "Failed"), "finishedAt": now}}
        status["containerStatuses"] = [container]
        status["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": now}]
        await self.client.patch(
            POD, pod.metadata.name, {"status": status}, NAMESPACE_NAME, type=STRATEGIC_MERGE_PATCH, subresource="status"
        )

    async def finish(self, index: int, phase: str = "Succeeded", name: str = "job") -> None:
        """The pod of an index ends."""
        (pod,) = (pod for pod in await self.active(name) if completion_index(pod) == index)
        await self.set_phase(pod, phase)

    async def end_deleted(self) -> None:
        """Nodes let go of pods that are being deleted."""
        for pod in (await self.client.list(POD, NAMESPACE_NAME)).items:
            if pod.metadata.deletion_timestamp is not None:
                try:
                    await self.client.delete(POD, pod.metadata.name, NAMESPACE_NAME, grace_period_seconds=0)
                except ApiError as error:
                    if error.code != 404:
                        raise

    async def rest(self, seconds: float = 5.0) -> None:
        """Give everybody time."""
        await self.clock.sleep(seconds)


Scenario = Callable[[JobCluster], Coroutine[Any, Any, None]]


def virtual(scenario: Scenario) -> Callable[[], None]:
    """Makes a test of a scenario: it gets a cluster, and runs in virtual time."""

    async def main() -> None:
        async with JobCluster() as cluster:
            await scenario(cluster)

    def test() -> None:
        run_virtual(main())

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


def conditions(job: Job) -> list[str]:
    """The types of the conditions that are True."""
    return [condition.type for condition in job.status.conditions if condition.status == "True"]


def is_over(job: Job, how: str = "Complete") -> bool:
    """Whether the Job has ended like that."""
    return finish(job) is not None and is_true(job.status.conditions, how)
