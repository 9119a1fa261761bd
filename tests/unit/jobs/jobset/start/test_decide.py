"""The start of a group as a table: counting, release, timeout, and what the ConfigMap says; section 3.6."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.jobs.jobset.start.worlds import NOW, job, jobset, later, role

from muster.api.batch import Job
from muster.api.jobset import JobSet, ReplicatedJobStatus
from muster.jobs.jobset.start.decide import StartedPods, StartPlan, decide_start, waiting_again
from muster.jobs.jobset.start.group import begin_next_epoch, count_expected

STARTED = {"epoch": 1, "started": 1, "expected": 2, "startTime": "2026-01-02T03:04:05Z"}
BOTH = {"js-workers-0": 1, "js-workers-1": 1}
ONE = {"js-workers-0": 1}


def indexes_of(which: int | str) -> set[str]:
    """So many, from the first, or those."""
    return set(map(str, range(which))) if isinstance(which, int) else set(which.split(","))


def plan(
    given: JobSet, started: Mapping[str, int | str] = ONE, *jobs: Job, seconds: float = 0, **seen: Any
) -> StartPlan:
    """Of a JobSet whose Jobs are all there, or only those that are given. started: by the names of Jobs."""
    there = jobs or [job(name) for name in count_expected(given, ())]
    indexes = {f"{name}-uid": indexes_of(which) for name, which in started.items()}
    return decide_start(given, there, StartedPods(indexes, **seen), later(seconds))


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
        pytest.param(jobset(role(replicas=1, pods=2)), {"js-workers-0": "2,3"}, False, id="41-in tandem"),
        pytest.param(jobset(role(replicas=1, pods=2)), {"js-workers-0": "0,1,3"}, True, id="41-in tandem, and all"),
    ],
)
def test_the_group_is_released_once_all_have_started(
    given: JobSet, started: dict[str, int | str], *, released: bool
) -> None:
    found = plan(given, started)
    assert found.status is not None
    assert (found.status.released_epoch == found.status.epoch) is released


def test_pods_of_what_only_has_the_name_of_its_job_do_not_count() -> None:
    there = [job("js-workers-0"), job("js-workers-1")]
    standing = StartedPods({"js-workers-0-uid": {"0"}, "another-uid": {"0"}, "js-workers-1": {"0"}})
    assert said(decide_start(jobset(), there, standing, NOW)) == ("False", "WaitingForPods", "1/2 pods started")


def test_release_is_written_before_anything_is_told() -> None:
    given = jobset()
    first = plan(given, BOTH, endpoint="here 1 secret")
    assert first.config_map is not None
    assert (first.released, first.config_map.data) == (0, {"endpoint": "here 1 secret"})
    assert said(first) == ("True", "AllPodsStarted", "2/2 pods started")
    second = plan(after(given, first), {})
    assert second.config_map is not None
    assert (second.released, second.config_map.data) == (1, {"started": "js-uid 1"})
    assert (second.status, second.condition) == (first.status, first.condition)


@pytest.mark.parametrize("blocked", [False, True])
def test_a_group_is_not_released_before_its_config_map_is_known_to_be_its_own(*, blocked: bool) -> None:
    status, reason, message = said(plan(jobset(), BOTH, kept=False, blocked=blocked))
    assert (status, reason) == ("False", "ConfigMapConflict" if blocked else "WaitingForPods")
    assert message.startswith("2/2 pods started")
    assert ('"js-group-scheduling"' in message) is blocked


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
        pytest.param((job("js-workers-0"), job("js-other-0")), "js-workers-0", id="another is there, too"),
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


def test_no_job_that_has_ended_fails_for_a_group_that_is_too_late() -> None:
    given = jobset(role(replicas=3), status=STARTED)
    found = plan(given, {"js-workers-1": 1}, job("js-workers-0", "Complete"), job("js-workers-1"), seconds=61)
    assert found.failure is not None
    assert found.failure.job.metadata.name == "js-workers-1"  # js-workers-2 is not there


def test_the_timeout_is_told_once() -> None:
    given = jobset(status=STARTED)
    first = plan(given, ONE, job("js-workers-1"), seconds=61)
    second = plan(after(given, first), {}, job("js-workers-1"), seconds=62)
    assert (second.status, second.condition, second.notes) == (first.status, first.condition, ())
    assert first.failure is not None
    assert second.failure is not None
    assert second.failure.condition.message == first.failure.condition.message


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_group_fails_with_an_index_that_has_failed_for_good(timeout: int | None) -> None:
    given = jobset(role(pods=2), timeout=timeout)
    jobs = job("js-workers-0"), job("js-workers-1", failed="1")
    found = plan(given, {"js-workers-0": 2, "js-workers-1": 1}, *jobs)
    message = "3/4 pods started; failed for good: indexes 1 of js-workers-1"
    assert said(found) == ("False", "FailedIndexes", message)
    assert found.failure is not None
    failed = found.failure.condition
    assert (found.failure.job.metadata.name, failed.reason) == ("js-workers-1", "FailedIndexes")
    assert failed.message == f"group cannot start: {message}"
    assert [note.reason for note in found.notes] == ["GroupSchedulingFailed"]
    again = plan(after(given, found), {}, jobs[0], job("js-workers-1", "FailureTarget", failed="1"))
    assert (again.failure, again.notes, again.condition) == (None, (), found.condition)


@pytest.mark.parametrize(
    ("failed", "status"),
    [
        pytest.param(job("js-workers-1", failed="2"), None, id="41-an index beyond the size"),
        pytest.param(job("js-other-0", failed="0"), None, id="of another Job"),
        pytest.param(job("js-workers-1", failed="0"), STARTED | {"releasedEpoch": 1}, id="after release"),
    ],
)
def test_what_failed_elsewhere_fails_no_group(failed: Job, status: dict[str, Any] | None) -> None:
    assert plan(jobset(role(pods=2), status=status), {}, failed).failure is None


def test_a_group_that_another_config_map_held_up_past_its_time_says_so() -> None:
    found = plan(jobset(status=STARTED), BOTH, kept=False, blocked=True, seconds=61)
    message = '2/2 pods started within 60 seconds; ConfigMap "js-group-scheduling" does not belong to this JobSet'
    assert said(found) == ("False", "Timeout", message)
    assert found.failure is not None
    assert found.failure.condition.message == f"group scheduling timed out: {message}"


def test_barriers_are_told_that_a_job_was_restarted_by_itself() -> None:
    given = jobset(status=STARTED)
    records = (ReplicatedJobStatus(name="workers", job_restarts=(0, 2)),)
    again = replace(given, status=replace(given.status, replicated_jobs_status=records))
    for found, data in ((plan(given), {}), (plan(again), {"restarts": "2"})):
        assert found.config_map is not None
        assert found.config_map.data == data


def test_who_comes_after_it_was_said_that_the_group_is_too_late_changes_nothing() -> None:
    given = jobset(status=STARTED)
    late = after(given, plan(given, ONE, job("js-workers-1"), seconds=61))
    found = plan(late, BOTH, job("js-workers-1"), seconds=62)
    assert (found.status, said(found)[1]) == (late.status.group_scheduling, "Timeout")
    assert found.failure is not None


@pytest.mark.parametrize("again", [begin_next_epoch, lambda late: waiting_again(late, "workers")])
def test_a_group_that_was_too_late_may_start_again(again: Any) -> None:
    given = jobset(status=STARTED)
    late = after(given, plan(given, ONE, job("js-workers-1"), seconds=61))
    anew = replace(late, status=replace(late.status, group_scheduling=again(late)))
    waits = plan(anew, ONE, seconds=62)
    assert (waits.failure, waits.wake_at, said(waits)[1]) == (None, later(62 + 61), "WaitingForPods")
    assert said(plan(anew, BOTH, seconds=62))[0] == "True"


def test_a_job_that_starts_again_by_itself_gives_its_group_no_more_time() -> None:
    given = jobset(status=STARTED)
    assert waiting_again(given, "workers") == given.status.group_scheduling


def test_a_job_outside_the_group_gives_it_no_more_time() -> None:
    given = jobset(role(), role("driver"), targets=("workers",), status=STARTED)
    late = after(given, plan(given, ONE, job("js-workers-1"), seconds=61))
    assert waiting_again(late, "driver") == late.status.group_scheduling


def test_where_a_policy_asks_how_containers_end_they_are_first() -> None:
    codes = {"containerName": "group-scheduling-init", "operator": "In", "values": [75]}
    policy = {"rules": [{"action": "FailJob", "onExitCodes": codes}]}
    asked, other = role(podFailurePolicy=policy), role("driver")
    assert plan(jobset(asked, other)).wake_at == later(66)
    assert plan(jobset(asked, other, targets=("driver",)), {"js-driver-0": 1}).wake_at == later(61)


def test_who_comes_at_the_last_moment_is_not_too_late() -> None:
    found = plan(jobset(status=STARTED), BOTH, seconds=1e6)
    assert (found.failure, said(found)[0]) == (None, "True")


def test_nothing_waits_without_a_config() -> None:
    given = jobset()
    given = replace(given, spec=replace(given.spec, group_scheduling_config=None))
    assert plan(given) == StartPlan()


def test_progress_of_a_large_group_is_told_in_tenths() -> None:
    given, tellings = jobset(role(replicas=1, pods=1000)), set()
    for count in range(1000):
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


def test_a_suspended_jobset_with_a_new_epoch_is_not_ready_on_the_word_of_the_old_one() -> None:
    conditions: list[dict[str, Any]] = [{"type": "GroupSchedulingReady", "status": "True", "reason": "AllPodsStarted"}]
    given = jobset(status={"epoch": 2, "releasedEpoch": 1}, conditions=conditions, suspend=True)
    found = plan(given, {})
    assert said(found) == ("False", "WaitingForPods", "jobset is suspended")
    assert plan(after(given, found), {}).condition == found.condition


def test_no_job_fails_where_all_have_ended_or_are_gone() -> None:
    given = jobset(status=STARTED)
    ended = (job("js-workers-0", "Complete"), job("js-other-0"))
    assert plan(given, {}, *ended, seconds=61).failure is None


def test_a_condition_has_the_time_of_the_last_change_of_its_status() -> None:
    given = jobset(status=STARTED)
    first = plan(given, {}, seconds=1)
    second = plan(after(given, first), ONE, seconds=2)
    third = plan(after(given, second), BOTH, seconds=3)
    found = [
        (one.condition.status, one.condition.last_transition_time) for one in (first, second, third) if one.condition
    ]
    assert found == [("False", later(1)), ("False", later(1)), ("True", later(3))]
