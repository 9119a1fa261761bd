"""What other gang schedulers stumbled over, played with the whole engine; numbered as in the list of pitfalls."""

import asyncio
from itertools import chain

import msgspec
import pytest
from tests.system.plane import virtual

from muster.api.core import EVENT, NODE, POD, Pod
from muster.api.meta import ObjectMeta
from muster.api.podgroups.kep import POD_GROUP, PodGroup, PodGroupSpec
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager
from muster.runtime.transport import STRATEGIC_MERGE_PATCH


async def group(world, name, least):
    spec = PodGroupSpec(min_members=least)
    await world.client.create(POD_GROUP, PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


async def member(world, group, number):
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": f"{group}-{number}", "annotations": {"scheduling.k8s.io/group-name": group}}
    document = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": [container]}}
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def bound(world, group):
    return sum(bool(pod.spec.node_name) for pod in await world.pods() if pod.metadata.name.startswith(f"{group}-"))


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(list(chain(*((("a", n), ("b", n)) for n in range(6)))), id="in turns"),
        pytest.param([*(("a", n) for n in range(5)), *(("b", n) for n in range(6)), ("a", 5)], id="one is late"),
    ],
)
def test_pitfall_1_of_two_gangs_that_do_not_both_fit_exactly_one_starts(order):
    @virtual
    async def scenario(world):
        await world.node("n0", cpu="5")
        await world.node("n1", cpu="5")
        await group(world, "a", 6)
        await group(world, "b", 6)
        for name, number in order:
            await member(world, name, number)
            await world.settle(0.1)
        await world.settle(5)
        assert sorted([await bound(world, "a"), await bound(world, "b")]) == [0, 6]

    scenario()


@virtual
async def test_pitfall_3_a_gang_that_never_fits_is_told_so_and_stops_no_other(world):
    await world.node("n0", cpu="4")
    await world.job("impossible", 5)
    await world.settle(1)
    for number in range(3):
        await world.job(f"later{number}", 1)
        await world.settle(1)
        assert await world.nodes_of(f"later{number}") == ["n0"]
    told = [event.message for event in (await world.client.list(EVENT, "default")).items]
    assert any(text.endswith("It would not fit even if everything that ever ends had ended.") for text in told)
    assert await world.nodes_of("impossible") == [""] * 5


class SlowLists:
    """Lists of nodes and pods come one after the other, with time in between."""

    def __init__(self, inner, clock):
        self.inner, self.clock = inner, clock

    async def request(self, request):
        if request.method == "GET" and request.path.endswith(("/nodes", "/pods")):
            await self.clock.sleep(3 if request.path.endswith("/nodes") else 9)
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


@virtual
async def test_pitfall_6_nothing_is_bound_before_all_lists_are_there(world):
    await world.node("a", cpu="2")
    await group(world, "there", 2)
    for number in range(2):
        await member(world, "there", number)
    await world.settle(2)
    assert await bound(world, "there") == 2
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": "late", "containers": [container]}
    await world.client.create(POD, msgspec.convert({"metadata": {"name": "late-0"}, "spec": spec}, Pod), "default")
    plane = world.plane
    transport = SlowLists(world.client.transport, world.clock)
    manager = Manager(Client(transport), plane.inputs.clock, plane.inputs.random)
    manager.add(Scheduler(manager, plane.events.recorder("late"), gang_sources(), names=frozenset({"late"})))
    run = asyncio.create_task(manager.run())
    await world.settle(30)
    assert await bound(world, "late") == 0, "the node looked empty for as long as its pods were not known"
    for number in range(2):
        await world.client.delete(POD, f"there-{number}", "default", grace_period_seconds=0)
    await world.settle(5)
    assert await bound(world, "late") == 1
    await manager.stop()
    await run


@virtual
async def test_pitfall_21_autoscalers_are_told_of_lack_of_room_and_of_nothing_else(world):
    """Who waits for quota has gates or no pods; who lacks members is told by an event. Neither is Unschedulable."""
    await world.node("a", cpu="2")
    queue = {"kueue.x-k8s.io/queue-name": "none"}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    metadata = {"name": "queued-0", "labels": queue}
    await world.client.create(POD, msgspec.convert({"metadata": metadata, "spec": spec}, Pod), "default")
    await group(world, "few", 3)
    await member(world, "few", 0)
    await group(world, "large", 3)
    for number in range(3):
        await member(world, "large", number)
    await world.settle(5)
    reasons = {pod.metadata.name: condition(pod) for pod in await world.pods()}
    assert reasons["queued-0"] == "SchedulingGated"
    assert reasons["few-0"] == ""
    assert {reasons[f"large-{number}"] for number in range(3)} == {"Unschedulable"}


def condition(pod):
    return next((one.reason for one in pod.status.conditions if one.type == "PodScheduled"), "")


@virtual
async def test_pitfall_27_a_lost_member_comes_back_into_the_domain_of_the_others(world):
    for rack, names in (("r", "ab"), ("s", "cd")):
        for name in names:
            await world.node(name, cpu="2")
            await world.client.patch(NODE, name, {"metadata": {"labels": {"rack": rack}}})
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    spec = PodGroupSpec(min_members=3)
    meta = ObjectMeta(name="g", namespace="default", annotations=annotations)
    await world.client.create(POD_GROUP, PodGroup(metadata=meta, spec=spec))
    for number in range(3):
        await member(world, "g", number)
    await world.settle(3)
    homes = {pod.spec.node_name for pod in await world.pods()}
    rack = "r" if homes <= {"a", "b"} else "s"
    assert homes <= ({"a", "b"} if rack == "r" else {"c", "d"})
    await world.client.delete(POD, "g-1", "default", grace_period_seconds=0)
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    here = {"restartPolicy": "Never", "nodeSelector": {"rack": rack}, "containers": [container]}
    for number in range(2):
        filler = msgspec.convert({"metadata": {"name": f"filler-{number}"}, "spec": here}, Pod)
        await world.client.create(POD, filler, "default")
    await world.settle(1)
    await member(world, "g", 3)
    await world.settle(3)
    assert await bound(world, "g") == 2, "there is room in another rack only"
    await world.client.delete(POD, "filler-0", "default", grace_period_seconds=0)
    await world.settle(3)
    assert await bound(world, "g") == 3


@virtual
async def test_pitfall_28_a_member_that_its_node_rejects_is_made_anew_and_counted_as_capacity_by_none(world):
    await world.node("a", cpu="2")
    await world.job("j", 2, backoffLimit=5)
    await world.settle(2)
    [first, _] = await world.pods("j")
    await world.client.patch(
        POD,
        first.metadata.name,
        {"status": {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"}},
        "default",
        type=STRATEGIC_MERGE_PATCH,
        subresource="status",
    )
    await world.settle(30)
    alive = [pod for pod in await world.pods("j") if pod.status.phase == "Pending"]
    assert [pod.spec.node_name for pod in alive] == ["a", "a"]
