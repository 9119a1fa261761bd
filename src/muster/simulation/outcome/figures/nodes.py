"""Draw where jobs ran, and the free room that no gang could use."""

import re
from collections.abc import Sequence
from math import inf, isnan

from muster.charts.gantt import Bar, draw_gantt
from muster.charts.page import Figure, Section
from muster.charts.plot import Series, draw_legend, draw_stack
from muster.charts.scales import format_span, list_time_ticks
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.fragmentation import FreeRoom
from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.report import Report
from muster.simulation.outcome.timeline import scale_amount

_MOST_SIZES = 6
_DIGITS = re.compile("([0-9]{1,18})")


def draw_nodes(report: Report, palette: Palette) -> Section | None:
    """Return the section about nodes: their free room, and the jobs that ran on them; None if neither is recorded."""
    largest: dict[str, int] = {}
    for job in report.jobs:
        largest[job.work] = max(largest.get(job.work, 1), job.pods)
    figures = [
        figure
        for room in report.rooms.by_work.values()
        if (figure := _draw_room(room, largest.get(room.work, 1), report.timeline.edges[-1])) is not None
    ]
    if len(report.nodes):
        figures.append(_draw_stays(report, palette))
    return Section("nodes", "Nodes", figures) if figures else None


def _draw_room(room: FreeRoom, largest: int, seconds: float) -> Figure | None:
    sizes = list_sizes(largest)
    times = [time for time in room.times if time < seconds]
    if not times:
        return None
    layers = split_room(room, sizes, len(times))
    title = f"Free {room.resource} for pods of {room.work}"
    edges = [0.0, *times[1:], seconds]
    return Figure(
        title,
        "Free amounts by the largest gang that could use them, as far as room goes. Unusable: no pod fits there.",
        draw_stack(edges, layers, [], list_time_ticks(seconds), f"{title} over time"),
        draw_legend((one.name, one.color) for one in layers),
    )


def list_sizes(largest: int) -> list[int]:
    """Return sizes of gangs: powers of two up to the largest; every other one is left out while there are too many."""
    sizes = [1 << power for power in range(max(largest, 1).bit_length())]
    while len(sizes) > _MOST_SIZES:
        sizes = [1, *sizes[2::2]]
    return sizes


def split_room(room: FreeRoom, sizes: Sequence[int], count: int) -> list[Series]:
    """Return the free amount as layers: usable by the largest gangs, by smaller gangs, and by no gang.

    count: the number of samples.
    """
    layers: list[list[float]] = [[] for _ in range(len(sizes) + 1)]
    for sample in range(count):
        usable = [0, *(room.usable(sample, size) for size in reversed(sizes)), room.free[sample]]
        for layer, below, above in zip(layers, usable, usable[1:], strict=False):
            layer.append(scale_amount(room.resource, max(above - below, 0)))
    names = [f"gangs of {size}" if size > 1 else "single pods" for size in reversed(sizes)]
    named = [Series(name, layer, str(number)) for number, (name, layer) in enumerate(zip(names, layers, strict=False))]
    return [*named, Series("unusable", layers[-1], "rest")]


def _draw_stays(report: Report, palette: Palette) -> Figure:
    """Draw which job ran on which node and when. The nodes are sorted by name, and the numbers in names by value."""
    log, jobs, seconds = report.nodes, report.jobs, report.timeline.edges[-1]
    rows = sorted(range(len(log.names)), key=lambda node: split_numbers(log.names[node]))
    places = {node: row for row, node in enumerate(rows)}
    bars = [
        Bar(
            places[node],
            start,
            seconds if isnan(end) else end,
            _name_stay(jobs[job], pods),
            palette.color(jobs[job].queue),
        )
        for job, node, pods, start, end in zip(log.jobs, log.nodes, log.pods, log.starts, log.ends, strict=True)
    ]
    reading = (
        "Which job ran on which node. Point at a bar to read its job. Zoom with Ctrl and the wheel, or a double click; "
        "drag to move. With the keyboard: arrows go from job to job, + and - zoom, a and d move, 0 shows all."
    )
    if log.complete_until < inf:
        reading += (
            f" Jobs that started after {format_span(log.complete_until)} are missing, because there are too many."
        )
    names = [log.names[node] for node in rows]
    ticks = list_time_ticks(seconds)
    legend = draw_legend((queue or "(no queue)", palette.color(queue)) for queue in palette.queues)
    body = draw_gantt(names, bars, seconds, ticks, "Jobs on nodes over time")
    return Figure("Jobs on nodes", reading, body, legend, wide=True)


def split_numbers(name: str) -> list[tuple[int, str]]:
    """Return a sort key by which n-2 comes before n-10."""
    parts = _DIGITS.split(name)
    return [(int(part), "") if number % 2 else (-1, part) for number, part in enumerate(parts)]


def _name_stay(job: JobOutcome, pods: int) -> str:
    where = f", {job.queue}" if job.queue else ""
    return f"{job.name} ({pods} of {job.pods} pods{where})"
