"""An autoscaler is asked for the room that a gang lacks, once, and no longer than it does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from tests.system.cluster.test_custom_kinds import DEFINITION
from tests.system.gangs.test_gang_preemption import classes, template
from tests.system.gangs.test_kep34 import bound, group, member, members
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB
from muster.api.config import EMBEDDED
from muster.api.core import EVENT, POD_TEMPLATE
from muster.api.groups.provisioning import PROVISIONING_REQUEST
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.gang.order.ends import EXPECTED_DURATION_ANNOTATION
from muster.runtime.clock import run_virtual
from muster.runtime.control.manager import Manager

CLASS = "check-capacity.autoscaling.x-k8s.io"
ASKING = msgspec.structs.replace(
    EMBEDDED,
    muster=msgspec.structs.replace(
        EMBEDDED.muster,
        scheduling=msgspec.structs.replace(EMBEDDED.muster.scheduling, provisioning_class_name=CLASS),
    ),
)

CONTAINER = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}

FIXED = [{"rule": "self == oldSelf", "message": "Value is immutable"}]
NAME = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
POD_SET = {
    "type": "object",
    "required": ["count", "podTemplateRef"],
    "properties": {
        "count": {"type": "integer", "format": "int32", "minimum": 1},
        "podTemplateRef": {"type": "object", "required": ["name"], "properties": {"name": NAME}},
    },
}
SPEC = {
    "type": "object",
    "required": ["podSets", "provisioningClassName"],
    "properties": {
        "provisioningClassName": NAME | {"x-kubernetes-validations": FIXED},
        "podSets": {
            "type": "array",
            "minItems": 1,
            "maxItems": 32,
            "items": POD_SET,
            "x-kubernetes-validations": FIXED,
        },
    },
}
CRD: dict[str, Any] = {
    "metadata": {"name": "provisioningrequests.autoscaling.x-k8s.io"},
    "spec": {
        "group": "autoscaling.x-k8s.io",
        "names": {"plural": "provisioningrequests", "kind": "ProvisioningRequest"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": SPEC}},
                },
            }
        ],
    },
}


def asking(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Run a test of a world whose Configuration says that autoscalers are asked."""

    async def body() -> None:
        async with running(configuration=ASKING) as plane:
            await test(World(plane))

    def run() -> None:
        run_virtual(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def serve(world: World) -> None:
    await world.client.create(DEFINITION, CRD)
    await world.settle(60)  # until it is followed


async def requests(world: World) -> dict[str, int]:
    """How many pods are asked for, by request. Their templates are there, and there are no others."""
    found = (await world.client.list(PROVISIONING_REQUEST, "default")).items
    named = {one.pod_template_ref.name for request in found for one in request.spec.pod_sets}
    assert named == {one.metadata.name for one in (await world.client.list(POD_TEMPLATE, "default")).items}
    return {one.metadata.name: sum(of.count for of in one.spec.pod_sets) for one in found}


async def request_uid(world: World, name: str) -> str:
    return (await world.client.get(PROVISIONING_REQUEST, name, "default")).metadata.uid


async def said(world: World, reason: str) -> list[tuple[str, str]]:
    events = (await world.client.list(EVENT, "default")).items
    told = [one for one in events if one.reason == reason]
    return [(one.involved_object.name, one.message) for one in told for _ in range(one.count or 1)]


@asking
async def test_3_30_a_gang_that_lacks_room_is_asked_for_until_it_starts(world: World) -> None:
    await serve(world)
    await world.node("a", cpu="2")
    await world.job("fits", 2)
    await world.job("wide", 3)
    await world.settle()
    assert await requests(world) == {"wide": 3}
    uid = await request_uid(world, "wide")
    await world.node("small", cpu="1")  # looked at again: the need is the same
    await world.settle()
    assert await request_uid(world, "wide") == uid
    await world.node("b", cpu="2")
    await world.settle()
    assert "" not in await world.nodes_of("wide")
    assert await requests(world) == {}


@asking
async def test_another_need_is_asked_for_anew(world: World) -> None:
    await serve(world)
    await world.job("j", 3)
    await world.settle()
    uid = await request_uid(world, "j")
    await world.client.patch(JOB, "j", {"spec": {"parallelism": 2, "completions": 2}}, "default")
    await world.settle()
    assert await requests(world) == {"j": 2}
    assert await request_uid(world, "j") != uid
    await world.client.delete(JOB, "j", "default")
    await world.settle()
    assert await requests(world) == {}


@asking
async def test_a_request_that_was_deleted_is_not_made_again_for_the_same_need(world: World) -> None:
    await serve(world)
    await world.job("j", 2)
    await world.settle()
    await world.client.delete(PROVISIONING_REQUEST, "j", "default")
    await world.settle(20)
    assert await requests(world) == {}


@asking
async def test_who_lacks_pods_or_may_not_start_yet_asks_for_nothing(world: World) -> None:
    await serve(world)
    await world.node("a", cpu="4")
    await world.job("suspended", 9, suspend=True)
    await world.job("first", 3)
    await world.settle()
    await world.job("alone", 1, cpu="9")
    await world.job("one-by-one", 3, cpu="9", annotations={GANG_ANNOTATION: "false"})
    await world.settle()
    assert await requests(world) == {}


@asking
async def test_a_gang_from_which_nodes_are_only_kept_asks_for_nothing(world: World) -> None:
    await serve(world)
    await world.node("a", cpu="4")
    await world.job("running", 2, annotations={EXPECTED_DURATION_ANNOTATION: "100s"})
    await world.settle()
    await world.job("head", 4)
    await world.settle()
    await world.job("kept", 2, annotations={EXPECTED_DURATION_ANNOTATION: "1000s"})
    await world.settle()
    assert "" in await world.nodes_of("kept")
    assert await requests(world) == {"head": 4}


@asking
async def test_a_gang_for_which_others_go_asks_for_nothing(world: World) -> None:
    await serve(world)
    await classes(world)
    await world.node("a", cpu="2")
    await world.job("weak", 2, template=template("low"))
    await world.settle()
    await world.job("strong", 2, template=template("high"))
    await world.settle()
    assert [pod.metadata.deletion_timestamp is None for pod in await world.pods("weak") if pod.spec.node_name] == [
        False
    ] * 2
    assert "strong" not in await requests(world)


@asking
async def test_for_a_group_its_minimum_is_asked_for_and_for_nothing_once_that_runs(world: World) -> None:
    await serve(world)
    await group(world, minimum=2)
    await members(world, "abc")
    await world.settle()
    assert await requests(world) == {"g": 2}
    await world.node("a", cpu="2")
    await world.settle()
    assert await bound(world) == "ab"
    assert await requests(world) == {}


@asking
async def test_more_sorts_of_pods_than_a_request_takes_are_said(world: World) -> None:
    await serve(world)
    await group(world, minimum=33)
    for number in range(33):
        await member(world, f"g-{number}", cpu=f"{number + 1}m")
    await world.settle()
    assert await requests(world) == {}
    ((name, message),) = await said(world, "CapacityNotRequested")
    assert name == "g"
    assert "spec.podSets: Too many: 33: must have at most 32 items" in message


@asking
async def test_where_the_kind_is_not_served_that_is_said_once(world: World) -> None:
    await world.job("j", 2)
    await world.settle(1000)
    ((name, message),) = await said(world, "CapacityNotRequested")
    assert (name, message) == (
        "j",
        "The scheduler could not request capacity: the server does not serve ProvisioningRequests",
    )
    await serve(world)
    await world.settle(400)
    assert await requests(world) == {"j": 2}
    await world.node("a", cpu="2")
    await world.settle()
    assert "" not in await world.nodes_of("j")
    assert await requests(world) == {}


@asking
async def test_a_request_of_that_name_that_is_not_ours_is_left_alone(world: World) -> None:
    await serve(world)
    spec = {"provisioningClassName": "other", "podSets": [{"count": 1, "podTemplateRef": {"name": "t"}}]}
    await world.client.create(PROVISIONING_REQUEST.seen_as(dict), {"metadata": {"name": "j"}, "spec": spec}, "default")
    await world.settle()
    uid = await request_uid(world, "j")
    await world.job("j", 2)
    await world.settle(700)
    await world.node("a", cpu="2")
    await world.settle()
    assert await request_uid(world, "j") == uid
    assert [name for name, _ in await said(world, "CapacityNotRequested")] == ["j"]


@virtual
async def test_what_a_predecessor_asked_for_is_kept_as_long_as_it_is_needed(world: World) -> None:
    """What is still needed is not made anew after a crash, what it lacks is, and the rest goes."""
    plane = world.plane

    async def scheduler() -> asyncio.Task[None]:
        manager = Manager(plane.client(), plane.inputs.clock, plane.inputs.random)
        settings, recorder = ASKING.muster.scheduling, plane.events.recorder("test")
        manager.add(Scheduler(manager, recorder, gang_sources(), names=frozenset({"test"}), settings=settings))
        return asyncio.create_task(manager.run())

    async def crash(task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    await world.client.create(DEFINITION, CRD)
    first = await scheduler()
    for name in ("waits", "ends"):
        spec = {"restartPolicy": "Never", "schedulerName": "test", "containers": [CONTAINER]}
        await world.job(name, 2, template={"spec": spec})
    await world.settle()
    assert await requests(world) == {"waits": 2, "ends": 2}
    uid = await request_uid(world, "waits")
    await crash(first)
    await world.client.patch(JOB, "ends", {"spec": {"suspend": True}}, "default")
    for one in (await world.client.list(POD_TEMPLATE, "default")).items:  # as if they had not been made yet
        await world.client.delete_object(POD_TEMPLATE, one)
    await world.settle()
    second = await scheduler()
    await world.settle()
    assert await requests(world) == {"waits": 2}
    assert await request_uid(world, "waits") == uid
    await crash(second)
