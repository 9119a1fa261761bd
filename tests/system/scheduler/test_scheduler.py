"""Gangs on a cluster: together or not at all, through crashes too."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.system.plane import looks, virtual

from muster.api.batch import JOB
from muster.api.core import EVENT, NAMESPACE, NODE, POD, Pod
from muster.api.groups.runtimeclass import RUNTIME_CLASS, RuntimeClass
from muster.controllers.gangs import read_recorded_size
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.transport import TransportError


async def reasons(world, kind):
    events = (await world.client.list(EVENT, "default")).items
    return {event.reason: event.message for event in events if event.involved_object.kind == kind}


@virtual
async def test_a_gang_is_bound_whole(world):
    await world.node("a", cpu="2")
    await world.node("b", cpu="2")
    await world.job("j", 4)
    await world.settle()
    assert await world.nodes_of("j") == ["a", "a", "b", "b"]
    assert (await reasons(world, "Job"))["Scheduled"] == "Bound 4 pods together to 2 nodes: a, b"


@virtual
async def test_a_gang_that_does_not_fit_holds_nothing_and_says_why(world):
    await world.node("a", cpu="3")
    await world.job("big", 4)
    await world.settle()
    assert await world.nodes_of("big") == [""] * 4
    message = (await reasons(world, "Job"))["FailedScheduling"]
    assert "3 of 4 identical pods fit now, and the gang of 4 starts whole" in message
    for pod in await world.pods("big"):
        [condition] = [c for c in pod.status.conditions if c.type == "PodScheduled"]
        assert (condition.status, condition.reason, condition.message) == ("False", "Unschedulable", message)
    await world.job("small", 3)
    await world.settle()
    assert await world.nodes_of("small") == ["a"] * 3


@virtual
async def test_a_waiting_gang_starts_when_a_node_comes(world):
    await world.node("a", cpu="1")
    await world.job("j", 2)
    await world.settle()
    await world.node("b", cpu="1")
    await world.settle()
    assert await world.nodes_of("j") == ["a", "b"]


@virtual
async def test_what_a_runtime_class_takes_beside_the_pods_counts(world):
    vm = {"metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "1"}}}
    await world.client.create(RUNTIME_CLASS, msgspec.convert(vm, RuntimeClass))
    await world.node("a", cpu="3")
    container = {"name": "c", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "runtimeClassName": "vm", "containers": [container]}
    await world.job("j", 2, template={"spec": spec})
    await world.settle()
    assert await world.nodes_of("j") == ["", ""]
    await world.node("b", cpu="2")
    await world.settle()
    assert await world.nodes_of("j") == ["a", "b"]


@virtual
async def test_a_waiting_gang_starts_when_enough_has_ended(world):
    await world.node("a", cpu="4")
    await world.job("first", 4)
    await world.settle()
    await world.job("second", 3)
    await world.settle()
    running = await world.pods("first")
    for pod in running[:2]:
        await world.finish(pod)
    await world.settle()
    assert await world.nodes_of("second") == [""] * 3
    await world.finish(running[2])
    await world.settle()
    assert await world.nodes_of("second") == ["a"] * 3


@virtual
async def test_two_gangs_that_fit_one_at_a_time_never_hold_half_each(world):
    await world.node("a", cpu="10")
    await asyncio.gather(world.job("one", 6), world.job("two", 6))
    await world.settle()
    bound = [sum(map(bool, nodes)) for nodes in (await world.nodes_of("one"), await world.nodes_of("two"))]
    assert sorted(bound) == [0, 6]


@virtual
async def test_a_higher_priority_goes_first(world):
    from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
    from muster.api.meta import ObjectMeta

    await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name="high"), value=10))
    await world.job("low", 2)
    await world.job("urgent", 2, template=urgent_template())
    await world.settle()
    await world.node("a", cpu="2")
    await world.settle()
    assert await world.nodes_of("urgent") == ["a", "a"]
    assert await world.nodes_of("low") == ["", ""]


def urgent_template():
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": "Never", "priorityClassName": "high", "containers": [container]}}


@virtual
async def test_a_sweep_starts_with_what_fits(world):
    await world.node("a", cpu="3")
    await world.job("sweep", 5, annotations={"muster.dev/gang": "false"})
    await world.settle()
    assert await world.nodes_of("sweep") == ["", "", "a", "a", "a"]
    [first, *_] = [pod for pod in await world.pods("sweep") if pod.spec.node_name]
    await world.finish(first)
    await world.settle()
    assert (await world.nodes_of("sweep")).count("") == 1


@virtual
async def test_a_replacement_is_placed_alone(world):
    await world.node("a", cpu="4")
    await world.job("j", 3)
    await world.settle()
    [victim, *others] = await world.pods("j")
    await world.finish(victim, "Failed")
    await world.settle(30)
    survivors = {pod.metadata.uid for pod in others}
    now = [pod for pod in await world.pods("j") if pod.status.phase != "Failed"]
    assert survivors < {pod.metadata.uid for pod in now}
    assert [pod.spec.node_name for pod in now] == ["a"] * 3


@virtual
async def test_cordoned_nodes_and_gates_are_respected(world):
    await world.node("a", unschedulable=True)
    await world.job("j", 1)
    await world.settle()
    assert await world.nodes_of("j") == [""]
    await world.client.patch(NODE, "a", {"spec": {"unschedulable": False}})
    await world.settle()
    assert await world.nodes_of("j") == ["a"]


@virtual
async def test_no_pod_is_bound_against_its_node_affinity(world):
    await world.node("a")
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": zone}}
    container = {"name": "c", "image": "none", "command": ["x"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "affinity": affinity}}
    await world.job("j", 2, template=template)
    await world.settle()
    assert await world.nodes_of("j") == ["", ""]
    assert any(
        "didn't match Pod's node affinity/selector" in reason for reason in (await reasons(world, "Job")).values()
    )
    await world.client.patch(NODE, "a", {"metadata": {"labels": {"zone": "x"}}})
    await world.settle()
    assert await world.nodes_of("j") == ["a", "a"]


@virtual
async def test_a_pod_whose_owner_is_a_job_of_another_group_is_bound(world):
    await world.node("a")
    owner = {"apiVersion": "batch.example.com/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    container = {"name": "c", "image": "none", "command": ["x"]}
    pod = {"metadata": {"name": "p", "ownerReferences": [owner]}, "spec": {"containers": [container]}}
    await world.client.create(POD, msgspec.convert(pod, Pod), "default")
    await world.settle()
    assert [pod.spec.node_name for pod in await world.pods()] == ["a"]


@virtual
async def test_absurd_amounts_wait_with_a_reason_or_fill_their_node_and_harm_nobody_else(world):
    await world.node("a", cpu="2")
    await world.job("absurd", 1, cpu="10E")
    bound = msgspec.convert(
        {
            "metadata": {"name": "by-hand"},
            "spec": {
                "nodeName": "a",
                "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "10P", "memory": "7E"}}}],
            },
        },
        Pod,
    )
    await world.client.create(POD, bound, "default")
    await world.node("b", cpu="2")
    await world.job("ordinary", 2)
    await world.settle()
    assert await world.nodes_of("ordinary") == ["b", "b"]
    assert "Insufficient cpu" in (await reasons(world, "Job"))["FailedScheduling"]


class LateTransport:
    """Changes of pods are seen a second after they were made."""

    def __init__(self, inner, clock):
        self.inner, self.clock = inner, clock

    async def request(self, request):
        return await self.inner.request(request)

    @asynccontextmanager
    async def stream(self, request):
        async with self.inner.stream(request) as chunks:
            yield self.late(chunks) if request.path == "/api/v1/pods" else chunks

    async def late(self, chunks):
        async for chunk in chunks:
            await self.clock.sleep(1)
            yield chunk

    async def close(self):
        pass


@virtual
async def test_a_node_is_never_given_more_than_it_has_though_the_cache_is_late(world):
    plane = world.plane
    client = Client(LateTransport(world.client.transport, world.clock))
    manager = Manager(client, plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
    run = asyncio.create_task(manager.run())
    await world.node("a", cpu="4")
    for number in range(4):
        await world.job(f"j{number}", 2, template=template())
    for _ in range(100):
        await world.clock.sleep(0.3)
        assert sum(map(bool, [pod.spec.node_name for pod in await world.pods()])) in (0, 2, 4)
        # Whatever makes the scheduler look again must not make it bind twice.
        for number in range(4):
            patch = {"metadata": {"annotations": {"touched": str(world.clock.monotonic())}}}
            await world.client.patch(JOB, f"j{number}", patch, "default")
    assert sum(map(bool, [pod.spec.node_name for pod in await world.pods()])) == 4
    await manager.stop()
    await run


class DyingTransport:
    """Lets so many bindings through; then the scheduler is cut off."""

    def __init__(self, inner, bindings):
        self.inner, self.left = inner, bindings

    async def request(self, request):
        if request.path.endswith("/binding"):
            if self.left == 0:
                raise TransportError("the scheduler died")
            self.left -= 1
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


async def schedulers_after_a_crash(world, bindings, between):
    """One scheduler dies after so many bindings of a gang of four; then something happens; then another starts."""
    plane = world.plane

    def start(client):
        manager = Manager(client, plane.inputs.clock, plane.inputs.random)
        manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
        return manager, asyncio.create_task(manager.run())

    _, first = start(Client(DyingTransport(world.client.transport, bindings)))
    await world.settle(3)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await between()
    manager, second = start(world.client)
    await world.settle(63)
    await manager.stop()
    await second


def template(scheduler="test"):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": "Never", "schedulerName": scheduler, "containers": [container]}}


@pytest.mark.parametrize("bindings", [0, 1, 2, 3, 4])
def test_a_half_bound_gang_is_finished_first(bindings):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="2")
        await world.node("b", cpu="2")
        await world.job("j", 4, template=template())

        async def rival():
            await world.job("rival", 2, template=template())

        await schedulers_after_a_crash(world, bindings, rival)
        if bindings == 0:
            bound = [sum(map(bool, nodes)) for nodes in (await world.nodes_of("j"), await world.nodes_of("rival"))]
            assert bound in ([4, 0], [0, 2])
        else:
            assert await world.nodes_of("j") == ["a", "a", "b", "b"]
            assert await world.nodes_of("rival") == ["", ""]

    scenario()


@pytest.mark.parametrize("bindings", [1, 2, 3])
def test_a_half_bound_gang_whose_rest_no_longer_fits_is_taken_back(bindings):
    @virtual
    async def scenario(world):
        await world.node("a", cpu="2")
        await world.node("b", cpu="2")
        await world.job("j", 4, template=template(), backoffLimit=0)

        async def shrink():
            for name in ("a", "b"):
                if name not in await world.nodes_of("j") or name == "b":
                    await world.client.patch(NODE, name, {"spec": {"unschedulable": True}})

        await schedulers_after_a_crash(world, bindings, shrink)
        assert f"{bindings} pods of the gang were bound" in (await reasons(world, "Job"))["GangTakenBack"]
        await play_nodes(world)
        await world.settle(60)
        bound = sum(map(bool, await world.nodes_of("j")))
        assert bound in (0, 4), "half a gang holds nodes"
        job = await world.client.get(JOB, "j", "default")
        assert read_recorded_size(job.metadata) == 4
        assert not any(c.type == "Failed" and c.status == "True" for c in job.status.conditions)

    scenario()


@virtual
async def test_workers_that_run_are_not_taken_back_for_replacements_that_do_not_fit(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="2")
    await world.job("j", 6, template=template())

    async def nothing():
        pass

    await schedulers_after_a_crash(world, 100, nothing)
    healthy = {pod.metadata.uid for pod in await world.pods("j") if pod.spec.node_name == "a"}
    for pod in await world.pods("j"):
        if pod.spec.node_name == "b":
            await world.finish(pod, "Failed")
    await world.settle(60)

    async def close():
        await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})

    await schedulers_after_a_crash(world, 1, close)
    assert healthy <= {pod.metadata.uid for pod in await world.pods("j") if pod.metadata.deletion_timestamp is None}


async def play_nodes(world):
    """Bound pods that are being deleted end at once."""
    for pod in await world.pods():
        if pod.metadata.deletion_timestamp is not None:
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)


@virtual
async def test_what_no_pod_looks_at_of_a_namespace_makes_no_gang_looked_at(world):
    await world.node("a", cpu="1")
    await world.job("big", 2)
    await world.settle()
    before = looks(world.plane, "scheduler")
    for number in range(20):
        await world.client.patch(NAMESPACE, "default", {"metadata": {"annotations": {"note": str(number)}}})
        await world.settle(0.1)
    assert looks(world.plane, "scheduler") == before
    await world.client.patch(NAMESPACE, "default", {"metadata": {"labels": {"team": "red"}}})
    await world.settle(0.1)
    assert looks(world.plane, "scheduler") > before
