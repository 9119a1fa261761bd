"""What becomes of a gang whose bindings are lost, refused or cut off: whole or not at all, and no node too full."""

import asyncio
import random as chances
from collections import Counter

import msgspec
import pytest
from tests.system.plane import virtual

from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.meta import ObjectMeta
from muster.api.podgroups.kep import POD_GROUP, PodGroup, PodGroupSpec
from muster.api.status import ApiError, Status
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.transport import Request, TransportError


class Bindings:
    """Stands between a scheduler and its server. `fate(pod, node)` says what becomes of a binding.

    "lost": neither it nor an answer arrives; "unanswered": it happens, and the answer is lost; a number: it is refused
    with that code; "": all is well.
    """

    def __init__(self, inner, fate):
        self.inner, self.fate = inner, fate
        self.asked: Counter[tuple[str, str]] = Counter()

    async def request(self, request: Request):
        if not request.path.endswith("/binding"):
            return await self.inner.request(request)
        pod, node = request.path.split("/")[-2], msgspec.json.decode(request.body)["target"]["name"]
        self.asked[pod, node] += 1
        fate = self.fate(pod, node)
        if fate == "lost":
            raise TransportError("connection reset")
        if isinstance(fate, int):
            reason = {403: "Forbidden", 422: "Invalid", 500: "InternalError", 409: "Conflict"}[fate]
            raise ApiError(Status(status="Failure", message="not there", reason=reason, code=fate))
        answer = await self.inner.request(request)
        if fate == "unanswered":
            raise TransportError("connection reset")
        return answer

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


def start(world, fate, clock=None, connection=Bindings):
    """A scheduler whose bindings meet their fate. clock: the server's unless another one is given."""
    plane, bindings = world.plane, connection(world.client.transport, fate)
    manager = Manager(Client(bindings), clock or plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
    return bindings, manager, asyncio.create_task(manager.run())


async def stop(manager, run):
    await manager.stop()
    await run


async def gang(world, name, workers, cpu="1"):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    pod = {"restartPolicy": "Never", "schedulerName": "test", "containers": [container]}
    await world.job(name, workers, template={"spec": pod}, backoffLimit=100)


async def pods(world, name, workers, *, scheduler="test", **metadata):
    """Pods of nobody's, which are made anew by nobody."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": scheduler, "containers": [container]}
    for number in range(workers):
        meta = {"name": f"{name}-{number}", "labels": {"batch.kubernetes.io/job-name": name}, **metadata}
        await world.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")


async def pod_group(world, name, workers, *, scheduler="test"):
    """A PodGroup of KEP-34 that needs all its pods."""
    group = PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=PodGroupSpec(min_members=workers))
    await world.client.create(POD_GROUP, group, "default")
    await pods(world, name, workers, scheduler=scheduler, annotations={"scheduling.k8s.io/group-name": name})


async def reasons(world):
    return {event.reason: event.message for event in (await world.client.list(EVENT, "default")).items}


async def tells(world, reason, text):
    """Whether an event with this reason, of which there may be several, has this text."""
    events = (await world.client.list(EVENT, "default")).items
    return any(event.reason == reason and text in event.message for event in events)


@pytest.mark.parametrize("fate", ["lost", "unanswered", 500])
def test_a_binding_without_an_answer_is_read_back_and_tried_again(fate):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="2")
        await world.node("b", cpu="2")
        first: set[str] = set()

        def once(pod, node):
            if pod in first:
                return ""
            first.add(pod)
            return fate

        bindings, *scheduler = start(world, once)
        await gang(world, "j", 4)
        await world.settle(30)
        assert await world.nodes_of("j") == ["a", "a", "b", "b"]
        if fate == "unanswered":
            assert set(bindings.asked.values()) == {1}, "what had happened was asked for again"
        await stop(*scheduler)

    scenario()


@pytest.mark.parametrize("code", [403, 422])
def test_a_member_that_is_refused_on_one_node_goes_to_another(code):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="2")
        await world.node("b", cpu="2")
        _, *scheduler = start(world, lambda _, node: code if node == "a" else "")
        await gang(world, "j", 2)
        await world.settle(30)
        assert await world.nodes_of("j") == ["b", "b"]
        assert "not there" in (await reasons(world))["FailedBinding"]
        await stop(*scheduler)

    scenario()


@virtual
async def test_a_gang_of_which_one_is_refused_everywhere_is_given_back_and_rests(world):
    for name in ("a", "b", "c", "d"):
        await world.node(name, cpu="2")
    bindings, *scheduler = start(world, lambda pod, _: 403 if "j-0" in pod else "")
    await gang(world, "j", 4)
    await world.settle(20)
    await bury(world)
    assert await world.nodes_of("j") == [""] * 4
    assert "the server refuses" in (await reasons(world))["GangTakenBack"]
    asked = bindings.asked.total()
    await world.settle(30)
    assert bindings.asked.total() == asked, "it is tried again before it has rested"
    await gang(world, "other", 8)
    await world.settle(10)
    assert all(await world.nodes_of("other")), "what was given back is free"
    await stop(*scheduler)


@virtual
async def test_a_node_that_is_closed_while_others_are_bound_gets_no_more(world):
    """Pitfall 5: what was decided is looked at again before it is written."""
    await world.node("a", cpu="100")
    await world.node("b", cpu="100")
    first = asyncio.Event()

    async def close():
        await first.wait()
        await world.client.patch(NODE, "a", {"spec": {"unschedulable": True}})

    def fate(_, node):
        if node == "a":
            first.set()
        return ""

    closing = asyncio.create_task(close())
    _, *scheduler = start(world, fate)
    await gang(world, "j", 100)
    await world.settle(30)
    nodes = Counter(await world.nodes_of("j"))
    assert nodes["a"] + nodes["b"] == 100
    assert 0 < nodes["a"] < 100, "all had been written before the node was closed"
    await closing
    await stop(*scheduler)


async def bury(world):
    """The nodes: pods that are being deleted are gone."""
    for pod in await world.pods():
        if pod.metadata.deletion_timestamp is not None:
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)


async def run_and_end(world, random):
    """The nodes: some of the pods that are bound end."""
    await bury(world)
    for pod in await world.pods():
        if pod.spec.node_name and pod.status.phase == "Pending" and random.uniform(0, 1) < 0.1:
            await world.finish(pod)


async def used(world):
    pods = [pod for pod in await world.pods() if pod.spec.node_name and pod.status.phase == "Pending"]
    return Counter(pod.spec.node_name for pod in pods)


@pytest.mark.parametrize("sort", [gang, pod_group])
@pytest.mark.parametrize("seed", range(2))
def test_at_rest_no_gang_is_half_there_whatever_became_of_its_bindings(seed, sort, request):
    rounds = 150 if request.config.getoption("--long") else 25

    @virtual
    async def scenario(world):
        random = chances.Random(seed)
        for name in ("a", "b", "c"):
            await world.node(name, cpu="4")
        calm = False

        def fate(_, node):
            chance = 1.0 if calm else random.uniform(0, 1)
            fates = [(0.1, "lost"), (0.2, "unanswered"), (0.25, 500), (0.3, 403 if node == "a" else 500)]
            return next((fate for limit, fate in fates if chance < limit), "")

        _, *scheduler = start(world, fate)
        for number in range(rounds):
            await sort(world, f"j{number}", 1 + int(random.uniform(0, 6)))
            await world.settle(random.uniform(0, 3))
            assert max((await used(world)).values(), default=0) <= 4, "a node is over-committed"
            await run_and_end(world, random)
            if random.uniform(0, 1) < 0.3:  # killed at any instant, and another takes over
                scheduler[1].cancel()
                await asyncio.gather(scheduler[1], return_exceptions=True)
                _, *scheduler = start(world, fate)
        calm = True
        for _ in range(5):
            await world.settle(70)
            await bury(world)
        assert max((await used(world)).values(), default=0) <= 4
        for number in range(rounds):
            unfinished = [pod for pod in await world.pods(f"j{number}") if pod.status.phase == "Pending"]
            bound = sum(bool(pod.spec.node_name) for pod in unfinished)
            assert bound in (0, len(unfinished)), f"half of j{number} is there"
        await stop(*scheduler)

    scenario()
