"""A scheduler dies between any two bindings of a gang, and others take the room: no half of a gang stays."""

import asyncio
from datetime import timedelta

import msgspec
import pytest
from tests.system.plane import virtual
from tests.system.scheduler.test_binding import Bindings, bury, gang, pod_group, pods, start, stop, tells

from muster.api.batch import JOB, Job
from muster.api.core import NODE, POD, Pod
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.meta import ObjectMeta
from muster.api.podgroups import coscheduling
from muster.api.podgroups.kep import POD_GROUP
from muster.controllers.gangs import PATIENCE_SECONDS
from muster.controllers.integrations.table import gang_sources
from muster.controllers.scheduler.scheduler import Scheduler
from muster.runtime.client import Client
from muster.runtime.clock import VirtualClock
from muster.runtime.control.manager import Manager
from muster.runtime.transport import TransportError

SIZE = 3


async def kueue_group(world, name, workers):
    """Pods that say themselves that they are a group: no object carries it."""
    labels = {"kueue.x-k8s.io/pod-group-name": name, "batch.kubernetes.io/job-name": name}
    await pods(world, name, workers, labels=labels, annotations={"kueue.x-k8s.io/pod-group-total-count": str(workers)})


class WrongClock(VirtualClock):
    """A clock that is early or late by some seconds."""

    def __init__(self, seconds):
        super().__init__()
        self.error = timedelta(seconds=seconds)

    def now(self):
        return super().now() + self.error


async def cut(world, sort, after, clock=None):
    """A gang, of which a scheduler binds so many pods and dies."""
    left = [after]

    def fate(_pod, _node):
        left[0] -= 1
        return "" if left[0] >= 0 else "lost"

    _, _manager, run = start(world, fate, clock)
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
        assert await tells(world, "GangTakenBack", f"{after} pods of the gang were bound")
        await stop(*scheduler)

    scenario()


class SlowDeletions(Bindings):
    """A connection on which deletions take so long that the Job controller acts between a patch and a deletion."""

    async def request(self, request):
        if request.method == "DELETE":
            await asyncio.sleep(1.0)
        return await super().request(request)


@pytest.mark.parametrize("after", range(1, SIZE))
def test_a_gang_that_is_taken_back_slowly_uses_up_no_retry(after):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, gang, after)
        await take_rest(world)
        _, *scheduler = start(world, lambda _pod, _node: "", connection=SlowDeletions)
        await world.settle(20)
        assert sum(pod.metadata.deletion_timestamp is not None for pod in await world.pods("g")) == after
        await bury(world)
        await world.settle(20)
        assert len(await world.pods("g")) == SIZE
        assert (await world.client.get(JOB, "g", "default")).status.failed == 0
        await stop(*scheduler)

    scenario()


@pytest.mark.parametrize("seconds", [-3600, -2, 2, 3600])
@pytest.mark.parametrize("sort", [gang, pod_group])
def test_whose_scheduler_had_the_wrong_time_is_taken_back_all_the_same(sort, seconds):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, sort, 1, WrongClock(seconds))
        await take_rest(world)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(PATIENCE_SECONDS + 10)
        await bury(world)
        await world.settle(20)
        assert await bound(world, 0)
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
        "2 pods of the gang were bound, and the rest no longer fits: they were deleted, as a gang is bound "
        "whole or not at all; no controller recreates them"
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


@pytest.mark.parametrize("after", range(1, SIZE))
def test_whose_carrier_was_deleted_meanwhile_is_taken_back_whole(after):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, pod_group, after)
        await world.client.delete(POD_GROUP, "g", "default")
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(PATIENCE_SECONDS - 10)
        assert await bound(world, after), "its carrier may come back"
        await world.settle(20)
        await bury(world)
        assert await bound(world, 0)
        assert await tells(world, "GangTakenBack", f"{after} pods of the gang were bound")
        await stop(*scheduler)

    scenario()


@pytest.mark.parametrize("after", range(1, SIZE))
def test_whose_carrier_comes_back_in_time_becomes_whole(after):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, pod_group, after)
        group = await world.client.get(POD_GROUP, "g", "default")
        await world.client.delete(POD_GROUP, "g", "default")
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(60)
        anew = ObjectMeta(name="g", namespace="default")
        await world.client.create(POD_GROUP, msgspec.structs.replace(group, metadata=anew), "default")
        await world.settle(PATIENCE_SECONDS + 10)
        assert await bound(world, SIZE)
        await stop(*scheduler)

    scenario()


@pytest.mark.parametrize("surplus", [0, 1])
def test_a_group_that_ran_whole_is_no_half_once_its_carrier_is_deleted(surplus):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        annotations = {"scheduling.k8s.io/group-name": "g"}
        await pod_group(world, "g", SIZE)
        await pods(world, "surplus", surplus, annotations=annotations)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(5)
        await world.client.delete(POD_GROUP, "g", "default")
        lost = next(pod for pod in await world.pods() if pod.spec.node_name)
        await world.client.delete(POD, lost.metadata.name, "default", grace_period_seconds=0)
        await taken(world, lost.spec.node_name)
        await pods(world, "again", 1, annotations=annotations)
        await world.settle(PATIENCE_SECONDS + 60)
        left = [pod for pod in await world.pods() if pod.spec.node_name and not pod.metadata.name.startswith("other")]
        assert len(left) == SIZE - 1
        assert all(pod.metadata.deletion_timestamp is None for pod in left)
        await stop(*scheduler)

    scenario()


class Mortal:
    """The connection of a scheduler that dies after so many writes to gangs, and then reaches nothing any more."""

    def __init__(self, inner, writes):
        self.inner, self.left = inner, writes

    async def request(self, request):
        if request.method != "GET" and not request.path.endswith("/events"):
            if self.left == 0:
                raise TransportError("connection reset")
            self.left -= 1
        return await self.inner.request(request)

    def stream(self, request):
        return self.inner.stream(request)

    async def close(self):
        pass


async def crowd(world, name, workers):
    """A PodGroup with more pods than it needs, and than there is room for: only its carrier says which are meant."""
    await pod_group(world, name, workers)
    await pods(world, "surplus", 1, annotations={"scheduling.k8s.io/group-name": name})


@pytest.mark.parametrize("is_kept_out", [False, True])
@pytest.mark.parametrize(
    ("sort", "loses_carrier"),
    [(gang, False), (gang, True), (pod_group, False), (pod_group, True), (kueue_group, False), (crowd, False)],
)
@pytest.mark.parametrize("writes", range(SIZE + 2))
def test_whenever_its_scheduler_dies_it_is_whole_or_nothing(sort, writes, loses_carrier, is_kept_out):
    @virtual
    async def scenario(world):
        for name in ("a", "b", "c"):
            await world.node(name, cpu="1")
        await sort(world, "g", SIZE)
        await world.settle(5)
        plane = world.plane
        client = Client(Mortal(world.client.transport, writes))
        manager = Manager(client, plane.inputs.clock, plane.inputs.random)
        manager.add(Scheduler(manager, plane.events.recorder("test"), gang_sources(), names=frozenset({"test"})))
        run = asyncio.create_task(manager.run())
        await world.settle(5)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        began = await bound(world, SIZE)
        if is_kept_out:
            await take_rest(world)
        if loses_carrier:
            kind = JOB if sort is gang else POD_GROUP
            await world.client.delete(kind, "g", "default", propagation="Background")
        _, *scheduler = start(world, lambda _pod, _node: "")
        for _ in range(8):
            await world.settle(PATIENCE_SECONDS / 4)
            await bury(world)
        held = [pod for pod in await world.pods("g") if pod.spec.node_name]
        assert len(held) in (0, SIZE)
        if began and sort is not gang:
            assert len(held) == SIZE, "it was whole before"
        if not is_kept_out and not loses_carrier:
            assert len(held) == SIZE
        await stop(*scheduler)

    scenario()


async def restarted_jobset(world, name, workers):
    """A JobSet whose pods are one gang, in its second attempt; a pod of the first one still runs on the node `old`."""
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pod = {"restartPolicy": "Never", "schedulerName": "test", "containers": [container]}
    nobody = {"managedBy": "example.com/nobody"}
    size = {"parallelism": workers, "completions": workers, "template": {"spec": pod}}
    role = {"name": "w", "replicas": 1, "template": {"spec": size}}
    meta = {"name": name, "annotations": {"muster.dev/gang": "true"}}
    given = {"metadata": meta, "spec": {"replicatedJobs": [role], **nobody}}
    jobset = await world.client.create(JOB_SET, msgspec.convert(given, JobSet), "default")
    await world.client.patch(JOB_SET, name, {"status": {"restarts": 1}}, "default", subresource="status")
    of_gang = {names.JOBSET_NAME: name, names.JOBSET_UID: jobset.metadata.uid, names.REPLICATED_JOB_NAME: "w"}
    for attempt, of, number, spec in (
        (0, "old", 1, {"nodeName": "old"}),
        (1, name, workers, {}),
    ):
        document = {"metadata": {"name": of}, "spec": size | nobody}
        job = await world.client.create(JOB, msgspec.convert(document, Job), "default")
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": of, "uid": job.metadata.uid, "controller": True}
        labels = of_gang | {"batch.kubernetes.io/job-name": of, names.RESTART_ATTEMPT: str(attempt)}
        for index in range(number):
            meta = {"name": f"{of}-{index}", "labels": labels, "ownerReferences": [owner]}
            meta |= {"annotations": {"muster.dev/gang": "true"}}
            made = msgspec.convert({"metadata": meta, "spec": pod | spec}, Pod)
            await world.client.create(POD, made, "default")


@pytest.mark.parametrize("after", range(1, SIZE))
def test_a_jobset_that_starts_again_beside_pods_of_before_is_taken_back_whole(after):
    @virtual
    async def scenario(world):
        for name in ("old", "a", "b", "c"):
            await world.node(name, cpu="1")
        await cut(world, restarted_jobset, after)
        await take_rest(world)
        _, *scheduler = start(world, lambda _pod, _node: "")
        await world.settle(10)
        assert all(pod.metadata.deletion_timestamp for pod in await world.pods("g") if pod.spec.node_name)
        (old,) = await world.pods("old")
        assert old.metadata.deletion_timestamp is None, "its own controller ends it"
        await stop(*scheduler)

    scenario()


@virtual
async def test_a_group_whose_start_was_completed_later_is_no_half_though_its_surplus_waits(world):
    for name in ("a", "b"):
        await world.node(name, cpu="1")
    left = [1]

    def refuse_first(_pod, _node):
        left[0] -= 1
        return 422 if left[0] == 0 else ""

    _, *scheduler = start(world, refuse_first)
    await pod_group(world, "g", 2)
    await pods(world, "surplus", 1, annotations={"scheduling.k8s.io/group-name": "g"})
    await world.settle(80)
    running = [pod for pod in await world.pods() if pod.spec.node_name]
    assert len(running) == 2
    await world.client.patch(NODE, running[0].spec.node_name, {"spec": {"unschedulable": True}})
    await world.client.delete(POD, running[0].metadata.name, "default", grace_period_seconds=0)
    await world.settle(PATIENCE_SECONDS + 60)
    (left_over,) = [pod for pod in await world.pods() if pod.spec.node_name]
    assert left_over.metadata.deletion_timestamp is None
    await stop(*scheduler)
