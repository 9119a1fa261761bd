import pytest

from muster.queueing.model import FlavorResource
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.timeline import build_timeline, list_rows
from muster.simulation.outcome.usechanges import RecordedUse

CPU = ("cpu", 1000)


def record_two_queues():
    """Queue `a` (2 CPUs) borrows a third; one of its jobs is evicted after 20 s, and starts again."""
    record = SimulationRecord(["w"])
    record.quotas.set(0.0, "a", {FlavorResource("f", "cpu"): 2000})
    record.quotas.set(0.0, "b", {FlavorResource("f", "cpu"): 2000})
    record.capacity.set(0.0, {"cpu": 4000})
    for number in range(3):
        record.submit(f"w-{number}", 0, "a", 1, 0, 0.0, 40.0)
        record.start(number, 0.0, (CPU,), {"n": 1})
        record.change(0.0, "a", "f", "cpu", 1000)
    record.now = 20.0
    record.evict(2, 20.0)
    record.quotas.lose(("a", "f", "cpu"), 0.0, 20.0, 1000)
    record.change(20.0, "a", "f", "cpu", -1000)
    record.submit("w-3", 0, "b", 2, 0, 20.0, 5.0)
    record.now = 30.0
    record.start(2, 30.0, (CPU,), {"n": 1})
    record.change(30.0, "a", "f", "cpu", 1000)
    record.now = 40.0
    return record


def test_quotas_are_split_into_entitled_borrowed_and_lost():
    quota = build_timeline(RecordedUse(record_two_queues())).quotas["a", "f", "cpu"]
    assert [quota.used[at] for at in (0, 19, 20, 29, 30, 39)] == [3000, 3000, 2000, 2000, 3000, 3000]
    assert [quota.borrowed[at] for at in (0, 19, 20, 30)] == [1000, 1000, 0, 1000]
    assert [quota.lost[at] for at in (0, 19, 20, 39)] == [1000, 1000, 0, 0]
    assert set(quota.nominal) == {2000}


def test_borrowing_follows_a_change_of_the_quota():
    record = record_two_queues()
    record.quotas.set(10.0, "a", {FlavorResource("f", "cpu"): 500})
    quota = build_timeline(RecordedUse(record)).quotas["a", "f", "cpu"]
    assert [quota.borrowed[at] for at in (9, 10, 25)] == [1000, 2500, 1500]


def test_jobs_wait_before_they_start_and_after_an_eviction():
    jobs = build_timeline(RecordedUse(record_two_queues())).jobs
    assert [jobs["a"].running[at] for at in (0, 20, 30)] == [3, 2, 3]
    assert [jobs["a"].waiting[at] for at in (0, 20, 30)] == [0, 1, 0]
    assert [jobs["b"].pods_waiting[at] for at in (19, 20, 39)] == [0, 2, 2]
    assert jobs["b"].backlog[39] == 10.0
    assert (sum(jobs["a"].evictions), sum(jobs["a"].lost)) == (1, 20.0)


def test_interruptions_are_not_evictions():
    record = record_two_queues()
    record.interrupt(0, 40.0)
    record.now = 50.0
    jobs = build_timeline(RecordedUse(record)).jobs["a"]
    assert (sum(jobs.evictions), sum(jobs.interruptions), sum(jobs.lost)) == (1, 1, 60.0)
    assert jobs.waiting[-1] == 1


def test_the_demand_of_running_jobs_is_the_use_of_nodes():
    timeline = build_timeline(RecordedUse(record_two_queues()))
    assert list(timeline.demand) == [("a", "cpu")]
    assert [timeline.demand["a", "cpu"][at] for at in (0, 20, 30)] == [3000, 2000, 3000]
    assert set(timeline.capacity["cpu"]) == {4000}


def test_rows_count_whole_cpus():
    rows = [row for row in list_rows(build_timeline(RecordedUse(record_two_queues()))) if row.start == 0]
    found = {(row.of, row.queue): (row.capacity, row.used, row.borrowed, row.lost, row.waiting) for row in rows}
    assert found == {
        ("quota", "a"): (2.0, 3.0, 1.0, 1.0, None),
        ("quota", "b"): (2.0, 0.0, 0.0, 0.0, None),
        ("jobs", "a"): (None, 3.0, None, None, 0.0),
        ("pods", "a"): (None, 3.0, None, None, 0.0),
        ("jobs", "b"): (None, 0.0, None, None, 0.0),
        ("pods", "b"): (None, 0.0, None, None, 0.0),
        ("nodes", ""): (4.0, 3.0, None, None, None),
    }


@pytest.mark.parametrize("now", [0.0, 5.0])
def test_a_simulation_without_jobs_has_a_timeline(now):
    record = SimulationRecord(["w"])
    record.now = now
    timeline = build_timeline(RecordedUse(record))
    assert (len(timeline.edges), timeline.jobs, list(list_rows(timeline))) == (6 if now else 0, {}, [])
