"""The Job controller killed after every single write it makes, and its watches made late: the end is the same."""

import asyncio
from typing import Any

import pytest
from tests.system.jobs.job_cluster import JobCluster, conditions, is_over

from muster.api.batch import Job
from muster.api.core import Pod
from muster.jobs.job.census import completion_index
from muster.runtime.clock import run_virtual
from muster.runtime.transport import Request, Response, TransportError

pytestmark = pytest.mark.slow

INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
COUNTED = {"completions": 4, "parallelism": 2}
PER_INDEX = INDEXED | {"backoffLimitPerIndex": 1}
QUEUE = {"parallelism": 4}


async def live(cluster: JobCluster, *, fail: bool, scale: bool) -> None:
    """Nodes, users and time go on, whatever the controller does."""
    await cluster.bind_all()
    await cluster.rest(1)
    if fail and (pods := await cluster.active()):
        await cluster.set_phase(pods[0], "Failed")
    await cluster.rest(15)
    if scale:
        for size in (2, 4):
            await cluster.scale(size)
            await cluster.rest(1)
            await cluster.end_deleted()
            await cluster.rest(1)


async def end(cluster: JobCluster) -> tuple[Job, list[Pod]]:
    for _ in range(12):
        await cluster.bind_all()
        await cluster.rest(1)
        for pod in await cluster.active():
            await cluster.set_phase(pod, "Succeeded")
        await cluster.rest(30)
        await cluster.end_deleted()
        if is_over(await cluster.job()):
            break
    await cluster.rest(30)
    return await cluster.job(), await cluster.pods()


def check(job: Job, pods: list[Pod], *, failed: int, names: str) -> None:
    assert conditions(job)[-1] == "Complete", names
    assert (job.status.active, job.status.terminating, job.status.succeeded) == (0, 0, 4), names
    assert job.status.failed == failed, names
    assert not any(pod.metadata.finalizers for pod in pods), names
    assert not any(pod.status.phase not in ("Succeeded", "Failed") for pod in pods), names
    if job.spec.completion_mode == "Indexed":
        assert job.status.completed_indexes == "0-3"
        done = sorted(completion_index(pod) for pod in pods if pod.status.phase == "Succeeded")
        assert done == [0, 1, 2, 3], names
    else:
        assert len([pod for pod in pods if pod.status.phase == "Succeeded"]) == 4, names


@pytest.mark.parametrize(
    ("spec", "fail", "scale"),
    [
        (INDEXED, False, False),
        (INDEXED, True, False),
        (INDEXED, False, True),
        (COUNTED, True, False),
        (PER_INDEX, True, False),
    ],
    ids=["indexed", "indexed and failing", "elastic", "counted and failing", "per index"],
)
def test_killed_after_each_write(spec: dict[str, object], fail: bool, scale: bool, long: bool) -> None:
    """Nothing is lost and nothing done twice, wherever it dies: 0 writes, 1 write, 2 writes, ..."""

    async def scenario(writes: int) -> bool:
        async with JobCluster() as cluster:
            cluster.wire.writes_left = writes
            await cluster.create(spec)
            await live(cluster, fail=fail, scale=scale)
            died = cluster.wire.writes_left == 0
            await cluster.kill_controller()
            await cluster.start_controller()
            await cluster.rest(30)
            if not died:
                return False
            if fail and not any(pod.status.phase == "Failed" for pod in await cluster.pods()):
                await live(cluster, fail=fail, scale=False)
            job, pods = await end(cluster)
            check(job, pods, failed=int(fail), names=f"after {writes} writes")
            return True

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 5


@pytest.mark.parametrize("lag", [0.01, 0.3, 4.0])
@pytest.mark.parametrize("spec", [INDEXED, COUNTED, PER_INDEX], ids=["indexed", "counted", "per index"])
def test_late_watches(spec: dict[str, object], lag: float) -> None:
    async def scenario() -> None:
        async with JobCluster() as cluster:
            cluster.wire.lags = {"jobs": lag, "pods": lag}
            await cluster.create(spec)
            await cluster.rest(30)
            await live(cluster, fail=True, scale=False)
            job, pods = await end(cluster)
            check(job, pods, failed=1, names=f"lag {lag}")

    run_virtual(scenario())


@pytest.mark.parametrize("lag", [0.0, 1.0])
@pytest.mark.parametrize("spec", [INDEXED, COUNTED | {"parallelism": 4}, PER_INDEX, QUEUE], ids=str)
def test_lost_answers(spec: dict[str, object], lag: float) -> None:
    """A write that arrives but looks as if it had not: nothing is made twice, however late the watches are."""

    async def scenario(number: int) -> bool:
        async with JobCluster() as cluster:
            cluster.wire.lags = {"pods": lag}
            cluster.wire.lost_answers = {number}
            await cluster.create(spec)
            await cluster.rest(30)
            assert len(await cluster.pods()) == 4, f"answer {number}"
            assert cluster.wire.count("POST") == 4, f"answer {number}"
            job, pods = await end(cluster)
            assert len(pods) == 4, f"answer {number}"
            check(job, pods, failed=0, names=f"answer {number}")
            return number < len(cluster.wire.writes)

    number = 0
    while run_virtual(scenario(number)):
        number += 1
    assert number >= 8  # four pods, their four finalizers, and statuses


@pytest.mark.parametrize("spec", [INDEXED, COUNTED, PER_INDEX], ids=str)
def test_a_write_that_arrives_after_it_was_given_up(spec: dict[str, object]) -> None:
    """It is made again meanwhile; a pod that comes too many is removed, and never counts."""

    async def scenario(number: int) -> bool:
        async with JobCluster() as cluster, asyncio.TaskGroup() as group:
            wire, inner = cluster.wire, cluster.wire.request

            async def arrive_late(request: Request) -> None:
                await cluster.rest(3)
                await inner(request)

            async def send(request: Request) -> Response:
                if request.method != "GET" and len(wire.writes) == number:
                    wire.writes.append(request)
                    group.create_task(arrive_late(request))
                    raise TransportError("nobody answers")
                return await inner(request)

            wire.request = send  # type: ignore[method-assign]
            await cluster.create(spec)
            await cluster.rest(1)
            await cluster.bind_all()
            await cluster.rest(30)
            running = await cluster.active_indexes()
            assert len(running) == len(await cluster.pods()) == spec["parallelism"], f"write {number}"
            job, pods = await end(cluster)
            check(job, pods, failed=0, names=f"write {number}")
            return number < len(wire.writes)

    number = 0
    while run_virtual(scenario(number)):
        number += 1
    assert number >= 8


@pytest.mark.parametrize("lag", [0.0, 1.0])
@pytest.mark.parametrize("spec", [INDEXED, COUNTED], ids=str)
def test_a_lost_answer_shortens_no_back_off(spec: dict[str, object], lag: float) -> None:
    async def scenario(number: int) -> bool:
        async with JobCluster() as cluster:
            await cluster.create(spec)
            await cluster.bind_all()
            await cluster.rest(5)
            cluster.wire.lags = {"pods": lag, "jobs": lag}
            before = len(cluster.wire.writes)
            cluster.wire.lost_answers = {before + number}
            made = cluster.wire.count("POST")
            await cluster.set_phase((await cluster.active())[0], "Failed")
            await cluster.rest(9)
            assert cluster.wire.count("POST") == made, f"answer {number}: made anew before 10 s were over"
            await cluster.rest(20)
            assert cluster.wire.count("POST") == made + 1, f"answer {number}"
            assert (await cluster.job()).status.failed == 1
            return before + number < len(cluster.wire.writes)

    number = 0
    while run_virtual(scenario(number)):
        number += 1
    assert number >= 3


@pytest.mark.parametrize(
    "change", [{"completions": 2, "parallelism": 2}, {"parallelism": 2}, {"suspend": True}], ids=str
)
@pytest.mark.parametrize("again", [False, True], ids=["", "and taken back"])
def test_removals_that_are_cut_off(change: dict[str, Any], again: bool) -> None:
    """Killed, or an answer lost, at every write of a removal; then it goes on, or is no longer wanted."""

    async def scenario(number: int, *, killed: bool) -> bool:
        async with JobCluster() as cluster:
            await cluster.create(INDEXED | {"backoffLimit": 0})
            await cluster.bind_all()
            await cluster.rest(5)
            before = len(cluster.wire.writes)
            if killed:
                cluster.wire.writes_left = number
            else:
                cluster.wire.lost_answers = {before + number}
            await cluster.set_spec(**change)
            await cluster.rest(1)
            reached = before + number < len(cluster.wire.writes) or cluster.wire.writes_left == 0
            if again:
                await cluster.set_spec(completions=4, parallelism=4, suspend=False)
            if killed:
                await cluster.kill_controller()
                await cluster.start_controller()
            await cluster.rest(20)
            await cluster.end_deleted()
            await cluster.rest(20)
            running = await cluster.active_indexes()
            job = await cluster.job()
            names = f"{'killed' if killed else 'answer'} {number}"
            assert job.status.failed == 0, names
            assert (job.status.active, job.status.terminating) == (len(running), 0), names
            if again:
                assert running == [0, 1, 2, 3], names
            elif "suspend" in change:
                assert running == [], names
            else:
                assert len(running) == len(set(running)) == 2, names
            # Every pod that is left is counted when it ends.
            assert all(pod.metadata.finalizers for pod in await cluster.active()), names
            await cluster.set_spec(parallelism=(await cluster.job()).spec.completions, suspend=False)
            await cluster.rest(5)
            job, pods = await end(cluster)
            assert (conditions(job)[-1], job.status.failed) == ("Complete", 0), names
            assert job.status.succeeded == job.spec.completions, names
            assert not any(pod.metadata.finalizers for pod in pods), names
            return reached

    for killed in (False, True):
        number = 0
        while run_virtual(scenario(number, killed=killed)):
            number += 1
        assert number >= 4
