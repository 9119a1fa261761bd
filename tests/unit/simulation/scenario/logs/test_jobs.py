"""The order of the jobs of a log, in bounded memory."""

from random import Random

import pytest

from muster.simulation.scenario.logs.jobs import HELD_JOBS, LeftOut, OrderedJobs, Role, TracedJob


def make_jobs(count):
    random = Random(1)
    return [TracedJob(float(random.randrange(50)), 1.0, str(number), (Role(1),)) for number in range(count)]


@pytest.mark.parametrize("held", [1, 7, 100, 1000])
def test_jobs_come_in_order_of_submission_and_else_of_the_log(held):
    jobs = make_jobs(200)
    ordered = OrderedJobs(iter(jobs), LeftOut(), None, held)
    assert list(ordered) == sorted(jobs, key=lambda job: job.submit)
    assert list(ordered) == list(ordered), "they can be read again"
    assert ordered.origin == min(job.submit for job in jobs)


def test_a_run_of_many_blocks_is_read_to_its_end():
    jobs = make_jobs(1200)
    assert list(OrderedJobs(iter(jobs), LeftOut(), None, 500)) == sorted(jobs, key=lambda job: job.submit)


def test_jobs_beyond_those_that_memory_holds_wait_in_files():
    ordered = OrderedJobs(iter(make_jobs(100)), LeftOut(), None, 30)
    assert len(ordered._runs) == 3
    assert len(ordered._last) == 10
    assert ordered.held == HELD_JOBS
    assert OrderedJobs(iter(make_jobs(100)), LeftOut(), None).held == 100


def test_two_readers_do_not_disturb_each_other():
    ordered = OrderedJobs(iter(make_jobs(100)), LeftOut(), None, 30)
    pairs = list(zip(ordered, ordered, strict=True))
    assert all(one == other for one, other in pairs)


def test_a_log_without_jobs_is_empty():
    assert list(OrderedJobs(iter(()), LeftOut(), None)) == []
