"""Draw which job ran on which node and when."""

import heapq
from collections.abc import Iterable, Sequence
from itertools import groupby

from msgspec import Struct

from muster.charts.markup import Markup, make_element
from muster.charts.plot import WIDTH, write_path
from muster.charts.scales import Tick

# The maximum number of bars drawn one by one. Shorter bars at one place become one bar, and those are at most as many.
MOST_BARS = 7000
# Places of a row are no narrower than this part of the width.
_FINEST = 2000
_LANE = 4.0
_MOST_LANES = 8


class Bar(Struct, frozen=True):
    """One run of a job on a row, such as a node.

    start, end: in seconds.
    name: the tooltip.
    color: the suffix of a class in the style sheet.
    """

    row: int
    start: float
    end: float
    name: str
    color: str


class PlacedBar(Struct, frozen=True):
    """A bar with its lane within the row, from 0. count: the number of bars that it replaces; 1 for a single job."""

    bar: Bar
    lane: int
    count: int


def draw_gantt(rows: Sequence[str], bars: Sequence[Bar], seconds: float, ticks: Sequence[Tick], label: str) -> Markup:
    """Return a drawing of bars in rows over time, from 0 to `seconds`; the page's script adds tooltips and zoom.

    rows: the names of the rows.
    ticks: the labels of the time axis.
    label: the text for screen readers.
    """
    placed = place_bars(merge_bars(bars, seconds))
    lanes = max((one.lane + 1 for one in placed), default=1)
    row_height = max(14.0, min(lanes, _MOST_LANES) * _LANE)
    lane_height = (row_height - 2) / lanes
    height = row_height * max(len(rows), 1)
    shapes = []
    for number in range(1, len(rows)):
        y = number * row_height - 0.5
        shapes.append(make_element("path", {"class": "rule", "d": write_path([(0, y), (WIDTH, y)])}))
    for one in placed:
        x, end = (time / seconds * WIDTH for time in (one.bar.start, one.bar.end))
        y = one.bar.row * row_height + one.lane * lane_height
        place = {"x": x, "y": y, "width": max(end - x, 0.3), "height": max(lane_height - 0.5, 0.5)}
        name = one.bar.name if one.count == 1 else f"{one.count} jobs"
        names = {"data-n": name, "data-s": round(one.bar.start), "data-e": round(one.bar.end)}
        shapes.append(make_element("rect", {"class": f"a{one.bar.color}", **place, **names}))
    return make_element(
        "div",
        {"class": "gantt", "tabindex": "0", "role": "group", "aria-label": label, "data-seconds": seconds},
        _draw_names(rows, row_height, height),
        make_element(
            "div",
            {"class": "bars"},
            make_element(
                "svg",
                {"width": "100%", "height": height, "viewBox": f"0 0 {WIDTH} {int(height)}", "role": "img"}
                | {"preserveAspectRatio": "none", "class": "shapes", "aria-label": label},
                *shapes,
            ),
            make_element("svg", {"class": "plot times", "width": "100%", "height": 22}, *map(_draw_tick, ticks)),
        ),
    )


def _draw_names(rows: Sequence[str], row_height: float, height: float) -> Markup:
    texts = (
        make_element(
            "text", {"class": "tick", "x": "100%", "y": (number + 0.5) * row_height + 4, "text-anchor": "end"}, name
        )
        for number, name in enumerate(rows)
    )
    return make_element("svg", {"class": "names", "height": height, "aria-hidden": "true"}, *texts)


def _draw_tick(tick: Tick) -> Markup:
    anchor = "start" if tick.at < 0.04 else "end" if tick.at > 0.96 else "middle"
    classes = "tick minor" if tick.minor else "tick"
    return make_element(
        "text", {"class": classes, "x": f"{tick.at * 100:.2f}%", "y": 14, "text-anchor": anchor}, tick.label
    )


def merge_bars(bars: Iterable[Bar], seconds: float, most: int = MOST_BARS) -> list[tuple[Bar, int]]:
    """Limit the number of bars: keep the `most` longest bars, and merge the other bars that start close together.

    Return each bar with the number of bars that it replaces.
    """
    ordered = sorted(bars, key=lambda bar: bar.end - bar.start, reverse=True)
    merged = [(bar, 1) for bar in ordered[:most]]
    rows = len({bar.row for bar in ordered[most:]})
    slot = seconds / max(1, min(_FINEST, most // max(rows, 1)))

    def place(bar: Bar) -> tuple[int, int]:
        return bar.row, int(bar.start // slot)

    for (row, number), group in groupby(sorted(ordered[most:], key=place), place):
        some = list(group)
        start, end = min(bar.start for bar in some), max(bar.end for bar in some)
        color = some[0].color if len({bar.color for bar in some}) == 1 else "rest"
        merged.append((Bar(row, max(start, number * slot), end, some[0].name, color), len(some)))
    return merged


def place_bars(bars: Iterable[tuple[Bar, int]]) -> list[PlacedBar]:
    """Assign a lane to each bar, so that bars of one row that overlap in time have different lanes.

    bars: the bars with their counts.

    Return the bars sorted by row and start.
    """
    placed = []
    ordered = sorted(bars, key=lambda one: (one[0].row, one[0].start, one[0].end, one[0].name))
    for _, group in groupby(ordered, lambda one: one[0].row):
        busy: list[tuple[float, int]] = []
        free: list[int] = []
        lanes = 0
        for bar, count in group:
            while busy and busy[0][0] <= bar.start:
                heapq.heappush(free, heapq.heappop(busy)[1])
            if free:
                lane = heapq.heappop(free)
            else:
                lane, lanes = lanes, lanes + 1
            heapq.heappush(busy, (bar.end, lane))
            placed.append(PlacedBar(bar, lane, count))
    return placed
