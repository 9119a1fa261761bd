"""Tests of the pauses that the admission cycle leaves to other work."""

import pytest

from muster.controllers.queueing.admission import LONGEST_PAUSE_SECONDS, pause_after


@pytest.mark.parametrize(
    ("seconds", "pause"),
    [
        (0.0, 0.0),  # in virtual time nothing waits
        (0.001, 0.009),
        (0.004, 0.036),
        (1.0, LONGEST_PAUSE_SECONDS),
    ],
)
def test_cycles_take_a_tenth_of_the_time_at_most_until_they_are_long(seconds: float, pause: float) -> None:
    assert pause_after(seconds) == pytest.approx(pause)
