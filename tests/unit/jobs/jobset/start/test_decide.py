"""The start of a group as a table: counting, release, timeout, and what the ConfigMap says; section 3.6."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.jobs.jobset.start.worlds import NOW, job, jobset, later, role

from muster.api.batch import Job
from muster.api.jobset import JobSet
from muster.jobs.jobset.start.decide import GroupStanding, StartPlan, decide_start

STARTED = {"epoch": 1, "started": 1, "expected": 2, "startTime": "2026-01-02T03:04:05Z"}
BOTH = {"js-workers-0": 1, "js-workers-1": 1}
ONE = {"js-workers-0": 1}


def plan(
    given: JobSet, started: Mapping[str, int] = ONE, *jobs: Job, seconds: float = 0, endpoint: str = ""
) -> StartPlan:
    return decide_start(given, jobs, GroupStanding(started, endpoint), later(seconds))


def said(found: StartPlan) -> tuple[str, str, str]:
    assert found.condition is not None
    return found.condition.status, found.condition.reason, found.condition.message


def after(given: JobSet, found: StartPlan) -> JobSet:
    """The JobSet as the next look reads it."""
    conditions = (found.condition,) if found.condition is not None else ()
    return replace(given, status=replace(given.status, group_scheduling=found.status, conditions=conditions))


@pytest.mark.parametrize(
    ("given", "started", "released"),
    [
        pytest.param(jobset(), BOTH, True, id="exactly all"),
        pytest.param(jobset(), ONE, False, id="all but one"),
        pytest.param(jobset(), {}, False, id="none"),
        pytest.param(jobset(), {"js-workers-0": 5}, False, id="49-too many of one Job make up for none of another"),
        pytest.param(jobset(), BOTH | {"js-gone-0": 3}, True, id="pods of other Jobs do not count"),
        pytest.param(jobset(role(pods=2)), BOTH, False, id="every index"),
        pytest.param(jobset(role(replicas=0)), {}, True, id="no pods at all"),
        pytest.param(jobset(role(), role("driver", 1), targets=("driver",)), {"js-driver-0": 1}, True, id="targets"),
        pytest.param(jobset(suspend=True), BOTH, False, id="suspended"),
        pytest.param(jobset(role(replicas=3)), BOTH, False, id="41-grown before release"),
        pytest.param(jobset(role(replicas=1)), BOTH, True, id="41-shrunk before release"),
    ],
)
def test_the_group_is_released_once_all_have_started(given: JobSet, started: dict[str, int], *, released: bool) -> None:
    found = plan(given, started)
    assert found.status is not None
    assert (found.status.released_epoch == found.status.epoch) is released


def test_release_is_written_before_anything_is_told() -> None:
    given = jobset()
    first = plan(given, BOTH, endpoint="here 1 secret")
    assert first.config_map is not None
    assert (first.released, first.config_map.data) == (0, {"endpoint": "here 1 secret"})
    assert said(first) == ("True", "AllPodsStarted", "2/2 pods started")
    second = plan(after(given, first), {})
    assert second.config_map is not None
    assert (second.released, second.config_map.data) == (1, {"started": "1"})
    assert (second.status, second.condition) == (first.status, first.condition)


@pytest.mark.parametrize("started", [{}, ONE, {"js-workers-0": 9}])
def test_release_is_for_all_of_an_epoch(started: dict[str, int]) -> None:
    given = jobset(role(replicas=5), status=STARTED | {"releasedEpoch": 1})
    found = plan(given, started, job("js-workers-0", "Failed"), seconds=1e6)
    assert (found.released, found.failure, found.notes, found.wake_at) == (1, None, (), None)


def test_a_release_is_no_release_of_the_next_epoch() -> None:
    found = plan(jobset(status={"epoch": 2, "releasedEpoch": 1}), ONE)
    assert found.config_map is not None
    assert (found.released, found.config_map.data) == (0, {})


def test_a_group_with_a_failing_job_is_not_released() -> None:
    found = plan(jobset(), BOTH, job("js-workers-0"), job("js-workers-1", "FailureTarget"))
    assert found.status is not None
    assert found.status.released_epoch == 0


def test_the_timeout_counts_from_the_first_pod() -> None:
    assert plan(jobset(), {}).wake_at is None
    first = plan(jobset(), ONE)
    assert first.status is not None
    assert (first.status.start_time, first.wake_at) == (NOW, later(61))
    assert said(first) == ("False", "WaitingForPods", "1/2 pods started")
    gone = plan(after(jobset(), first), {}, seconds=30)
    assert gone.wake_at == later(61)
    assert plan(jobset(timeout=None), ONE).wake_at is None


@pytest.mark.parametrize(
    ("jobs", "fails"),
    [
        pytest.param((job("js-workers-0"), job("js-workers-1")), "js-workers-1", id="the one that lacks pods"),
        pytest.param((job("js-workers-0"),), "js-workers-0", id="the one that lacks pods is not there"),
        pytest.param((job("js-workers-0"), job("js-workers-1", "FailureTarget")), None, id="it fails already"),
        pytest.param((job("js-other-0"),), None, id="none of the group is there"),
    ],
)
def test_a_job_fails_for_a_group_that_is_too_late(jobs: tuple[Job, ...], fails: str | None) -> None:
    given = jobset(status=STARTED)
    assert plan(given, ONE, *jobs, seconds=60.9).failure is None
    found = plan(given, ONE, *jobs, seconds=61)
    message = "1/2 pods started within 60 seconds; pods are missing of js-workers-1"
    assert said(found) == ("False", "Timeout", message)
    assert [note.reason for note in found.notes] == ["GroupSchedulingTimeout"]
    if fails is None:
        assert found.failure is None
        return
    assert found.failure is not None
    assert found.failure.job.metadata.name == fails
    failed = found.failure.condition
    assert (failed.type, failed.reason, failed.message, failed.last_transition_time) == (
        "FailureTarget",
        "DeadlineExceeded",
        f"group scheduling timed out: {message}",
        later(61),
    )


def test_the_timeout_is_told_once() -> None:
    given = jobset(status=STARTED)
    first = plan(given, ONE, job("js-workers-1"), seconds=61)
    second = plan(after(given, first), {}, job("js-workers-1"), seconds=62)
    assert (second.status, second.condition, second.notes) == (first.status, first.condition, ())
    assert first.failure is not None
    assert second.failure is not None
    assert second.failure.condition.message == first.failure.condition.message


def test_where_a_policy_asks_how_containers_end_they_are_first() -> None:
    codes = {"containerName": "group-scheduling-init", "operator": "In", "values": [75]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    asked, other = role(podFailurePolicy=policy), role("driver")
    assert plan(jobset(asked, other)).wake_at == later(66)
    assert plan(jobset(asked, other, targets=("driver",)), {"js-driver-0": 1}).wake_at == later(61)


def test_who_comes_at_the_last_moment_is_not_too_late() -> None:
    found = plan(jobset(status=STARTED), BOTH, job("js-workers-0"), seconds=1e6)
    assert (found.failure, said(found)[0]) == (None, "True")


def test_nothing_waits_without_a_config() -> None:
    given = jobset()
    given = replace(given, spec=replace(given.spec, group_scheduling_config=None))
    assert plan(given) == StartPlan()


def test_progress_of_a_large_group_is_told_in_tenths() -> None:
    given, tellings = jobset(role(replicas=1, pods=5000)), set()
    for count in range(5000):
        found = plan(given, {"js-workers-0": count})
        assert found.status is not None
        tellings.add(found.status)
        given = after(given, found)
    assert len(tellings) <= 12  # ten tenths, the first pod, and how many there have to be


def test_a_suspended_jobset_keeps_what_it_says() -> None:
    conditions: list[dict[str, Any]] = [{"type": "GroupSchedulingReady", "status": "False", "reason": "WaitingForPods"}]
    given = jobset(status=STARTED, conditions=conditions, suspend=True)
    found = plan(given, {}, seconds=1e6)
    assert (found.status, found.failure, found.wake_at) == (given.status.group_scheduling, None, None)
    assert found.condition == given.status.conditions[0]
