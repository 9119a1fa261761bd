"""A job that loses its quota is interrupted: it counts that once, says why, and tells the pods that come next."""

from typing import Any

import msgspec
import pytest
from tests.system.integrations.queued_jobs import Queued, story

from muster.api.batch import COMPLETION_INDEX, JOB
from muster.api.conditions import find
from muster.api.jobset import JOB_SET, JobSet, names
from muster.api.kueue import WORKLOAD
from muster.api.kueue.names import QUEUE_NAME_LABEL
from muster.api.ours.interruptions import ATTEMPT_ANNOTATION, STOPPED_ANNOTATION
from muster.insight.reader.jobs.rows import job_rows
from muster.jobs.interruption import INTERRUPTIONS

HELD = "it was held"


async def _set_active(q: Queued, name: str, *, active: bool) -> None:
    """Hold or release a job, as `muster hold` and `muster release` do."""
    workload = await q.workload(name)
    await q.client.patch(WORKLOAD, workload.metadata.name, {"spec": {"active": active}}, "default")
    await q.world.settle(30)


async def _reason(q: Queued) -> Any:
    (row,) = await job_rows(q.client, "default", q.world.clock.now(), pytest.fail)
    return row["reason"]


@story
async def test_a_job_that_is_held_and_released_counts_one_interruption(q: Queued) -> None:
    await q.queue()
    await q.job(backoffLimit=0)
    assert await q.running() == [0, 1]
    await _set_active(q, "j", active=False)
    assert await q.running() == []
    told = find((await q.now()).status.conditions, INTERRUPTIONS)
    assert told is not None
    assert told.message == f"1 interruption (1 by suspension), the last: {HELD}"
    await _set_active(q, "j", active=True)
    assert await q.running() == [0, 1]
    job = await q.now()
    assert (job.status.failed, STOPPED_ANNOTATION in job.metadata.annotations) == (0, False)
    assert await _reason(q) == f"interrupted once, last: {HELD}"


@story
async def test_a_job_that_loses_its_quota_before_it_runs_counts_nothing(q: Queued) -> None:
    await q.queue()
    await q.job(template={"metadata": {"annotations": {"muster.dev/start-time": "1000s"}}})
    assert await q.held() == 2
    await q.evict()
    await q.world.settle(30)
    assert await q.held() == 2
    assert find((await q.now()).status.conditions, INTERRUPTIONS) is None


@story
async def test_trials_of_a_sweep_that_is_held_count_their_own_starts(q: Queued) -> None:
    await q.queue(cpu=2)
    run = {"metadata": {"annotations": {"muster.dev/run-time": "600s"}}}
    await q.job(workers=2, completions=4, backoffLimitPerIndex=0, template=run)
    for active in (False, True):
        await _set_active(q, "j", active=active)
    assert await _attempts(q) == {"0": "1", "1": "1"}
    await q.world.settle(700)
    assert await _attempts(q) == {"2": "0", "3": "0"}, "they run for the first time"
    await q.world.settle(700)
    job = await q.now()
    assert (job.status.succeeded, job.status.failed, job.status.completed_indexes) == (4, 0, "0-3")


async def _attempts(q: Queued) -> dict[str, str]:
    pods = [pod for pod in await q.world.pods("j") if pod.status.phase == "Running"]
    return {pod.metadata.labels[COMPLETION_INDEX]: pod.metadata.annotations[ATTEMPT_ANNOTATION] for pod in pods}


@story
async def test_workers_of_a_jobset_that_is_held_count_the_start_after_it(q: Queued) -> None:
    await q.queue()
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    template = {"spec": {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pods}}
    document = {
        "metadata": {"name": "js", "labels": {QUEUE_NAME_LABEL: "cq"}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": template}]},
    }
    await q.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
    await q.world.settle(30)
    made = await _workers(q)
    assert {attempt for _, attempt in made} == {"0"}
    for number in (1, 2):
        for active in (False, True):
            await _set_active(q, "js", active=active)
        now = await _workers(q)
        assert (len(now), {attempt for _, attempt in now}) == (4, {str(number)})
    jobset = await q.client.get(JOB_SET, "js", "default")
    assert (jobset.status.restarts, jobset.status.restarts_count_towards_max) == (0, 0)
    assert STOPPED_ANNOTATION not in jobset.metadata.annotations
    told = find(jobset.status.conditions, INTERRUPTIONS)
    assert told is not None
    assert told.message == f"2 interruptions (2 by suspension), the last: {HELD}"
    jobs = (await q.client.list(JOB, "default")).items
    assert all(find(job.status.conditions, INTERRUPTIONS) is None for job in jobs), "their JobSet counts"
    assert await _reason(q) == f"interrupted 2 times, last: {HELD}"


async def _workers(q: Queued) -> list[tuple[str, str]]:
    """The pods that run, each with its attempt."""
    pods = [pod for name in ("js-w-0", "js-w-1") for pod in await q.world.pods(name) if pod.status.phase == "Running"]
    return [(pod.metadata.name, pod.metadata.labels[names.RESTART_ATTEMPT]) for pod in pods]


@pytest.mark.parametrize("fields", [{"backoffLimit": 0}, {"backoffLimitPerIndex": 1}], ids=["gang", "sweep in a gang"])
def test_the_hold_of_a_jobset_that_starts_again_as_a_whole_is_one_interruption(fields: dict[str, Any]) -> None:
    @story
    async def held(q: Queued) -> None:
        await q.queue()
        container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
        gang = {"annotations": {"muster.dev/gang": "true"}}
        pods = {"metadata": gang, "spec": {"restartPolicy": "Never", "containers": [container]}}
        spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pods} | fields
        document = {
            "metadata": {"name": "js", "labels": {QUEUE_NAME_LABEL: "cq"}} | gang,
            "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"metadata": gang, "spec": spec}}]},
        }
        await q.client.create(JOB_SET, msgspec.convert(document, JobSet), "default")
        await q.world.settle(30)
        for active in (False, True):
            await _set_active(q, "js", active=active)
        jobset: JobSet = await q.client.get(JOB_SET, "js", "default")
        told = find(jobset.status.conditions, INTERRUPTIONS)
        assert told is not None
        assert told.message == f"1 interruption (1 by suspension), the last: {HELD}"
        assert jobset.status.restarts == 0

    held()
