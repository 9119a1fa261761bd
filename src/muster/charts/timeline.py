"""Draw spans that follow each other on one line of time."""

from collections.abc import Sequence

from msgspec import Struct

from muster.charts.markup import Markup, make_element
from muster.charts.scales import Tick

_HEIGHT = 26
_TICKS = 20
# The least part of the width that a span takes, so that a short one is seen.
_LEAST = 0.004


class Span(Struct, frozen=True):
    """A span of time in one phase.

    start, end: from 0 to 1 of the line.
    color: a class of the style sheet.
    title: the tooltip.
    """

    start: float
    end: float
    color: str
    title: str


def draw_timeline(spans: Sequence[Span], ticks: Sequence[Tick], label: str) -> Markup:
    """Return a drawing of spans as coloured bars on one line, with a time axis below. label: for screen readers."""
    shapes = [_draw_span(span) for span in spans]
    names = [_draw_tick(tick) for tick in ticks]
    attributes = {"class": "timeline", "width": "100%", "height": _HEIGHT + _TICKS, "role": "img", "aria-label": label}
    return make_element("svg", attributes, *shapes, *names)


def _draw_span(span: Span) -> Markup:
    start, end = max(0.0, min(span.start, 1.0 - _LEAST)), max(0.0, min(span.end, 1.0))
    place = {
        "x": f"{start * 100:.2f}%", "y": 0, "width": f"{max(end - start, _LEAST) * 100:.2f}%", "height": _HEIGHT,
    }  # fmt: skip
    return make_element("rect", {"class": f"span {span.color}", **place}, make_element("title", {}, span.title))


def _draw_tick(tick: Tick) -> Markup:
    anchor = "start" if tick.at < 0.04 else "end" if tick.at > 0.96 else "middle"
    classes = "tick minor" if tick.minor else "tick"
    place = {"x": f"{tick.at * 100:.2f}%", "y": _HEIGHT + 15, "text-anchor": anchor}
    return make_element("text", {"class": classes, **place}, tick.label)
