"""Jobs and JobSets that run in another cluster, as the management cluster has them; the test plays the worker."""

from typing import Any

import pytest
from tests.system.integrations.queued_jobs import Queued, configured, story
from tests.system.integrations.test_queued_jobsets import jobset, role, see
from tests.system.multikueue.elsewhere import HANDED_OVER, answer, lose, now, queue_elsewhere, tell

from muster.api.batch import JOB
from muster.api.core import POD
from muster.api.status import ApiError
from muster.insight.reader.jobs.rows import job_rows
from muster.multicluster.mirrors.job import JobMirror
from muster.multicluster.mirrors.jobset import JobSetMirror

JOBS, JOBSETS = JobMirror(), JobSetMirror()


def condition(q: Queued, *types: str) -> list[Any]:
    stamp = {"lastProbeTime": now(q), "lastTransitionTime": now(q)}
    return [{"type": type_, "status": "True", "reason": "R", "message": "all is done", **stamp} for type_ in types]


def running(q: Queued, ready: int = 2, **more: Any) -> Any:
    return {"startTime": now(q), "active": 2, "ready": ready} | more


def resting(q: Queued) -> Any:
    return {"conditions": condition(q, "Suspended"), "active": 0}


def done(q: Queued) -> Any:
    ended = {"startTime": now(q), "completionTime": now(q), "succeeded": 2, "completedIndexes": "0,1"}
    return ended | {"conditions": condition(q, "SuccessCriteriaMet", "Complete")}


async def started(q: Queued) -> None:
    """A Job of two pods that has been started here, and runs elsewhere."""
    await queue_elsewhere(q)
    await q.job(**HANDED_OVER)
    await answer(q)


async def pods(q: Queued) -> int:
    return len((await q.client.list(POD, "default")).items)


@story
async def test_it_starts_without_pods_shows_what_runs_elsewhere_and_ends(q):
    await queue_elsewhere(q)
    await q.job(**HANDED_OVER)
    assert (await q.state())["QuotaReserved"] == "True QuotaReserved"
    assert (await q.now()).spec.suspend
    assert not await tell(q, JOBS, "j", running(q)), "it is not started here yet"
    await answer(q)
    assert (await q.now()).spec.suspend is False
    assert await pods(q) == 0
    assert (await q.state())["PodsReady"] == "False WaitForStart"
    assert await tell(q, JOBS, "j", running(q, ready=1))
    assert (await q.now()).status.active == 2
    assert (await q.state())["PodsReady"] == "False WaitForStart"
    assert await tell(q, JOBS, "j", running(q))
    assert (await q.state())["PodsReady"] == "True Started"
    (row,) = await job_rows(q.client, "default", q.world.clock.now(), print)
    assert (row["state"], row["ready"], row["wanted"], row["cluster"]) == ("Running", 2, 2, "east")
    assert await tell(q, JOBS, "j", done(q))
    assert (await q.state())["Finished"] == "True Succeeded"
    assert await pods(q) == 0
    assert (await q.workload()).metadata.finalizers == ()


@story
async def test_quota_of_pods_that_have_ended_is_given_back(q):
    await started(q)
    await tell(q, JOBS, "j", running(q) | {"active": 1, "ready": 1, "succeeded": 1, "completedIndexes": "1"})
    assert [one.count for one in (await q.workload()).status.reclaimable_pods] == [1]


@story
async def test_evicted_it_holds_its_quota_until_it_has_stopped_elsewhere(q):
    await started(q)
    await tell(q, JOBS, "j", running(q))
    await q.evict()
    await q.world.settle()
    assert (await q.now()).spec.suspend
    assert not await tell(q, JOBS, "j", running(q)), "there, it is not told yet"
    assert await q.held() == 2
    assert await tell(q, JOBS, "j", running(q), suspend=True), "its pods are ending"
    assert await q.held() == 2
    assert await tell(q, JOBS, "j", resting(q), suspend=True)
    assert "startTime" not in str((await q.now()).status.start_time)
    assert await q.template_is_clean()
    assert (await q.state())["QuotaReserved"] == "True QuotaReserved", "it is admitted anew"
    assert (await q.workload()).status.admission_checks[0].state == "Pending"
    await answer(q)
    assert (await q.now()).spec.suspend is False
    assert await tell(q, JOBS, "j", running(q, failed=1))
    assert await tell(q, JOBS, "j", done(q))
    assert (await q.state())["Finished"] == "True Succeeded"


@story
async def test_evicted_because_its_worker_is_lost_it_gives_back_its_quota_and_starts_anew(q):
    await started(q)
    await tell(q, JOBS, "j", running(q, failed=3))
    await answer(q, state="Retry")
    assert (await q.now()).spec.suspend
    assert await q.held() == 2
    await lose(q, JOBS, "j")
    assert (await q.workload()).status.admission_checks[0].state == "Pending"
    await answer(q)
    assert (await q.now()).spec.suspend is False
    assert await tell(q, JOBS, "j", running(q))
    status = (await q.now()).status
    assert (status.active, status.failed) == (2, 3)
    assert await tell(q, JOBS, "j", {"startTime": now(q), "failed": 1, "conditions": condition(q, "Failed")})
    assert (await q.state())["Finished"] == "True Failed"


@story
async def test_a_worker_that_is_lost_before_anything_was_told(q):
    await started(q)
    await answer(q, state="Retry")
    await lose(q, JOBS, "j")
    assert await q.template_is_clean()
    await answer(q)
    assert await tell(q, JOBS, "j", done(q))
    assert (await q.state())["Finished"] == "True Succeeded"


@configured("waitForPodsReady: {timeout: 5m}")
async def test_one_that_does_not_become_ready_in_time_is_evicted(q):
    await started(q)
    await tell(q, JOBS, "j", running(q, ready=1))
    await q.world.settle(301)
    assert (await q.state())["Evicted"] == "True PodsReadyTimeout"
    assert await q.held() == 2
    assert await tell(q, JOBS, "j", resting(q), suspend=True)
    assert await q.held() == 0


@story
async def test_its_owner_asked_for_it_to_go(q):
    await queue_elsewhere(q)
    await q.job(ttlSecondsAfterFinished=60, **HANDED_OVER)
    await answer(q)
    await tell(q, JOBS, "j", done(q))
    await q.world.settle(50)
    await q.now()
    await q.world.settle(20)
    with pytest.raises(ApiError, match="not found"):
        await q.now()
    assert await q.workloads() == []


@story
async def test_deleted_here_it_goes_with_its_workload(q):
    await started(q)
    await tell(q, JOBS, "j", running(q))
    await q.client.delete(JOB, "j", "default", propagation="Foreground")
    await q.world.settle()
    assert await q.workloads() == []


# JobSets.


def jobset_runs(active: int = 1, ready: int = 1, **more: Any) -> Any:
    counts = {"ready": ready, "succeeded": 0, "failed": 0, "active": active, "suspended": 0}
    return {"restarts": 0, "replicatedJobsStatus": [{"name": name} | counts for name in ("a", "b")], **more}


async def started_jobset(q: Queued, **spec: Any) -> None:
    await queue_elsewhere(q)
    await jobset(q, "js", role("a"), role("b"), **HANDED_OVER, **spec)
    await answer(q, "js")


@story
async def test_a_jobset_starts_without_jobs_shows_what_runs_elsewhere_and_ends(q):
    await started_jobset(q, ttlSecondsAfterFinished=60)
    assert (await see(q, "js")).spec.suspend is False
    assert (await q.client.list(JOB, "default")).items == []
    assert await tell(q, JOBSETS, "js", jobset_runs(ready=0))
    assert (await q.state("js"))["PodsReady"] == "False WaitForStart"
    assert await tell(q, JOBSETS, "js", jobset_runs())
    assert (await q.state("js"))["PodsReady"] == "True Started"
    ended = {"conditions": condition(q, "Completed"), "terminalState": "Completed"}
    assert await tell(q, JOBSETS, "js", jobset_runs(0, 0) | ended)
    assert (await q.state("js"))["Finished"] == "True Succeeded"
    assert await pods(q) == 0
    await q.world.settle(70)
    with pytest.raises(ApiError, match="not found"):
        await see(q, "js")


@story
async def test_a_jobset_whose_worker_is_lost_starts_anew(q):
    await started_jobset(q)
    await tell(q, JOBSETS, "js", jobset_runs())
    await answer(q, "js", state="Retry")
    assert (await see(q, "js")).spec.suspend
    assert await q.held("js") == 2
    await lose(q, JOBSETS, "js")
    assert (await q.workload("js")).status.admission_checks[0].state == "Pending"
    await answer(q, "js")
    assert (await see(q, "js")).spec.suspend is False
    assert await tell(q, JOBSETS, "js", jobset_runs())


@story
async def test_an_evicted_jobset_holds_its_quota_until_it_has_stopped_elsewhere(q):
    await started_jobset(q)
    await tell(q, JOBSETS, "js", jobset_runs())
    await q.evict("js")
    await q.world.settle()
    assert await q.held("js") == 2
    assert await tell(q, JOBSETS, "js", jobset_runs(), suspend=True)
    assert await q.held("js") == 2
    assert await tell(q, JOBSETS, "js", jobset_runs(0, 0, conditions=condition(q, "Suspended")), suspend=True)
    assert (await q.workload("js")).status.admission_checks[0].state == "Pending"
    assert (await see(q, "js")).metadata.name == "js"


@story
async def test_what_a_check_of_another_controller_has_not_seen_is_not_granted_to_a_job_that_grows(q):
    await queue_elsewhere(q)
    await q.job(metadata={"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}, **HANDED_OVER)
    await answer(q)
    await q.change(spec={"parallelism": 3, "completions": 3})
    await q.world.settle(60)
    assert ((await q.workload()).spec.pod_sets[0].count, await q.held()) == (3, 2)
