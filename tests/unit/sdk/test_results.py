"""What the caller gets of a job that has ended."""

from itertools import count

import pytest

from muster.insight.jobs.state import Ending
from muster.sdk.calls import Outcome, pack_call
from muster.sdk.core import Ended
from muster.sdk.errors import JobFailedError
from muster.sdk.results import collect_result
from muster.sdk.worker import perform

DIED = Ending(137, "failed: rank 1 was ended by SIGKILL (exit code 137)")


TIMES = count()


def of(function, *args):
    return Outcome.of(perform(pack_call(function, args, {}), lambda: float(next(TIMES))))


def fails(text):
    raise ValueError(text)


def test_one_worker_gives_its_value_and_several_a_list():
    assert collect_result(Ended("train", Ending(0), [of(int, 5)])) == 5
    assert collect_result(Ended("train", Ending(0), [of(int, 5), of(int, 6)])) == [5, 6]


def test_of_several_failures_the_first_is_raised():
    first, later = of(fails, "first"), of(fails, "later")
    with pytest.raises(ValueError, match="first"):
        collect_result(Ended("train", Ending(1, "failed"), [later, None, first]))


def test_a_rank_that_died_without_a_word_is_said_as_the_cluster_says_it():
    with pytest.raises(JobFailedError, match=r"^train: failed: rank 1 was ended by SIGKILL") as caught:
        collect_result(Ended("train", DIED, [of(int, 5), None]))
    assert caught.value.code == 137


def test_a_result_that_is_gone_is_said():
    with pytest.raises(JobFailedError, match="rank 0 ended well, but without a result"):
        collect_result(Ended("train", Ending(0), [None]))


def test_a_command_has_no_value():
    assert collect_result(Ended("train", Ending(0), None)) is None
    with pytest.raises(JobFailedError, match="exit code 4"):
        collect_result(Ended("train", Ending(4, "failed: ended with exit code 4"), None))
