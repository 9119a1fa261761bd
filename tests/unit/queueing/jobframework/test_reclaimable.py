"""Tests of the number of a Job's pods that have nothing left to do."""

import msgspec
import pytest

from muster.api.batch import Job
from muster.queueing.jobframework.reclaimable import reclaimable_pods


def job(parallelism: int | None, completions: int | None, **status: object) -> Job:
    mode = "Indexed" if {"completedIndexes", "failedIndexes"} & status.keys() else "NonIndexed"
    spec = {"parallelism": parallelism, "completions": completions, "completionMode": mode}
    return msgspec.convert({"spec": spec, "status": status}, Job)


# With as many pods as completions, every index that ended is a pod that is not needed.
@pytest.mark.parametrize(
    ("completed", "failed", "completions", "ended"),
    [
        ("", "", 10, 0),
        ("0-9", "", 0, 0),
        ("0", "", 10, 1),
        ("", "1", 10, 1),
        ("0-4", "", 10, 5),
        ("0-4,7,9-11", "", 10, 7),
        ("0-2,7", "3-5,8", 10, 8),
        pytest.param("0-4", "3-7", 10, 8, id="in both sets"),
        ("0-9", "2-3", 10, 10),
        ("0-8", "", 10, 9),
        pytest.param("0-14", "", 10, 10, id="pitfall 40: stale indexes after a shrink"),
        ("5-19", "", 10, 5),
        ("10-19", "", 10, 0),
        ("", "5-19", 10, 5),
        ("", "10-19", 10, 0),
        ("", "4", 3, 0),
        ("0-1", "2-19", 5, 5),
        ("0-4", "", 3, 3),
        ("3,5,7", "", 10, 3),
        ("3,5,12", "", 10, 2),
        pytest.param("abc,0-2", "", 10, 3, id="nonsense is left out"),
        ("0-x,4", "", 10, 1),
    ],
)
def test_indexes_that_ended(completed: str, failed: str, completions: int, ended: int) -> None:
    indexed = job(completions, completions, completedIndexes=completed, failedIndexes=failed)
    assert reclaimable_pods(indexed) == ended


@pytest.mark.parametrize(
    ("parallelism", "completions", "succeeded", "expected"),
    [
        pytest.param(4, 4, 0, 0, id="nothing ended"),
        pytest.param(4, 4, 3, 3, id="one left"),
        pytest.param(4, 4, 4, 4, id="all ended"),
        pytest.param(4, 10, 5, 0, id="enough left for all pods"),
        pytest.param(4, 10, 8, 2, id="not enough left for all pods"),
        pytest.param(10, 4, 1, 7, id="more pods than completions"),
        pytest.param(1, 4, 4, 0, id="a job of one pod at a time"),
        pytest.param(None, None, 1, 0, id="defaults are one pod"),
        pytest.param(3, None, 1, 1, id="a work queue after its first success"),
        pytest.param(4, 4, 9, 4, id="never more than there are"),
    ],
)
def test_successes(parallelism: int | None, completions: int | None, succeeded: int, expected: int) -> None:
    assert reclaimable_pods(job(parallelism, completions, succeeded=succeeded)) == expected


def test_counters_do_not_count_for_indexed_jobs() -> None:
    assert reclaimable_pods(job(8, 8, succeeded=4, completedIndexes="")) == 0
    assert reclaimable_pods(job(8, 8, succeeded=1, failed=1, completedIndexes="0")) == 1
