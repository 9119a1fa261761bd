"""Logs in the Standard Workload Format."""

import tracemalloc

import pytest

from muster.simulation.scenario.logs.jobs import LogError
from muster.simulation.scenario.swf import LoggedJob, NumberSet, read_log

HEAD = "; Version: 2.2\n;\n\n"
LINE = "    7     1460     -1   3726  128     -1    -1   {wanted}     {limit}    -1 -1   4   1   2  3 -1 -1 -1"


def read(text):
    return list(read_log((HEAD + text).splitlines()))


def test_a_job_has_what_its_line_says():
    assert read(LINE.format(wanted=64, limit=7200)) == [LoggedJob(7, 1460.0, 3726.0, 7200.0, 128, "4", "2", "3")]


@pytest.mark.parametrize(("limit", "seconds"), [(-1, 0), (0, 0), (60, 60)])
def test_a_log_may_say_no_limit(limit, seconds):
    assert read(LINE.format(wanted=-1, limit=limit))[0].limit == seconds


def test_where_the_log_does_not_know_what_was_used_the_request_counts():
    assert read(LINE.replace("128", "-1").format(wanted=64, limit=-1))[0].processors == 64


def test_numbers_of_jobs_take_little_memory():
    """A log of gigabytes has tens of millions of jobs, whose numbers are mostly consecutive."""
    tracemalloc.start()
    numbers = NumberSet()
    assert all(numbers.add(number) for number in range(100_000))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 200_000, "two bytes each"


def test_a_number_is_new_once():
    numbers = NumberSet()
    assert [numbers.add(number) for number in (0, 255, 256, -1, 10**18, 255, -1, 10**18, 257)] == [
        *[True] * 5,
        *[False] * 3,
        True,
    ]


def test_the_parts_of_a_job_that_was_swapped_out_are_left_out():
    whole = LINE.format(wanted=1, limit=-1)
    parts = [whole.replace("-1   4   1", f" {status}   4   1") for status in (2, 3, 4)]
    assert read("\n".join([whole.replace("-1   4   1", " 1   4   1"), *parts])) == read(whole)


@pytest.mark.parametrize("line", [LINE.replace("3726", "-1"), LINE.replace("128", "0")])
def test_jobs_that_never_ran_are_left_out(line):
    assert read(line.format(wanted=-1, limit=-1)) == []


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 2 3", "line 4: has 3 fields instead of 18"),
        (LINE.replace("3726", "long").format(wanted=1, limit=1), "line 4: holds a field that is no number"),
        (LINE.replace("3726", "inf").format(wanted=1, limit=1), "line 4: holds a number that is too large"),
        (LINE.format(wanted=1, limit="nan"), "line 4: holds a number that is too large"),
        (LINE.replace("128", str(2**31)).format(wanted=1, limit=1), "line 4: holds a number that is too large"),
        (f"{LINE}\n{LINE}".format(wanted=1, limit=1), "line 5: is the second line of job 7"),
        (LINE.replace("1460", "-5").format(wanted=1, limit=1), "line 4: was submitted before the log begins"),
    ],
)
def test_a_line_that_is_no_job_is_named(line, problem):
    with pytest.raises(LogError, match=problem):
        read(line)
