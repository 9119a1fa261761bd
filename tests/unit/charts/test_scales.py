import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.charts.scales import format_span, format_value, list_log_ticks, list_time_ticks, list_value_ticks, place_log


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (0, [0, 1]),
        (1, [0, 0.25, 0.5, 0.75, 1]),
        (64, [0, 20, 40, 60, 80]),
        (100, [0, 25, 50, 75, 100]),
        (7, [0, 2, 4, 6, 8]),
    ],
)
def test_values_are_round(most, ticks):
    assert list_value_ticks(most) == pytest.approx(ticks)


@given(st.floats(1e-6, 1e18))
def test_the_last_value_covers_the_largest_one_and_not_much_more(most):
    ticks = list_value_ticks(most)
    assert most <= ticks[-1] * 1.00001
    assert ticks[-2] <= most * 1.00001
    assert 2 <= len(ticks) <= 6


@given(st.floats(1e-6, 1e15))
def test_each_value_of_an_axis_has_a_label_of_its_own(most):
    ticks = list_value_ticks(most)
    assert len({format_value(one) for one in ticks}) == len(ticks)


@given(st.floats(0.5, 1e11))
def test_times_are_few_and_within_the_axis(seconds):
    ticks = list_time_ticks(seconds)
    assert 1 <= len(ticks) <= 9
    assert all(0 <= tick.at <= 1 for tick in ticks)


def test_a_week_has_days():
    assert [tick.label for tick in list_time_ticks(7 * 86_400)] == ["0s", "1d", "2d", "3d", "4d", "5d", "6d", "7d"]


@pytest.mark.parametrize(("value", "place"), [(0, 0), (1, 0), (10, 0.5), (100, 1), (1e9, 1)])
def test_spans_are_placed_by_their_logarithm(value, place):
    assert place_log(value, 100) == place
    assert list_log_ticks(100)[0].label == "≤1s"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (37, "37"), (1234, "1.23k"), (999_999, "1M"), (2e12, "2T"), (-5, "-5"), (100.4, "100")],
)
def test_numbers_are_short(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.3, "0.3s"), (125, "2m5s"), (273_600, "3d4h"), (86_400, "1d")])
def test_spans_have_two_units(seconds, text):
    assert format_span(seconds) == text
