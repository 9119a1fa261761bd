"""What is said of a whole simulation."""

import pytest

from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.summary import Spread, find_percentile, jain_index, summarize


def test_the_outcome_of_a_few_jobs():
    record = SimulationRecord(["w"])
    first = record.submit("a", 0, "q", 4, 0, 0.0, 100.0)
    second = record.submit("b", 0, "q", 1, 0, 10.0, 50.0)
    record.submit("c", 0, "", 1, 0, 20.0, 5.0)
    record.change(0.0, "q", "default", "cpu", 4000)
    record.start(first, 0.0)
    record.evict(first, 25.0)
    record.start(first, 50.0)
    record.start(second, 60.0)
    record.change(75.0, "q", "default", "cpu", -2000)
    record.end(second, 110.0)
    record.now = 150.0
    summary = summarize(list(record.jobs()), list(record.changes()), 150.0)
    assert (summary.total.submitted, summary.total.ended, summary.total.running, summary.total.waiting) == (3, 1, 1, 1)
    assert summary.queues["q"].wait == Spread(25.0, 0.0, 50.0, 50.0, 50.0)
    assert summary.queues[""].wait == Spread(130.0, 130.0, 130.0, 130.0, 130.0), "it still waits"
    assert (summary.total.evictions, summary.total.lost) == (1, 100.0)
    assert summary.makespan == 110.0
    [use] = summary.use
    assert (use.queue, use.flavor, use.resource, use.mean, use.peak) == ("q", "default", "cpu", 3000, 4000)


def test_a_mean_use_is_not_rounded_to_the_unit_of_decisions():
    record = SimulationRecord(["w"])
    record.change(0.0, "q", "default", "x.com/gpu", 1)
    record.change(2.0, "q", "default", "x.com/gpu", -1)
    [use] = summarize([], list(record.changes()), 3.0).use
    assert (use.mean, use.peak) == (0.666666666667, 1)


def test_the_mean_use_of_the_same_work_is_the_same_in_one_piece_and_in_many():
    """The error of a sum of bytes is larger than a byte's thousandth."""
    size, seconds = 7 << 40, 1000.0

    def find_mean(*ends):
        record, start = SimulationRecord(["w"]), 0.0
        for end in ends:
            record.change(start, "q", "default", "memory", size)
            record.change(end, "q", "default", "memory", -size)
            start = end
        [use] = summarize([], list(record.changes()), seconds).use
        return use.mean

    assert find_mean(700.7) == find_mean(100.1, 200.2, 300.3, 400.4, 500.5, 600.6, 700.7)


@pytest.mark.parametrize(
    ("forecast", "wait", "error"),
    [
        pytest.param(90.0, 120.0, 0.25, id="too soon"),
        pytest.param(180.0, 120.0, 0.5, id="too late"),
        pytest.param(30.0, 1.0, 29 / 60, id="a short wait counts as a minute"),
        pytest.param(None, 120.0, None, id="there was no forecast"),
        pytest.param(0.0, 0.0, None, id="it did not wait"),
        pytest.param(90.0, None, None, id="it waits still"),
    ],
)
def test_the_error_of_a_forecast(forecast, wait, error):
    record = SimulationRecord(["w"])
    job = record.submit("a", 0, "q", 1, 0, 5.0, 100.0)
    if forecast is not None:
        record.forecast(job, forecast)
    record.now = 500.0
    if wait is not None:
        record.start(job, 5.0 + wait)
    total = summarize(list(record.jobs()), [], 500.0).total
    assert (total.forecast and total.forecast.p50) == error


def test_jobs_are_grouped_by_size():
    record = SimulationRecord(["w"])
    for pods in (1, 2, 3, 4, 5, 8, 9):
        record.submit("a", 0, "q", pods, 0, 0.0, 1.0)
    sizes = summarize(list(record.jobs()), [], 1.0).sizes
    assert [(name, size.submitted) for name, size in sizes.items()] == [
        ("1", 1),
        ("2", 1),
        ("3-4", 2),
        ("5-8", 2),
        ("9-16", 1),
    ]


def test_the_wait_of_a_job_that_could_never_run_does_not_count():
    record = SimulationRecord(["w"])
    record.start(record.submit("a", 0, "q", 1, 0, 0.0, 1.0), 10.0)
    record.submit("b", 0, "q", 1, 0, 0.0, 1.0)
    record.submit("c", 0, "q", 1, 0, 0.0, 1.0)
    record.now = 1000.0
    summary = summarize(list(record.jobs()), [], 1000.0, {"c"})
    for group in (summary.total, summary.queues["q"], summary.works["w"], summary.sizes["1"]):
        assert (group.waiting, group.never) == (2, 1)
        assert group.wait == Spread(505.0, 10.0, 1000.0, 1000.0, 1000.0), "b still waits, c will not run"


def test_nothing_happened():
    summary = summarize([], [], 0.0)
    assert (summary.total.submitted, summary.total.wait, summary.fairness, list(summary.use)) == (0, None, None, [])


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1.0, 4)])
def test_a_percentile_is_one_of_the_values(share, value):
    assert find_percentile([1, 2, 3, 4], share) == value


@pytest.mark.parametrize(("values", "index"), [([5, 5, 5], 1.0), ([9, 0, 0], 1 / 3), ([], None), ([0, 0], None)])
def test_fairness(values, index):
    assert jain_index(values) == (index if index is None else pytest.approx(index))
