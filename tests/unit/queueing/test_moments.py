"""Tests of moments at the ends of the calendar, and of sums with them."""

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from tests.unit.queueing import lives
from tests.unit.queueing.lives import NOW

from muster.api.conditions import find
from muster.queueing.moments import FIRST, LAST, shift_moment
from muster.queueing.workload.lifecycle import decide

SECOND = timedelta(seconds=1)
EAST = timezone(timedelta(hours=14))


@pytest.mark.parametrize(
    ("moment", "by", "expected"),
    [
        (NOW, SECOND, NOW + SECOND),
        (NOW, -SECOND, NOW - SECOND),
        (LAST, timedelta(), LAST),
        (LAST, SECOND, LAST),
        (NOW, timedelta.max, LAST),
        (FIRST, -SECOND, FIRST),
        (NOW, timedelta.min, FIRST),
        (datetime.max.replace(tzinfo=EAST), SECOND, LAST),
        (datetime.min.replace(tzinfo=EAST), -SECOND, FIRST),
    ],
)
def test_later(moment: datetime, by: timedelta, expected: datetime) -> None:
    assert shift_moment(moment, by) == expected


def test_the_last_moment_is_read_as_it_was_written() -> None:
    assert msgspec.json.decode(msgspec.json.encode(LAST), type=datetime) == LAST == LAST.replace(microsecond=0)
    assert LAST.tzinfo is UTC


@pytest.mark.parametrize("moment", [FIRST, LAST, datetime.min.replace(tzinfo=EAST), datetime.max.replace(tzinfo=EAST)])
@pytest.mark.parametrize(
    ("type", "given"),
    [
        pytest.param("Finished", {"retention": 60, "conditions": {"Finished": "True Succeeded"}}, id="retention"),
        pytest.param("Admitted", {"admitted": -60, "max": 2**31 - 1}, id="execution"),
        pytest.param("Admitted", {"admitted": -60, "max": 1, "past": 2**31 - 1}, id="execution, used up"),
        pytest.param("Admitted", {"admitted": -60, "wait": {"timeout": 300}}, id="start"),
        pytest.param(
            "PodsReady",
            {
                "admitted": -60,
                "wait": {"timeout": 300, "recovery": 300},
                "conditions": {"PodsReady": "False WaitForRecovery"},
            },
            id="recovery",
        ),
    ],
)
def test_any_moment_can_be_counted_from(type: str, given: dict[str, object], moment: datetime) -> None:
    workload = lives.workload(given)
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time=moment) if each.type == type else each
        for each in workload.status.conditions
    )
    assert find(conditions, type) is not None
    workload = msgspec.structs.replace(workload, status=msgspec.structs.replace(workload.status, conditions=conditions))
    plan = decide(workload, lives.around(given), NOW)
    assert (plan.wake_at is not None) == (moment > NOW)


def test_a_check_may_ask_for_a_wait_beyond_the_calendar() -> None:
    workload = lives.workload({"checks": {"a": "Retry after=9"}})
    check = msgspec.structs.replace(workload.status.admission_checks[0], last_transition_time=LAST)
    status = msgspec.structs.replace(workload.status, admission_checks=(check,))
    plan = decide(msgspec.structs.replace(workload, status=status), lives.around({}), NOW)
    assert plan.status.requeue_state is not None
    assert plan.status.requeue_state.requeue_at == plan.wake_at == LAST
