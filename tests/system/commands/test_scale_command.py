"""`muster scale` beside others who write the same job."""

from typing import Any

import msgspec
import pytest
from tests.system.jobsets.jobset_cluster import role
from tests.system.plane import World, virtual

from muster.actions.jobs.conflicts import ATTEMPTS
from muster.actions.jobs.scaling import scale
from muster.actions.server.session import Session
from muster.api.batch import JOB
from muster.api.jobset import JOB_SET, JobSet
from muster.api.status import ApiError
from muster.runtime.client import Client


class Hasty(Client):
    """A client before each of whose patches another user changes the job, so many times."""

    def __init__(self, client: Client, times: int) -> None:
        super().__init__(client.transport)
        self._client, self.left = client, times

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        if self.left:
            self.left -= 1
            await self._client.patch(JOB, "train", {"metadata": {"labels": {"seen": f"n{self.left}"}}}, "default")
        return await super().patch(*arguments, **options)


async def parallelism(world: World) -> int | None:
    return (await world.client.get(JOB, "train", "default")).spec.parallelism


@virtual
async def test_a_job_that_changes_meanwhile_is_read_again(world: World) -> None:
    await world.job("train", 4)
    await world.settle()
    before = await scale(Session(Hasty(world.client, ATTEMPTS - 1), "default"), "train", 2)
    assert before.workers == 4
    assert (await world.client.get(JOB, "train", "default")).metadata.labels["seen"] == "n0"
    assert await parallelism(world) == 2


@virtual
async def test_but_not_for_ever(world: World) -> None:
    await world.job("train", 4)
    await world.settle()
    with pytest.raises(ApiError, match="modified"):
        await scale(Session(Hasty(world.client, ATTEMPTS), "default"), "train", 2)
    assert await parallelism(world) == 4


@virtual
async def test_a_role_of_several_jobs_goes_to_nothing_and_comes_back(world: World) -> None:
    document = {"metadata": {"name": "js"}, "spec": {"replicatedJobs": [role(replicas=2, pods=4)]}}
    await world.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    await world.settle()
    for before, workers in ((8, 0), (0, 8)):
        assert (await scale(Session(world.client, "default"), "js", workers)).workers == before
        await world.settle()
        assert len(await world.pods()) == workers


class Unsettled(Hasty):
    """A client whose patches conflict until a moment, as while the write of another client is being stored."""

    def __init__(self, client: Client, world: World, seconds: float) -> None:
        super().__init__(client, times=1000)
        self._world, self._until = world, world.clock.monotonic() + seconds

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        if self._world.clock.monotonic() >= self._until:
            self.left = 0
        return await super().patch(*arguments, **options)


@virtual
async def test_a_write_that_takes_long_to_be_stored_is_waited_for(world: World) -> None:
    await world.job("train", 4)
    await world.settle()
    await scale(Session(Unsettled(world.client, world, seconds=1), "default"), "train", 6)
    assert await parallelism(world) == 6
