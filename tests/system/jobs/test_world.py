"""Elastic Jobs on a control plane in virtual time: their pods hear of every new size, at the price that was agreed."""

from typing import Any

import pytest
from tests.system.plane import World, virtual

from muster.api.batch import COMPLETION_INDEX, JOB, Job
from muster.api.core import POD, Pod
from muster.api.ours.elastic import ELASTIC_ANNOTATION, WORLD_ANNOTATION
from muster.jobs.job.world import FIRST_SIZE_ANNOTATION
from muster.runtime.client import Client

# Below its least size a Job is left alone: here nobody but the test resizes.
ELASTIC = {ELASTIC_ANNOTATION: "9:9"}


async def scale(world: World, size: int, **meta: Any) -> Job:
    patch = {"metadata": meta, "spec": {"completions": size, "parallelism": size}}
    return await world.client.patch(JOB, "train", patch, "default")


async def job_world(world: World) -> str | None:
    return (await world.client.get(JOB, "train", "default")).metadata.annotations.get(WORLD_ANNOTATION)


async def heard(world: World) -> dict[str, str | None]:
    """What the Job's pods say, by index."""
    pods = await world.pods("train")
    return {pod.metadata.annotations[COMPLETION_INDEX]: pod.metadata.annotations.get(WORLD_ANNOTATION) for pod in pods}


class Writes:
    """How often the Job and its pods were told of a world after they were made, as watches tell it."""

    def __init__(self, world: World) -> None:
        self.job = self.pods = 0
        world.plane.manager.informer(JOB).on_change(self._job_changed)
        world.plane.manager.informer(POD).on_change(self._pod_changed)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        self.job += _differ(old, new)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self.pods += _differ(old, new)


def _differ(old: Job | Pod | None, new: Job | Pod | None) -> bool:
    before, after = (obj and obj.metadata.annotations.get(WORLD_ANNOTATION) for obj in (old, new))
    return old is not None and new is not None and before != after


@virtual
async def test_every_size_is_told_to_the_job_and_to_the_pods_that_live_through_it(world: World) -> None:
    writes = Writes(world)
    await world.job("train", 4, annotations=ELASTIC)
    await world.settle()
    first = '{"size":4,"epoch":1}'
    assert await job_world(world) == first
    assert await heard(world) == dict.fromkeys("0123", first)
    assert (writes.job, writes.pods) == (1, 0), "pods have it from birth"
    uids = {pod.metadata.uid for pod in await world.pods("train")}

    await scale(world, 2)
    await world.settle()
    assert await heard(world) == dict.fromkeys("01", '{"size":2,"epoch":2}')
    assert (writes.job, writes.pods) == (2, 2)

    await scale(world, 6)
    await world.settle()
    assert await heard(world) == dict.fromkeys("012345", '{"size":6,"epoch":3}')
    assert await job_world(world) == '{"size":6,"epoch":3}'
    assert (writes.job, writes.pods) == (3, 4), "newcomers have it from birth"
    assert len(uids & {pod.metadata.uid for pod in await world.pods("train")}) == 2


@virtual
async def test_a_worker_starts_with_the_size_at_its_start(world: World) -> None:
    await world.job("train", 4, annotations=ELASTIC)
    await world.settle()
    await scale(world, 2)
    await world.settle()
    await world.node("n", cpu="8")
    await world.settle(60)
    await scale(world, 3)
    await world.settle(60)
    pods = await world.pods("train")
    first = {
        pod.metadata.annotations[COMPLETION_INDEX]: pod.metadata.annotations[FIRST_SIZE_ANNOTATION] for pod in pods
    }
    assert all(pod.spec.node_name for pod in pods)
    assert first == {"0": "2", "1": "2", "2": "3"}


@virtual
async def test_when_nothing_changes_nothing_is_written(world: World) -> None:
    await world.job("train", 4, annotations=ELASTIC)
    await world.settle()
    before = await revision(world.client)
    await world.settle(3600)
    assert await revision(world.client) == before


@virtual
async def test_a_job_that_is_not_elastic_is_left_alone(world: World) -> None:
    await world.job("train", 4)
    await world.settle()
    await scale(world, 2)
    await world.settle()
    assert await job_world(world) is None
    assert await heard(world) == dict.fromkeys("01", None)


@virtual
async def test_a_job_may_become_elastic_later(world: World) -> None:
    await world.job("train", 2)
    await world.settle()
    await world.client.patch(JOB, "train", {"metadata": {"annotations": ELASTIC}}, "default")
    await world.settle()
    assert await heard(world) == dict.fromkeys("01", '{"size":2,"epoch":1}')


@pytest.mark.parametrize("lost", [None, "nonsense", '{"size":4,"epoch":1}'])
def test_an_annotation_that_was_lost_comes_back_newer(lost: str | None) -> None:
    @virtual
    async def body(world: World) -> None:
        await world.job("train", 4, annotations=ELASTIC)
        await world.settle()
        await scale(world, 2)
        await world.settle()
        await scale(world, 3, annotations={WORLD_ANNOTATION: lost})
        await world.settle()
        assert await heard(world) == dict.fromkeys("012", '{"size":3,"epoch":3}')
        await world.client.patch(JOB, "train", {"metadata": {"annotations": {WORLD_ANNOTATION: lost}}}, "default")
        await world.settle()
        assert await job_world(world) == '{"size":3,"epoch":3}', "what pods have heard still holds"

    body()


@virtual
async def test_sizes_in_quick_succession_end_in_the_last(world: World) -> None:
    await world.job("train", 4, annotations=ELASTIC)
    for size in (2, 6, 3, 8, 5):
        await scale(world, size)
    await world.settle(60)
    said = await job_world(world)
    assert said is not None
    assert said.startswith('{"size":5,')
    assert await heard(world) == dict.fromkeys("01234", said)


@virtual
async def test_ended_pods_and_jobs_hear_nothing_more(world: World) -> None:
    await world.node("n", cpu="8")
    await world.job("train", 3, annotations=ELASTIC)
    await world.settle()
    pods = await world.pods("train")
    await world.finish(pods[0])
    await world.settle()
    await scale(world, 4)
    await world.settle()
    ended = await world.client.get(POD, pods[0].metadata.name, "default")
    assert ended.metadata.annotations[WORLD_ANNOTATION] == '{"size":3,"epoch":1}'
    for pod in await world.pods("train"):
        await world.finish(pod)
    await world.settle()
    told = await job_world(world)
    await world.client.patch(JOB, "train", {"metadata": {"annotations": {ELASTIC_ANNOTATION: "9:10"}}}, "default")
    await world.settle()
    assert await job_world(world) == told == '{"size":4,"epoch":2}'


async def revision(client: Client) -> str:
    return (await client.list(JOB, "default")).metadata.resource_version
