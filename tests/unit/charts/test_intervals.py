"""Intervals around zero."""

import re

from hypothesis import given
from hypothesis import strategies as st

from muster.charts.intervals import Interval, draw_intervals, list_signed_ticks

VALUES = st.floats(0, 1e6)


@given(VALUES, VALUES, st.floats(1, 1e5))
def test_ticks_reach_around_all_values_and_meet_zero(below, above, step):
    ticks = list_signed_ticks(-below, above, step)
    assert len(ticks) > 1
    assert 0.0 in ticks
    assert ticks[0] <= -below + step * 1e-6
    assert ticks[-1] >= above - step * 1e-6
    assert len(ticks) <= (below + above) / step + 4


def test_an_interval_is_drawn_where_it_lies():
    one = Interval("more", -2.0, 0.0, 2.0, "0")
    drawing = draw_intervals([one, Interval("less", 1.0, 2.0, 2.0, "rest")], str, "Changes")
    assert re.findall(r'class="l0" d="(M0 \S+)H1000"', drawing) == ["M0 70"]
    assert re.findall(r'class="lrest" d="(M750 \S+)H1000"', drawing) == ["M750 170"]
    assert "more: 0.0, from -2.0 to 2.0" in drawing


def test_times_have_round_steps():
    drawing = draw_intervals(
        [Interval("v", -9000.0, -7000.0, 0.0, "0")], lambda value: f"{value:g}s", "Changes", are_times=True
    )
    assert "-7200s" in drawing
    assert "-3600s" in drawing
