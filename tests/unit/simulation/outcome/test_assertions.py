"""Assertions on the outcome of a simulation."""

import pytest

from muster.simulation.outcome.assertions import AssertionSyntaxError, judge, parse_assertion
from muster.simulation.outcome.record import JobOutcome


def job(number, wait, queue="prod"):
    ended = None if wait is None else wait + 100.0
    so_far = 9000.0 if wait is None else wait
    counts = {"evictions": number % 3, "lost": 0.0, "over_limit": number == 7}
    return JobOutcome(f"j-{number}", "w", queue, 1, number % 2, 0.0, 100.0, wait, ended, wait=so_far, **counts)


JOBS = [job(number, float(number)) for number in range(100)] + [job(100, None), job(101, 5000.0, "dev")]


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("p99(wait, queue=prod) < 30m", 99.0, True),
        ("max(wait, queue=prod) < 30m", 9000.0, False),
        ("p50(wait, queue=prod) <= 50", 50.0, True),
        ("max(wait, queue=dev) < 1h", 5000.0, False),
        ("max(wait,queue=prod,priority=1)==99", 99.0, True),
        ("mean(slowdown, queue=prod) < 1.4", 1.495, False),
        ("sum(evictions) > 90", 102.0, True),
        ("count(ended) >= 101", 101.0, True),
        ("count(waiting, queue=dev) == 0", 0.0, True),
        ("count(over_limit, queue=prod) == 1", 1.0, True),
        ("p99(wait, queue=nobody) < 1h", None, False),
    ],
)
def test_an_assertion(text, value, holds):
    verdict = judge(parse_assertion(text, {}), JOBS)
    assert verdict.holds == holds
    assert verdict.value == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wait is short", "is not like p99"),
        ("median(wait) < 5", "median is none of count, mean"),
        ("p50(hope) < 5", "hope is none of wait, slowdown"),
        ("count(wait) < 5", "wait is none of submitted, started"),
        ("p50(wait, colour=red) < 5", "colour is none of queue, work, priority, variant"),
        ("p50(wait) < soon", "invalid duration"),
        ("p50(slowdown) < 5m", "5m is no number"),
        ("p50(slowdown) < nan", "nan is no number"),
        ("count(waiting, queue=prod, queue=dev) == 0", "queue is given twice"),
        ("count(waiting, queue=prod queue=dev) == 0", "queue is given twice"),
        ("count(waiting, priority=high) == 0", "priority=high: a priority is a whole number"),
        ("count(waiting, priority=01) == 0", "priority=01: a priority is a whole number, as in jobs.csv"),
        ("count(waiting, priority=-0) == 0", "priority=-0: a priority is a whole number, as in jobs.csv"),
        ("count(waiting, queue=prdo) == 0", "there is no queue prdo: do you mean prod?"),
    ],
)
def test_what_is_no_assertion(text, problem):
    with pytest.raises(AssertionSyntaxError, match=problem):
        parse_assertion(text, {"queue": ["prod", "dev"]})
