"""A job that takes the name of one that has ended, in virtual time; pods are driven by hand."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.system.plane import World, virtual

from muster.actions.errors import UserError
from muster.actions.submission.gang import Gang
from muster.actions.submission.replacing import remove_ended
from muster.actions.submission.submitting import submit
from muster.api.batch import JOB
from muster.api.core import SECRET, SERVICE
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.insight.reader.jobs.records import record_named

GANGS = [
    Gang("train", ["x"], workers=2, cpus="1"),
    Gang("train", ["x"], workers=2, cpus="1", plain=True),
    Gang("train", ["x"], workers=2, cpus="1", mpi="muster"),
]


async def begin(world: World, gang: Gang) -> str:
    """Submit the gang; return the UID of the job."""
    job = await submit(world.client, gang, pytest.fail)
    await world.settle(10)
    return job.metadata.uid


def replaces(gang: Gang):
    @virtual
    async def story(world: World) -> None:
        await world.node("n")
        first = await begin(world, gang)
        for pod in await world.pods():
            await world.finish(pod)
        await world.settle(10)
        await remove_ended(world.client, gang, world.clock)
        second = await begin(world, gang)
        assert second != first
        assert {pod.status.phase for pod in await world.pods()} == {"Pending"}
        await world.elapse(60)
        assert await world.client.find(SERVICE.seen_as(Object), "train", "default") is not None
        secrets = (await world.client.list(SECRET.seen_as(Object), "default")).items
        owners = [owner.uid for secret in secrets for owner in secret.metadata.owner_references]
        assert owners == ([second] if gang.mpi else [])

    return story


@pytest.mark.parametrize("gang", GANGS, ids=["JobSet", "Job", "MPI"])
def test_an_ended_job_goes_with_all_that_it_had(gang: Gang) -> None:
    replaces(gang)()


@virtual
async def test_a_job_that_goes_on_stays(world: World) -> None:
    await world.node("n")
    first = await begin(world, GANGS[1])
    with pytest.raises(UserError, match="--replace: train has not ended; end it first with: muster cancel train"):
        await remove_ended(world.client, GANGS[1], world.clock)
    assert (await world.client.get(JOB, "train", "default")).metadata.uid == first


@pytest.mark.parametrize("gang", GANGS, ids=["JobSet", "Job", "MPI"])
def test_a_job_stays_if_the_server_would_refuse_the_new_one(gang: Gang) -> None:
    @virtual
    async def story(world: World) -> None:
        await world.node("n")
        first = await begin(world, gang)
        for pod in await world.pods():
            await world.finish(pod)
        await world.settle(10)
        with pytest.raises(ApiError) as refused:
            await remove_ended(world.client, replace(gang, labels={"a b": "c"}), world.clock)
        assert refused.value.code == 422
        assert (await record_named(world.client, "train", "default")).metadata.uid == first

    story()


@virtual
async def test_a_name_that_no_job_has_is_free(world: World) -> None:
    await remove_ended(world.client, GANGS[0], world.clock)


@virtual
async def test_a_job_that_something_keeps_is_told_of(world: World) -> None:
    """Its finalizer is another program's."""
    await world.node("n")
    await begin(world, GANGS[1])
    for pod in await world.pods():
        await world.finish(pod)
    await world.settle()
    await world.client.patch(JOB, "train", {"metadata": {"finalizers": ["example.com/keep"]}}, "default")
    with pytest.raises(UserError, match="--replace: Job train is still being deleted; try again later"):
        async with asyncio.timeout(60):
            await remove_ended(world.client, GANGS[1], world.clock)
