"""Restarts in place: which attempt is over, and which goes on. The cases are those of upstream's tests, and ours."""

from collections import Counter
from typing import Any

import pytest

from muster.api.core import POD
from muster.api.jobset import JOB_SET, JobSet, names
from muster.jobs.jobset.inplace import PodAttempt, RestartCounts, attempt_of, next_attempts

TOO_MANY = None


def jobset(most: int = 3, strategy: str = names.IN_PLACE_RESTART, **status: Any) -> JobSet:
    """Two Jobs with two pods each."""
    spec = {"parallelism": 2, "completions": 2}
    return JOB_SET.typed(
        {
            "metadata": {"name": "js"},
            "spec": {
                "failurePolicy": {"maxRestarts": most, "restartStrategy": strategy},
                "replicatedJobs": [{"name": "rj", "replicas": 2, "template": {"spec": spec}}],
            },
            "status": status,
        }
    )


def said(*attempts: int, restarts: int = 0) -> RestartCounts:
    return RestartCounts(Counter(attempts), restarts)


BEFORE: dict[str, Any] = {"previousInPlaceRestartAttempt": 1, "currentInPlaceRestartAttempt": 2}


@pytest.mark.parametrize(
    ("found", "standing", "expected"),
    [
        pytest.param(jobset(), said(), (None, None), id="no pods"),
        pytest.param(jobset(), said(0, 0, 0), (None, None), id="just created, and one has not said so yet"),
        pytest.param(jobset(), said(0, 0, 0, 0), (None, 0), id="all in sync for the first time"),
        pytest.param(jobset(currentInPlaceRestartAttempt=0), said(0, 0, 0, 0), (None, 0), id="and nothing has changed"),
        pytest.param(jobset(currentInPlaceRestartAttempt=0), said(0, 0, 0, 1), (0, 0), id="one has restarted"),
        pytest.param(jobset(**BEFORE), said(2, 2, 3, 2), (2, 2), id="one has restarted once more"),
        pytest.param(jobset(**BEFORE), said(2, 3, 3), (2, 2), id="they follow, one after the other"),
        pytest.param(
            jobset(previousInPlaceRestartAttempt=2, currentInPlaceRestartAttempt=2),
            said(3, 3, 3, 3),
            (2, 3),
            id="all have followed",
        ),
        pytest.param(
            jobset(previousInPlaceRestartAttempt=2), said(1, 2), (2, None), id="the one that was furthest is gone"
        ),
        pytest.param(jobset(), said(0, 0, 0, 0, 0), (None, None), id="more than there should be"),
        pytest.param(jobset(most=2, **BEFORE), said(2, 2, 3), TOO_MANY, id="one restart more than there may be"),
        pytest.param(jobset(most=3, **BEFORE), said(2, 2, 3), (2, 2), id="as many as there may be"),
        pytest.param(
            jobset(most=2, restarts=3, restartsCountTowardsMax=2, **BEFORE), said(3), (2, 2), id="one did not count"
        ),
        pytest.param(jobset(most=2, restarts=3, restartsCountTowardsMax=2), said(4), TOO_MANY, id="but the others did"),
        pytest.param(jobset(), said(restarts=4), TOO_MANY, id="a container that fails before its agent has spoken"),
        pytest.param(jobset(), said(restarts=3), (None, None), id="and may do so a few times"),
        pytest.param(
            jobset(strategy=names.RECREATE, **BEFORE),
            said(7, restarts=7),
            (1, 2),
            id="of another strategy nothing changes",
        ),
    ],
)
def test_attempts(found: JobSet, standing: RestartCounts, expected: Any) -> None:
    assert next_attempts(found, standing) == expected


def pod(attempt: str | None, phase: str = "Running", init: int = 0, main: int = 0) -> Any:
    annotations = {} if attempt is None else {names.IN_PLACE_RESTART_ATTEMPT: attempt}
    status = {
        "phase": phase,
        "initContainerStatuses": [{"name": "agent", "restartCount": init}],
        "containerStatuses": [{"name": "main", "restartCount": main}, {"name": "other"}],
    }
    return POD.typed({"metadata": {"name": "p", "annotations": annotations}, "status": status})


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod(None), PodAttempt()),
        (pod("0"), PodAttempt(0)),
        (pod("2", init=1, main=3), PodAttempt(2, 3)),
        (pod("2", init=4, main=3), PodAttempt(2, 4)),
        (pod("2", phase="Failed", main=1), PodAttempt(None, 1)),
        (pod("-1"), PodAttempt()),
        (pod("x"), PodAttempt()),
        (pod(""), PodAttempt()),
        (pod("²"), PodAttempt()),
        (pod("9" * 5000), PodAttempt()),
        (pod("2147483648"), PodAttempt()),
        (pod("2147483647"), PodAttempt(2147483647)),
    ],
)
def test_what_a_pod_says(found: Any, expected: PodAttempt) -> None:
    assert attempt_of(found) == expected
