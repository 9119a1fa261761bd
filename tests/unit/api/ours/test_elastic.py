"""Between which sizes a Job may be moved, as users write it."""

import pytest

from muster.api.ours.elastic import CAP_ANNOTATION, ELASTIC_ANNOTATION, Bounds, bounds_of, cap_of


@pytest.mark.parametrize(
    ("text", "bounds"),
    [("2:8", Bounds(2, 8)), ("4:4", Bounds(4, 4)), ("1:100000", Bounds(1, 100_000)), ("02:08", Bounds(2, 8))],
)
def test_bounds(text, bounds):
    assert Bounds.parse(text) == bounds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not MIN:MAX, such as 2:8"),
        ("4", "'4' is not MIN:MAX, such as 2:8"),
        ("-1:4", "'-1:4' is not MIN:MAX, such as 2:8"),
        ("\u0663:4", "'\u0663:4' is not MIN:MAX, such as 2:8"),
        ("0:4", "'0:4': MIN must be at least 1 and at most MAX"),
        ("5:4", "'5:4': MIN must be at least 1 and at most MAX"),
        ("1:100001", "'1:100001': MAX must be at most 100000, as a Job has no more workers"),
        ("1:" + "9" * 10_000, f"'1:{'9' * 30}'... is not MIN:MAX, such as 2:8"),
    ],
    ids=["empty", "one number", "negative", "other digits", "zero", "upside down", "too many", "endless"],
)
def test_what_is_no_bounds_is_refused_in_words(text, said):
    with pytest.raises(ValueError, match="M") as refused:
        Bounds.parse(text)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("annotations", "bounds"),
    [({ELASTIC_ANNOTATION: "2:8"}, Bounds(2, 8)), ({ELASTIC_ANNOTATION: "8:2"}, None), ({}, None)],
)
def test_a_job_that_does_not_ask_in_words_that_mean_something_is_not_moved(annotations, bounds):
    assert bounds_of(annotations) == bounds


@pytest.mark.parametrize(
    ("text", "cap"),
    [("6", 6), ("0", 0), ("", None), ("-1", None), ("six", None), ("6.0", None), ("\u0666", None), ("9" * 5000, None)],
)
def test_a_cap_is_a_number_or_none_of_ours(text, cap):
    assert cap_of({CAP_ANNOTATION: text}) == cap


def test_a_job_without_a_cap_has_none():
    assert cap_of({}) is None
