"""A scheduler dies between any two bindings of a gang, and others take the room: no half of a gang stays."""

import asyncio

import msgspec
import pytest
from tests.system.plane import virtual
from tests.system.test_binding import bury, gang, pod_group, pods, reasons, start, stop

from muster.api.core import POD, Pod
from muster.api.meta import ObjectMeta
from muster.api.podgroups import coscheduling
from muster.api.podgroups.kep import POD_GROUP
from muster.controllers.gangs import PATIENCE_SECONDS

SIZE = 3


async def kueue_group(world, name, workers):
    """Pods that say themselves that they are a group: no object carries it."""
    labels = {"kueue.x-k8s.io/pod-group-name": name, "batch.kubernetes.io/job-name": name}
    await pods(world, name, workers, labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": str(workers)})


async def cut(world, sort, after):
    """A gang, of which a scheduler binds so many pods and dies."""
    left = [after]

    def fate(_pod, _node):
        left[0] -= 1
        return "" if left[0] >= 0 else "lost"

    _, _manager, run = start(world, fate)
    await sort(world, "g", SIZE)
    await world.until(lambda: bound(world, after))
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert len([node for node in await world.nodes_of("g") if node]) == after


async def bound(world, number):
    return len([node for node in await world.nodes_of("g") if node]) == number


async def taken(world, node):
    """A pod that another program puts there."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    document = {"metadata": {"name": f"other-{node}"}, "spec": {"nodeName": node, "containers": [container]}}
    await world.client.create(POD, msgspec.convert(document, Pod), "default")


async def take_rest(world):
    """Others come to each node that the gang has not come to."""
    free = {"a", "b", "c"} - set(await world.nodes_of("g"))
    for node in sorted(free):
        await taken(world, node)


SORTS = pytest.mark.parametrize("sort", [gang, pod_group, kueue_group])


@SORTS
@pytest.mark.parametrize("after", range(1, SIZE))
def test_whose_rest_finds_no_room_is_taken_back_whole(sort, after):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, sort, after)
        await take_rest(world)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(PATIENCE_SECONDS - 10)
        if sort is not gang:
            assert await bound(world, after), "what would be lost is not given up at once"
        await world.settle(20)
        await bury(world)
        await world.settle(20)
        assert await bound(world, 0)
        assert len(await world.pods("g")) == (SIZE if sort is gang else SIZE - after)
        assert f"{after} pods of the gang were bound" in (await reasons(world))["GangTakenBack"]
        await stop(*scheduler)

    scenario()


@SORTS
@pytest.mark.parametrize("after", range(1, SIZE))
def test_whose_rest_finds_room_in_time_goes_on(sort, after):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, sort, after)
        await take_rest(world)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(60)
        for name in {"a", "b", "c"} - set(await world.nodes_of("g")):
            await world.client.delete(POD, f"other-{name}", "default", grace_period_seconds=0)
        await world.settle(PATIENCE_SECONDS)
        await bury(world)
        await world.settle(20)
        assert await bound(world, SIZE)
        await stop(*scheduler)

    scenario()


@virtual
async def test_a_group_says_what_it_lost_until_it_starts_again(world):
    for name in ("a", "b", "c"):
        await world.node(name, cpu="1")
    await cut(world, pod_group, 2)
    await take_rest(world)
    _, *scheduler = start(world, lambda _pod, _node: "")
    await world.settle(PATIENCE_SECONDS + 10)
    await bury(world)
    await world.settle(5)
    said = (await world.client.get(POD_GROUP, "g", "default")).metadata.annotations["muster.dev/taken-back"]
    assert said == (
        "2 pods of the gang were bound, and the rest no longer fits: they were deleted, as no half of a gang stays; "
        "nothing makes them anew"
    )
    for pod in await world.pods():
        if pod.metadata.name.startswith("other-"):
            await world.client.delete(POD, pod.metadata.name, "default", grace_period_seconds=0)
    annotations = {"scheduling.k8s.io/group-name": "g"}
    left = {pod.metadata.name for pod in await world.pods("g")}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "schedulerName": "test", "containers": [container]}
    for name in sorted({"g-0", "g-1", "g-2"} - left):
        meta = {"name": name, "labels": {"batch.kubernetes.io/job-name": "g"}, "annotations": annotations}
        await world.client.create(POD, msgspec.convert({"metadata": meta, "spec": spec}, Pod), "default")
    await world.settle(10)
    assert await bound(world, SIZE)
    group = await world.client.get(POD_GROUP, "g", "default")
    assert "muster.dev/taken-back" not in group.metadata.annotations
    await stop(*scheduler)


@virtual
async def test_a_group_says_how_long_its_rest_may_look_for_room(world):
    for name in ("a", "b", "c"):
        await world.node(name, cpu="1")

    async def group(world, name, workers):
        spec = coscheduling.PodGroupSpec(min_member=workers, schedule_timeout_seconds=20)
        made = coscheduling.PodGroup(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)
        await world.client.create(coscheduling.POD_GROUP, made, "default")
        labels = {"batch.kubernetes.io/job-name": name, "scheduling.x-k8s.io/pod-group": name}
        await pods(world, name, workers, labels=labels)

    await cut(world, group, 1)
    await take_rest(world)
    _, *scheduler = start(world, lambda _pod, _node: "")
    await world.settle(15)
    assert await bound(world, 1)
    await world.settle(10)
    assert {pod.metadata.deletion_timestamp is not None for pod in await world.pods("g") if pod.spec.node_name} == {
        True
    }
    await stop(*scheduler)


@virtual
async def test_half_of_a_group_whose_other_pods_were_deleted_does_not_stay(world):
    for name in ("a", "b", "c"):
        await world.node(name, cpu="1")
    await cut(world, pod_group, 1)
    waiting = next(pod for pod in await world.pods("g") if not pod.spec.node_name)
    await world.client.delete(POD, waiting.metadata.name, "default", grace_period_seconds=0)
    _, *scheduler = start(world, lambda _pod, _node: "")
    await world.settle(PATIENCE_SECONDS + 10)
    await bury(world)
    assert await bound(world, 0)
    await stop(*scheduler)


@virtual
async def test_a_group_that_ran_and_lost_a_pod_is_no_half_though_its_surplus_still_waits(world):
    for name in ("a", "b", "c"):
        await world.node(name, cpu="1")
    _, *scheduler = start(world, lambda _pod, _node: "")
    await pod_group(world, "g", SIZE)
    annotations = {"scheduling.k8s.io/group-name": "g"}
    await pods(world, "surplus", 1, annotations=annotations)
    await world.settle(5)
    assert await bound(world, SIZE)
    lost = (await world.pods("g"))[0]
    await world.client.delete(POD, lost.metadata.name, "default", grace_period_seconds=0)
    await taken(world, lost.spec.node_name)
    await world.settle(PATIENCE_SECONDS + 60)
    assert await bound(world, SIZE - 1)
    assert all(pod.metadata.deletion_timestamp is None for pod in await world.pods("g"))
    await stop(*scheduler)
