"""Draw intervals one below the other, each in a row of its own, with a vertical line at zero."""

from collections.abc import Callable, Sequence
from math import ceil

from msgspec import Struct

from muster.charts.markup import Markup, make_element
from muster.charts.plot import HEIGHT, WIDTH, draw_frame, write_path
from muster.charts.scales import Tick, find_time_step, list_value_ticks

# How far the mark of a middle reaches above and below its line.
_MARK = 6.0
# How many steps the longer side of a time axis has at the most.
_STEPS = 4
# Sums of floating-point numbers are not exact.
_ROUNDING = 1e-9


class Interval(Struct, frozen=True):
    """An estimated value (`middle`) with its bounds, as of a confidence interval. color: a class of the style sheet."""

    name: str
    low: float
    middle: float
    high: float
    color: str


def draw_intervals(
    intervals: Sequence[Interval], write: Callable[[float], str], label: str, *, are_times: bool = False
) -> Markup:
    """Return a drawing of intervals from top to bottom.

    write: formats a value.
    label: the text for screen readers.
    are_times: whether values are seconds.
    """
    least = min(0.0, *(one.low for one in intervals))
    most = max(0.0, *(one.high for one in intervals))
    farthest = max(-least, most)
    step = find_time_step(farthest, _STEPS) if are_times and farthest else list_value_ticks(farthest)[1]
    values = list_signed_ticks(least, most, step)
    first, last = values[0], values[-1]

    def place(value: float) -> float:
        return (value - first) / (last - first)

    shapes = [
        make_element(
            "path", {"class": "rule", "d": write_path([(place(0.0) * WIDTH, 0), (place(0.0) * WIDTH, HEIGHT)])}
        )
    ]
    names = []
    height = HEIGHT / len(intervals)
    for number, one in enumerate(intervals):
        y = (number + 0.7) * height
        low, middle, high = (place(value) * WIDTH for value in (one.low, one.middle, one.high))
        title = make_element(
            "title", {}, f"{one.name}: {write(one.middle)}, from {write(one.low)} to {write(one.high)}"
        )
        shapes.append(make_element("path", {"class": f"l{one.color}", "d": write_path([(low, y), (high, y)])}, title))
        mark = write_path([(middle, y - _MARK), (middle, y + _MARK)])
        shapes.append(make_element("path", {"class": f"l{one.color}", "d": mark}))
        names.append(Tick(1 - number / len(intervals), f"{one.name}: {write(one.middle)}"))
    ticks = [Tick(place(value), write(value), minor=bool(number % 2)) for number, value in enumerate(values)]
    return draw_frame(shapes, ticks, names, label, raised=-12)


def list_signed_ticks(least: float, most: float, step: float) -> list[float]:
    """Return the multiples of `step` that enclose the values from `least` to `most`; at least two multiples."""
    below, above = ceil(-least / step - _ROUNDING), ceil(most / step - _ROUNDING)
    return [step * number for number in range(-below, max(above, 0 if below else 1) + 1)]
