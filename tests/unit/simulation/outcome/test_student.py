"""Confidence intervals by Student's distribution."""

import pytest

from muster.simulation.outcome.student import MeanEstimate, find_quantile


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (19, 2.0930), (999, 1.9623)])
def test_a_quantile_is_that_of_the_tables(degrees, quantile):
    assert find_quantile(0.95, degrees) == pytest.approx(quantile, abs=1e-4)


def test_an_estimate():
    one = MeanEstimate.of([1.0, 2.0, 3.0])
    assert one.mean == 2.0
    assert one.low == pytest.approx(-0.4841, abs=1e-4)
    assert one.high == pytest.approx(4.4841, abs=1e-4)
    assert MeanEstimate.of([5.0]) == MeanEstimate(5.0, None, None)
    assert MeanEstimate.of([5.0, 5.0]) == MeanEstimate(5.0, 5.0, 5.0)
