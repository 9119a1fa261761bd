"""Tests of run times, as estimated from the workloads of a LocalQueue that finished last."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from muster.api.kueue import Workload
from muster.queueing.scheduling.runtimes import RECENT, limit, recent

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
    assert limit(workload(spec={"maximumExecutionTimeSeconds": most}, past=past)) == expected


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
    times = recent([workload(**moments)]).get(("ns", "lq"), ())
    assert list(times) == [timedelta(seconds=one) for one in seconds]


def test_the_last_to_finish_count_for_each_queue() -> None:
    ended = [workload(Admitted=0, Finished=second) for second in range(1, RECENT + 3)]
    times = recent([*reversed(ended), workload("other", Admitted=0, Finished=1)])
    assert times == {
        ("ns", "lq"): tuple(timedelta(seconds=second) for second in range(3, RECENT + 3)),
        ("ns", "other"): (timedelta(seconds=1),),
    }
