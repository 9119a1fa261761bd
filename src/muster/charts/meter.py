"""Draw an amount, such as the used part of a quota, as a horizontal bar with coloured parts."""

from collections.abc import Iterable

from msgspec import Struct

from muster.charts.markup import Markup, format_number, make_element

_HEIGHT = 10


class Part(Struct, frozen=True):
    """A part of a bar.

    start, amount: in the unit of the bar.
    color: a class of the style sheet.
    """

    start: float
    amount: float
    color: str


def draw_meter(parts: Iterable[Part], total: float, label: str, mark: float | None = None) -> Markup:
    """Return a drawing of a bar as wide as its container.

    parts: the coloured parts of the bar.
    total: the amount at the full width.
    label: the tooltip.
    mark: the amount at which a line crosses the bar; None for no line.
    """
    whole = total if total > 0 else 1.0
    shapes = [make_element("rect", {"class": "ground", "width": "100%", "height": _HEIGHT, "rx": 2})]
    for part in parts:
        if part.amount > 0:
            place = {
                "x": _format_percent(part.start / whole),
                "width": _format_percent(min(part.amount, whole) / whole),
            }
            shapes.append(make_element("rect", {"class": part.color, **place, "height": _HEIGHT}))
    if mark is not None and 0 < mark < whole:
        at = _format_percent(mark / whole)
        shapes.append(make_element("line", {"class": "mark", "x1": at, "x2": at, "y1": -2, "y2": _HEIGHT + 2}))
    size = {"width": "100%", "height": _HEIGHT, "role": "img", "aria-label": label}
    return make_element("svg", {"class": "meter", **size}, *shapes, make_element("title", {}, label))


def _format_percent(share: float) -> str:
    return f"{format_number(round(max(0.0, min(1.0, share)) * 100, 1))}%"
