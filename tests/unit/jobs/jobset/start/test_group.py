"""Who is in a group, what counts as started, and when a group has a new epoch: section 3.3, pitfalls 44 and 49."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.jobs.jobset.start.worlds import job, jobset, pod, role

from muster.api.batch import Job
from muster.api.jobset import GroupSchedulingStatus, JobSet
from muster.jobs.jobset.start.group import (
    Member,
    begin_next_epoch,
    count_arrived,
    count_expected,
    find_started_member,
    is_of_earlier_start,
    is_used,
    report_progress,
)

ENDED = {"terminated": {"exitCode": 0}}
FIRST = Member(("ns", "js-uid", 1), "js-workers-0-uid", "0")


@pytest.mark.parametrize(
    ("given", "member"),
    [
        pytest.param(pod(), FIRST, id="its barrier runs"),
        pytest.param(pod(barrier=ENDED, phase="Running"), FIRST, id="it was let through"),
        pytest.param(
            pod(index=None), Member(("ns", "js-uid", 1), "js-workers-0-uid", "pod-uid"), id="without an index"
        ),
        pytest.param(pod(barrier=None), None, id="its barrier has not begun"),
        pytest.param(pod(barrier={"waiting": {"reason": "PodInitializing"}}), None, id="its barrier is pulled"),
        pytest.param(pod(barrier={"terminated": {"exitCode": 75}}), None, id="it was too late"),
        pytest.param(pod(deleting=True), None, id="49-terminating"),
        pytest.param(pod(phase="Failed"), None, id="49-failed"),
        pytest.param(pod(phase="Succeeded", barrier=ENDED), None, id="it has ended"),
        pytest.param(pod(epoch=None), None, id="it does not wait"),
        pytest.param(pod(epoch="x"), None, id="49-an epoch that is none"),
        pytest.param(
            pod(epoch="2"), Member(("ns", "js-uid", 2), "js-workers-0-uid", "0"), id="44-another epoch is another group"
        ),
        pytest.param(pod(owner="ReplicaSet"), None, id="of no Job"),
    ],
)
def test_what_has_started(given: Any, member: Member | None) -> None:
    assert find_started_member(given) == member


@pytest.mark.parametrize(
    ("given", "jobs", "numbers"),
    [
        pytest.param(jobset(role(replicas=2, pods=3)), [], {"js-workers-0": 3, "js-workers-1": 3}, id="replicas"),
        pytest.param(jobset(role(), role("driver", 1)), [], {"js-workers-0": 1, "js-workers-1": 1, "js-driver-0": 1}),
        pytest.param(jobset(role(), role("driver", 1), targets=("driver",)), [], {"js-driver-0": 1}, id="targets"),
        pytest.param(jobset(role(replicas=1, parallelism=2, completions=5)), [], {"js-workers-0": 2}, id="in turns"),
        pytest.param(jobset(role(replicas=1, parallelism=5, completions=2)), [], {"js-workers-0": 2}, id="too wide"),
        pytest.param(
            jobset(role(replicas=1, parallelism=None, completions=None)), [], {"js-workers-0": 1}, id="absent"
        ),
        pytest.param(jobset(role(replicas=1, parallelism=4, completions=None)), [], {"js-workers-0": 4}, id="a queue"),
        pytest.param(jobset(role(replicas=1, parallelism=0)), [], {"js-workers-0": 0}, id="3-parallelism 0"),
        pytest.param(jobset(role(replicas=0)), [], {}, id="3-replicas 0"),
        pytest.param(
            jobset(role(replicas=2, pods=3)),
            [job("js-workers-0", succeeded=2), job("js-workers-1", "Complete", succeeded=3)],
            {"js-workers-0": 1, "js-workers-1": 0},
            id="what succeeded before a resume does not start again",
        ),
        pytest.param(
            jobset(role(replicas=1, pods=2)),
            [job("js-workers-0", succeeded=4, completed="2,3")],
            {"js-workers-0": 2},
            id="41-what succeeded beyond the size stands in for none",
        ),
        pytest.param(
            jobset(role(replicas=1, pods=3, completionMode=None)),
            [job("js-workers-0", succeeded=2, completed="")],
            {"js-workers-0": 1},
            id="without indexes",
        ),
    ],
)
def test_how_many_pods_there_have_to_be(given: JobSet, jobs: list[Job], numbers: dict[str, int]) -> None:
    assert count_expected(given, jobs) == numbers


@pytest.mark.parametrize(
    ("given", "seen", "number"),
    [
        pytest.param(role(pods=2), {"0", "1"}, 2, id="all"),
        pytest.param(role(pods=2), {"2", "3"}, 0, id="41-beyond the size"),
        pytest.param(role(pods=2), {"1", "2"}, 1, id="41-some beyond the size"),
        pytest.param(role(parallelism=2, completions=5), {"1", "4"}, 2, id="in turns"),
        pytest.param(role(pods=2), {"x", "01", "-1", "0-1", "9" * 5000, ""}, 0, id="what is no index"),
        pytest.param(role(pods=2, completionMode=None), {"uid-a", "uid-b"}, 2, id="without indexes"),
        pytest.param(role(parallelism=2, completions=None, completionMode=None), {"uid-a"}, 1, id="a queue"),
    ],
)
def test_which_pods_are_members(given: dict[str, Any], seen: set[str], number: int) -> None:
    one = jobset(given | {"replicas": 1})
    assert count_arrived(one, {"js-workers-0": seen, "js-gone-0": {"0"}}) == {"js-workers-0": number}


USED, RELEASED = {"epoch": 1, "startTime": "2026-01-02T03:04:05Z"}, {"epoch": 1, "releasedEpoch": 1}


@pytest.mark.parametrize(
    ("status", "used"),
    [
        pytest.param(None, False, id="nothing has started"),
        pytest.param({"epoch": 2, "releasedEpoch": 1}, False, id="nothing has started since"),
        pytest.param(USED, True, id="before release"),
        pytest.param(RELEASED, True, id="after release"),
    ],
)
def test_no_group_starts_twice_in_an_epoch(status: dict[str, Any] | None, *, used: bool) -> None:
    assert is_used(jobset(status=status)) is used


def test_where_nothing_waits_no_epoch_is_used() -> None:
    given = jobset(status=RELEASED)
    assert not is_used(replace(given, spec=replace(given.spec, group_scheduling_config=None)))


@pytest.mark.parametrize(
    ("name", "epoch", "earlier"), [("workers", 1, True), ("workers", 2, False), ("driver", 1, False)]
)
def test_jobs_that_start_together_have_one_epoch(name: str, epoch: int, *, earlier: bool) -> None:
    given = jobset(role(), role("driver"), targets=("workers",), status={"epoch": 2})
    assert is_of_earlier_start(given, name, job(f"js-{name}-0", epoch=epoch)) is earlier


def test_a_new_epoch_forgets_all_but_what_was_released() -> None:
    after = begin_next_epoch(
        jobset(status=RELEASED | {"started": 2, "expected": 2, "startTime": "2026-01-02T03:04:05Z"})
    )
    assert after is not None
    assert (after.epoch, after.released_epoch, after.started, after.start_time) == (2, 1, 0, None)


def test_where_nothing_waits_there_is_no_new_epoch() -> None:
    given = jobset(status=RELEASED)
    given = replace(given, spec=replace(given.spec, group_scheduling_config=None))
    assert begin_next_epoch(given) is given.status.group_scheduling


@pytest.mark.parametrize(
    ("before", "total", "count", "started"),
    [
        pytest.param((0, 0), 5, 0, 0, id="the first number"),
        pytest.param((0, 5), 5, 1, 1, id="a small group: pod by pod"),
        pytest.param((0, 100), 100, 9, 0, id="less than a tenth"),
        pytest.param((0, 100), 100, 10, 10, id="a tenth"),
        pytest.param((10, 100), 100, 19, 10, id="less than the next"),
        pytest.param((25, 100), 100, 19, 19, id="a tenth less"),
        pytest.param((90, 100), 100, 99, 90, id="nearly all"),
        pytest.param((90, 99), 99, 98, 90, id="nearly all, not in whole tenths"),
        pytest.param((90, 100), 100, 100, 100, id="all"),
        pytest.param((95, 95), 95, 95, 95, id="all, again"),
        pytest.param((90, 95), 95, 95, 95, id="all, in no other tenth"),
        pytest.param((10, 100), 50, 11, 11, id="another size"),
    ],
)
def test_numbers_are_told_by_tenths(before: tuple[int, int], total: int, count: int, started: int) -> None:
    status = GroupSchedulingStatus(epoch=1, started=before[0], expected=before[1])
    assert report_progress(status, count, total) == replace(status, started=started, expected=total)
