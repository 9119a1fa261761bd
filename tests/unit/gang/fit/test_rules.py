"""What a pod does to the next like it: how many go to each place."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.gang.fit.rules import Apart, Even, Together


def ints(*numbers: int) -> Any:
    return np.array(numbers, np.int64)


@pytest.mark.parametrize(
    ("room", "wanted", "quotas"),
    [
        pytest.param((3, 1, 2), 1, (0, 1, 0), id="the place with the least room"),
        pytest.param((3, 1, 2), 2, (0, 1, 1), id="then the next"),
        pytest.param((3, 0, 2), 2, (1, 0, 1), id="none where there is no room"),
        pytest.param((3, 0, 2), 9, (1, 0, 1), id="one in each, and no more"),
        pytest.param((2, 2), 1, (1, 0), id="the first of equals"),
        pytest.param((), 1, (), id="no places"),
    ],
)
def test_apart(room: tuple[int, ...], wanted: int, quotas: tuple[int, ...]) -> None:
    assert Apart(ints()).quotas(ints(*room), wanted).tolist() == list(quotas)


@pytest.mark.parametrize(
    ("room", "wanted", "quotas"),
    [
        pytest.param((5, 3, 9), 4, (4, 0, 0), id="the place with the least room that is enough"),
        pytest.param((5, 3, 9), 3, (0, 3, 0), id="exactly enough"),
        pytest.param((5, 3, 9), 10, (0, 0, 9), id="none is enough: the roomiest"),
        pytest.param((3, 3), 2, (2, 0), id="the first of equals"),
        pytest.param((0, 0), 1, (0, 0), id="no room"),
        pytest.param((), 1, (), id="no places"),
    ],
)
def test_together(room: tuple[int, ...], wanted: int, quotas: tuple[int, ...]) -> None:
    assert Together(ints()).quotas(ints(*room), wanted).tolist() == list(quotas)


@st.composite
def evens(draw: st.DrawFn) -> tuple[Even, Any]:
    size = draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    eligible = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    places = np.arange(-1, size)  # the first node is in none
    rule = Even(places, ints(*draw(numbers)), eligible, draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    return rule, ints(*draw(numbers))


@given(evens(), st.integers(0, 12))
def test_even_places_as_many_as_go_one_by_one_where_there_are_fewest(case: tuple[Even, Any], wanted: int) -> None:
    rule, room = case

    def may_go(counts: Any) -> list[int]:
        """The places that the next pod may go to: upstream's PodTopologySpread."""
        eligible = [count for count, counts_it in zip(counts.tolist(), rule.eligible, strict=True) if counts_it]
        fewest = min(eligible) if len(eligible) >= rule.least_places else 0
        return [place for place, count in enumerate(counts.tolist()) if count + 1 - fewest <= rule.max_skew]

    counts = rule.counts.copy()
    for _ in range(wanted):
        usable = [place for place in may_go(counts) if counts[place] - rule.counts[place] < room[place]]
        if not usable:
            break
        counts[min(usable, key=lambda place: int(counts[place]))] += 1
    assert rule.quotas(room, wanted).tolist() == (counts - rule.counts).tolist()
    assert np.flatnonzero(~rule.find_closed()).tolist() == [place + 1 for place in may_go(rule.counts)]
