"""Assertions on the outcome of a simulation."""

import pytest

from muster.queueing.model import FlavorResource
from muster.simulation.outcome.assertions import AssertionSyntaxError, choose_resource, judge, parse_assertion
from muster.simulation.outcome.record import JobOutcome, SimulationRecord
from muster.simulation.outcome.usechanges import RecordedUse
from muster.simulation.outcome.verdicts import format_verdict


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
    verdict = judge(parse_assertion(text, {}), JOBS, RecordedUse(SimulationRecord(["w"])))
    assert verdict.holds == holds
    assert verdict.value == (None if value is None else pytest.approx(value))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("wait is short", "is not like p99"),
        ("median(wait) < 5", "median is none of count, mean"),
        ("p50(hope) < 5", "hope is none of wait, slowdown"),
        ("count(wait) < 5", "wait is none of submitted, started"),
        ("p50(wait, colour=red) < 5", "colour is none of queue, work, user, priority, variant"),
        ("p50(wait) < soon", "invalid duration"),
        ("p50(slowdown) < 5m", "5m is no number"),
        ("p50(slowdown) < nan", "nan is no number"),
        ("count(waiting, queue=prod, queue=dev) == 0", "queue is given twice"),
        ("count(waiting, queue=prod queue=dev) == 0", "queue is given twice"),
        ("count(waiting, priority=high) == 0", "priority=high: a priority is a whole number"),
        ("count(waiting, priority=01) == 0", "priority=01: a priority is a whole number, as in jobs.csv"),
        ("count(waiting, priority=-0) == 0", "priority=-0: a priority is a whole number, as in jobs.csv"),
        ("count(waiting, priority=1" + "0" * 5000 + ") == 0", "0: a priority is a whole number, as in jobs.csv"),
        ("count(waiting, queue=prdo) == 0", "there is no queue prdo: do you mean prod?"),
        ("max(used, queue=prdo) < 5", "there is no queue prdo: do you mean prod?"),
        ("max(used, work=w) < 5", "work is none of queue, flavor, resource, variant"),
        ("max(occupancy, flavor=f) < 5", "flavor is none of queue, resource, variant"),
        ("sum(used) < 5", "sum is none of mean, max, min, p50"),
        ("count(used) < 5", "used is none of submitted, started"),
        ("max(used) < 60%", "60% is not like 64, 4500m or 2Ti"),
        ("max(utilisation) < high", "high is not like 60% or 0.6"),
        ("max(utilisation) < 60m", "60m is not like 60% or 0.6"),
        ("max(utilisation) < 10.5", r"10.5 is 1050%: do you mean 10.5%\?"),
        ("mean(occupancy) < 60", r"60 is 6000%: do you mean 60%\?"),
        ("mean(occupancy) < 1.5", r"1.5 is 150%: do you mean 1.5%\?"),
        ("mean(occupancy) < 101%", "101% is above 100%, which occupancy never exceeds"),
        ("mean(occupancy) < 1000", "1000 is above 100%, which occupancy never exceeds"),
        ("p50(slowdown) < 60%", "60% is no number"),
    ],
)
def test_what_is_no_assertion(text, problem):
    with pytest.raises(AssertionSyntaxError, match=problem):
        parse_assertion(text, {"queue": ["prod", "dev"]})


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("max(utilisation) < 150%", 1.5),
        ("max(utilisation) < 10", 10.0),
        ("max(occupancy) < .5", 0.5),
        ("max(occupancy) <= 1", 1.0),
        ("max(occupancy) <= 100%", 1.0),
        ("max(used) < 60m", 0.06),
    ],
)
def test_a_bound(text, bound):
    assert parse_assertion(text, {}).bound == bound


QUOTAS = [("prod", "spot", "cpu"), ("prod", "fixed", "cpu"), ("dev", "fixed", "cpu"), ("dev", "fixed", "memory")]


def record_use():
    """For 100 s: `prod` has 4 CPUs, and from 50 s on 8. It uses 2 for 20 s, 6 for 60 s and then 2. `dev` uses a Gi."""
    record = SimulationRecord(["w"])
    record.quotas.set(0.0, "prod", {FlavorResource("fixed", "cpu"): 4000})
    record.quotas.set(
        0.0, "dev", {FlavorResource("fixed", "cpu"): 1000, FlavorResource("fixed", "memory"): 4 * 1024**3}
    )
    record.quotas.set(50.0, "prod", {FlavorResource("fixed", "cpu"): 8000})
    record.capacity.set(0.0, {"cpu": 8000, "memory": 4 * 1024**3})
    record.submit("w-0", 0, "prod", 2, 0, 0.0, 100.0)
    record.submit("w-1", 0, "prod", 4, 0, 20.0, 60.0)
    record.start(0, 0.0, (("cpu", 2000),))
    record.change(0.0, "prod", "fixed", "cpu", 2000)
    record.change(10.0, "dev", "fixed", "memory", 1024**3)
    for job, amount in ((1, 4000), (2, -4000)):  # in no time, so that it never counts
        record.change(20.0, "prod", "fixed", "cpu", amount * job)
    record.change(20.0, "prod", "fixed", "cpu", 8000)
    record.start(1, 20.0, (("cpu", 4000),))
    record.end(1, 80.0)
    record.change(80.0, "prod", "fixed", "cpu", -4000)
    record.now = 100.0
    return record


@pytest.mark.parametrize(
    ("text", "value", "verdict"),
    [
        (
            "mean(utilisation, queue=prod) > 60%",
            440 / 600,
            "holds: mean(utilisation, queue=prod) > 60% (it is 73.33% of cpu)",
        ),
        ("max(utilisation, queue=prod) <= 1", 1.5, "FAILS: max(utilisation, queue=prod) <= 1 (it is 150% of cpu)"),
        ("min(utilisation, queue=prod) == 25%", 0.25, "holds: min(utilisation, queue=prod) == 25% (it is 25% of cpu)"),
        ("p40(utilisation, queue=prod) == 50%", 0.5, None),
        ("p41(utilisation, queue=prod) == 75%", 0.75, None),
        ("p99(used, queue=prod) < 4500m", 6.0, None),
        ("mean(used, queue=prod) < 4500m", 4.4, "holds: mean(used, queue=prod) < 4500m (it is 4.4 cpu)"),
        ("max(used, resource=cpu) == 6", 6.0, None),
        ("mean(borrowed, queue=prod) < 700m", 0.6, None),
        ("max(borrowed, queue=prod) > 2", 2.0, "FAILS: max(borrowed, queue=prod) > 2 (it is 2 cpu)"),
        ("max(borrowed, queue=dev, resource=cpu) == 0", 0.0, None),
        ("mean(used, queue=dev, resource=memory) < 1Gi", 0.9 * 1024**3, "it is 921.6Mi"),
        ("mean(occupancy, resource=cpu) > 50%", 0.55, None),
        ("mean(occupancy, queue=dev, resource=cpu) == 0", 0.0, None),
        ("mean(occupancy, resource=memory) == 0", 0.0, None),
        ("mean(utilisation, queue=prod, flavor=spot) > 1%", None, "there is nothing to use"),
    ],
)
def test_an_assertion_about_use(text, value, verdict):
    assertion = choose_resource(parse_assertion(text, {}), QUOTAS, {"cpu", "memory"})
    result = judge(assertion, [], RecordedUse(record_use()))
    assert result.value == (None if value is None else pytest.approx(value))
    assert verdict is None or verdict in format_verdict(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mean(used) < 9", 100 / 60),
        ("min(used) < 9", 1.0),
        ("mean(borrowed) < 9", 20 / 60),
        ("mean(utilisation) < 9", 1.0),
    ],
)
def test_time_without_a_quota_does_not_count(text, value):
    """A quota of 0 of which 1 CPU is borrowed, for 20 s; from 60 s to 100 s a quota of 2 CPUs, which is used."""
    record = SimulationRecord(["w"])
    record.quotas.set(0.0, "prod", {FlavorResource("spot", "cpu"): 0})
    record.change(0.0, "prod", "spot", "cpu", 1000)
    record.quotas.set(20.0, "prod", {})
    record.change(30.0, "prod", "spot", "cpu", -1000)
    record.quotas.set(60.0, "prod", {FlavorResource("spot", "cpu"): 2000})
    record.change(60.0, "prod", "spot", "cpu", 2000)
    record.now = 100.0
    result = judge(choose_resource(parse_assertion(text, {}), [("prod", "spot", "cpu")], ()), [], RecordedUse(record))
    assert result.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max(used, queue=dev) < 1", "several resources match: add resource=cpu or resource=memory"),
        ("max(used, queue=prod, resource=memory) < 1", "there is no resource memory, but cpu"),
        ("max(used, queue=dev, flavor=spto) < 1", "there is no flavor spto, but fixed"),
        ("max(used, flavor=spot, resource=memory) < 1", "there is no resource memory, but cpu"),
        ("max(occupancy) < 1", "several resources match: add resource=cpu or resource=gpu"),
        ("max(occupancy, resource=gup) < 1", "there is no resource gup: do you mean gpu"),
    ],
)
def test_an_assertion_about_use_names_one_resource(text, problem):
    with pytest.raises(AssertionSyntaxError, match=problem):
        choose_resource(parse_assertion(text, {}), QUOTAS, {"gpu", "cpu"})


def test_a_verdict_names_the_resource_that_its_assertion_does_not_name():
    """The name of the queue is no mention of a resource."""
    record = record_use()
    record.quotas.set(0.0, "resource", {FlavorResource("fixed", "cpu"): 4000})
    for text, words in [("max(used, queue=resource) < 9", "0 cpu"), ("max(used, resource = cpu) < 9", "6")]:
        assertion = choose_resource(parse_assertion(text, {}), [*QUOTAS, ("resource", "fixed", "cpu")], ())
        assert format_verdict(judge(assertion, [], RecordedUse(record))) == f"holds: {text} (it is {words})"


def test_no_nodes_are_occupied():
    with pytest.raises(AssertionSyntaxError, match="there are no nodes"):
        choose_resource(parse_assertion("max(occupancy) < 1", {}), QUOTAS, ())
