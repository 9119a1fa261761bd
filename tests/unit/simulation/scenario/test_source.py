"""Errors about unknown names."""

import pytest

from muster.simulation.scenario.source import find_line, suggest


@pytest.mark.parametrize(
    ("known", "end"), [((), ""), (("gpu", "n"), ": do you mean gpu?"), (("cpu-a", "n"), ", but cpu-a, n")]
)
def test_an_error_about_an_unknown_name_ends_with_what_is_known(known, end):
    assert suggest("gpus", known) == end


TEXT = b"""a: 1
---
spec:
  set:
    work.w: 1
    work.w.runTime: 2
  quota: {nominalQuota:
    {nvidia.com/gpu: 2}}
  items:
  - a
  - b: 1
    c: 2
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", 3),
        ("spec.set.work.w.runTime", 6),
        ("spec.quota.nominalQuota.nvidia.com/gpu", 8),
        ("spec.items[1].c", 12),
        ("spec.items[1].d", 11),
        ("spec.items[7].c", 9),
        ("spec.none[0].c", 3),
    ],
)
def test_the_line_of_a_field_is_that_of_the_nearest_one_that_is_there(path, line):
    assert find_line(TEXT, 2, path) == line
