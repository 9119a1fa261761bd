"""Which indexes a sweep has, and what they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.ours.trials import ARRAY_ANNOTATION, GRID_ANNOTATION, MOST_TRIALS, Array, Grid, array_of, grid_of


@pytest.mark.parametrize(
    ("text", "indexes", "written"),
    [
        ("0-3", [0, 1, 2, 3], "0-3"),
        ("7", [7], "7"),
        ("1,3,5", [1, 3, 5], "1,3,5"),
        ("0-9:5", [0, 5], "0-5:5"),
        ("0-99:10", [*range(0, 100, 10)], "0-90:10"),
        ("3-4:9", [3], "3"),
        ("0-2:1", [0, 1, 2], "0-2"),
        ("008", [8], "8"),
        ("9,1-3", [9, 1, 2, 3], "9,1-3"),  # as it was asked for
        ("20240101-20240103", [20240101, 20240102, 20240103], "20240101-20240103"),
    ],
)
def test_arrays(text, indexes, written):
    array = Array.parse(text)
    assert [array[at] for at in range(len(array))] == indexes
    assert str(array) == written
    assert [array.completion(index) for index in indexes] == [*range(len(indexes))]
    assert Array.parse(written) == array


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is neither an index nor a range, as 0-7, 1,3,5 or 0-99:10"),
        ("1,,2", "'' is neither"),
        ("-1", "'-1' is neither"),
        ("1-2-3", "'1-2-3' is neither"),
        ("1:2", "'1:2' is neither"),
        ("٣", "is neither"),
        (" 1", "' 1' is neither"),
        ("1-\x1b[2J", r"'1-\x1b[2J' is neither"),
        ("5-1", "5-1: the range ends before it begins; say 1-5"),
        ("0-8:0", "0-8:0: a step is at least 1"),
        ("0-99999999999", "'0-99999999999': an index has at most 9 digits"),
        ("0-100000", "'0-100000' has 100001 trials, and a job has at most 100000"),
        ("0-999999999,0-999999999", "has 2000000000 trials"),
        ("0-5,3-7", "'0-5,3-7' has 3 twice"),
        ("x" * 200_000, "'" + "x" * 40 + "'... is longer than 100000 characters"),
    ],
)
def test_what_is_no_array(text, message):
    with pytest.raises(ValueError) as raised:
        Array.parse(text)
    assert message in str(raised.value)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_the_array_of_some_indexes_has_just_these(indexes):
    array = Array.of(sorted(indexes))
    assert [array[at] for at in range(len(array))] == sorted(indexes)
    assert Array.parse(str(array)) == array
    assert [index for index in range(310) if array.completion(index) is not None] == sorted(indexes)


def test_an_index_is_found_without_a_walk_through_all_runs():
    """With one, this would take a thousand million steps."""
    array = Array.of(range(0, MOST_TRIALS, 2))
    assert len(array.runs) == len(array) == MOST_TRIALS // 2
    assert [array[at] for at in range(len(array))] == [*array]
    with pytest.raises(IndexError):
        array[len(array)]


def test_there_is_no_trial_behind_the_last():
    with pytest.raises(IndexError):
        Array.parse("3-5")[3]


def test_the_last_variable_of_a_grid_changes_fastest():
    grid = Grid.parse(["lr=0.1,0.01", "depth=2,3,4", "seed=1"])
    assert len(grid) == 6
    found = [(one["lr"], one["depth"]) for one in map(grid.values, range(6))]
    assert found == [("0.1", "2"), ("0.1", "3"), ("0.1", "4"), ("0.01", "2"), ("0.01", "3"), ("0.01", "4")]
    assert grid.strides() == {"lr": 3, "depth": 1, "seed": 1}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["lr"], "'lr' is not NAME=VALUE,VALUE..., as lr=0.1,0.01"),
        (["lr="], "'lr=': a value of lr is empty"),
        (["lr=1,,2"], "a value of lr is empty"),
        (["lr=1,1"], "'lr=1,1': lr has a value twice"),
        (["lr=1", "lr=2"], "lr is given twice"),
        (["=1"], "'' is no name of a variable, as lr in lr=0.1,0.01"),
        (["1x=1"], "'1x' is no name of a variable"),
        (["a b=1"], "'a b' is no name of a variable"),
        (["é=1"], "is no name of a variable"),
        (["PATH="], "each trial needs its own PATH: give the variable of the grid another name"),
        (["MUSTER_INDEX=1"], "each trial needs its own MUSTER_INDEX"),
        (
            [f"{name}={','.join(map(str, range(1000)))}" for name in "ab"],
            "1000000 combinations, and a job has at most 100000 trials",
        ),
        (["a=" + "x" * 200_000], "its values are longer than 100000 characters"),
    ],
)
def test_what_is_no_grid(texts, message):
    with pytest.raises(ValueError) as raised:
        Grid.parse(texts)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("annotations", "completions", "array"),
    [
        ({}, 3, None),
        ({ARRAY_ANNOTATION: "1-3"}, 3, "1-3"),
        ({ARRAY_ANNOTATION: "1-3"}, 4, None),  # it is of another size
        ({ARRAY_ANNOTATION: "1-3"}, None, None),
        ({ARRAY_ANNOTATION: "what"}, 1, None),
    ],
)
def test_a_job_says_that_it_is_a_sweep(annotations, completions, array):
    found = array_of(annotations, completions)
    assert (None if found is None else str(found)) == array


@pytest.mark.parametrize(
    ("text", "values"),
    [('{"lr":["1","2"]}', {"lr": "2"}), ("", None), ("{", None), ('{"lr":[]}', None), ('{"lr":1}', None)],
)
def test_a_sweep_says_what_its_indexes_stand_for(text, values):
    grid = grid_of({GRID_ANNOTATION: text})
    assert (None if grid is None else grid.values(3)) == values
