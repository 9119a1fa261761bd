"""Another program undoes what our controllers write, again and again: both slow down, and people are told."""

import asyncio
from typing import Any

import msgspec
from tests.system import queueing_world
from tests.system.plane import World, virtual

from muster.api.batch import JOB, Job
from muster.api.core import EVENT
from muster.api.kueue import CLUSTER_QUEUE
from muster.runtime.transport import MERGE_PATCH, Request, Response
from muster.runtime.yielding import OBJECTS, YieldingTransport

QUEUE = "kueue.x-k8s.io/queue-name"
CONTAINER = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}


async def queued_job(world: World, cpu: int = 0) -> Job:
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "cq", cpu)
    document = {"metadata": {"name": "j", "labels": {QUEUE: "cq"}}, "spec": {"template": TEMPLATE}}
    return await world.client.create(JOB, msgspec.convert(document, Job), "default")


class Rival:
    """A program that resumes the Job whenever it is suspended."""

    def __init__(self, world: World) -> None:
        self.writes = 0
        self._client = world.plane.client(manager="jobset")
        self._clock = world.clock

    async def run(self) -> None:
        while True:
            job = await self._client.get(JOB, "j", "default")
            if job.spec.suspend:
                await self._client.patch(JOB, "j", {"spec": {"suspend": False}}, "default")
                self.writes += 1
            await self._clock.sleep(0.1)


async def told(world: World) -> list[Any]:
    return [event for event in (await world.client.list(EVENT, "default")).items if event.reason == "FieldContested"]


@virtual
async def test_a_controller_that_resumes_what_we_suspend_is_noticed_and_both_slow_down(world: World):
    await queued_job(world)
    rival = Rival(world)
    task = asyncio.create_task(rival.run())
    await world.settle(600)
    task.cancel()
    assert rival.writes < 40
    (event,) = await told(world)
    assert event.message == (
        'muster sets spec.suspend to true and "jobset" sets it to false, again and again: muster slows down'
    )
    assert (event.type, event.involved_object.kind, event.involved_object.name) == ("Warning", "Job", "j")
    assert 4 <= event.count < 20
    # Once the other has stopped, the job is as it has to be.
    await world.settle(600)
    assert (await world.client.get(JOB, "j", "default")).spec.suspend


@virtual
async def test_jobs_that_are_evicted_and_started_again_by_us_are_no_quarrel(world: World):
    await queued_job(world, cpu=1)
    starts = 0
    for policy in ("HoldAndDrain", "None") * 30:
        await world.client.patch(CLUSTER_QUEUE, "cq", {"spec": {"stopPolicy": policy}})
        await world.settle(2)
        starts += not (await world.client.get(JOB, "j", "default")).spec.suspend
    assert starts == 30
    assert await told(world) == []


class Server:
    """Answers each request alike, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def request(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.path}")
        return Response(200, b'{"metadata": {"uid": "u"}}')

    def stream(self, request: Request) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing."""


@virtual
async def test_of_the_objects_that_were_written_longest_ago_nothing_is_known(world: World):
    server = Server()
    transport = YieldingTransport(server, world.clock, world.plane.events.recorder("t"))
    for number in range(7):
        for name in ["kept", *map(str, range(OBJECTS - 1 if number % 2 else 0))]:
            await transport.request(Request("PATCH", f"/o/{name}", body=b"{}", content_type=MERGE_PATCH))
    await transport.request(Request("PATCH", "/o/kept", body=b"{}", content_type=MERGE_PATCH))
    assert [line for line in server.asked if line.startswith("GET")] == ["GET /o/kept"]
    assert len(transport._known) == OBJECTS
