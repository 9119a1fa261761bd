"""Tests of run times, as estimated from the workloads of a LocalQueue that finished last."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.api.ours.submitter import SUBMITTER_ANNOTATION
from muster.queueing.scheduling.runtimes import (
    RECENT,
    PastRun,
    PastRuns,
    Traits,
    find_time_limit,
    find_traits,
    name_series,
    read_past_runs,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def workload(
    queue: str = "lq", spec: dict[str, Any] | None = None, past: int | None = None, **moments: Any
) -> Workload:
    """Return a workload whose conditions are true since a second, or since an unknown moment (None)."""
    conditions = [
        {"type": type_, "status": "True", "reason": "r", "message": ""}
        | ({} if second is None else {"lastTransitionTime": START + timedelta(seconds=second)})
        for type_, second in moments.items()
    ]
    status = {"conditions": conditions, "accumulatedPastExecutionTimeSeconds": past}
    metadata = {"name": "w", "namespace": "ns"}
    return msgspec.convert(
        {"metadata": metadata, "spec": {"queueName": queue} | (spec or {}), "status": status}, Workload
    )


@pytest.mark.parametrize(
    ("most", "past", "expected"),
    [(None, None, None), (None, 5, None), (60, None, timedelta(seconds=60)), (60, 20, timedelta(seconds=40))],
)
def test_a_limit_counts_what_earlier_attempts_took(
    most: int | None, past: int | None, expected: timedelta | None
) -> None:
    assert find_time_limit(workload(spec={"maximumExecutionTimeSeconds": most}, past=past)) == expected


@pytest.mark.parametrize(
    ("moments", "seconds"),
    [
        pytest.param({"QuotaReserved": 1, "Admitted": 3, "Finished": 10}, [7], id="from its admission to its end"),
        pytest.param({"QuotaReserved": 1, "Finished": 10}, [9], id="from its quota on, if it never was admitted"),
        pytest.param({"Admitted": 3, "Finished": 3}, [0], id="it ended at once"),
        pytest.param({"Admitted": 3}, [], id="it runs"),
        pytest.param({"Finished": 3}, [], id="it never began"),
        pytest.param({"Admitted": 5, "Finished": 3}, [], id="clocks that disagree"),
        pytest.param({"Admitted": None, "Finished": 3}, [], id="nobody knows when it began"),
        pytest.param({"Admitted": 3, "Finished": None}, [], id="nobody knows when it ended"),
    ],
)
def test_how_long_a_workload_ran(moments: dict[str, Any], seconds: list[int]) -> None:
    subject = workload(**moments)
    times = read_past_runs([subject]).find(find_traits(subject))
    assert list(times) == [timedelta(seconds=one) for one in seconds]


def test_the_last_to_finish_count_for_each_queue() -> None:
    ended = [workload(Admitted=0, Finished=second) for second in range(1, RECENT + 3)]
    past = read_past_runs([*reversed(ended), workload("other", Admitted=0, Finished=1)])
    assert past.find(find_traits(workload())) == tuple(timedelta(seconds=second) for second in range(3, RECENT + 3))
    assert past.find(find_traits(workload("other"))) == (timedelta(seconds=1),)


MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ADA = Traits("ns/lq", "ada", "train", 8)


@pytest.mark.parametrize(
    ("traits", "expected"),
    [
        pytest.param(ADA, [10, 11], id="of the same user, name and size"),
        pytest.param(Traits("ns/lq", "ada", "train", 2), [10, 11, 20], id="the user has no other run of that size"),
        pytest.param(Traits("ns/lq", "ada", "new", 8), [10, 11, 20, 30], id="the user's other jobs"),
        pytest.param(Traits("ns/lq", "eve", "new", 16), [40, 50], id="jobs of other users with as many pods"),
        pytest.param(Traits("ns/lq", "eve", "new", 3), [10, 11, 20, 30, 40, 50], id="all of the queue"),
        pytest.param(Traits("ns/lq", "", "train", 8), [10, 11], id="an unknown user has no jobs of its own"),
        pytest.param(Traits("ns/other", "ada", "train", 8), [], id="another queue"),
    ],
)
def test_the_closest_relatives_foretell_a_run(traits: Traits, expected: list[int]) -> None:
    past = PastRuns()
    runs = [(ADA, 10), (ADA, 11), (Traits("ns/lq", "ada", "train", 4), 20), (Traits("ns/lq", "ada", "test", 1), 30)]
    for others in (*runs, (Traits("ns/lq", "bob", "x", 16), 40), (Traits("ns/lq", "cid", "y", 16), 50)):
        past.add(others[0], PastRun(others[1] * MINUTE, None))
    assert past.find(traits) == tuple(number * MINUTE for number in expected)


@pytest.mark.parametrize(
    ("limits", "limit", "expected"),
    [
        pytest.param((2 * HOUR, 4 * HOUR), 10 * HOUR, [5 * HOUR, 2.5 * HOUR], id="the same shares of its own limit"),
        pytest.param((2 * HOUR, 4 * HOUR), None, [HOUR, HOUR], id="it has no limit"),
        pytest.param((None, None), 10 * HOUR, [HOUR, HOUR], id="they had no limits"),
        pytest.param((None, 4 * HOUR), 10 * HOUR, [2.5 * HOUR], id="those with limits say more"),
        pytest.param((timedelta(), 4 * HOUR), 10 * HOUR, [2.5 * HOUR], id="a limit of nothing"),
    ],
)
def test_shares_of_limits_foretell_a_run(limits, limit, expected) -> None:
    past = PastRuns()
    for other in limits:
        past.add(ADA, PastRun(HOUR, other))
    assert list(past.find(ADA, limit)) == expected


@pytest.mark.parametrize(
    ("name", "series"),
    [("train-7", "train"), ("train7", "train"), ("nightly-29384756", "nightly"), ("train", "train"), ("7", "")],
)
def test_jobs_that_differ_by_a_number_are_a_series(name: str, series: str) -> None:
    assert name_series(name) == series


def test_the_traits_of_a_workload() -> None:
    document = {
        "metadata": {
            "namespace": "ns",
            "name": "job-train-7-abc",
            "annotations": {SUBMITTER_ANNOTATION: "ada"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "train-7", "uid": "u"}],
        },
        "spec": {"queueName": "lq", "podSets": [{"name": "a", "count": 6}, {"name": "b", "count": 2}]},
    }
    assert find_traits(msgspec.convert(document, Workload)) == ADA
