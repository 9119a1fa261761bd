"""Restarts in place, with a test that plays the agents in the pods."""

import pytest
from msgspec.structs import replace
from tests.system.jobsets.jobset_cluster import Cluster, role
from tests.system.plane import running

from muster.api.batch import JOB, Job
from muster.api.core import NAMESPACE, POD, Namespace
from muster.api.jobset import names
from muster.api.meta import ObjectMeta
from muster.controllers.engine import Part
from muster.runtime.clock import run_virtual

IN_PLACE = {"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed"}


class Agents(Cluster):
    """Words about agents."""

    async def started(self, *attempts):
        """The agents, in the order of their pods, have noted the starts of their containers."""
        pods = sorted(await self.pods(), key=lambda pod: pod.metadata.name)
        for pod, attempt in zip(pods, attempts, strict=True):
            patch = {"metadata": {"annotations": {names.IN_PLACE_RESTART_ATTEMPT: str(attempt)}}}
            await self.client.patch(POD, pod.metadata.name, patch, "default")
        await self.settle()

    async def attempts(self):
        """The one that is over, and the one that goes on."""
        status = (await self.seen()).status
        return status.previous_in_place_restart_attempt, status.current_in_place_restart_attempt


def agents(test):
    def run():
        async def body():
            async with running(parts=(Part.JOBSETS, Part.JOBS)) as plane:
                world = Agents(plane)
                await world.jobset(
                    role(pods=1, spec=IN_PLACE),
                    failurePolicy={"maxRestarts": 1, "restartStrategy": names.IN_PLACE_RESTART},
                )
                await test(world)

        run_virtual(body())

    return run


@agents
async def test_the_barrier_opens_and_closes(world):
    assert await world.attempts() == (None, None)
    await world.started(0, 0)
    assert await world.attempts() == (None, 0)
    uids = {pod.metadata.uid for pod in await world.pods()}
    await world.started(1, 0)
    assert await world.attempts() == (0, 0), "the other one is to exit"
    await world.started(1, 1)
    assert await world.attempts() == (0, 1)
    assert {pod.metadata.uid for pod in await world.pods()} == uids, "all in place"
    assert (await world.seen()).status.restarts == 0


@agents
async def test_what_pods_of_another_namespace_say_of_themselves_does_not_count(world):
    ours = (await world.jobs())["js-workers-0"]
    said = {names.IN_PLACE_RESTART_ATTEMPT: "7"}
    template = replace(ours.spec.template, metadata=ObjectMeta(labels=ours.metadata.labels, annotations=said))
    another = Job(metadata=ObjectMeta(name="js-workers-0"), spec=replace(ours.spec, selector=None, template=template))
    await world.client.create(NAMESPACE, Namespace(metadata=ObjectMeta(name="others")))
    await world.client.create(JOB, another, "others")
    await world.started(0, 0)
    assert len((await world.client.list(POD, "others")).items) == 1
    assert await world.attempts() == (None, 0)


@agents
async def test_too_many_restarts(world):
    await world.started(0, 0)
    await world.started(2, 0)
    assert await world.condition(names.FAILED) == (
        "True",
        "ReachedMaxRestarts",
        "jobset failed due to reaching max number of restarts",
    )
    assert all(job.metadata.deletion_timestamp for job in (await world.jobs()).values()), "all go"


@pytest.mark.parametrize("said", ["much", "-3", "1e3"])
def test_8_28_a_count_that_is_none_stops_nothing(said):
    @agents
    async def scenario(world):
        await world.started(0, said)
        assert await world.attempts() == (None, None)
        await world.started(0, 0)
        assert await world.attempts() == (None, 0)

    scenario()
