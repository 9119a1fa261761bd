"""What a gang wants that runs: what it lost, to grow, and its next wave. Each waits its turn, and for no other."""

import pytest
from tests.system.gangs.test_gang_order import ended, lasts, started, why
from tests.system.gangs.test_gang_preemption import bound, bury, classes, going, job, template
from tests.system.integrations import test_queued_pods
from tests.system.integrations.queued_jobs import story
from tests.system.integrations.test_queued_jobs_elastic import elastic, gated, scale
from tests.system.plane import virtual
from tests.system.scheduler.test_binding import pod_group, pods

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.core import NODE, POD
from muster.api.ours.interruptions import PREEMPTED_ANNOTATION
from muster.api.pods import is_active
from muster.controllers.gangs import read_recorded_size
from muster.gang.order.reservation import MOST_OVERTAKINGS
from muster.insight.reader.jobs.job import investigate
from muster.insight.why import describe_levels


async def placed(world, name):
    """The indexes of a job's pods that have a node and have not ended."""
    pods = await world.pods(name)
    return sorted(
        int(pod.metadata.annotations[COMPLETION_INDEX]) for pod in pods if pod.spec.node_name and is_active(pod)
    )


async def lose(world, name, *indexes, phase="Failed"):
    """Play the node: these members have ended."""
    for pod in await world.pods(name):
        if int(pod.metadata.annotations[COMPLETION_INDEX]) in indexes and is_active(pod):
            await world.finish(pod, phase)


async def resize(world, name, size):
    await world.client.patch(JOB, name, {"spec": {"parallelism": size, "completions": size}}, "default")


# Completeness gates the first start alone.


@virtual
async def test_trials_of_a_sweep_do_not_wait_for_one_in_back_off(world):
    await world.node("a", cpu="4")
    await world.job("sweep", 4, completions=40, backoffLimitPerIndex=3)
    await world.settle(1)
    assert await placed(world, "sweep") == [0, 1, 2, 3]
    await lose(world, "sweep", 0)
    await lose(world, "sweep", 1, 2, 3, phase="Succeeded")
    await world.settle(3)
    assert await placed(world, "sweep") == [4, 5, 6]
    await world.elapse(10)
    assert await placed(world, "sweep") == [0, 4, 5, 6], "it is back after its back-off"


@virtual
async def test_a_sweep_starts_its_first_wave_whole(world):
    await world.node("a", cpu="3")
    await world.job("sweep", 4, completions=40)
    await world.settle(1)
    assert await placed(world, "sweep") == []


@pytest.mark.parametrize(("workers", "lost"), [(2, 1), (2, 2), (1, 1)])
def test_an_elastic_job_whose_growth_waits_for_quota_gets_back_what_it_lost(workers, lost):
    @story
    async def scenario(q):
        await q.queue(cpu=3)
        await elastic(q, workers=workers, backoffLimit=10)
        await scale(q, 4)
        before = await q.running(), await gated(q)
        assert before == (list(range(workers)), [str(number) for number in range(workers, 4)])
        await lose(q.world, "j", *range(lost))
        await q.world.elapse(30)
        assert (await q.running(), await gated(q)) == before

    scenario()


@virtual
async def test_a_growth_that_finds_no_room_does_not_hold_up_a_replacement(world):
    await world.node("a", cpu="4")
    await world.job("j", 3, backoffLimit=10)
    await world.settle(1)
    await resize(world, "j", 6)
    await world.settle(1)
    assert await placed(world, "j") == [0, 1, 2], "it grows by all or nothing"
    await lose(world, "j", 1)
    await world.elapse(30)
    assert await placed(world, "j") == [0, 1, 2]
    await world.node("b", cpu="2")
    await world.settle(1)
    assert await placed(world, "j") == [0, 1, 2, 3, 4, 5]


@virtual
async def test_a_member_that_came_with_a_growth_is_a_member_like_the_others(world):
    await world.node("a", cpu="4")
    await world.job("j", 2, backoffLimit=10)
    await world.settle(1)
    await resize(world, "j", 4)
    await world.settle(1)
    assert read_recorded_size((await world.client.get(JOB, "j", "default")).metadata) == 4
    await resize(world, "j", 6)
    await lose(world, "j", 3)
    await world.elapse(30)
    assert await placed(world, "j") == [0, 1, 2, 3]


@virtual
async def test_a_group_of_pods_gets_back_each_member_that_it_lost(world):
    await test_queued_pods.a_team(world)
    await test_queued_pods.group_of(world, "g", 4)
    await world.settle()
    for name in ("g-0", "g-1", "g-2", "g-3"):
        await test_queued_pods.play(world, name, "Running")
    for name in ("g-0", "g-1"):
        await test_queued_pods.play(world, name, "Failed")
    await test_queued_pods.pod(world, "again", group="g", size=4)
    await world.settle()
    assert (await world.client.get(POD, "again", "default")).spec.node_name == "n"


# Nothing jumps the queue by joining.


@virtual
async def test_a_growth_takes_no_nodes_that_are_kept_for_the_first_that_waits(world):
    await world.node("a", cpu="4")
    await world.node("b", cpu="4")
    await world.job("running", 4, annotations=lasts(100))
    await world.job("grows", 2)
    await world.settle(1)
    await started(world, "running")
    await world.job("head", 6)
    await world.settle(1)
    await resize(world, "grows", 4)
    await world.settle(2)
    assert await placed(world, "grows") == [0, 1]
    assert (await why(world, "grows")).startswith("The nodes are kept for default/head, which goes first")
    await ended(world, "running")
    await world.settle(1)
    assert (await bound(world, "head"), await placed(world, "grows")) == (6, [0, 1])
    await ended(world, "head")
    await world.settle(1)
    assert await placed(world, "grows") == [0, 1, 2, 3]


@virtual
async def test_a_gang_that_shrank_grows_again_like_any_other(world):
    await world.node("a", cpu="8")
    await world.job("running", 4, annotations=lasts(100))
    await world.job("grows", 4)
    await world.settle(1)
    await started(world, "running")
    await resize(world, "grows", 2)
    await world.settle(1)
    await bury(world)
    assert read_recorded_size((await world.client.get(JOB, "grows", "default")).metadata) == 2
    await world.job("head", 6)
    await world.settle(1)
    await resize(world, "grows", 4)
    await world.settle(2)
    assert await placed(world, "grows") == [0, 1]
    await ended(world, "running")
    await world.settle(1)
    assert (await bound(world, "head"), await placed(world, "grows")) == (6, [0, 1])


@virtual
async def test_the_next_waves_of_a_sweep_pass_the_first_that_waits_no_oftener_than_others(world):
    await classes(world)
    await world.node("a", cpu="16")
    await world.job("sweep", 8, completions=400)
    await world.settle(1)
    await world.job("head", 16, template=template("polite"))
    await world.settle(1)
    for _ in range(200):
        running = [pod for pod in await world.pods("sweep") if pod.spec.node_name and is_active(pod)]
        if not running:
            break
        await world.finish(running[0])
        await world.settle(0.2)
    succeeded = sum(pod.status.phase == "Succeeded" for pod in await world.pods("sweep"))
    assert (await bound(world, "head"), succeeded) == (16, 8 + MOST_OVERTAKINGS)


@virtual
async def test_what_victims_left_is_not_for_the_repair_of_another_gang(world):
    await classes(world)
    await world.node("a", cpu="2")
    await job(world, "victim", 2, "low")
    await world.node("b", cpu="2")
    await job(world, "broken", 2, "high", backoffLimit=10)
    assert await bound(world, "broken") == 2
    await job(world, "urgent", 2, "high")
    assert await going(world, "victim") == 2
    await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})
    await lose(world, "broken", 1)
    await world.elapse(20)
    assert await placed(world, "broken") == [0]
    await bury(world)
    await world.settle(1)
    assert (await bound(world, "urgent"), await placed(world, "broken")) == (2, [0])


@virtual
async def test_a_gang_that_is_being_preempted_takes_no_member_back(world):
    """Its pods go one after the other, as their nodes get round to it; until then it is no gang that runs."""
    await classes(world)
    await world.node("a", cpu="4")
    await job(world, "victim", 4, "low", backoffLimit=10)
    await job(world, "urgent", 3, "high")
    assert await going(world, "victim") == 4
    [first, *_] = [pod for pod in await world.pods("victim") if pod.metadata.deletion_timestamp]
    await world.node("b", cpu="1")
    await world.client.delete(POD, first.metadata.name, "default", grace_period_seconds=0)
    await world.elapse(20)
    assert await going(world, "victim") == 3
    assert not [pod for pod in await world.pods("victim") if pod.spec.node_name == "b"]


async def why_placed(world, name):
    """What `muster why` says of a job's nodes."""
    facts = await investigate(world.client, "default", name, world.clock.now())
    assert facts is not None
    [level] = [level for level in describe_levels(facts) if level.name == "placement"]
    return " ".join((level.text, *level.lines))


@virtual
async def test_why_says_which_demand_waits(world):
    await world.node("a", cpu="4")
    await world.job("j", 2, backoffLimit=10)
    await world.settle(1)
    await resize(world, "j", 6)
    await world.settle(1)
    told = await why_placed(world, "j")
    assert told.startswith("4 of 6 pods have no node")
    assert "2 of 4 identical pods fit now, and the 4 by which the gang grows start together." in told
    assert "The gang runs, and waits to grow by 4 pods." in told
    await world.client.patch(NODE, "a", {"spec": {"unschedulable": True}})
    await lose(world, "j", 1)
    await world.elapse(20)
    assert "The gang runs without 1 pod that it lost" in await why_placed(world, "j")
    await world.job("sweep", 2, completions=9)
    await world.node("b", cpu="2")
    await world.settle(1)
    await world.client.patch(NODE, "b", {"spec": {"unschedulable": True}})
    await lose(world, "sweep", 0, 1, phase="Succeeded")
    await world.settle(2)
    assert "The job runs, and waits to start pods of its next wave." in await why_placed(world, "sweep")


@virtual
async def test_a_gang_that_is_to_go_takes_no_members_back(world):
    """Its pods that are marked still run: a member that came back would be half a gang once they have gone."""
    for name in ("a", "b"):
        await world.node(name, cpu="1")
    await pod_group(world, "g", 2, scheduler="muster")
    await world.settle()
    first, second = await world.pods("g")
    assert first.spec.node_name
    assert second.spec.node_name
    marked = {"metadata": {"annotations": {PREEMPTED_ANNOTATION: "Preempted by big"}}}
    await world.client.patch(POD, second.metadata.name, marked, "default")
    await world.client.delete(POD, first.metadata.name, "default", grace_period_seconds=0)
    await pods(world, "again", 1, scheduler="muster", annotations={"scheduling.k8s.io/group-name": "g"})
    await world.settle(5)
    [again] = await world.pods("again")
    assert again.spec.node_name == "", "the gang starts whole or not at all"
    await world.client.patch(
        POD, second.metadata.name, {"metadata": {"annotations": {PREEMPTED_ANNOTATION: None}}}, "default"
    )
    await world.settle(5)
    [again] = await world.pods("again")
    assert again.spec.node_name == first.spec.node_name, "the gang stays, and is repaired"
