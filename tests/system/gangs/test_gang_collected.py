"""Gangs some of whose pods have succeeded and are gone: with their node, or because somebody deleted them.

The Job of such a pod counts it and makes no other in its place, so nothing may wait for one.
"""

from typing import Any

import pytest
from tests.system.gangs.test_gang_demands import lose, placed
from tests.system.gangs.test_gang_preemption import bury
from tests.system.gangs.test_kep34 import ANNOTATED, KEP, LABEL, NATIVE_ON, bound, group, member, members, said
from tests.system.jobsets import test_jobset_gangs as jobsets
from tests.system.jobsets.test_jobset_gangs import WHOLE, jobset, role
from tests.system.plane import World, running, virtual

from muster.api.batch import JOB
from muster.api.core import NODE, POD
from muster.api.jobset import JOB_SET
from muster.api.kinds import Kind
from muster.api.kueue.names import POD_GROUP_NAME_LABEL, POD_GROUP_TOTAL_COUNT
from muster.api.podgroups import coscheduling
from muster.api.pods import is_active
from muster.jobs.podgroup.record import NATIVE
from muster.runtime.clock import run_virtual

CONTAINER = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}


async def collect(world: World, name: str) -> None:
    """Delete the pods of a Job that have succeeded."""
    await world.settle()
    for pod in await world.pods(name):
        if pod.status.phase == "Succeeded":
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    await world.settle()


async def suspend(world: World, value: bool) -> None:
    await world.client.patch(JOB_SET, "g", {"spec": {"suspend": value}}, "default")
    await world.settle()
    await bury(world)


async def active(world: World) -> list[bool]:
    """Whether each pod of the JobSet that is to run has a node."""
    return [bool(pod.spec.node_name) for pod in await jobsets.pods(world) if is_active(pod)]


def indexed(one: dict[str, Any]) -> dict[str, Any]:
    one["template"]["spec"]["completionMode"] = "Indexed"
    return one


@pytest.mark.parametrize("spec", [{}, {"groupSchedulingConfig": {}}], ids=["gang", "group start"])
def test_a_jobset_that_is_one_gang_is_resumed_without_what_has_succeeded(spec: Any) -> None:
    @virtual
    async def scenario(world: World) -> None:
        await world.node("a", cpu="4")
        await jobset(world, indexed(role("workers", 1, 3)), indexed(role("driver")), annotations=WHOLE, **spec)
        assert await active(world) == [True] * 4
        await lose(world, "g-workers-0", 1, phase="Succeeded")
        await collect(world, "g-workers-0")
        await suspend(world, True)
        assert await active(world) == []
        await suspend(world, False)
        assert await active(world) == [True] * 3

    scenario()


@pytest.mark.parametrize("collected", [True, False])
def test_a_jobset_that_is_one_gang_still_waits_for_what_its_jobs_make(collected: bool) -> None:
    @virtual
    async def scenario(world: World) -> None:
        await world.node("a", cpu="2")
        await world.node("b", cpu="2")
        await jobset(world, indexed(role("workers", 1, 3)), indexed(role("driver")), annotations=WHOLE)
        await lose(world, "g-workers-0", 1, phase="Succeeded")
        if collected:
            await collect(world, "g-workers-0")
        await world.settle()
        await suspend(world, True)
        await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})
        await suspend(world, False)
        assert await active(world) == [False] * 3, "two of three would fit"

    scenario()


async def grouped_job(world: World, name: str, workers: int, kind: Kind[Any]) -> None:
    named = {"labels": {LABEL: "g"}} if kind is coscheduling.POD_GROUP else {"annotations": {KEP: "g"}}
    field = {"schedulingGroup": {"podGroupName": "g"}} if kind is NATIVE else {}
    spec = {"restartPolicy": "Never", "containers": [CONTAINER], **field}
    template = {"metadata": {} if kind is NATIVE else named, "spec": spec}
    await world.job(name, workers, template=template, backoffLimit=100)


async def any_group(world: World, minimum: int, kind: Kind[Any]) -> None:
    if kind is not NATIVE:
        await group(world, minimum=minimum, kind=kind)
        return
    spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
    await world.client.create(NATIVE, NATIVE.typed({"metadata": {"name": "g"}, "spec": spec}), "default")


@pytest.mark.parametrize("kind", [*ANNOTATED, coscheduling.POD_GROUP, NATIVE], ids=lambda kind: kind.group)
def test_a_pod_group_starts_again_without_what_was_collected_with_its_node(kind: Kind[Any]) -> None:
    async def scenario(world: World) -> None:
        await world.node("a", cpu="4")
        await any_group(world, 4, kind)
        await grouped_job(world, "j", 4, kind)
        await world.settle()
        assert await placed(world, "j") == [0, 1, 2, 3]
        await lose(world, "j", 0, 1, phase="Succeeded")
        await world.settle()
        await world.client.delete(NODE, "a")
        await world.elapse(120)
        assert not [pod for pod in await world.pods("j") if not is_active(pod)], "all were collected"
        await world.node("b", cpu="4")
        await world.settle(60)
        assert await placed(world, "j") == [2, 3], await said(world, "g")

    async def played() -> None:
        async with running(configuration=NATIVE_ON) as plane:
            await scenario(World(plane))

    run_virtual(played())


@virtual
async def test_a_pod_group_starts_again_without_a_job_whose_pods_are_all_gone(world: World) -> None:
    [kind, *_] = ANNOTATED
    await world.node("a", cpu="4")
    await group(world, minimum=4)
    await grouped_job(world, "early", 2, kind)
    await grouped_job(world, "late", 2, kind)
    await world.settle()
    await lose(world, "early", 0, 1, phase="Succeeded")
    await collect(world, "early")
    await world.client.patch(JOB, "late", {"spec": {"suspend": True}}, "default")
    await world.settle()
    await bury(world)
    await world.client.patch(JOB, "late", {"spec": {"suspend": False}}, "default")
    await world.settle()
    assert await placed(world, "late") == [0, 1]


@virtual
async def test_a_pod_group_waits_no_more_when_its_job_comes_to_count_what_is_gone(world: World) -> None:
    await world.node("a", cpu="4")
    await group(world, minimum=4)
    template = {"metadata": {"annotations": {KEP: "g"}}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    await world.job("j", 4, template=template, managedBy="example.com/other")
    await members(world, "yz")
    await world.settle()
    assert await bound(world) == ""
    started = world.clock.now().replace(microsecond=0)
    status = {"succeeded": 2, "completedIndexes": "0,1", "startTime": started}
    await world.client.patch(JOB, "j", {"status": status}, "default", subresource="status")
    await world.settle()
    assert await bound(world) == "yz"


KEPT_PODS = {
    "PodGroup": {"annotations": {KEP: "g"}},
    "Kueue pod group": {"labels": {POD_GROUP_NAME_LABEL: "g"}, "annotations": {POD_GROUP_TOTAL_COUNT: "4"}},
}


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("meta", KEPT_PODS.values(), ids=KEPT_PODS)
def test_a_pod_without_a_job_counts_as_succeeded_as_long_as_it_is_there(meta: Any, kept: bool) -> None:
    """A drain deletes ended pods, too. Without a Job, only a finalizer of their maker keeps what they say."""

    @virtual
    async def scenario(world: World) -> None:
        await world.node("a", cpu="4")
        await group(world, minimum=4)
        marks = meta | {"finalizers": ["example.com/kept"] if kept else []}
        for name in "wxyz":
            await member(world, f"g-{name}", meta=marks)
        await world.settle()
        assert await bound(world) == "wxyz"
        for pod in await world.pods():
            await world.finish(pod, "Failed" if pod.metadata.name == "g-z" else "Succeeded")
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
        await member(world, "g-v", meta=marks)
        await world.settle()
        assert ("v" in await bound(world)) is kept

    scenario()
