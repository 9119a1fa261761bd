"""Tests of the smallest number of pods with which a workload starts."""

import pytest
from hypothesis import given as sampled
from hypothesis import strategies as st

from muster.queueing.model import PodSet
from muster.queueing.scheduling.partial import find_most_pods

FOUR = [(5, 3), (5, 4), (5, 1), (5, 2)]
MANY = 150_000


def podsets(sizes: list[tuple[int, int | None]]) -> list[PodSet]:
    return [PodSet(f"set{index}", count, {}, least) for index, (count, least) in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "room", "found"),
    [
        pytest.param([], 10, None, id="no podsets"),
        pytest.param([(1, None), (2, 2)], 2, None, id="none may shrink"),
        pytest.param(FOUR, 15, 15, id="half way down"),
        pytest.param([(5, 3), (5, None), (5, None), (5, None)], 19, 19, id="only one may shrink"),
        pytest.param(FOUR, 10, 10, id="to the least"),
        pytest.param(FOUR, 9, None, id="below the least"),
        pytest.param(FOUR, 20, 20, id="all of them"),
        pytest.param([(MANY, 1)] * 8, MANY, MANY, id="many pods"),
        pytest.param([(MANY, 1), *[(1, None)] * 7], MANY, MANY, id="many pods of one podset"),
        pytest.param([(0, 0)], 0, None, id="no pods"),
        pytest.param([(2, 4)], 1, None, id="fewer left than the least"),
    ],
)
def test_the_most_pods_that_fit(sizes: list[tuple[int, int | None]], room: int, found: int | None) -> None:
    assert find_most_pods(podsets(sizes), lambda counts: sum(counts) if sum(counts) <= room else None) == found


def test_podsets_give_up_pods_at_the_same_pace() -> None:
    assert find_most_pods(podsets([(10, 0), (4, 0)]), lambda counts: counts if sum(counts) <= 7 else None) == (5, 2)


@sampled(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=4), st.integers(0, 40))
def test_nothing_between_the_answer_and_all_fits(sizes: list[tuple[int, int]], room: int) -> None:
    tried: list[int] = []

    def attempt(counts: tuple[int, ...]) -> int | None:
        assert all(min(least, count) <= got <= count for got, (count, least) in zip(counts, sizes, strict=True))
        tried.append(sum(counts))
        return sum(counts) if sum(counts) <= room else None

    result = find_most_pods(podsets([*sizes]), attempt)
    assert result == max((pods for pods in tried if pods <= room), default=None)
    assert len(tried) <= 7
