"""Elastic Indexed Jobs on the API server: who stays, and races with finishing and with suspending."""

from datetime import timedelta
from typing import Any

import pytest
from tests.system.jobs.job_cluster import JobCluster, is_over, virtual

from muster.api.batch import Job
from muster.api.core import Pod
from muster.jobs.job.census import completion_index
from muster.runtime.clock import run_virtual

THREE = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}


def uids(pods: list[Pod]) -> dict[int, str]:
    return {completion_index(pod): pod.metadata.uid for pod in pods}


@virtual
async def test_surviving_pods_stay_when_a_job_is_scaled(cluster: JobCluster) -> None:
    """E52: and so do their names in DNS."""
    await cluster.create(THREE)
    await cluster.bind_all()
    before = uids(await cluster.active())
    await cluster.scale(5)
    await cluster.rest()
    await cluster.bind_all()
    grown = await cluster.active()
    assert uids(grown).items() > before.items()
    assert [pod.spec.hostname for pod in grown] == [f"job-{index}" for index in range(5)]
    await cluster.scale(2)
    await cluster.rest()
    assert uids(await cluster.active()) == {index: before[index] for index in (0, 1)}
    assert [pod.spec.hostname for pod in await cluster.active()] == ["job-0", "job-1"]
    await cluster.end_deleted()
    await cluster.rest()
    job = await cluster.job()
    assert (job.status.active, job.status.failed, job.status.terminating) == (2, 0, 0)


@virtual
async def test_scaling_races_with_finishing(cluster: JobCluster) -> None:
    """E23: the new size comes while the last success is being written."""
    await cluster.create(THREE)
    await cluster.bind_all()
    cluster.wire.lags = {"jobs": 2.0, "pods": 2.0}
    for index in range(3):
        await cluster.finish(index)
    await cluster.scale(4)
    await cluster.rest(30)
    assert await cluster.active_indexes() == [3]
    await cluster.bind_all()
    await cluster.finish(3)
    await cluster.rest(30)
    job = await cluster.job()
    assert is_over(job)
    assert job.status.completed_indexes == "0-3"


@pytest.mark.parametrize("lag", [0.0, 0.7])
@pytest.mark.parametrize("size", [1, 3, 6])
def test_scaling_races_with_suspending(size: int, lag: float) -> None:
    """In either order, and in one request; seen late too: no pod is left, none has failed, and the new size holds.

    Nor is the success lost of a pod that still seems to run when it is removed.
    """

    async def scenario(changes: list[dict[str, Any]]) -> None:
        async with JobCluster() as cluster:
            await cluster.create(THREE)
            await cluster.bind_all()
            cluster.wire.lags = {"jobs": lag, "pods": lag}
            await cluster.finish(0)
            for change in changes:
                await cluster.set_spec(**change)
            await cluster.rest(10)
            assert await cluster.active() == []
            await cluster.end_deleted()
            if size == 1:  # it is done, suspended or not
                await cluster.rest(10)
                assert is_over(await cluster.job())
                return
            await cluster.set_spec(suspend=False)
            await cluster.rest(10)
            assert await cluster.active_indexes() == list(range(1, size))
            status = (await cluster.job()).status
            assert (status.failed, status.completed_indexes, status.active) == (0, "0", size - 1)
            assert not [event.message for event in await cluster.events() if event.type == "Warning"]

    suspend: dict[str, Any] = {"suspend": True}
    scale: dict[str, Any] = {"completions": size, "parallelism": size}
    for changes in ([suspend, scale], [scale, suspend], [suspend | scale]):
        run_virtual(scenario(changes))


@virtual
async def test_many_pods_come_by_portions(cluster: JobCluster) -> None:
    await cluster.create({"completionMode": "Indexed", "completions": 1300, "parallelism": 1300, "suspend": True})
    await cluster.set_spec(suspend=False)
    await cluster.rest(0.05)  # no gathering while there is more to do
    assert await cluster.active_indexes() == list(range(1300))
    job: Job = await cluster.scale(2)
    await cluster.rest(20)
    job = await cluster.job()
    assert await cluster.active_indexes() == [0, 1]
    assert job.status.failed == 0
    assert job.metadata.creation_timestamp is not None
    assert cluster.clock.now() - job.metadata.creation_timestamp < timedelta(minutes=1)
