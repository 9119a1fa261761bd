"""Which start of a CronJob is due."""

from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.jobs.cronjob.cronjobs import CREATED, cron_job, moment

from muster.jobs.cronjob.timing import find_timing

LAST = {"lastScheduleTime": "2026-01-01T10:00:00Z"}


@pytest.mark.parametrize(
    ("spec", "now", "due", "following"),
    [
        pytest.param({}, "2026-01-01T10:30", "", "2026-01-01T11:00", id="not yet"),
        pytest.param({}, "2026-01-01T11:00", "2026-01-01T11:00", "2026-01-01T12:00", id="now"),
        pytest.param({}, "2026-01-01T13:30", "2026-01-01T13:00", "2026-01-01T14:00", id="only the last of three"),
        pytest.param({}, "2026-01-01T07:00", "", "2026-01-01T11:00", id="the clock went back a little"),
        pytest.param({}, "2025-12-31T13:30", "", "2025-12-31T14:00", id="the clock was far ahead"),
        pytest.param(
            {}, "2025-12-31T14:00:01", "2025-12-31T14:00", "2025-12-31T15:00", id="the first start since it was"
        ),
        pytest.param(
            {"schedule": "@every 90m"}, "2025-12-31T14:00:01", "2025-12-31T14:00:01", "2025-12-31T15:30:01",
            id="an interval since it was",
        ),
        pytest.param(
            {"startingDeadlineSeconds": 1800}, "2026-01-01T11:30", "2026-01-01T11:00", "2026-01-01T12:00",
            id="within the deadline",
        ),
        pytest.param(
            {"startingDeadlineSeconds": 1799}, "2026-01-01T11:30", "", "2026-01-01T12:00", id="past the deadline"
        ),
        pytest.param(
            {"startingDeadlineSeconds": 2**63 - 1}, "2026-01-01T11:30", "2026-01-01T11:00", "2026-01-01T12:00",
            id="an endless deadline",
        ),
        pytest.param(
            {"schedule": "0 3 * * *", "timeZone": "Asia/Kolkata"}, "2026-01-02T00:00", "2026-01-01T21:30",
            "2026-01-02T21:30", id="a zone",
        ),
        pytest.param(
            {"schedule": "@every 90m"}, "2026-01-01T14:00", "2026-01-01T13:00", "2026-01-01T14:30", id="an interval"
        ),
        pytest.param(
            {"schedule": "* * * 1 *"}, "2026-07-01T00:00", "2026-01-31T23:59", "2027-01-01T00:00", id="a long pause"
        ),
    ],
)  # fmt: skip
def test_what_is_due(spec: dict[str, Any], now: str, due: str, following: str) -> None:
    timing = find_timing(cron_job(status=LAST, **spec), moment(now), UTC)
    assert timing.due == (moment(due) if due else None)
    assert timing.following == moment(following)


def test_the_first_start_comes_after_the_creation() -> None:
    assert find_timing(cron_job(), moment("2026-01-01T00:59"), UTC).due is None
    assert find_timing(cron_job(), moment("2026-01-01T01:00"), UTC).due == moment("2026-01-01T01:00")


def test_a_schedule_that_names_no_zone_means_the_given_one() -> None:
    timing = find_timing(cron_job("0 3 * * *"), moment("2026-07-01T12:00"), ZoneInfo("America/New_York"))
    assert timing.due == moment("2026-07-01T07:00")


def test_a_new_schedule_has_missed_nothing() -> None:
    changed = cron_job("0 11 * * *", status=LAST)
    timing = find_timing(changed, moment("2026-01-01T12:00"), UTC, since=moment("2026-01-01T11:30"))
    assert (timing.due, timing.following) == (None, moment("2026-01-02T11:00"))


@pytest.mark.parametrize(
    ("spec", "now", "reason", "sentence"),
    [
        ({"timeZone": "Mars/Base"}, CREATED, "UnknownTimeZone",
         'invalid timeZone: "Mars/Base": unknown time zone Mars/Base'),
        ({"schedule": "* *"}, CREATED, "UnparseableSchedule",
         'unparseable schedule: "* *" : expected exactly 5 fields, found 2: [* *]'),
        ({"schedule": "0 0 30 2 *"}, "2030-01-01T00:00", "InvalidSchedule",
         "invalid schedule: 0 0 30 2 * : no date matches, it never starts a job"),
        ({}, "2026-01-06T10:00", "TooManyMissedTimes",
         "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"),
    ],
)  # fmt: skip
def test_what_is_told(spec: dict[str, Any], now: str, reason: str, sentence: str) -> None:
    at = moment(now.removesuffix("Z"))
    [note] = find_timing(cron_job(status=LAST, **spec), at, UTC).notes
    assert (note.type, note.reason, note.message) == ("Warning", reason, sentence)


def test_a_start_past_the_deadline_is_left_out_without_a_word() -> None:
    timing = find_timing(cron_job(status=LAST, startingDeadlineSeconds=60), moment("2026-01-01T11:30"), UTC)
    assert (timing.due, timing.following, timing.notes) == (None, moment("2026-01-01T12:00"), ())


def test_a_deadline_hides_older_misses() -> None:
    told = find_timing(cron_job(status=LAST, startingDeadlineSeconds=7200), moment("2026-02-01T10:00"), UTC).notes
    assert told == ()


@given(st.sampled_from(["* * * * *", "0 * * * *", "30 2 * * 1-5", "@every 7m", "0 0 29 2 *"]), st.integers(0, 10**8))
def test_what_is_due_is_over_and_what_follows_is_not(schedule: str, elapsed: int) -> None:
    now = moment("2026-01-01T00:00").fromtimestamp(moment("2026-01-01T00:00").timestamp() + elapsed, UTC)
    timing = find_timing(cron_job(schedule), now, UTC)
    assert timing.due is None or moment("2026-01-01T00:00") < timing.due <= now
    assert timing.following is not None
    assert timing.following > now
