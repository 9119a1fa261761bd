"""Merge patch: the cases of RFC 7386's appendix A and its laws."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.patch import merge
from muster.api.status import ApiError


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({"a": "foo"}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, {}, {"a": 1}),
    ],
)
def test_apply(document: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    assert merge.apply(document, patch) == expected


@pytest.mark.parametrize("patch", [[], None, "x", 1])
def test_a_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(ApiError, match="Invalid JSON Patch") as error:
        merge.apply({}, patch)
    assert error.value.code == 400


_scalars = st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x"])
_keys = st.sampled_from("abc")
_documents: Any = st.recursive(
    st.dictionaries(_keys, _scalars),
    lambda nested: st.dictionaries(_keys, _scalars | nested | st.lists(_scalars, max_size=2), max_size=3),
    max_leaves=8,
)


def _difference(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = dict.fromkeys(old.keys() - new.keys())
    for key, value in new.items():
        before = old.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            patch[key] = _difference(before, value)
        else:
            patch[key] = value
    return patch


@given(_documents, _documents)
def test_the_patch_of_a_difference_yields_the_target(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    patch = _difference(old, new)
    patch_before = copy.deepcopy(patch)
    assert merge.apply(old, patch) == new
    assert (old, patch) == (before, patch_before)


@given(_documents, _documents)
def test_applying_twice_is_applying_once(document: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge.apply(document, patch)
    assert merge.apply(once, patch) == once
