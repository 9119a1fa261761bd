import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.values.indexes import Indexes

sets = st.sets(st.integers(0, 60))


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("", 10, ""),
        ("0", 10, "0"),
        ("0,1", 10, "0,1"),
        ("0-1", 10, "0,1"),
        ("0-2", 10, "0-2"),
        ("0,1,2,4", 10, "0-2,4"),
        ("0,2-4,7,8", 10, "0,2-4,7,8"),
        ("0-2,5-8", 7, "0-2,5,6"),
        ("0-2,5-8", 5, "0-2"),
        ("0-2,5-8", 0, ""),
        ("5,1-3", 10, "1-3,5"),
        ("0-4,2-6", 10, "0-6"),
        ("x,1", 10, "1"),
        ("1-x,2-,3", 10, "3"),
        ("4-2,6", 10, "6"),
        ("-1,7", 10, "7"),
        ("+1,1_0, 2,٣", 100, ""),
        ("1-2-3,9", 10, "9"),
        ("99999999999999999999,3", 10, "3"),
    ],
)
def test_parse_forgets_what_makes_no_sense(text: str, limit: int, shown: str) -> None:
    assert str(Indexes.parse(text, limit)) == shown


@given(sets)
def test_text_round_trip(indexes: set[int]) -> None:
    kept = Indexes.of(indexes)
    assert Indexes.parse(str(kept), 1000) == kept
    assert list(kept) == sorted(indexes)
    assert len(kept) == len(indexes)
    assert bool(kept) == bool(indexes)


@given(sets, st.integers(0, 60))
def test_limit_cuts(indexes: set[int], limit: int) -> None:
    assert set(Indexes.parse(str(Indexes.of(indexes)), limit)) == {index for index in indexes if index < limit}


@given(sets, sets)
def test_set_operations(one: set[int], other: set[int]) -> None:
    left, right = Indexes.of(one), Indexes.of(other)
    assert left | right == Indexes.of(one | other)
    assert left.overlap(right) == len(one & other)
    assert all((index in left) == (index in one) for index in range(-1, 62))


@given(sets, st.integers(0, 70), st.integers(0, 70))
def test_lowest_missing(indexes: set[int], count: int, limit: int) -> None:
    expected = [index for index in range(limit) if index not in indexes][:count]
    assert Indexes.of(indexes).lowest_missing(count, limit) == expected


def test_runs_not_indexes_cost() -> None:
    many = Indexes.parse("0-99999", 100_000)
    assert len(many.runs) == 1
    assert len(many) == 100_000
    assert many.lowest_missing(5, 100_000) == []


@given(sets, sets)
def test_difference_and_intersection(one: set[int], other: set[int]) -> None:
    assert Indexes.of(one) - Indexes.of(other) == Indexes.of(one - other)
    assert Indexes.of(one) & Indexes.of(other) == Indexes.of(one & other)
