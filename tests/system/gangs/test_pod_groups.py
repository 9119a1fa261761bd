"""Groups of plain pods on a cluster: bound together or not at all, with or without queues."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.system.plane import World, virtual
from tests.system.scheduler.test_scheduler import DyingTransport

from muster.api.core import POD, Pod
from muster.api.kueue.names import POD_GROUP_FAST_ADMISSION, POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.control.manager import Manager


async def member(
    world: World, name: str, group: str, size: int, *, annotations: Any = None, scheduler: str = "default-scheduler"
) -> None:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    marks = {POD_GROUP_NAME_LABEL: group, POD_GROUP_TOTAL_COUNT: str(size)} | (annotations or {})
    document = {
        "metadata": {"name": name, "annotations": marks},
        "spec": {"restartPolicy": "Never", "containers": [container], "schedulerName": scheduler},
    }
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def members(world: World, group: str, size: int, **more: Any) -> None:
    for number in range(size):
        await member(world, f"{group}-{number}", group, size, **more)


async def nodes(world: World, group: str) -> list[str]:
    pods = [one for one in await world.pods() if one.metadata.annotations[POD_GROUP_NAME_LABEL] == group]
    return sorted(one.spec.node_name for one in pods)


@virtual
async def test_a_group_is_bound_whole_once_it_is_complete(world: World) -> None:
    await world.node("a", cpu="2")
    await world.node("b", cpu="2")
    await member(world, "g-x", "g", 3)
    await member(world, "g-y", "g", 3)
    await world.settle()
    assert await nodes(world, "g") == ["", ""]
    await member(world, "g-z", "g", 3)
    await world.settle()
    assert await nodes(world, "g") == ["a", "a", "b"]


@virtual
async def test_a_group_that_does_not_fit_holds_nothing_and_says_why(world: World) -> None:
    await world.node("a", cpu="2")
    await members(world, "big", 3)
    await world.settle()
    assert await nodes(world, "big") == ["", "", ""]
    for pod in await world.pods():
        (condition,) = [one for one in pod.status.conditions if one.type == "PodScheduled"]
        assert "2 of 3 identical pods fit now, and the gang of 3 starts whole" in condition.message
    await members(world, "small", 2)
    await world.settle()
    assert await nodes(world, "small") == ["a", "a"]


@virtual
async def test_groups_of_one_name_in_different_namespaces_and_a_job_of_that_name_are_different_gangs(
    world: World,
) -> None:
    await world.node("a", cpu="8")
    await world.job("g", 2)
    await member(world, "g-x", "g", 2)
    await world.settle()
    assert await world.nodes_of("g") == ["a", "a"]
    assert (await world.client.get(POD, "g-x", "default")).spec.node_name == ""


@virtual
async def test_a_replacement_is_placed_though_the_others_run_or_have_succeeded(world: World) -> None:
    await world.node("a", cpu="3")
    await members(world, "g", 3)
    await world.settle()
    first, second, _ = await world.pods()
    await world.finish(first)
    await world.finish(second, "Failed")
    await member(world, "again", "g", 3)
    await world.settle()
    assert (await world.client.get(POD, "again", "default")).spec.node_name == "a"


@pytest.mark.parametrize("mark", [{POD_GROUP_FAST_ADMISSION: "true"}, {"muster.dev/gang": "false"}])
def test_a_group_that_may_start_bit_by_bit_does(mark: dict[str, str]) -> None:
    @virtual
    async def scenario(world: World) -> None:
        await world.node("a", cpu="1")
        await members(world, "g", 2, annotations=mark)
        await world.settle()
        assert await nodes(world, "g") == ["", "a"]

    scenario()


@virtual
async def test_pods_that_leave_their_group_do_not_hold_it_up(world: World) -> None:
    await world.node("a", cpu="4")
    await members(world, "g", 2)
    await member(world, "odd", "h", 2)
    await world.settle()
    patch = {"metadata": {"annotations": {"muster.dev/gang": "false"}}}
    await world.client.patch(POD, "odd", patch, "default")
    await world.settle()
    assert await nodes(world, "h") == ["a"]


@pytest.mark.parametrize("bindings", [1, 2, 3])
def test_a_half_bound_group_is_finished_before_anything_else(bindings: int) -> None:
    @virtual
    async def scenario(world: World) -> None:
        plane = world.plane

        def start(client: Client) -> tuple[Manager, asyncio.Task[None]]:
            manager = Manager(client, plane.inputs.clock, plane.inputs.random)
            manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
            return manager, asyncio.create_task(manager.run())

        await world.node("a", cpu="4")
        await members(world, "g", 4, scheduler="test")
        _, first = start(Client(DyingTransport(world.client.transport, bindings)))
        await world.settle(3)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert sum(map(bool, await nodes(world, "g"))) == bindings
        await members(world, "another", 1, scheduler="test")
        manager, second = start(world.client)
        await world.settle(30)
        assert await nodes(world, "g") == ["a"] * 4
        assert await nodes(world, "another") == [""]
        await manager.stop()
        await second

    scenario()
