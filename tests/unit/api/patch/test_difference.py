"""A difference, applied, makes the one document of the other."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.patch import json as json_patch
from muster.api.patch.difference import compute_difference

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("a/~0", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a/~01", max_size=3), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.text("ab/~", max_size=2), VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_it_is_what_lies_between(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert json_patch.is_equal(json_patch.apply(before, compute_difference(before, after)), after)


@pytest.mark.parametrize(
    ("before", "after", "operations"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({}, {"a/b": {}}, [{"op": "add", "path": "/a~1b", "value": {}}]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, [{"op": "remove", "path": "/a/c"}]),
        ({"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, [{"op": "replace", "path": "/a/b", "value": [1, 2]}]),
        ({"a": 1}, {"a": True}, [{"op": "replace", "path": "/a", "value": True}]),
    ],
)
def test_it_says_no_more_than_that(before: Any, after: Any, operations: Any) -> None:
    assert compute_difference(before, after) == operations
