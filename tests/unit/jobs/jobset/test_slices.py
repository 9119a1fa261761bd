"""A slice is bounded, and what the server refuses comes last: all things are tried in the end."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from muster.jobs.jobset.slices import MAX_JOBS, Rest, take_slice


def names(count: int) -> list[str]:
    return [f"job-{number}" for number in range(count)]


def test_the_first_things_are_taken_and_no_more_is_looked_at_than_needed():
    things = iter(names(2 * MAX_JOBS))
    assert take_slice(things, str, {}) == (tuple(names(MAX_JOBS)), Rest(is_empty=False, has_new=True))
    assert next(things) == f"job-{MAX_JOBS + 1}"


def test_refused_things_come_last_and_those_refused_most_often_at_the_very_end():
    refused = {"job-0": 2, "job-1": 1}
    assert take_slice(names(3), str, refused) == (("job-2", "job-1", "job-0"), Rest(is_empty=True, has_new=False))


def test_refused_things_that_are_left_are_nothing_new():
    many = MAX_JOBS + 1
    taken, rest = take_slice(names(many), str, dict.fromkeys(names(many), 1))
    assert (len(taken), rest) == (MAX_JOBS, Rest(is_empty=False, has_new=False))


@given(st.integers(0, 3 * MAX_JOBS), st.integers(0, 3 * MAX_JOBS))
def test_each_thing_is_tried_within_as_many_slices_as_there_have_to_be(refusing, accepting):
    waiting, refused = names(refusing + accepting), Counter[str]()
    for _ in range((refusing + accepting + MAX_JOBS - 1) // MAX_JOBS):
        taken, _ = take_slice(waiting, str, refused)
        for name in taken:
            if int(name.removeprefix("job-")) < refusing:
                refused[name] += 1
            else:
                waiting.remove(name)
    assert len(waiting) == refusing == len(refused)
