"""Who is in a group, what counts as started, and when a group has a new epoch: section 3.3, pitfalls 44 and 49."""

from typing import Any

import pytest
from tests.unit.jobs.jobset.start.worlds import job, jobset, pod, role

from muster.api.batch import Job
from muster.api.jobset import JobSet
from muster.jobs.jobset.start.group import Member, annotations, epoch_of, expected, renewed, resumes_anew, started

ENDED = {"terminated": {"exitCode": 0}}
FIRST = Member("js-uid", 1, "js-workers-0", "0")


@pytest.mark.parametrize(
    ("given", "member"),
    [
        pytest.param(pod(), FIRST, id="its barrier runs"),
        pytest.param(pod(barrier=ENDED, phase="Running"), FIRST, id="it was let through"),
        pytest.param(pod(index=None), Member("js-uid", 1, "js-workers-0", "pod-uid"), id="without an index"),
        pytest.param(pod(barrier=None), None, id="its barrier has not begun"),
        pytest.param(pod(barrier={"waiting": {"reason": "PodInitializing"}}), None, id="its barrier is pulled"),
        pytest.param(pod(barrier={"terminated": {"exitCode": 75}}), None, id="it was too late"),
        pytest.param(pod(deleting=True), None, id="49-terminating"),
        pytest.param(pod(phase="Failed"), None, id="49-failed"),
        pytest.param(pod(phase="Succeeded", barrier=ENDED), None, id="it has ended"),
        pytest.param(pod(epoch=None), None, id="it does not wait"),
        pytest.param(pod(epoch="x"), None, id="49-an epoch that is none"),
        pytest.param(pod(epoch="2"), Member("js-uid", 2, "js-workers-0", "0"), id="44-another epoch is another group"),
        pytest.param(pod(owner="ReplicaSet"), None, id="of no Job"),
    ],
)
def test_what_has_started(given: Any, member: Member | None) -> None:
    assert started(given) == member


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
    ],
)
def test_how_many_pods_there_have_to_be(given: JobSet, jobs: list[Job], numbers: dict[str, int]) -> None:
    assert expected(given, jobs) == numbers


USED, RELEASED = {"epoch": 1, "startTime": "2026-01-02T03:04:05Z"}, {"epoch": 1, "releasedEpoch": 1}


@pytest.mark.parametrize(
    ("status", "jobs", "anew"),
    [
        pytest.param(None, [job("js-workers-0", suspend=True)], False, id="nothing has started: never used"),
        pytest.param(USED, [job("js-workers-0", suspend=True)], True, id="suspended before release"),
        pytest.param(RELEASED, [job("js-workers-0", suspend=True)], True, id="suspended after release"),
        pytest.param(RELEASED, [job("js-workers-0", suspend=True, epoch=0)], False, id="it has its new epoch already"),
        pytest.param(RELEASED, [job("js-workers-0", suspend=True), job("js-workers-1")], False, id="one of two alone"),
        pytest.param(
            RELEASED, [job("js-workers-0", suspend=True), job("js-workers-1", "Complete")], True, id="one has ended"
        ),
        pytest.param(RELEASED, [job("js-other-0", suspend=True)], False, id="none of the group"),
        pytest.param(RELEASED, [], False, id="none at all"),
    ],
)
def test_a_resume_needs_a_new_epoch(status: dict[str, Any] | None, jobs: list[Job], *, anew: bool) -> None:
    assert resumes_anew(jobset(status=status, targets=("workers",)), jobs) is anew


def test_a_new_epoch_forgets_all_but_what_was_released() -> None:
    after = renewed(jobset(status=RELEASED | {"started": 2, "expected": 2, "startTime": "2026-01-02T03:04:05Z"}))
    assert after is not None
    assert (after.epoch, after.released_epoch, after.started, after.start_time) == (2, 1, 0, None)


def test_only_pods_of_the_group_have_an_epoch() -> None:
    given = jobset(role(), role("driver"), targets=("workers",), status={"epoch": 7})
    assert epoch_of(given) == 7
    assert annotations(given, "workers") == {"jobset.sigs.k8s.io/group-scheduling-epoch": "7"}
    assert annotations(given, "driver") == {}
