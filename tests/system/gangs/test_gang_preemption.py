"""Gangs that displace others: whole or what is above the minimum, as few as can be, and within budgets."""

import asyncio
from logging import ERROR

import msgspec
import pytest
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB, TRACKING_FINALIZER
from muster.api.core import EVENT, POD, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget, PodDisruptionBudgetSpec
from muster.api.groups.scheduling import PRIORITY_CLASS, PriorityClass
from muster.api.meta import LabelSelector, ObjectMeta
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.api.podgroups.kep import POD_GROUP, PodGroup, PodGroupSpec
from muster.controllers.engine import Part
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.jobs.interruption import count_interruptions
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


async def classes(world):
    for name, value in [("low", 10), ("high", 1000)]:
        await world.client.create(PRIORITY_CLASS, PriorityClass(metadata=ObjectMeta(name=name), value=value))
    polite = PriorityClass(metadata=ObjectMeta(name="polite"), value=1000, preemption_policy="Never")
    await world.client.create(PRIORITY_CLASS, polite)


def template(priority, *, cpu="1", labels=None):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    spec = {"restartPolicy": "Never", "priorityClassName": priority, "containers": [container]}
    return {"metadata": {"labels": labels or {}}, "spec": spec}


async def job(world, name, workers, priority, *, labels=None, **spec):
    await world.job(name, workers, template=template(priority, labels=labels), **spec)
    await world.settle(1)
    for pod in await world.pods(name):
        if pod.spec.node_name:
            status = {"status": {"phase": "Running", "startTime": world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")}}
            ready = {"conditions": [{"type": "Ready", "status": "True"}]}
            await play(world, pod, status["status"] | ready)
    await world.settle(1)


async def play(world, pod, status):
    name = pod.metadata.name
    await world.client.patch(POD, name, {"status": status}, "default", type=STRATEGIC_MERGE_PATCH, subresource="status")


async def bury(world):
    """The nodes: pods that are being deleted are gone."""
    for pod in await world.pods():
        if pod.metadata.deletion_timestamp is not None:
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await world.settle(1)


async def bound(world, name):
    return sum(map(bool, await world.nodes_of(name)))


async def going(world, name):
    return sum(pod.metadata.deletion_timestamp is not None for pod in await world.pods(name))


async def said(world, name):
    events = (await world.client.list(EVENT, "default")).items
    return " ".join(event.message for event in events if event.involved_object.name == name)


@virtual
async def test_a_whole_gang_goes_for_one_of_higher_priority_and_comes_again_behind_it(world):
    await classes(world)
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await job(world, "victim", 4, "low", backoffLimit=0)
    await job(world, "spared", 4, "low")
    await job(world, "urgent", 2, "high")
    victims = "victim" if await going(world, "victim") else "spared"
    other = "spared" if victims == "victim" else "victim"
    assert (await going(world, victims), await going(world, other)) == (4, 0), "half a gang is left"
    assert "4 pods of lower priority are being evicted for it" in await said(world, "urgent")
    await bury(world)
    await bury(world)
    assert await bound(world, "urgent") == 2
    assert await bound(world, other) == 4
    assert await bound(world, victims) == 0, "half of it is back"
    ended = (await world.client.get(JOB, victims, "default")).status
    assert not any(one.type == "Failed" for one in ended.conditions), "to be displaced is no failure of the Job's"


@virtual
async def test_what_victims_leave_is_kept_for_the_gang_they_left_it_for(world):
    """Pitfall 11: no other takes the hole while the victims go."""
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "victim", 4, "low")
    await world.job("urgent", 4, template=template("high"))
    await world.settle(1)
    assert await going(world, "victim") == 4
    nominated = {pod.status.nominated_node_name for pod in await world.pods("urgent")}
    assert nominated == {"a"}
    [first, *_] = [pod for pod in await world.pods("victim") if pod.metadata.deletion_timestamp]
    await world.client.delete(POD, first.metadata.name, "default", grace_period_seconds=0)
    await world.job("thief", 1, template=template("low"))
    await world.settle(2)
    assert await bound(world, "thief") == 0
    await bury(world)
    assert (await bound(world, "urgent"), await bound(world, "thief")) == (4, 0)


@pytest.mark.parametrize(
    ("holder", "comer"),
    [
        pytest.param("low", "low", id="equals"),
        pytest.param("high", "low", id="the stronger is there"),
        pytest.param("low", "polite", id="one that displaces none"),
    ],
)
def test_who_displaces_none(holder, comer):
    @virtual
    async def scenario(world):
        await classes(world)
        await world.node("a", cpu="4")
        await job(world, "holder", 4, holder)
        await job(world, "comer", 2, comer)
        assert (await going(world, "holder"), await bound(world, "comer")) == (0, 0)

    scenario()


@virtual
async def test_budgets_are_kept_and_named(world):
    """Pitfall 29: a gang that a budget protects is left alone, and another goes if one may."""
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "guarded", 4, "low", labels={"app": "guarded"})
    selector = LabelSelector(match_labels={"app": "guarded"})
    budget = PodDisruptionBudgetSpec(min_available=4, selector=selector)
    meta = ObjectMeta(name="all-four", namespace="default")
    await world.client.create(POD_DISRUPTION_BUDGET, PodDisruptionBudget(metadata=meta, spec=budget), "default")
    await world.settle(1)
    await job(world, "urgent", 2, "high")
    assert (await going(world, "guarded"), await bound(world, "urgent")) == (0, 0)
    assert "protected by PodDisruptionBudget default/all-four" in await said(world, "urgent")
    await world.node("b", cpu="2")
    await job(world, "free", 2, "low")
    if not await bound(world, "urgent"):
        await bury(world)
    assert (await going(world, "guarded"), await bound(world, "urgent")) == (0, 2)


@virtual
async def test_of_a_pod_group_only_what_is_above_its_minimum_goes_if_that_is_enough(world):
    """Pitfall 10: two of the surplus go, and not one more."""
    await classes(world)
    await world.node("a", cpu="4")
    group = PodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=PodGroupSpec(min_members=2))
    await world.client.create(POD_GROUP, group, "default")
    for number in range(4):
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        pod = {
            "metadata": {"name": f"g-{number}", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"restartPolicy": "Never", "priorityClassName": "low", "containers": [container]},
        }
        await world.client.create(POD, msgspec.convert(pod, Pod), "default")
    await world.settle(2)
    pods = await world.pods()
    assert sum(bool(pod.spec.node_name) for pod in pods) == 4
    for pod in pods:
        await play(world, pod, {"phase": "Running"})
    await world.job("urgent", 2, template=template("high"))
    await world.settle(1)
    assert sum(pod.metadata.deletion_timestamp is not None for pod in await world.pods()) == 2
    await bury(world)
    assert await bound(world, "urgent") == 2


class Dying:
    """Lets a scheduler make so many of the writes of an eviction plan; then no answer comes any more."""

    def __init__(self, inner, writes):
        self.inner, self.left, self.dead = inner, writes, asyncio.Event()

    async def request(self, request):
        if request.path.endswith("/eviction") or b"preempted-by" in (request.body or b""):
            if not self.left:
                self.dead.set()
                await asyncio.Event().wait()
            self.left -= 1
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


def start(world, transport):
    plane = world.plane
    manager = Manager(Client(transport), plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
    return manager, asyncio.create_task(manager.run())


def ours(priority):
    found = template(priority)
    found["spec"]["schedulerName"] = "test"
    return found


VICTIMS = 3


@pytest.mark.parametrize("writes", range(2 * VICTIMS))
@pytest.mark.parametrize("stays", [True, False])
def test_a_plan_that_a_crash_cut_off_leaves_no_half_of_a_gang(writes, stays):
    """Between any two writes: the marks of the victims come first, then they are evicted. stays: the stronger gang."""

    @virtual
    async def scenario(world):
        await classes(world)
        await world.node("a", cpu=str(VICTIMS))
        transport = Dying(world.client.transport, writes)
        _, run = start(world, transport)
        await world.job("victim", VICTIMS, template=ours("low"), backoffLimit=0)
        await world.settle(1)
        before = {pod.metadata.uid for pod in await world.pods("victim") if pod.spec.node_name}
        assert len(before) == VICTIMS
        await world.job("urgent", 1, template=ours("high"))
        await transport.dead.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        await bury(world)
        if not stays:
            await world.client.delete(JOB, "urgent", "default")
            await bury(world)
        manager, run = start(world, world.client.transport)
        await world.settle(5)
        for _ in range(3):
            await bury(world)
        running = [pod for pod in await world.pods("victim") if pod.spec.node_name]
        assert len(running) == (0 if stays else VICTIMS), "half of it is left"
        assert len({pod.metadata.uid for pod in running} & before) in (0, VICTIMS), "some of it was spared"
        assert await bound(world, "urgent") == int(stays)
        failed = (await world.client.get(JOB, "victim", "default")).status
        assert not any(one.type == "Failed" for one in failed.conditions)
        await manager.stop()
        await run

    scenario()


class Holding:
    """Lets nothing be read of single pods before it is told to."""

    def __init__(self, inner):
        self.inner, self.asked, self.go = inner, asyncio.Event(), asyncio.Event()

    async def request(self, request):
        if request.method == "GET" and "/pods/" in request.path:
            self.asked.set()
            await self.go.wait()
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


@virtual
async def test_one_that_is_spared_after_it_has_ended_counts_once(world):
    await classes(world)
    await world.node("a", cpu="1")
    transport = Holding(world.client.transport)
    manager, run = start(world, transport)
    await world.job("victim", 1, template=ours("low"), completionMode="NonIndexed", completions=3)
    await world.settle(1)
    await world.job("urgent", 1, template=ours("high"))
    await transport.asked.wait()
    [victim] = await world.pods("victim")
    await world.finish(victim)
    await world.client.delete(JOB, "urgent", "default")
    await world.settle(1)
    transport.go.set()
    await world.settle()
    assert (await world.client.get(JOB, "victim", "default")).status.succeeded == 1
    [ended] = [pod for pod in await world.pods("victim") if pod.status.phase == "Succeeded"]
    assert not ended.metadata.finalizers
    await manager.stop()
    await run


@virtual
async def test_one_that_is_spared_after_it_was_marked_counts_again(world):
    await classes(world)
    await world.node("a", cpu="1")
    transport = Holding(world.client.transport)
    manager, run = start(world, transport)
    await world.job("victim", 1, template=ours("low"))
    await world.settle(1)
    await world.job("urgent", 1, template=ours("high"))
    await transport.asked.wait()
    await world.client.delete(JOB, "urgent", "default")
    await world.settle(1)
    transport.go.set()
    await world.settle()
    [spared] = await world.pods("victim")
    assert spared.metadata.deletion_timestamp is None
    assert PREEMPTED_ANNOTATION not in spared.metadata.annotations
    assert spared.metadata.finalizers == (TRACKING_FINALIZER,)
    await manager.stop()
    await run


@pytest.mark.parametrize("ours", [True, False], ids=["Muster's Job controller", "that of others"])
def test_a_victim_is_counted_as_interrupted_and_where_the_job_controller_knows_no_such_thing_not_at_all(ours):
    async def scenario():
        async with running(parts=(Part.SCHEDULING, *((Part.JOBS,) if ours else ()))) as plane:
            world = World(plane)
            await classes(world)
            await world.node("a", cpu="1")
            made = await world.job("victim", 1, template=template("low"))
            if not ours:  # the test plays it
                owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "victim", "uid": made.metadata.uid}
                labels = {"batch.kubernetes.io/job-name": "victim"}
                meta = {"name": "victim-0", "labels": labels, "ownerReferences": [owner | {"controller": True}]}
                body = {"metadata": meta | {"finalizers": [TRACKING_FINALIZER]}, "spec": template("low")["spec"]}
                await world.client.create(POD.seen_as(dict), body, "default")
            await world.until(lambda: bound(world, "victim"))
            urgent = {"metadata": {"name": "urgent"}, "spec": template("high")["spec"]}
            await world.client.create(POD.seen_as(dict), urgent, "default")
            await world.until(lambda: going(world, "victim"))
            await world.settle(1)
            [victim] = [pod for pod in await world.pods("victim") if pod.spec.node_name]
            assert not victim.metadata.finalizers
            told = (await world.client.get(JOB, "victim", "default")).status
            assert (count_interruptions(told.conditions), told.failed) == (int(ours), 0)

    run_virtual(scenario())


def test_a_gang_starts_where_its_victims_were_while_another_waits_for_a_port(caplog):
    """The other was refused before, because of another pod, and is older. No attempt fails by that."""
    virtual(start_where_victims_were)()
    assert not [record for record in caplog.records if record.levelno >= ERROR]


async def start_where_victims_were(world):
    await classes(world)
    await world.node("a", cpu="4")
    ports = template("polite", cpu="500m")
    ports["spec"]["containers"][0]["ports"] = [{"hostPort": 8080, "containerPort": 8080}]
    await world.job("has-port", 1, template=ports)
    await job(world, "victim", 2, "low")
    await world.job("waits", 1, template=ports)
    await world.settle(2)  # it is tried before the others of its priority
    await job(world, "urgent", 3, "high")
    assert await going(world, "victim") == 2
    await bury(world)
    assert (await bound(world, "urgent"), await bound(world, "waits")) == (3, 0)
    for pod in await world.pods("has-port"):
        await world.finish(pod)
    await world.settle(1)
    assert await bound(world, "waits") == 1
