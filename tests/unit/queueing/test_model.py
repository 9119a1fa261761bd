"""Tests of the properties of the values that decisions are made with."""

import pytest

from muster.queueing.model import Assignment, FlavorChoice, Mode, PodSetAssignment


def assignment(*tried: int) -> Assignment:
    podsets = tuple(
        PodSetAssignment(f"set{index}", 1, {"cpu": FlavorChoice("f", Mode.FIT, tried=one)}, {"cpu": 1})
        for index, one in enumerate(tried)
    )
    return Assignment(podsets, {})


@pytest.mark.parametrize(
    ("tried", "more"),
    [((), False), ((-1,), False), ((0,), True), ((1,), True), ((-1, -1), False), ((-1, 1), True)],
)
def test_flavors_are_left_where_the_last_one_tried_is_not_the_last(tried: tuple[int, ...], more: bool) -> None:
    assert assignment(*tried).has_more_flavors == more
