"""Errors about unknown names."""

import pytest

from muster.simulation.scenario.source import suggest


@pytest.mark.parametrize(
    ("known", "end"), [((), ""), (("gpu", "n"), ": do you mean gpu?"), (("cpu-a", "n"), ", but cpu-a, n")]
)
def test_an_error_about_an_unknown_name_ends_with_what_is_known(known, end):
    assert suggest("gpus", known) == end
