import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from muster.api.values.schedules import Calendar, Interval, ScheduleError, find_zone, parse

NEW_YORK, BERLIN = ZoneInfo("America/New_York"), ZoneInfo("Europe/Berlin")
LORD_HOWE, KOLKATA = ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Asia/Kolkata")


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


@pytest.mark.parametrize(
    ("text", "after", "start"),
    [
        ("* * * * *", "2026-01-01T00:00", "2026-01-01T00:01"),
        ("* * * * *", "2026-01-01T00:00:59", "2026-01-01T00:01"),
        ("0 3 * * *", "2026-01-01T02:59:59", "2026-01-01T03:00"),
        ("0 3 * * *", "2026-01-01T03:00", "2026-01-02T03:00"),
        ("*/15 * * * *", "2026-01-01T00:46", "2026-01-01T01:00"),
        ("5/20 * * * *", "2026-01-01T00:06", "2026-01-01T00:25"),
        ("5-20/5 * * * *", "2026-01-01T00:20", "2026-01-01T01:05"),
        ("1,7 22-23 * * *", "2026-01-01T00:00", "2026-01-01T22:01"),
        ("0 0 1 jan ?", "2026-01-01T00:00", "2027-01-01T00:00"),
        ("0 0 * * MON-FRI", "2026-01-02T12:00", "2026-01-05T00:00"),  # after a Friday
        ("0 0 * Feb sun", "2026-01-01T00:00", "2026-02-01T00:00"),
        ("30 6-16/4 * * 1-5", "2026-01-02T14:31", "2026-01-05T06:30"),
        ("0 0 13 * 5", "2026-01-03T00:00", "2026-01-09T00:00"),  # the 13th, or any Friday
        ("0 0 */2 * 5", "2026-01-02T00:00", "2026-01-03T00:00"),  # every other day, or a Friday
        ("0 0 */1 * 5", "2026-01-02T00:00", "2026-01-09T00:00"),  # any day that is a Friday
        ("0 0 31 * *", "2026-02-01T00:00", "2026-03-31T00:00"),
        ("0 0 29 2 *", "2026-01-01T00:00", "2028-02-29T00:00"),
        ("0 0 29 2 *", "2096-02-29T00:00", "2104-02-29T00:00"),
        ("@yearly", "2026-06-01T00:00", "2027-01-01T00:00"),
        ("@annually", "2026-06-01T00:00", "2027-01-01T00:00"),
        ("@monthly", "2026-06-01T00:00", "2026-07-01T00:00"),
        ("@weekly", "2026-06-01T00:00", "2026-06-07T00:00"),
        ("@daily", "2026-06-01T00:00", "2026-06-02T00:00"),
        ("@midnight", "2026-06-01T00:00", "2026-06-02T00:00"),
        ("@hourly", "2026-06-01T00:00", "2026-06-01T01:00"),
        ("@every 1h30m", "2026-06-01T00:00:07", "2026-06-01T01:30:07"),
        ("@every 90.5s", "2026-06-01T00:00", "2026-06-01T00:01:30"),
        ("@every 1s", "2026-06-01T00:00", "2026-06-01T00:01"),
        ("@every -5m", "2026-06-01T00:00", "2026-06-01T00:01"),
    ],
)
def test_the_next_start(text: str, after: str, start: str) -> None:
    assert parse(text).next(at(after)) == at(start)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "59 23 31 feb,apr,jun,sep,nov *", ", * * * *"])
def test_a_schedule_may_never_come(text: str) -> None:
    schedule = parse(text)
    assert schedule.next(at("2026-01-01T00:00")) is None
    assert schedule.latest(at("2020-01-01T00:00"), at("2026-01-01T00:00")) is None


@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *", "@every 1h"])
@pytest.mark.parametrize("end", ["9999-12-31T23:59:59", "0001-01-01T00:00"])
def test_time_ends_where_python_s_does(text: str, end: str) -> None:
    for zone in (UTC, NEW_YORK, KOLKATA):
        start = parse(text, zone).next(at(end))
        assert start is None or start.year < 9


@pytest.mark.parametrize(
    ("zone", "text", "after", "starts"),
    [
        # The clock goes from 02:00 to 03:00: what is skipped does not start.
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00", ["2026-03-09T06:30"]),
        (NEW_YORK, "30 * * * *", "2026-03-08T01:00", ["2026-03-08T06:30", "2026-03-08T07:30"]),
        (BERLIN, "0 3 * * *", "2026-03-28T12:00", ["2026-03-29T01:00"]),
        # The clock goes from 02:00 back to 01:00: what is repeated starts twice.
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00", ["2026-11-01T05:30", "2026-11-01T06:30", "2026-11-02T06:30"]),
        (NEW_YORK, "0 2 * * *", "2026-10-31T12:00", ["2026-11-01T07:00", "2026-11-02T07:00"]),
        # Half an hour.
        (LORD_HOWE, "15 2 * * *", "2026-10-03T12:00", ["2026-10-04T15:15"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04T12:00", ["2026-04-04T14:45", "2026-04-04T15:15", "2026-04-05T15:15"]),
        (KOLKATA, "0 0 * * *", "2026-01-01T00:00", ["2026-01-01T18:30"]),
        # Midnight that is skipped.
        (ZoneInfo("America/Asuncion"), "0 * * * *", "2023-09-30T22:30", ["2023-10-01T03:00", "2023-10-01T04:00"]),
        (ZoneInfo("America/Asuncion"), "0 0 * * *", "2023-09-30T12:00", ["2023-10-02T03:00"]),
    ],
)
def test_the_clock_of_a_zone(zone: tzinfo, text: str, after: str, starts: list[str]) -> None:
    schedule, moment = parse(text, zone), at(after, zone)
    for start in starts:
        following = schedule.next(moment)
        assert following == at(start)
        assert following is not None
        moment = following


def test_the_clock_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "America/New_York")
        time.tzset()
        schedule = parse("30 1 * * *", None)
        first = schedule.next(at("2026-10-31T12:00"))
        second = schedule.next(at("2026-11-01T05:30"))
    time.tzset()
    assert (first, second) == (at("2026-11-01T05:30"), at("2026-11-01T06:30"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        (" ", "expected exactly 5 fields, found 0: []"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* 24 * * *", "end of range (24) above maximum (23): 24"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("* * 32 * *", "end of range (32) above maximum (31): 32"),
        ("* * * 13 *", "end of range (13) above maximum (12): 13"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("* * * * L", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        ("* * * * 1#2", 'failed to parse int from 1#2: strconv.Atoi: parsing "1#2": invalid syntax'),
        ("-1 * * * *", 'failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("* * jan * *", 'failed to parse int from jan: strconv.Atoi: parsing "jan": invalid syntax'),
        ("٣ * * * *", 'failed to parse int from ٣: strconv.Atoi: parsing "٣": invalid syntax'),
        (
            f"{'9' * 5000} * * * *",
            f'failed to parse int from {"9" * 5000}: strconv.Atoi: parsing "{"9" * 5000}": value out of range',
        ),
        ("@never", "unrecognized descriptor: @never"),
        ("@Daily", "unrecognized descriptor: @Daily"),
        ("@every day", 'failed to parse duration @every day: time: invalid duration "day"'),
    ],
)
def test_refusals(text: str, sentence: str) -> None:
    with pytest.raises(ScheduleError) as error:
        parse(text)
    assert str(error.value) == sentence


@given(st.text(alphabet="0123456789*/-,? @everyJANmon", max_size=40))
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    try:
        schedule = parse(text)
    except ScheduleError:
        return
    start = schedule.next(at("2026-01-01T00:00"))
    assert start is None or start > at("2026-01-01T00:00")


def values(least: int, most: int) -> st.SearchStrategy[str]:
    return st.one_of(
        st.just("*"),
        st.integers(least, most).map(str),
        st.sets(st.integers(least, most), min_size=1, max_size=4).map(lambda some: ",".join(map(str, some))),
        st.integers(1, most).map(lambda step: f"*/{step}"),
    )


TEXTS = st.tuples(values(0, 59), values(0, 23), values(1, 31), values(1, 12), values(0, 6)).map(" ".join)
ZONES = st.sampled_from([UTC, NEW_YORK, BERLIN, LORD_HOWE, KOLKATA, ZoneInfo("Africa/Casablanca")])
# Days around changes of these clocks, among others.
STARTS = st.one_of(
    st.datetimes(datetime.fromisoformat("2024-01-01"), datetime.fromisoformat("2030-01-01")),
    st.sampled_from(["2026-03-08", "2026-11-01", "2026-03-29", "2026-10-25", "2026-04-04", "2026-10-03"])
    .map(datetime.fromisoformat)
    .flatmap(lambda day: st.datetimes(day - timedelta(hours=20), day + timedelta(hours=20))),
).map(lambda moment: moment.replace(tzinfo=UTC))


def matches(schedule: Calendar, moment: datetime) -> bool:
    """Whether the clock shows what the fields say."""
    reading = moment.astimezone(schedule.zone)
    by_number, by_weekday = reading.day in schedule.days, reading.isoweekday() % 7 in schedule.weekdays
    day = by_number or by_weekday if schedule.either_day else by_number and by_weekday
    clock = reading.hour in schedule.hours and reading.minute in schedule.minutes
    return reading.month in schedule.months and day and clock


@given(TEXTS, ZONES, STARTS)
@example("30 1 * * *", NEW_YORK, at("2026-10-31T12:00"))
def test_a_start_is_a_minute_that_the_clock_shows(text: str, zone: tzinfo, after: datetime) -> None:
    """As if every minute of the next two days was looked at."""
    schedule = parse(text, zone)
    assert isinstance(schedule, Calendar)
    first = after.replace(second=0, microsecond=0)
    minutes = [first + timedelta(minutes=number) for number in range(1, 2 * 24 * 60)]
    expected = [minute for minute in minutes if matches(schedule, minute)]
    starts: list[Any] = [schedule.next(after)]
    while starts[-1] is not None and starts[-1] <= minutes[-1] and len(starts) < 200:
        starts.append(schedule.next(starts[-1]))
    if len(starts) < 200:
        starts.pop()
    assert starts == expected[: len(starts)]
    assert len(starts) == min(len(expected), 200)


@given(TEXTS, ZONES, STARTS, st.timedeltas(timedelta(), timedelta(days=400)))
@example("* * * 1 *", UTC, at("2026-01-01T00:00"), timedelta(days=300))
def test_the_latest_start_has_none_behind_it(text: str, zone: tzinfo, since: datetime, elapsed: timedelta) -> None:
    schedule, now = parse(text, zone), since + elapsed
    latest, following = schedule.latest(since, now), schedule.next(since)
    if latest is None:
        assert following is None or following > now
    else:
        after = schedule.next(latest)
        assert since < latest <= now
        assert after is None or after > now


@given(st.integers(60, 100_000), st.integers(0, 1_000_000))
def test_the_latest_start_of_an_interval(distance: int, elapsed: int) -> None:
    since = at("2026-01-01T00:00:03")
    latest = Interval(timedelta(seconds=distance)).latest(since, since + timedelta(seconds=elapsed))
    count = elapsed // distance
    assert latest == (since + count * timedelta(seconds=distance) if count else None)


@pytest.mark.parametrize("name", ["", "Mars/Base", "../x", "/etc/passwd", "America", "x\0y", "Europe/Berlin\n"])
def test_no_zone(name: str) -> None:
    assert find_zone(name) is None


def test_a_zone() -> None:
    assert find_zone("Europe/Berlin") is BERLIN
