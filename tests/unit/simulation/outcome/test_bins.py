import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.simulation.outcome.bins import MOST_BINS, Bins, average_steps, sum_events


@pytest.mark.parametrize(
    ("seconds", "width", "count"),
    [
        (0, 1, 0),
        (0.5, 1, 1),
        (750, 1, 750),
        (751, 5, 151),
        (86_400, 300, 288),
        (7 * 86_400, 900, 672),
        (1e10, 19353600, 517),
    ],
)
def test_bins_have_a_round_width_and_cover_the_time(seconds, width, count):
    bins = Bins.cover(seconds)
    assert (bins.width, len(bins)) == (width, count)
    assert bins.edges[-1] == seconds


def test_a_change_counts_for_the_rest_of_its_bin_and_for_all_later_bins():
    bins = Bins(10.0, np.array([0.0, 10.0, 20.0, 25.0]))
    times, rows = np.array([5.0, 10.0, 22.5, 25.0]), np.array([0, 1, 0, 0])
    means = average_steps(bins, times, rows, np.array([4.0, 1.0, -4.0, 100.0]), 2)
    assert means.tolist() == [[2.0, 4.0, 2.0], [0.0, 1.0, 1.0]]


def test_events_are_summed_in_their_bin():
    bins = Bins(10.0, np.array([0.0, 10.0, 15.0]))
    sums = sum_events(bins, np.array([0.0, 9.0, 10.0, 15.0]), np.array([0, 0, 0, 0]), np.ones(4), 1)
    assert sums.tolist() == [[2.0, 2.0]]


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 1000), st.integers(1, 100)), max_size=30))
def test_the_area_below_the_bins_is_that_of_the_stays(stays):
    bins = Bins.cover(1000.0)
    assert len(bins) <= MOST_BINS
    spans = [(min(start, end), max(start, end), amount) for start, end, amount in stays]
    times = np.array([time for start, end, _ in spans for time in (start, end)])
    amounts = np.array([float(one) for *_, amount in spans for one in (amount, -amount)])
    means = average_steps(bins, times, np.zeros(len(times), np.int64), amounts, 1)
    area = sum((end - start) * amount for start, end, amount in spans)
    assert (means[0] * np.diff(bins.edges)).sum() == pytest.approx(area, abs=1e-6)
