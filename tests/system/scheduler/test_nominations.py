"""What is kept for a gang for which others were to go, or that is at the head: until when, and what is remembered."""

import asyncio

from tests.system.gangs.test_gang_lines import Failing, gang, nodes_of, start
from tests.system.gangs.test_gang_preemption import bury, classes, going, job, template
from tests.system.plane import virtual

from muster.api.batch import JOB
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.controllers.scheduler.roster import LATE_SECONDS
from muster.gang.order.reservation import MOST_OVERTAKINGS


@virtual
async def test_who_does_not_go_in_time_is_not_counted_upon_and_others_may_have_the_rest(world):
    """The node of the victims answers no more: their pods stay there for ever."""
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "victim", 3, "low")
    await world.job("urgent", 4, template=template("high"))
    await world.settle(1)
    assert await going(world, "victim") == 3
    low = template("low")
    low["spec"]["terminationGracePeriodSeconds"] = 0
    await world.job("beside", 1, template=low)
    await world.settle(30 + LATE_SECONDS - 5)
    assert await nodes_of(world, "beside") == 0
    assert {pod.status.nominated_node_name for pod in await world.pods("urgent")} == {"a"}
    await world.settle(20)
    assert await nodes_of(world, "beside") == 1
    assert {pod.status.nominated_node_name for pod in await world.pods("urgent")} == {""}


async def marked(world, name):
    return sum(PREEMPTED_ANNOTATION in pod.metadata.annotations for pod in await world.pods(name))


@virtual
async def test_who_was_to_go_stays_once_the_gang_for_which_it_was_has_gone(world):
    """A budget refuses what it allowed when it was looked at."""
    await classes(world)
    await world.node("a", cpu="4")
    manager, run = start(world, Failing(world.client.transport, "/eviction", 429, 10**9))
    task = asyncio.create_task(run)
    await gang(world, "victim", 4, "low")
    await gang(world, "urgent", 2, "high")
    assert (await marked(world, "victim"), await going(world, "victim")) == (4, 0)
    await world.client.delete(JOB, "urgent", "default")
    await world.settle(1)
    await bury(world)
    await world.settle(70)
    assert (await marked(world, "victim"), await going(world, "victim")) == (0, 0)
    assert all("batch.kubernetes.io/job-tracking" in pod.metadata.finalizers for pod in await world.pods("victim"))
    await manager.stop()
    await task


@virtual
async def test_half_of_which_is_gone_goes_though_the_gang_for_which_it_was_has_gone(world):
    await classes(world)
    await world.node("a", cpu="4")
    transport = Failing(world.client.transport, "", 429, 0)
    manager, run = start(world, transport)
    task = asyncio.create_task(run)
    await gang(world, "victim", 4, "low")
    transport.ending, transport.left = f"/{(await world.pods('victim'))[0].metadata.name}/eviction", 10**9
    await gang(world, "urgent", 2, "high")
    assert await going(world, "victim") == 3
    await world.client.delete(JOB, "urgent", "default")
    await world.settle(5)
    transport.left = 0
    await world.settle(70)
    assert await going(world, "victim") == 4
    await manager.stop()
    await task


@virtual
async def test_how_often_a_head_was_overtaken_is_remembered_while_another_is_the_head(world):
    await classes(world)
    await world.node("a", cpu="4")
    await world.job("running", 1)
    await world.settle(1)
    await world.job("head", 4)
    await world.settle(1)
    passed = 0
    for number in range(MOST_OVERTAKINGS + 3):
        if number == MOST_OVERTAKINGS // 2:
            await world.job("higher", 4, template=template("polite"))
            await world.settle(1)
            await world.client.delete(JOB, "higher", "default")
            await world.settle(1)
        await world.job(f"j{number}", 1)
        await world.settle(0.5)
        pods = await world.pods(f"j{number}")
        passed += sum(bool(pod.spec.node_name) for pod in pods)
        for pod in pods:
            if pod.spec.node_name:
                await world.finish(pod)
    assert passed == MOST_OVERTAKINGS
