"""Spans on one line of time."""

import re

from muster.charts.scales import Tick
from muster.charts.timeline import Span, draw_timeline


def test_each_span_has_its_place_and_its_title():
    drawn = draw_timeline([Span(0, 0.25, "waiting", "waits"), Span(0.25, 1, "running", "runs")], [], "a life")
    assert re.findall(r'x="([^"]+)"[^>]*width="([^"]+)"', drawn) == [("0.00%", "25.00%"), ("25.00%", "75.00%")]
    assert "<title>runs</title>" in drawn
    assert 'aria-label="a life"' in drawn


def test_a_short_span_at_the_end_is_seen_and_stays_inside():
    [(x, width)] = re.findall(r'x="([\d.]+)%"[^>]*width="([\d.]+)%"', draw_timeline([Span(1, 1, "c", "t")], [], "l"))
    assert float(width) > 0
    assert float(x) + float(width) <= 100.01


def test_text_is_escaped_and_no_style_is_inline():
    drawn = draw_timeline([Span(0, 1, "c", "<script>")], [Tick(0, "0s"), Tick(1, "<b>")], '"x"')
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    assert "style=" not in drawn
