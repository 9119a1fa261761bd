"""Reading members of JSON of any form, and copies with fewer members."""

import pytest

from muster.api.members import drop_empty, mapping_at, select_members, value_at

DOCUMENT = {"spec": {"map": {"k": {"v": 1}}, "items": [{"k": "a"}], "text": "abc", "none": None}}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((), DOCUMENT),
        (("spec", "map", "k", "v"), 1),
        (("spec", "items", 0, "k"), "a"),
        (("spec", "items", 1, "k"), None),
        (("spec", "items", "k"), None),
        (("spec", "map", 0), None),
        (("spec", "text", "length"), None),
        (("spec", "text", 0), None),
        (("spec", "none", "k"), None),
        (("status", "k"), None),
    ],
)
def test_the_value_at_a_path(path, value):
    assert value_at(DOCUMENT, path) == value
    assert mapping_at(DOCUMENT, *path) == (value if isinstance(value, dict) else {})


@pytest.mark.parametrize("document", [None, "text", 3, []])
def test_no_object_has_no_members(document):
    assert value_at(document, ("k",)) is None
    assert mapping_at(document, "k") == {}


def test_copies_with_fewer_members():
    assert drop_empty({"a": 1, "b": "", "c": None, "d": {}, "e": 0}) == {"a": 1}
    assert select_members({"a": 1, "b": 2, "c": None}, ("c", "x", "a")) == {"c": None, "a": 1}
