"""Another program undoes what our controllers write, again and again: both slow down, and people are told."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, story
from tests.system.plane import World, virtual
from tests.system.queueing import queueing_world

from muster.api.batch import JOB, Job
from muster.api.core import EVENT, NODE
from muster.api.kueue import CLUSTER_QUEUE, WORKLOAD
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.control.yielding import OBJECTS, YieldingTransport
from muster.runtime.transport import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    Request,
    Response,
)

pytestmark = pytest.mark.slow

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


async def told(world: World, reason: str = "FieldContested") -> list[Any]:
    await world.settle()
    return [event for event in (await world.client.list(EVENT, "default")).items if event.reason == reason]


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


PATH = "/api/v1/namespaces/default/configmaps"


@story
async def test_a_job_that_is_held_and_released_by_hand_is_no_quarrel(q: Queued):
    """What we take away ourselves is not laid to those who write other fields of the object."""
    await q.queue()
    await q.job(workers=1)
    person, name = q.world.plane.client(manager="muster-cli"), (await q.workload()).metadata.name
    for _ in range(12):
        for active, running in ((False, []), (True, [0])):
            await person.patch(WORKLOAD, name, {"spec": {"active": active}}, "default")
            await q.world.settle(1.5)
            assert await q.running() == running
    assert await told(q.world) == []


def config_map(value: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", **metadata}, "data": {"a": value, "b": "1"}
    }  # fmt: skip


class Writer:
    """Sends requests about one ConfigMap, under a name."""

    def __init__(self, client: Client, manager: str) -> None:
        self._client = client
        self._query = {"fieldManager": manager, "force": "true"}

    async def send(self, method: str, body: Any = None, type: str = "application/json", path: str = f"{PATH}/c") -> int:
        """The status of the answer."""
        query = {name: self._query[name] for name in self._query if name != "force" or type == APPLY_PATCH}
        try:
            answer = await self._client.raw(Request(method, path, query, msgspec.json.encode(body), type))
        except ApiError as error:
            return error.code
        return answer.status

    async def create(self, value: str = "ours", **metadata: Any) -> int:
        return await self.send("POST", config_map(value, **metadata), path=PATH)


def writers(world: World) -> tuple[Writer, Writer]:
    """One of ours, which gives way, and a rival."""
    yielding = YieldingTransport(world.client.transport, world.clock, world.plane.events.recorder("muster"))
    return Writer(Client(yielding), "muster"), Writer(world.client, "argo")


DATA = {"data": {"a": "ours"}}
SET = 'muster sets data.a to "ours" and "argo" sets it to "theirs", again and again: muster slows down'


@pytest.mark.parametrize(
    ("method", "body", "type"),
    [
        ("PATCH", DATA, MERGE_PATCH),
        ("PATCH", DATA, STRATEGIC_MERGE_PATCH),
        ("PATCH", {**config_map("ours"), **DATA}, APPLY_PATCH),
        ("PATCH", [{"op": "replace", "path": "/data/a", "value": "ours"}], JSON_PATCH),
        ("PUT", config_map("ours"), "application/json"),
    ],
    ids=["merge patch", "strategic merge patch", "apply", "JSON patch", "update"],
)
def test_a_field_is_fought_for_by_any_form_of_write(method, body, type):
    @virtual
    async def fight(world: World) -> None:
        us, rival = writers(world)
        await rival.create("theirs")
        answers = []
        for _ in range(600):
            answers.append(await us.send(method, body, type))
            await rival.send("PATCH", {"data": {"a": "theirs"}}, MERGE_PATCH)
            await world.clock.sleep(0.1)
        assert set(answers) == {200, 429}
        assert answers.count(200) < 30
        (event,) = await told(world)
        assert (event.message, event.involved_object.name) == (SET, "c")

    fight()


@pytest.mark.parametrize("ours", ["POST", "DELETE"])
def test_that_an_object_is_there_is_fought_for(ours):
    @virtual
    async def fight(world: World) -> None:
        us, rival = writers(world)
        maker, deleter = (us, rival) if ours == "POST" else (rival, us)
        changes: dict[Writer, int] = {us: 0, rival: 0}
        for _ in range(600):
            changes[maker] += await maker.create() == 201
            changes[deleter] += await deleter.send("DELETE", {}) == 200
            await world.clock.sleep(0.1)
        assert 12 <= changes[us] < 30
        assert {event.message for event in await told(world, "ObjectContested")} == {
            "POST": {"muster creates it and another program deletes it, again and again: muster slows down"},
            "DELETE": {'muster deletes it and "argo" creates it, again and again: muster slows down'},
        }[ours]  # fmt: skip

    fight()


@virtual
async def test_what_has_the_name_of_another_object_has_no_quarrel_of_its(world: World):
    us, rival = writers(world)
    await rival.create("theirs")
    while await us.send("PATCH", DATA, MERGE_PATCH) != 429:
        await rival.send("PATCH", {"data": {"a": "theirs"}}, MERGE_PATCH)
    await rival.send("DELETE", {})
    await rival.create("theirs")
    assert await us.send("PATCH", DATA, MERGE_PATCH) == 200


@virtual
async def test_what_goes_with_its_owner_or_its_namespace_time_and_again_is_no_quarrel(world: World):
    us, rival = writers(world)
    for number in range(100):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": f"of the {number}th"}
        assert await rival.create(ownerReferences=[owner]) == 201
        assert await us.send("DELETE", {}) == 200
    for _ in range(100):
        assert await us.create() == 201
        assert await us.send("DELETE", {}, path=PATH) == 200
    assert await told(world, "ObjectContested") == []


@virtual
async def test_a_workload_that_another_deletes_comes_back_slower_each_time(world: World):
    await queued_job(world)
    deletions = 0
    for _ in range(600):
        for workload in (await world.client.list(WORKLOAD, "default")).items:
            await world.client.delete(WORKLOAD, workload.metadata.name, "default")
            deletions += 1
        await world.clock.sleep(0.1)
    assert deletions < 30
    assert await told(world, "ObjectContested")
    await world.settle(600)
    assert len((await world.client.list(WORKLOAD, "default")).items) == 1


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


OWN_LABEL = {"template": {"metadata": {"labels": {"kueue.x-k8s.io/podset": "main"}}}}


@pytest.mark.parametrize("more", [{}, OWN_LABEL], ids=["plain", "a label that pods of admitted jobs have"])
def test_who_resumes_what_waits_for_quota_gets_no_pod_to_run(more: dict[str, Any]) -> None:
    """However long our next try at suspending it is put off: nothing runs on quota that was not given, or beside it."""

    @story
    async def test(q: Queued) -> None:
        await q.client.patch(NODE, "n", {"metadata": {"labels": {"zone": "a"}}})
        await q.world.node("elsewhere", cpu="8")
        await q.queue(cpu=0)
        await q.job(workers=1, **more)
        rival = Rival(q.world)
        task = asyncio.create_task(rival.run())
        bound = 0
        for _ in range(300):
            await q.world.settle(1)
            bound += sum(bool(pod.spec.node_name) for pod in await q.world.pods("j"))
        assert (bound, rival.writes > 5) == (0, True)
        quota = {"name": "f", "resources": [{"name": "cpu", "nominalQuota": 1}]}
        raised = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}}
        await q.client.patch(CLUSTER_QUEUE, "cq", raised)
        await q.world.settle(900)
        assert more or await q.world.nodes_of("j") == ["n"], "with quota it runs where that is"
        task.cancel()

    test()


@virtual
async def test_a_prebuilt_workload_holds_its_pods_back_too(world: World):
    await world.node("n", cpu="8")
    await queueing_world.flavor(world)
    await queueing_world.queue(world, "cq", 0)
    await queueing_world.workload(world, "mine", "cq")
    labels = {QUEUE: "cq", "kueue.x-k8s.io/prebuilt-workload-name": "mine"}
    document = {"metadata": {"name": "j", "labels": labels}, "spec": {"template": TEMPLATE}}
    await world.client.create(JOB, msgspec.convert(document, Job), "default")
    rival = Rival(world)
    task = asyncio.create_task(rival.run())
    for _ in range(100):
        await world.settle(1)
        assert not any(pod.spec.node_name for pod in await world.pods("j"))
    task.cancel()
