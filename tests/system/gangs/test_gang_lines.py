"""Gangs that wait beside others: what becomes of the others when one of them no longer waits, or its time comes."""

import asyncio

import msgspec
import pytest
from tests.system.gangs.test_gang_pitfalls import bound, group, member
from tests.system.gangs.test_gang_preemption import bury, classes, going, job, play, template
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB
from muster.api.config import EMBEDDED, Muster, Scheduling
from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET, PodDisruptionBudget, PodDisruptionBudgetSpec
from muster.api.meta import LabelSelector, ObjectMeta
from muster.api.podgroups import coscheduling
from muster.api.podgroups.kep import POD_GROUP
from muster.api.pods import why_unplaced
from muster.api.status import ApiError, Status
from muster.api.values.durations import SECOND
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.controllers.scheduler.state import REST_SECONDS
from muster.gang.order.ends import EXPECTED_DURATION_ANNOTATION
from muster.runtime.client import Client
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager


async def nodes_of(world, job):
    return sum(map(bool, await world.nodes_of(job)))


@virtual
async def test_a_gang_that_runs_loses_nothing_because_its_surplus_finds_no_room(world):
    """Its pods have a controller, which would make them anew for ever."""
    await world.node("a", cpu="4")
    await group(world, "g", 3)
    labels = {"annotations": {"scheduling.k8s.io/group-name": "g"}}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"metadata": labels, "spec": {"restartPolicy": "Never", "containers": [container]}}
    await world.job("j", 5, template=pods)
    await world.settle(30)
    assert await nodes_of(world, "j") == 4
    assert await going(world, "j") == 0


@virtual
async def test_a_head_that_loses_its_group_keeps_nothing_from_others(world):
    await world.node("a", cpu="4")
    annotations = {EXPECTED_DURATION_ANNOTATION: "10h"}
    await world.job("running", 3, annotations=annotations)
    await world.settle(1)
    await group(world, "g", 4)
    for number in range(4):
        await member(world, "g", number)
    await world.settle(1)
    await world.job("long", 1, annotations={EXPECTED_DURATION_ANNOTATION: "100h"})
    await world.settle(1)
    assert await nodes_of(world, "long") == 0
    await world.client.delete(POD_GROUP, "g", "default")
    await world.settle(5)
    assert await nodes_of(world, "long") == 1


@virtual
async def test_a_gang_that_lost_a_pod_while_it_waits_does_not_stop_those_like_it(world):
    await world.node("a", cpu="2")
    await world.job("running", 2)
    await world.settle(1)
    for name in ("a", "b"):
        await group(world, name, 2)
        for number in range(2):
            await member(world, name, number)
        await world.settle(1.5)
    await world.client.delete(POD, "a-1", "default", grace_period_seconds=0)
    await world.settle(1)
    for pod in await world.pods("running"):
        await world.finish(pod)
    await world.settle(2)
    assert await bound(world, "b") == 2


@virtual
async def test_an_absurd_deadline_is_no_end(world):
    await world.node("a", cpu="4")
    await world.job("running", 4, activeDeadlineSeconds=10**12)
    await world.settle(1)
    await world.job("waits", 2)
    await world.settle(2)
    assert "0 of 2 identical pods fit now" in why_unplaced(await world.pods("waits"))


async def running_now(world, name):
    for pod in await world.pods(name):
        start = world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        await play(world, pod, {"phase": "Running", "startTime": start})


@virtual
async def test_who_is_left_alone_for_a_while_goes_after_it(world):
    await classes(world)
    await world.node("a", cpu="4")
    low = template("low")
    low["metadata"]["annotations"] = {"volcano.sh/cooldown-time": "60s"}
    await world.job("victim", 4, template=low)
    await world.settle(1)
    await running_now(world, "victim")
    await job(world, "urgent", 2, "high")
    assert await going(world, "victim") == 0
    await world.settle(65)
    assert await going(world, "victim") == 4


@virtual
async def test_who_a_budget_protects_goes_once_the_budget_is_gone(world):
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "guarded", 4, "low", labels={"app": "guarded"})
    spec = PodDisruptionBudgetSpec(min_available=4, selector=LabelSelector(match_labels={"app": "guarded"}))
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="b", namespace="default"), spec=spec)
    await world.client.create(POD_DISRUPTION_BUDGET, budget, "default")
    await world.settle(1)
    await job(world, "urgent", 2, "high")
    assert await going(world, "guarded") == 0
    await world.client.delete(POD_DISRUPTION_BUDGET, "b", "default")
    await world.settle(2)
    assert await going(world, "guarded") == 4


class Failing:
    """Answers some requests with an error, for as long as there are some left."""

    def __init__(self, inner, ending, code, times):
        self.inner, self.ending, self.code, self.left = inner, ending, code, times

    async def request(self, request):
        if self.left and request.path.endswith(self.ending) and request.method in ("POST", "PATCH"):
            self.left -= 1
            raise ApiError(Status(status="Failure", message="not now", reason="Unknown", code=self.code))
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


def start(world, transport):
    plane = world.plane
    manager = Manager(Client(transport), plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
    return manager, manager.run()


async def gang(world, name, workers, priority=""):
    pods = template(priority)
    pods["spec"]["schedulerName"] = "test"
    if not priority:
        del pods["spec"]["priorityClassName"]
    await world.job(name, workers, template=pods, backoffLimit=100)
    await world.settle(2)


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        pytest.param("/eviction", 429, id="an eviction is refused once"),
        pytest.param("/status", 429, id="a condition is refused once"),
    ],
)
def test_what_fails_once_is_done_all_the_same(ending, code):
    @virtual
    async def scenario(world):
        await classes(world)
        await world.node("a", cpu="4")
        transport = Failing(world.client.transport, ending, code, 0)
        manager, run = start(world, transport)
        task = asyncio.create_task(run)
        await gang(world, "victim", 4, "low")
        transport.left = 1
        await gang(world, "urgent", 2, "high")
        await world.settle(30)
        assert await going(world, "victim") == 4
        marked = [any(c.type == "PodScheduled" for c in pod.status.conditions) for pod in await world.pods("urgent")]
        assert all(marked)
        await bury(world)
        assert await nodes_of(world, "urgent") == 2
        await manager.stop()
        await task

    scenario()


@virtual
async def test_pods_that_go_one_by_one_do_not_go_before_a_higher_priority(world):
    await classes(world)
    await world.node("a", cpu="4")
    low = template("low")
    await world.job("sweep", 20, template=low, annotations={"muster.dev/gang": "false"})
    await world.settle(2)
    assert await nodes_of(world, "sweep") == 4
    polite = template("polite")
    await world.job("high", 2, template=polite)
    await world.settle(2)
    for _ in range(3):
        done = 0
        for pod in await world.pods("sweep"):
            if pod.spec.node_name and pod.status.phase == "Pending" and done < 2:
                await world.finish(pod)
                done += 1
        await world.settle(2)
    assert await nodes_of(world, "high") == 2


@virtual
async def test_a_node_that_refused_a_pod_once_is_tried_again(world):
    await world.node("a", cpu="4")
    transport = Failing(world.client.transport, "/binding", 403, 1)
    manager, run = start(world, transport)
    task = asyncio.create_task(run)
    await gang(world, "j", 1)
    assert await nodes_of(world, "j") == 0
    await world.settle(REST_SECONDS + 5)
    assert await nodes_of(world, "j") == 1
    await manager.stop()
    await task


@virtual
async def test_what_a_failed_attempt_assumed_is_free_again(world):
    """The group is deleted between the decision and the intent; its pods live on without a node."""
    await world.node("a", cpu="4")
    transport = Failing(world.client.transport, "/podgroups/g", 404, 100)
    manager, run = start(world, transport)
    task = asyncio.create_task(run)
    await group(world, "g", 3)
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": "test", "containers": [container]}
    for number in range(3):
        metadata = {"name": f"g-{number}", "annotations": {"scheduling.k8s.io/group-name": "g"}}
        await world.client.create(POD, msgspec.convert({"metadata": metadata, "spec": spec}, Pod), "default")
    await world.settle(0.5)
    await world.client.delete(POD_GROUP, "g", "default")
    await world.settle(5)
    assert await bound(world, "g") == 0
    await gang(world, "j", 4)
    assert await nodes_of(world, "j") == 4
    await manager.stop()
    await task


@virtual
async def test_a_gang_for_whose_rest_others_go_is_not_taken_back(world):
    await classes(world)
    await world.node("a", cpu="2")
    await world.node("b", cpu="2")
    await job(world, "j", 4, "high")
    assert await nodes_of(world, "j") == 4
    [lost, *_] = [pod for pod in await world.pods("j") if pod.spec.node_name == "b"]
    await world.finish(lost, "Failed")
    await job(world, "weak", 1, "low")
    await world.settle(30)
    await bury(world)
    await world.settle(15)
    alive = [pod for pod in await world.pods("j") if pod.status.phase != "Failed"]
    assert sum(bool(pod.spec.node_name) for pod in alive) == 4
    assert (await world.client.get(JOB, "j", "default")).status.failed == 1


@virtual
async def test_where_nothing_happens_nothing_is_looked_at_though_the_head_should_have_started(world):
    await world.node("a", cpu="4")
    await world.job("running", 4, annotations={EXPECTED_DURATION_ANNOTATION: "10s"})
    await world.settle(1)
    await running_now(world, "running")
    await world.job("head", 4)
    await world.settle(20)
    before = looks(world)
    await world.settle(3600)
    assert looks(world) - before < 10 * 4, "the grace of what overruns doubles"
    assert (await world.client.get(NODE, "a")).metadata.name == "a"


def looks(world):
    lines = world.plane.manager.registry.text().decode().splitlines()
    name = 'scheduler_schedule_attempts_total{result="unschedulable"}'
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@virtual
async def test_without_a_node_that_is_gone_the_head_keeps_nothing(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await world.job("running", 3, annotations={EXPECTED_DURATION_ANNOTATION: "1h"})
    await world.settle(1)
    await running_now(world, "running")
    home = (await world.nodes_of("running"))[0]
    await world.job("head", 8)
    await world.settle(1)
    await world.client.delete(NODE, "b" if home == "a" else "a", grace_period_seconds=0)
    await world.settle(1)
    await world.job("long", 1, annotations={EXPECTED_DURATION_ANNOTATION: "100h"})
    await world.settle(2)
    assert await nodes_of(world, "long") == 1


@virtual
async def test_equals_make_room_side_by_side(world):
    await classes(world)
    for name in "abcd":
        await world.node(name, cpu="2")
        await job(world, f"weak-{name}", 2, "low")
    for number in range(4):
        await world.job(f"urgent-{number}", 2, template=template("high"))
    await world.settle(2)
    assert sum([await going(world, f"weak-{name}") for name in "abcd"]) == 8


@virtual
async def test_a_minimum_that_is_lowered_is_enough_at_once(world):
    await world.node("a", cpu="4")
    spec = {"minMember": 5}
    kind = coscheduling.POD_GROUP
    await world.client.create(kind, msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, kind.type), "default")
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    for number in range(5):
        metadata = {"name": f"g-{number}", "labels": {"scheduling.x-k8s.io/pod-group": "g"}}
        pod = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
        await world.client.create(POD, msgspec.convert(pod, Pod), "default")
    await world.settle(2)
    assert await bound(world, "g") == 0
    assert "the gang of 5 starts whole" in why_unplaced(await world.pods())
    await world.client.patch(kind, "g", {"spec": {"minMember": 4}}, "default")
    await world.settle(2)
    assert await bound(world, "g") == 4


@virtual
async def test_pods_that_are_just_being_bound_are_not_there_for_ever(world):
    """A gang that is looked at while others are bound is not told that it never fits."""
    await world.node("a", cpu="4")
    await world.job("first", 4)
    await world.job("second", 4)
    await world.settle(2)
    for name in ("first", "second"):
        events = (await world.client.list(EVENT, "default")).items
        said = [event.message for event in events if event.involved_object.name == name]
        assert not any("would not fit either" in message for message in said)


@virtual
async def test_what_victims_leave_is_kept_for_a_gang_that_is_not_at_the_head(world):
    """Pitfall 11: the head waits elsewhere, so that nothing but the nomination keeps the thief away."""
    await classes(world)
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await job(world, "holder", 4, "high")
    await job(world, "victim", 4, "low")
    polite = template("polite")
    [home] = set(await world.nodes_of("holder"))
    await world.client.patch(NODE, home, {"metadata": {"labels": {"pool": "kept"}}})
    polite["spec"]["nodeSelector"] = {"pool": "kept"}
    await world.job("head", 4, template=polite)
    await world.settle(2)
    await world.job("urgent", 4, template=template("high"))
    await world.settle(2)
    assert await going(world, "victim") == 4
    [first, *_] = [pod for pod in await world.pods("victim") if pod.metadata.deletion_timestamp]
    await world.client.delete(POD, first.metadata.name, "default", grace_period_seconds=0)
    await world.job("thief", 1, template=template("low"))
    await world.settle(2)
    assert await nodes_of(world, "thief") == 0
    await bury(world)
    assert (await nodes_of(world, "urgent"), await nodes_of(world, "thief")) == (4, 0)


def with_settings(**settings):
    muster = Muster(scheduling=Scheduling(**settings))
    return msgspec.structs.replace(EMBEDDED, muster=muster)


def test_how_many_may_pass_is_a_setting():
    async def body():
        async with running(configuration=with_settings(overtakings=2)) as plane:
            world = World(plane)
            await world.node("a", cpu="4")
            await world.job("running", 1)
            await world.settle(1)
            await world.job("head", 4)
            await world.settle(1)
            for number in range(5):
                await world.job(f"j{number}", 1)
                await world.settle(1)
            assert [await nodes_of(world, f"j{number}") for number in range(5)] == [1, 1, 0, 0, 0]

    run_virtual(body())


def test_how_long_all_are_left_alone_is_a_setting():
    async def body():
        async with running(configuration=with_settings(minimum_run_time=60 * SECOND)) as plane:
            world = World(plane)
            await classes(world)
            await world.node("a", cpu="4")
            await job(world, "victim", 4, "low")
            await job(world, "urgent", 2, "high")
            assert await going(world, "victim") == 0
            await world.settle(65)
            assert await going(world, "victim") == 4

    run_virtual(body())
