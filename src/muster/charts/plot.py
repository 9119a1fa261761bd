"""Draw series over an axis: stacked areas, lines, bars and maps of cells.

A plot is as wide as its page. The browser stretches the shapes but not the texts, because texts are placed by
percentages.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate

from msgspec import Struct

from muster.charts.markup import Markup, format_number, make_element
from muster.charts.scales import Tick, format_value, list_value_ticks

# The size of the stretched drawing in its own units.
WIDTH, HEIGHT = 1000, 200
# Room above the drawing, for the topmost value, and below it, for the names of ticks.
_TOP, _BOTTOM = 14, 24
# The least height of a row of cells with its name, and the part of it for the name.
_NAMED_ROW, _NAME = 40, 18
COLORS = 7
"""The number of series with a colour of their own; others are grey."""
_STEPS = 5


class Series(Struct, frozen=True):
    """The values of one layer or line, one for each interval between two edges.

    color: the number of a colour, or a word of the style sheet: `rest`, `limit`, `lost`.
    """

    name: str
    values: Sequence[float]
    color: str


class LinePoints(Struct, frozen=True):
    """A line through points. points: each point's horizontal position, from 0 to 1 and ascending, and its value."""

    name: str
    points: Sequence[tuple[float, float]]
    color: str


def color_of(number: int) -> str:
    """Return the colour of the series with this number. From `COLORS` on, all series are grey."""
    return str(number) if number < COLORS else "rest"


def draw_stack(
    edges: Sequence[float],
    layers: Sequence[Series],
    lines: Sequence[Series],
    ticks: Sequence[Tick],
    label: str,
    unit: str = "",
) -> Markup:
    """Return a drawing of layers stacked from the bottom to the top, and lines over them, all as step functions.

    edges: the times at which values may change, from 0; a value holds from one edge to the next.
    ticks: the labels of the time axis.
    label: the text for screen readers.
    unit: shown at the topmost value.
    """
    levels = sum_layers([layer.values for layer in layers], len(edges) - 1)
    most = max((max(values, default=0.0) for values in (*levels, *(line.values for line in lines))), default=0.0)
    values = list_value_ticks(most)
    top = values[-1]
    places = [edge / edges[-1] * WIDTH for edge in edges]
    shapes = [
        _draw_area(places, below, above, top, layer)
        for layer, below, above in zip(layers, levels, levels[1:], strict=False)
    ]
    shapes += [_draw_line(_list_step_points(places, line.values, top), line.name, line.color) for line in lines]
    return draw_frame(shapes, ticks, _name_values(values, unit), label)


def draw_lines(lines: Sequence[LinePoints], ticks: Sequence[Tick], most: float, label: str, unit: str = "") -> Markup:
    """Return a drawing of lines through points, over a vertical axis from 0 to at least `most`.

    ticks: the labels of the horizontal axis.
    label: the text for screen readers.
    unit: shown at the topmost value.
    """
    values = list_value_ticks(most)
    shapes = [
        _draw_line([(at * WIDTH, _scale_height(value, values[-1])) for at, value in line.points], line.name, line.color)
        for line in lines
    ]
    return draw_frame(shapes, ticks, _name_values(values, unit), label)


def draw_cells(
    rows: Sequence[Sequence[float]], ticks: Sequence[Tick], names: Sequence[Tick], label: str, *, named: bool = False
) -> Markup:
    """Return a heat map, the first row at the bottom: a larger value is darker, and a cell with 0 is empty.

    ticks: the labels of the horizontal axis.
    names: the labels of the vertical axis.
    label: the text for screen readers.
    named: whether each row has a label, which then is drawn above the cells of the row.
    """
    most = max((max(row, default=0.0) for row in rows), default=0.0)
    total = max(HEIGHT, len(rows) * _NAMED_ROW) if named else HEIGHT
    height, above = total / max(len(rows), 1), _NAME if named else 0
    shapes = []
    for number, row in enumerate(rows):
        width = WIDTH / max(len(row), 1)
        for column, value in enumerate(row):
            if value > 0:
                strength = min(_STEPS - 1, int((value / most) ** 0.4 * _STEPS))
                y = total - (number + 1) * height + above
                place = {"x": column * width, "y": y, "width": width, "height": height - above}
                title = make_element("title", {}, f"{format_value(value)}")
                shapes.append(make_element("rect", {"class": f"m{strength}", **place}, title))
    return draw_frame(shapes, ticks, names, label, raised=-14, height=total)


def sum_layers(layers: Sequence[Sequence[float]], length: int) -> list[list[float]]:
    """Return the boundaries of stacked layers: zeros for the bottom, then the sums up to each layer.

    length: the number of values of a layer.
    """
    return list(
        accumulate(
            layers, lambda total, more: [a + b for a, b in zip(total, more, strict=True)], initial=[0.0] * length
        )
    )


def draw_frame(
    shapes: Iterable[Markup],
    ticks: Sequence[Tick],
    values: Sequence[Tick],
    label: str,
    raised: float = 3,
    height: float = HEIGHT,
) -> Markup:
    """Return a drawing of shapes with its axes.

    ticks: the labels of the horizontal axis.
    values: the labels of the vertical axis, with a line each; position 0 is the bottom.
    raised: the distance of these labels above their lines.
    height: the height of the shapes' part of the drawing.
    """
    parts = []
    for tick in values:
        y = _TOP + height * (1 - tick.at)
        parts.append(make_element("line", {"class": "grid", "x1": "0", "x2": "100%", "y1": y, "y2": y}))
    drawing = {"x": "0", "y": _TOP, "width": "100%", "height": height, "preserveAspectRatio": "none"}
    parts.append(make_element("svg", {**drawing, "viewBox": f"0 0 {WIDTH} {height}", "class": "shapes"}, *shapes))
    for tick in values:
        if not tick.label:
            continue
        y = _TOP + height * (1 - tick.at)
        parts.append(make_element("text", {"class": "value", "x": "0", "y": y - raised}, tick.label))
    for tick in ticks:
        anchor = "start" if tick.at < 0.04 else "end" if tick.at > 0.96 else "middle"
        place = {"x": f"{format_number(tick.at * 100)}%", "y": _TOP + height + 16, "text-anchor": anchor}
        parts.append(make_element("text", {"class": "tick minor" if tick.minor else "tick", **place}, tick.label))
    size = {"width": "100%", "height": _TOP + height + _BOTTOM, "role": "img", "aria-label": label}
    return make_element("svg", {"class": "plot", **size}, *parts)


def draw_legend(series: Iterable[tuple[str, str]]) -> Markup:
    """Return a legend as a list. series: the name and the colour of each series."""
    items = (make_element("li", {}, make_element("i", {"class": f"key k{color}"}), name) for name, color in series)
    return make_element("ul", {"class": "legend"}, *items)


def _name_values(values: Sequence[float], unit: str) -> list[Tick]:
    last = values[-1]
    return [
        Tick(value / last, f"{format_value(value)}{' ' + unit if unit and value == last else ''}") for value in values
    ]


def _scale_height(value: float, top: float) -> float:
    return HEIGHT * (1 - value / top)


def _draw_area(
    places: Sequence[float], below: Sequence[float], above: Sequence[float], top: float, layer: Series
) -> Markup:
    upper = list_steps(places, [_scale_height(value, top) for value in above])
    lower = list_steps(places, [_scale_height(value, top) for value in below])
    path = f"{write_path([*upper, *lower[::-1]])}Z"
    return make_element("path", {"class": f"a{layer.color}", "d": path}, make_element("title", {}, layer.name))


def _list_step_points(places: Sequence[float], values: Sequence[float], top: float) -> list[tuple[float, float]]:
    return list_steps(places, [_scale_height(value, top) for value in values])


def list_steps(places: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of a step function; two neighbouring steps of equal height have no corner between them.

    places: the horizontal positions of the steps' ends, one more than there are heights.
    """
    corners: list[tuple[float, float]] = []
    for number, height in enumerate(heights):
        if not corners or height != corners[-1][1]:
            if corners:
                corners.append((places[number], corners[-1][1]))
            corners.append((places[number], height))
    if corners:
        corners.append((places[len(heights)], corners[-1][1]))
    return corners


def _draw_line(points: Sequence[tuple[float, float]], name: str, color: str) -> Markup:
    if not points:
        return Markup()
    title = make_element("title", {}, name)
    return make_element("path", {"class": f"l{color}", "d": write_path(points)}, title)


def write_path(points: Iterable[tuple[float, float]]) -> str:
    """Return the SVG path through points, rounded to a tenth; horizontal and vertical lines have short forms."""
    parts: list[str] = []
    last_x = last_y = ""
    for point in points:
        x, y = (_format_tenth(value) for value in point)
        if not parts:
            parts.append(f"M{x} {y}")
        elif x != last_x:
            parts.append(f"H{x}" if y == last_y else f"L{x} {y}")
        elif y != last_y:
            parts.append(f"V{y}")
        last_x, last_y = x, y
    return "".join(parts)


def _format_tenth(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def draw_table(header: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> Markup:
    """Return an HTML table. The first cell of each row is the row's heading.

    words: how many columns, from the first one, contain words, which are left-aligned; the other columns contain
    numbers.
    """
    aligned = [{"class": "words"} if 0 < place < words else {} for place in range(len(header))]
    names = zip(header, aligned, strict=True)
    head = make_element("tr", {}, *(make_element("th", {"scope": "col", **align}, name) for name, align in names))
    body = (
        make_element(
            "tr",
            {},
            make_element("th", {"scope": "row"}, row[0]),
            *(make_element("td", align, cell) for cell, align in zip(row[1:], aligned[1:], strict=True)),
        )
        for row in rows
    )
    table = make_element("table", {}, make_element("thead", {}, head), make_element("tbody", {}, *body))
    return make_element("div", {"class": "scroll", "tabindex": "0", "role": "group", "aria-label": "Table"}, table)
