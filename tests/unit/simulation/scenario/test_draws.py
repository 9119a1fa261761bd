"""What a scenario draws, and when its jobs come."""

import re
from collections import Counter
from datetime import UTC, datetime
from itertools import islice
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.simulation.scenario.draws import (
    DAY,
    DrawError,
    draw_arrivals,
    make_draw,
    parse_limit,
    parse_moment,
    parse_number,
    parse_seconds,
    parse_size,
)
from muster.simulation.scenario.model import Arrivals, Distribution

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
SAMPLES = {"sizes.txt": (1.0, 2.0), "empty.txt": ()}


def value(document):
    return document if isinstance(document, str | int | float) else msgspec.convert(document, Distribution)


def drawn(document, parse=parse_seconds, number=2000):
    draw, random = make_draw(value(document), parse, SAMPLES), Random(1)
    return [draw(random) for _ in range(number)]


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), (5, 5), (0.5, 0.5), ("2d", 2 * DAY), ("1d12h", 1.5 * DAY)]
)
def test_a_time_span(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        (7200, 2),
        ("90m", 1.5),
        ("12:00", 3.5),
        ("08:30", 0),
        ("08:00", 23.5),
        ("9:00", 0.5),
        ("12:00+02:00", 1.5),
        ("10:00+02:00", 23.5),
        ("18:30-14:00", 0),
        ("2026-01-05T12:00", 3.5),
        ("2026-01-05 12:00:00Z", 3.5),
        ("2026-01-05T12:00+01:00", 2.5),
        ("2026-01-06", 15.5),
        ("2026-01-06T00:00", 15.5),
    ],
)
def test_a_point_of_time(text, hours):
    assert parse_moment(text, MONDAY.replace(hour=8, minute=30)) == hours * 3600


def test_a_time_of_day_is_of_the_zone_of_the_start():
    start = datetime.fromisoformat("2026-01-05T08:30:00+01:00")
    assert parse_moment("12:00", start) == parse_moment("2026-01-05T12:00", start) == 3.5 * 3600
    assert parse_moment("2026-01-05T12:00Z", start) == 4.5 * 3600


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("2026-01-05", "2026-01-05 is before the start, 2026-01-05T08:30:00+00:00"),
        ("2026-13-05", "2026-13-05 is no time span, date and time, or time of day"),
        ("25:00", "25:00 is no time span, date and time, or time of day"),
        ("noon", "invalid duration"),
    ],
)
def test_what_is_no_point_of_time(text, why):
    with pytest.raises(DrawError, match=re.escape(why)):
        parse_moment(text, MONDAY.replace(hour=8, minute=30))


@pytest.mark.parametrize("text", ["soon", "", "5", "-1s", -1, "dh", "²d", float("nan"), float("inf")])
def test_what_is_no_time_span(text):
    with pytest.raises(DrawError):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("document", "mean", "low", "high"),
    [
        ("10s", 10, 10, 10),
        ({"constant": "10s"}, 10, 10, 10),
        ({"uniform": {"from": "10s", "to": "30s"}}, 20, 10, 30),
        ({"exponential": {"mean": "10s"}}, 10, 0, 200),
        ({"lognormal": {"median": "10s", "sigma": 0.0}}, 10, 9.99, 10.01),
        ({"empirical": "sizes.txt"}, 1.5, 1, 2),
    ],
)
def test_values_are_distributed_as_the_scenario_says(document, mean, low, high):
    values = drawn(document)
    assert sum(values) / len(values) == pytest.approx(mean, rel=0.1)
    assert low <= min(values)
    assert max(values) <= high


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "exactly one of constant, uniform"),
        ({"constant": 1, "exponential": {"mean": 1}}, "exactly one of"),
        ({"uniform": {"from": "2s", "to": "1s"}}, "uniform: to is less than from"),
        ({"exponential": {"mean": 0}}, "exponential.mean: must be positive"),
        ({"lognormal": {"median": 0, "sigma": 1}}, "lognormal: median must be positive"),
        ({"lognormal": {"median": 1, "sigma": 1000}}, "lognormal: median must be positive, and sigma from 0 to 100"),
        ({"empirical": "empty.txt"}, "empirical: empty.txt holds no value"),
        ({"constant": "soon"}, "constant: invalid duration"),
        ({"constant": "-1d"}, "constant: -1d is negative"),
    ],
)
def test_what_cannot_be_drawn(document, problem):
    with pytest.raises(DrawError) as refusal:
        make_draw(value(document), parse_seconds, SAMPLES)
    assert problem in str(refusal.value)


def test_a_number_is_no_text():
    with pytest.raises(DrawError, match="'3' is no number"):
        make_draw("3", parse_number, {})


@pytest.mark.parametrize("document", [{"constant": 0}, {"uniform": {"from": -1, "to": 3}}])
def test_a_size_is_one_pod_at_least(document):
    with pytest.raises(DrawError, match="is no number of pods: 1 is the least"):
        make_draw(value(document), parse_size, SAMPLES)


@pytest.mark.parametrize("parse", [parse_size, parse_number])
@pytest.mark.parametrize("document", [2.5, {"constant": 2.5}, {"uniform": {"from": 2.5, "to": 3}}])
def test_a_size_or_a_priority_is_a_whole_number(document, parse):
    with pytest.raises(DrawError, match=r"2\.5 is no whole number"):
        make_draw(value(document), parse, SAMPLES)


@pytest.mark.parametrize("parse", [parse_size, parse_number])
@pytest.mark.parametrize("document", [2**31, {"constant": 1e20}, {"uniform": {"from": 2, "to": 5_000_000_000}}])
def test_a_size_or_a_priority_has_32_bits(document, parse):
    with pytest.raises(DrawError, match="has more than 32 bits"):
        make_draw(value(document), parse, SAMPLES)


@pytest.mark.parametrize("document", [0, "0s", {"uniform": {"from": 0, "to": 60}}])
def test_a_limit_is_not_zero(document):
    with pytest.raises(DrawError, match="a limit of 0 ends a job at its start: leave out limit"):
        make_draw(value(document), parse_limit, SAMPLES)
    assert min(drawn({"uniform": {"from": 0.1, "to": 0.5}}, parse_limit)) > 0, "a time need not be whole"


def test_a_mean_of_sizes_need_not_be_whole():
    assert sum(drawn({"exponential": {"mean": 2.5}}, parse_size)) / 2000 == pytest.approx(2.5, rel=0.1)


def arrive(document, number=1000, seed=1):
    return list(islice(draw_arrivals(msgspec.convert(document, Arrivals), MONDAY, Random(seed)), number))


@pytest.mark.parametrize(
    "document", [{"poisson": {"every": "10s"}}, {"uniform": {"every": "10s"}}, {"weekly": {"every": "10s"}}]
)
@given(seed=st.integers(0, 100))
def test_jobs_come_in_order_and_as_often_as_said(document, seed):
    times = arrive(document, seed=seed)
    assert times == sorted(times)
    assert times[-1] / len(times) == pytest.approx(10, rel=0.25)


def test_whole_numbers_are_equally_likely():
    counted = Counter(map(round, drawn({"uniform": {"from": 1, "to": 4}}, parse_size, 4000)))
    assert sorted(counted) == [1, 2, 3, 4]
    assert min(counted.values()) > 900


def test_bursts_come_when_they_are_said_to():
    assert arrive({"burst": {"at": ["1h", 0], "count": 2}}) == [0, 0, 3600, 3600]


def test_a_week_may_end_with_the_calendar():
    arrivals = msgspec.convert({"weekly": {"every": "1h"}}, Arrivals)
    times = draw_arrivals(arrivals, datetime(9999, 12, 31, 23, tzinfo=UTC), Random(1))
    assert len(list(islice(times, 100))) == 100


def test_a_week_has_its_nights_and_weekends():
    hours = [0.0] * 8 + [1.0] * 10 + [0.0] * 6
    times = arrive({"weekly": {"every": "1m", "hours": hours, "days": [1, 1, 1, 1, 1, 0, 0]}}, 20_000)
    moments = [datetime.fromtimestamp(MONDAY.timestamp() + at, UTC) for at in times]
    assert {moment.hour for moment in moments} == set(range(8, 18))
    assert {moment.weekday() for moment in moments} == set(range(5))
    assert times[-1] / len(times) == pytest.approx(60, rel=0.2), "the mean is over the whole week"


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "exactly one of"),
        ({"poisson": {"every": 0}}, ".poisson.every: must be positive"),
        ({"uniform": {"every": "never"}}, ".uniform.every: invalid duration"),
        ({"burst": {"at": [0], "count": 0}}, ".burst.count: must be from 1 to 100000000"),
        ({"burst": {"at": [0], "count": 10**20}}, ".burst.count: must be from 1 to 100000000"),
        ({"weekly": {"every": 1, "hours": [1.0]}}, ".weekly.hours: 24 weights are needed"),
        ({"weekly": {"every": 1, "days": [0.0] * 7}}, ".weekly.days: 7 weights are needed"),
    ],
)
def test_arrivals_that_say_nothing(document, problem):
    with pytest.raises(DrawError) as refusal:
        arrive(document)
    assert problem in str(refusal.value)
