from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.validation.indexes import IndexesError, count, first_overlap


@pytest.mark.parametrize(
    ("text", "number"), [("", 0), ("0", 1), ("0,2-4", 4), ("0-4", 5), ("+1", 1), ("0,1", 2), ("3-4", 2)]
)
def test_count(text: Any, number: Any) -> None:
    assert count(text, 5) == number


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("5", 'too large index: "5"'),
        ("0-5", 'too large index: "5"'),
        ("a", 'cannot convert string to integer for index: "a"'),
        ("0,", 'cannot convert string to integer for index: ""'),
        ("-1", 'cannot convert string to integer for index: ""'),
        (" 1", 'cannot convert string to integer for index: " 1"'),
        ("1-a", 'cannot convert string to integer for index: "a"'),
        ("3,2", "non-increasing order, previous: 3, current: 2"),
        ("3-2", "non-increasing order, previous: 3, current: 2"),
        ("2-2", "non-increasing order, previous: 2, current: 2"),
        ("0-2,2", "non-increasing order, previous: 2, current: 2"),
        (
            "1-2-3",
            (
                'the fragment "1-2-3" violates the requirement that an index interval can have at most two parts '
                "separated by '-'"
            ),
        ),
    ],
)
def test_count_refuses(text: Any, sentence: Any) -> None:
    with pytest.raises(IndexesError) as refusal:
        count(text, 5)
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("completed", "failed", "overlap"),
    [
        ("", "", None),
        ("0-2", "3,4", None),
        ("0-2", "2-4", 2),
        ("0,2,4", "1,3,4", 4),
        ("1-3", "0,2", 2),
        ("x,1", "1", 1),
        ("9", "9", None),  # out of range: `count` says so
    ],
)
def test_first_overlap(completed: Any, failed: Any, overlap: Any) -> None:
    assert first_overlap(completed, failed, 5) == overlap


def written(indexes: Any) -> Any:
    return ",".join(map(str, sorted(indexes)))


@given(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30)))
def test_overlap_is_the_lowest_common_index(completed: Any, failed: Any) -> None:
    assert first_overlap(written(completed), written(failed), 31) == min(completed & failed, default=None)


@given(st.sets(st.integers(0, 30)))
def test_every_index_counts_once(indexes: Any) -> None:
    assert count(written(indexes), 31) == len(indexes)
