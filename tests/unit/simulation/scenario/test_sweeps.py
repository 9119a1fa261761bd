"""The values of sweeps."""

import pytest

from muster.simulation.scenario.sweeps import SweepError, list_grid, parse_sweep


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=100..400:100", [100, 200, 300, 400]),
        ("a=1..3", [1, 2, 3]),
        ("a=0.1..0.3:0.1", [0.1, 0.2, 0.3]),
        ("a=1h..4h:2h", ["1h", "3h"]),
        ("a=1h..2h", ["1h", "2h"]),
        ("a=30m..2h:30m", ["30m", "60m", "90m", "120m"]),
        ("a=0..1d:12h", ["0h", "12h", "24h"]),
        ("a=1.5h..2h:15m", ["90m", "105m", "120m"]),
        ("a=58m..1h", ["58m", "59m", "60m"]),
        ("a=512Mi..1Gi:256Mi", ["512Mi", "768Mi", "1024Mi"]),
        ("a=2,x,true", [2, "x", True]),
    ],
)
def test_a_sweep(text, values):
    assert parse_sweep(text).values == values


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "is not like PATH=FROM"),
        ("=1", "is not like PATH=FROM"),
        ("a=1..4:0", "the step must be positive"),
        ("a=1..4:-1", "the step must be positive"),
        ("a=4..1:1", "ends before it begins"),
        ("a=1..10000000:1", "has 10,000,000 values, and 1,000 are the most"),
        ("a=1..x", "are numbers"),
        ("a=1h..4m:1h", "ends before it begins"),
        ("a=30m..0nan", "ends before it begins"),
        ("a=1h..4Gi:1h", "different units: Gi, h"),
        ("a=500m..4:500m", "different units: none, m"),
        ("a=1h..4h:1", "different units: none, h"),
        ("a=1,,2", "a value is empty"),
        ("a=1,1", "a value is given twice"),
    ],
)
def test_what_is_no_sweep(text, problem):
    with pytest.raises(SweepError, match=problem):
        parse_sweep(text)


def test_several_sweeps_are_a_grid():
    grid = list(list_grid([parse_sweep("a=1,2"), parse_sweep("b=x,y")]))
    assert [name for name, _ in grid] == ["a=1, b=x", "a=1, b=y", "a=2, b=x", "a=2, b=y"]
    assert grid[1][1].settings == {"a": 1, "b": "y"}
    with pytest.raises(SweepError, match="a: is swept twice"):
        list_grid([parse_sweep("a=1,2"), parse_sweep("a=3")])
    with pytest.raises(SweepError, match="10,000 values"):
        list_grid([parse_sweep("a=1..100"), parse_sweep("b=1..100")])
