"""The Job controller killed after every single write it makes, and its watches made late: the end is the same."""

import pytest
from tests.system.job_cluster import JobCluster, conditions, is_over

from muster.api.batch import Job
from muster.api.core import Pod
from muster.jobs.census import completion_index
from muster.runtime.clock import run_virtual

INDEXED = {"completionMode": "Indexed", "completions": 4, "parallelism": 4}
COUNTED = {"completions": 4, "parallelism": 2}
PER_INDEX = INDEXED | {"backoffLimitPerIndex": 1}


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
def test_killed_after_each_write(spec: dict[str, object], fail: bool, scale: bool) -> None:
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
        writes += 1
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


def test_lost_answers() -> None:
    """A write that arrives but looks as if it had not is made again; a pod that was made twice is removed."""

    async def scenario(number: int) -> None:
        async with JobCluster() as cluster:
            cluster.wire.lost_answers = {number}
            await cluster.create(INDEXED)
            await cluster.rest(10)
            assert await cluster.active_indexes() == [0, 1, 2, 3]
            job, pods = await end(cluster)
            check(job, pods, failed=0, names=f"answer {number}")

    for number in range(12):
        run_virtual(scenario(number))
