"""`muster alter` of jobs that wait and that run, in virtual time; pods are driven by hand."""

from typing import Any

import msgspec
import pytest
from tests.system.plane import World, virtual

from muster.actions.errors import UserError
from muster.actions.jobs.altering import Alteration, alter
from muster.actions.jobs.cancelling import cancel
from muster.actions.jobs.holding import set_active
from muster.actions.server.session import Session
from muster.actions.submission.gang import Gang
from muster.actions.submission.submitting import submit
from muster.actions.submission.sweep import Sweep
from muster.api.batch import JOB
from muster.api.core import NODE
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD, WORKLOAD_PRIORITY_CLASS, WorkloadPriorityClass
from muster.cluster.defaultqueue import create_default_queue

GANGS = [Gang("train", ["x"], workers=2, cpus="1"), Gang("train", ["x"], workers=2, cpus="1", plain=True)]
HIGH, LOW = Alteration(priority="high"), Alteration(priority="low")


async def begin(world: World, gang: Gang) -> None:
    """Submit the gang to a cluster with two queues and two priorities."""
    await world.node("n", cpu="4")
    await create_default_queue(world.client, (await world.client.list(NODE)).items)
    [queue] = (await world.client.list(LOCAL_QUEUE.seen_as(dict), "default")).items
    other = {"metadata": {"name": "other"}, "spec": {"clusterQueue": queue["spec"]["clusterQueue"]}}
    await world.client.create(LOCAL_QUEUE.seen_as(dict), other, "default")
    for name, value in (("high", 100), ("low", 1)):
        made = msgspec.convert({"metadata": {"name": name}, "value": value}, WorkloadPriorityClass)
        await world.client.create(WORKLOAD_PRIORITY_CLASS, made)
    await submit(world.client, gang, pytest.fail)
    await world.settle(10)


async def change(world: World, alteration: Alteration) -> list[str]:
    sentences = await alter(Session(world.client, "default"), "train", alteration, world.clock.now())
    await world.settle(10)
    return sentences


async def hold(world: World, *, active: bool) -> None:
    await set_active(Session(world.client, "default"), "train", active=active)
    await world.settle(10)
    for pod in await world.pods():
        if pod.metadata.deletion_timestamp is not None:
            await world.finish(pod)
    await world.settle(10)


async def look_at_queue(world: World) -> tuple[Any, Any]:
    [workload] = (await world.client.list(WORKLOAD.seen_as(dict), "default")).items
    return workload["spec"]["queueName"], workload["spec"]["priority"]


def of_both(story: Any) -> Any:
    """Try a story with a JobSet and with a Job."""

    def run(gang: Gang) -> None:
        @virtual
        async def play(world: World) -> None:
            await begin(world, gang)
            await story(world)

        play()

    return pytest.mark.parametrize("gang", GANGS, ids=["JobSet", "Job"])(run)


async def _deadlines(world: World) -> set[int | None]:
    return {job.spec.active_deadline_seconds for job in (await world.client.list(JOB, "default")).items}


async def _alter_time(world: World) -> None:
    assert await change(world, Alteration(time_limit=7200)) == ["train: time limit 2h (was no time limit)"]
    assert await _deadlines(world) == {7200}
    assert await change(world, Alteration(time_limit=180)) == ["train: time limit 3m (was 2h)"]
    await world.elapse(120)
    assert len(await world.pods()) == 2
    with pytest.raises(UserError, match=r"train has run for 150s, so that a limit of 1m ends it at once; --force if"):
        await change(world, Alteration(time_limit=60))
    assert await _deadlines(world) == {180}
    await world.elapse(31)
    assert all(pod.metadata.deletion_timestamp for pod in await world.pods())


test_the_time_limit_of_a_job_that_runs = of_both(_alter_time)


async def _alter_while_it_waits(world: World) -> None:
    first = r"let it wait first: muster hold train, alter it, muster release train"
    with pytest.raises(UserError, match=rf"train runs on quota of queue default, .*; {first}"):
        await change(world, Alteration(queue="other"))
    with pytest.raises(UserError, match=rf"train runs, and was submitted without a WorkloadPriorityClass; {first}"):
        await change(world, HIGH)
    await hold(world, active=False)
    both = Alteration(queue="other", priority="high", time_limit=60)
    assert await change(world, both) == [
        "train: time limit 1m (was no time limit)",
        "train: queue other (was default)",
        "train: priority high (was none)",
    ]
    await hold(world, active=True)
    assert await look_at_queue(world) == ("other", 100)
    assert await _deadlines(world) == {60}
    assert await change(world, LOW) == ["train: priority low (was high)"]
    assert await look_at_queue(world) == ("other", 1)


test_queue_and_priority_change_while_a_job_waits = of_both(_alter_while_it_waits)


@virtual
async def test_nothing_changes_if_a_part_is_refused(world: World) -> None:
    await begin(world, GANGS[0])
    with pytest.raises(UserError, match="runs on quota"):
        await change(world, Alteration(time_limit=60, queue="other"))
    with pytest.raises(UserError, match="no queue nowhere in namespace default; there is: default, other"):
        await change(world, Alteration(time_limit=60, queue="nowhere"))
    assert await _deadlines(world) == {None}


@virtual
async def test_what_is_fixed_is_refused(world: World) -> None:
    await begin(world, Gang("train", ["x"], sweep=Sweep.parse("0-3", [])))
    with pytest.raises(UserError, match="train is a sweep: the time limit of a trial is part of its pod"):
        await change(world, Alteration(time_limit=60))
    with pytest.raises(UserError, match="system-cluster-critical is a PriorityClass, which is part of the pods"):
        await change(world, Alteration(priority="system-cluster-critical"))
    await cancel(world.client, "train", "default")
    with pytest.raises(UserError, match="train has been cancelled already"):
        await change(world, Alteration(queue="other"))


@virtual
async def test_the_signal_before_the_limit_stays_where_it_was(world: World) -> None:
    from muster.actions.submission.gang import SoftSignal

    await begin(world, Gang("train", ["x"], cpus="1", time_limit=3600, soft_signal=SoftSignal("USR1", 60)))
    [limit, signal] = await change(world, Alteration(time_limit=7200))
    assert limit == "train: time limit 2h (was 1h)"
    assert signal.startswith("train: its --signal comes when it would have come before")


@virtual
async def test_a_job_of_no_queue_has_no_priority(world: World) -> None:
    await world.job("train", 1)
    for name in ("high", "low"):
        made = msgspec.convert({"metadata": {"name": name}, "value": 1}, WorkloadPriorityClass)
        await world.client.create(WORKLOAD_PRIORITY_CLASS, made)
    with pytest.raises(UserError, match="train waits in no queue, where its priority would count"):
        await change(world, HIGH)


@virtual
async def test_a_cron_job_is_told_of(world: World) -> None:
    from muster.actions.submission.submitting import submit_cron_job

    await submit_cron_job(world.client, Gang("train", ["x"], schedule="0 3 * * *"))
    with pytest.raises(UserError, match="train is a CronJob, which muster alter does not change: kubectl edit cronjob"):
        await change(world, Alteration(time_limit=60))
