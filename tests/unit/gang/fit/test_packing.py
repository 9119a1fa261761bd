"""Packing is exact: against all ways there are, and within its bounds."""

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.gang.fit.packing import MOST_NODES, MOST_PODS, Amounts, Bin, Counts, Effort, Unpacked, pack


def bin_of(free: Amounts, requests: Sequence[Amounts], most: int = 100) -> Bin:
    """A node that takes as many pods of a shape as there is room for, at most so many."""
    rooms = (min(has // ask for has, ask in zip(free, asked, strict=True) if ask) for asked in requests)
    return Bin(free, tuple(min(room, most) for room in rooms))


def exists(bins: Sequence[Bin], requests: Sequence[Amounts], wanted: Counts) -> bool:
    """Whether there is a packing, by all ways to fill each node."""
    reached = {wanted}
    for one in bins:
        ways = [
            way
            for way in product(*(range(fits + 1) for fits in one.fits))
            if all(
                sum(count * asked[resource] for count, asked in zip(way, requests, strict=True)) <= has
                for resource, has in enumerate(one.free)
            )
        ]
        reached = {tuple(max(a - b, 0) for a, b in zip(left, way, strict=True)) for left in reached for way in ways}
    return (0,) * len(wanted) in reached


@st.composite
def problems(draw: st.DrawFn) -> tuple[list[Bin], list[Amounts], Counts]:
    resources = draw(st.integers(1, 2))
    amount = st.tuples(*[st.integers(1, 6)] * resources)
    requests = draw(st.lists(amount, min_size=1, max_size=3))
    free = draw(st.lists(st.tuples(*[st.integers(0, 12)] * resources), max_size=4))
    bins = [bin_of(one, requests, draw(st.integers(1, 5))) for one in free]
    wanted = draw(st.tuples(*[st.integers(0, 5)] * len(requests)))
    return bins, requests, wanted


@settings(max_examples=4 * settings.default.max_examples, deadline=None)
@given(problems())
def test_a_packing_is_found_where_there_is_one_and_only_there(problem: tuple[list[Bin], list[Amounts], Counts]) -> None:
    bins, requests, wanted = problem
    packed = pack(bins, requests, wanted)
    if isinstance(packed, Unpacked):
        assert packed is Unpacked.IMPOSSIBLE
        assert not exists(bins, requests, wanted)
        return
    assert exists(bins, requests, wanted)
    assert tuple(map(sum, zip(*packed, strict=True))) == wanted if packed else not any(wanted)
    for one, way in zip(bins, packed, strict=True):
        assert all(count <= most for count, most in zip(way, one.fits, strict=True))
        used = [
            sum(count * asked[row] for count, asked in zip(way, requests, strict=True)) for row in range(len(one.free))
        ]
        assert all(taken <= max(has, 0) for taken, has in zip(used, one.free, strict=True))


@pytest.mark.parametrize(
    ("nodes", "wanted", "steps"),
    [
        pytest.param(3, (4, 4), 1, id="too few steps"),
        pytest.param(MOST_NODES + 1, (4, 4), 1000, id="too many nodes"),
        pytest.param(3, (MOST_PODS, 1), 1000, id="too many pods"),
    ],
)
def test_what_is_too_much_to_search_is_not_called_impossible(nodes: int, wanted: Counts, steps: int) -> None:
    requests = [(5,), (6,)]
    assert pack([bin_of((16,), requests)] * nodes, requests, wanted, Effort(steps)) is Unpacked.UNKNOWN


def test_searches_of_one_decision_share_their_steps() -> None:
    requests, effort = [(5,), (6,)], Effort(100)
    bins = [bin_of((16,), requests)] * 3
    packed = pack(bins, requests, (4, 4), effort)
    assert not isinstance(packed, Unpacked)
    taken = 100 - effort.steps
    assert taken > 0
    outcomes = [pack(bins, requests, (4, 4), effort) for _ in range(100 // taken)]
    assert outcomes[:-1] == [packed] * (100 // taken - 1)
    assert outcomes[-1] is Unpacked.UNKNOWN
    assert effort.steps == 0
