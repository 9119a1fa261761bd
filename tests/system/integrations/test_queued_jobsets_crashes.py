"""Reconcilers killed after each single write, and late watches: JobSets come to the same end, never over quota."""

from collections.abc import Awaitable, Callable

import pytest
from tests.system.integrations.queued_jobs import Queued
from tests.system.integrations.test_queued_jobs_crashes import RUN_TIME, Reconcilers, cluster, resume
from tests.system.integrations.test_queued_jobsets import end, jobs, jobset, resize, role, running, see

from muster.api.config import EMBEDDED
from muster.api.kueue import WORKLOAD
from muster.jobs.jobset.terms import finish
from muster.runtime.clock import run_virtual

pytestmark = pytest.mark.slow

QUOTA = 3
SHORT = (role("workers", 2, pod=RUN_TIME["metadata"]), role("driver", pod=RUN_TIME["metadata"]))
LONG = (role("workers", 2, pod={"annotations": {"muster.dev/run-time": "300s"}}),)


async def watched(q: Queued, seconds: int) -> None:
    """Time goes by, and no more runs than there is quota."""
    for _ in range(seconds):
        await q.world.settle(1)
        assert await running(q, "j") + await running(q, "k") <= QUOTA


async def evicted(q: Queued) -> None:
    """The queue is drained, and goes on."""
    await q.queue(cpu=QUOTA)
    await jobset(q, "j", *SHORT)
    await jobset(q, "k", *SHORT)
    await watched(q, 5)
    await resume(q, "HoldAndDrain")
    await resume(q, "None")
    await watched(q, 5)


async def restarted(q: Queued) -> None:
    """A pod fails, and the JobSet begins anew while another waits."""
    await q.queue(cpu=QUOTA)
    await jobset(q, "j", *SHORT, failurePolicy={"maxRestarts": 1})
    await jobset(q, "k", *SHORT)
    await end(q, "j", of="driver")
    await end(q, "j", "Failed", of="workers", first=True)
    await watched(q, 5)


async def forgotten(q: Queued) -> None:
    """Somebody deletes its Workload while it runs."""
    await q.queue(cpu=QUOTA)
    await jobset(q, "j", *SHORT)
    await jobset(q, "k", *SHORT)
    for workload in await q.workloads():
        if workload.metadata.owner_references[0].name == "j":
            await q.client.delete(WORKLOAD, workload.metadata.name, "default")
    await watched(q, 5)


async def resized(q: Queued) -> None:
    """It grows and shrinks while another waits."""
    await q.queue(cpu=QUOTA)
    await jobset(q, "j", *LONG)
    await jobset(q, "k", role("a", pod=RUN_TIME["metadata"]))
    for replicas in (3, 1, 2):
        await resize(q, "j", replicas)
        await watched(q, 5)


async def check(q: Queued, writes: int) -> None:
    for name in ("j", "k"):
        done, workload = finish(await see(q, name)), await q.workload(name)
        assert done is not None, f"after {writes} writes"
        assert done.type == "Completed", f"after {writes} writes"
        assert (await q.state(name))["Finished"] == "True Succeeded", f"after {writes} writes"
        assert workload.metadata.finalizers == (), f"after {writes} writes"
        roles = (await see(q, name)).spec.replicated_jobs
        assert len(await jobs(q, name)) == sum(one.replicas for one in roles), f"after {writes} writes"
        assert all(podset.template.spec.node_selector == {} for podset in workload.spec.pod_sets)


STORIES = pytest.mark.parametrize("story", [evicted, restarted, forgotten, resized])


@STORIES
def test_killed_after_each_write(story: Callable[[Queued], Awaitable[None]], long: bool) -> None:
    async def scenario(writes: int) -> bool:
        async with cluster(EMBEDDED) as q:
            first = Reconcilers(q.world.plane, writes, EMBEDDED)
            await story(q)
            await first.stop()
            second = Reconcilers(q.world.plane, configuration=EMBEDDED)
            await watched(q, 5)
            await q.world.settle(900)
            await second.stop()
            await check(q, writes)
            return first.wire.writes_left == 0

    writes = 0
    while run_virtual(scenario(writes)):
        writes += 1 if long else 3
    assert writes >= 5


@STORIES
def test_late_watches(story: Callable[[Queued], Awaitable[None]]) -> None:
    async def scenario() -> None:
        async with cluster(EMBEDDED) as q:
            reconcilers = Reconcilers(q.world.plane, configuration=EMBEDDED)
            reconcilers.wire.lags = {"jobsets": 4.0, "jobs": 4.0, "workloads": 2.0}
            await story(q)
            await q.world.settle(900)
            await reconcilers.stop()
            await check(q, 0)

    run_virtual(scenario())
