"""How far each role is, counted by its Jobs."""

from typing import Any

import msgspec
import pytest
from tests.unit.jobs.jobset.world import jobset, role

from muster.api.batch import Job
from muster.api.jobset import JobSetStatus, ReplicatedJobStatus
from muster.jobs.jobset.census import Census, Member
from muster.jobs.jobset.status import all_ready, has_started, is_ready, roles_status, without_counts


def job(*, pods: int = 2, suspend: bool = False, **status: int) -> Job:
    spec = {"parallelism": pods, "completions": pods, "completionMode": "Indexed", "suspend": suspend}
    return msgspec.convert({"metadata": {"name": "j"}, "spec": {**spec, "template": {}}, "status": status}, Job)


def of(name: str, *jobs: Job) -> tuple[Member, ...]:
    return tuple(Member(one, name, index) for index, one in enumerate(jobs))


IDLE, STARTING, READY = job(), job(active=2, ready=1), job(active=2, ready=2)
HALF_DONE, SUSPENDED, STOPPING = job(active=1, ready=1, succeeded=1), job(suspend=True), job(suspend=True, active=1)

ROLES = role("a", 3), role("b", 2)


@pytest.mark.parametrize(
    ("census", "of_a"),
    [
        pytest.param(Census(), {}, id="no Jobs yet"),
        pytest.param(Census(active=of("a", IDLE, STARTING, READY)), {"active": 2, "ready": 1}, id="on their way"),
        pytest.param(Census(active=of("a", READY, HALF_DONE)), {"active": 2, "ready": 2}, id="what is done is ready"),
        pytest.param(
            Census(active=of("a", SUSPENDED, SUSPENDED, STOPPING)), {"active": 1, "suspended": 3}, id="suspended"
        ),
        pytest.param(
            Census(successful=of("a", IDLE), failed=of("a", IDLE, IDLE)), {"succeeded": 1, "failed": 2}, id="over"
        ),
        pytest.param(Census(previous=of("a", READY), surplus=of("a", READY)), {}, id="not of this attempt, or surplus"),
        pytest.param(Census(failed=of("b", IDLE)), {}, id="of another role"),
    ],
)
def test_jobs_are_counted_by_role(census: Census, of_a: dict[str, Any]) -> None:
    a, b = roles_status(jobset(*ROLES), census)
    assert a == ReplicatedJobStatus(name="a", **of_a)
    assert b == ReplicatedJobStatus(name="b", failed=len([one for one in census.failed if one.role == "b"]))


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), ((2, 0, 1), (2, 0, 1)), ((2,), (2, 0, 0)), ((2, 0, 1, 4, 5), (2, 0, 1))]
)
def test_what_was_restarted_by_itself_is_kept_one_count_for_each_job(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    record = {"name": "a", "ready": 3, "jobRestarts": before, "jobRestartsCountTowardsMax": before}
    (a, _) = roles_status(jobset(*ROLES, status={"replicatedJobsStatus": [record]}), Census())
    assert (a.ready, a.job_restarts, a.job_restarts_count_towards_max) == (0, after, after)


@pytest.mark.parametrize(
    ("one", "expected"),
    [(IDLE, False), (STARTING, False), (READY, True), (HALF_DONE, True), (job(suspend=True, ready=2), False)],
)
def test_a_job_is_ready_once_all_pods_that_run_at_once_are(one: Job, expected: bool) -> None:
    assert is_ready(one) is expected


@pytest.mark.parametrize(
    ("counts", "started", "ready"),
    [
        ({}, False, False),
        ({"ready": 2}, False, False),
        ({"ready": 3}, True, True),
        ({"ready": 1, "succeeded": 2}, True, True),
        ({"ready": 1, "succeeded": 1, "failed": 1}, True, False),
        ({"active": 3}, False, False),
    ],
)
def test_all_jobs_have_started_or_are_ready(counts: dict[str, Any], started: bool, ready: bool) -> None:
    record = ReplicatedJobStatus(name="a", **counts)
    assert (has_started(record, 3), all_ready(jobset(role("a", 3)), (record,))) == (started, ready)


def test_a_status_without_counts_says_no_number_but_those_of_restarts() -> None:
    counts: dict[str, Any] = {"ready": 1, "succeeded": 2, "failed": 3, "active": 4, "suspended": 5}
    record = ReplicatedJobStatus(name="a", job_restarts=(6,), **counts)
    (bare,) = without_counts(JobSetStatus(replicated_jobs_status=(record,))).replicated_jobs_status
    assert bare == ReplicatedJobStatus(name="a", job_restarts=(6,))
