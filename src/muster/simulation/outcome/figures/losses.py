"""Draw evictions, interruptions and the work that they wasted."""

from muster.charts.page import Figure, Section
from muster.charts.plot import draw_legend, draw_stack
from muster.charts.scales import list_time_ticks
from muster.simulation.outcome.bins import Bins
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.timeline import Timeline

_HOUR = 3600.0
_PARTS = 84


def draw_losses(timeline: Timeline, palette: Palette) -> Section | None:
    """Return the section about evictions, interruptions and lost work, over time and by queue.

    Return None if no running job was evicted or lost nodes.
    """
    causes = [
        ("Evictions", "How many jobs were evicted in each span of time, by their queue.", "evictions", 1.0),
        ("Interruptions", "How many jobs lost nodes in each span of time, by their queue.", "interruptions", 1.0),
    ]
    causes = [one for one in causes if any(any(getattr(jobs, one[2])) for jobs in timeline.jobs.values())]
    if not causes:
        return None
    edges = Bins.cover(timeline.edges[-1], _PARTS).edges.tolist()
    width = edges[1] - edges[0]
    ticks = list_time_ticks(edges[-1])
    figures = []
    for title, reading, field, unit in (
        *causes,
        ("Lost work, in pod hours", "The work of these jobs that has to be done again.", "lost", _HOUR),
    ):
        values = []
        for queue, jobs in timeline.jobs.items():
            sums = [0.0] * (len(edges) - 1)
            for start, value in zip(timeline.edges, getattr(jobs, field), strict=False):
                sums[min(int(start // width), len(sums) - 1)] += value / unit
            values.append((queue, sums))
        layers = palette.stack(values, len(edges) - 1)
        body = draw_stack(edges, layers, [], ticks, f"{title} over time")
        figures.append(Figure(title, reading, body, draw_legend((one.name, one.color) for one in layers)))
    return Section("losses", "Evictions and lost work", figures)
