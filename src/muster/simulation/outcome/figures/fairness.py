"""Draw each queue's use as a share of its nominal quota, and how equal these shares were."""

from collections.abc import Sequence
from itertools import groupby
from math import isnan, nan

from muster.charts.page import Figure, Section
from muster.charts.plot import LinePoints, draw_legend, draw_lines
from muster.charts.scales import list_time_ticks
from muster.simulation.outcome.figures.palette import Palette
from muster.simulation.outcome.figures.use import list_resources
from muster.simulation.outcome.summary import jain_index
from muster.simulation.outcome.timeline import Timeline

# The number of time intervals over which shares are averaged. Finer intervals would make the lines too noisy.
_PARTS = 60


def draw_fairness(timeline: Timeline, palette: Palette) -> Section | None:
    """Return the section about fairness; None without two queues that have quotas."""
    resource = next(iter(list_resources(timeline)), "")
    shares = measure_shares(timeline, resource)
    if len(shares) < 2:
        return None
    ticks = list_time_ticks(timeline.edges[-1])
    places = [edge / timeline.edges[-1] for edge in timeline.edges]
    parts = _split(len(places) - 1)
    lines = []
    for queue in (one for one in palette.queues if one in shares):
        means = (sum(shares[queue][part.start : part.stop]) / len(part) for part in parts)
        points = [(places[part.start], value * 100) for part, value in zip(parts, means, strict=True)]
        lines.append(LinePoints(queue, points, palette.color(queue)))
    most = max((value for line in lines for _, value in line.points), default=0.0)
    even = LinePoints("entitlement", [(0.0, 100.0), (1.0, 100.0)], "limit")
    drawn = [*lines, even]
    indexes = index_shares(timeline, shares)
    curves = _draw_runs(
        [(places[part.start], places[part.stop], average_known(indexes[part.start : part.stop])) for part in parts]
    )
    label = f"{resource}: use by entitlement"
    return Section(
        "fairness",
        "Fairness",
        [
            Figure(
                label,
                "What a queue holds as a share of its nominal quota. Above 100 % it borrows.",
                draw_lines(drawn, ticks, max(most, 100.0), f"{label} over time", "%"),
                draw_legend((line.name, line.color) for line in drawn),
            ),
            Figure(
                "Jain's index over time",
                "Of the shares above, over queues that hold quota or have waiting jobs. 1: all have the same share. "
                "1/n: one of n queues has everything. No line: fewer than two such queues.",
                draw_lines(curves, ticks, 1.0, "Jain's index over time"),
            ),
        ],
    )


def measure_shares(timeline: Timeline, resource: str) -> dict[str, list[float]]:
    """Return the used amount of a resource divided by the nominal quota, by bin, for each queue with quota.

    The share is 0 in a bin without quota.
    """
    totals: dict[str, tuple[list[float], list[float]]] = {}
    length = len(timeline.edges) - 1
    for (queue, _, of), quota in timeline.quotas.items():
        if of == resource:
            used, nominal = totals.get(queue, ([0.0] * length, [0.0] * length))
            totals[queue] = _add(used, quota.used), _add(nominal, quota.nominal)
    return {
        queue: [one / has if has else 0.0 for one, has in zip(used, nominal, strict=True)]
        for queue, (used, nominal) in totals.items()
        if any(nominal)
    }


def index_shares(timeline: Timeline, shares: dict[str, list[float]]) -> list[float]:
    """Return Jain's fairness index for each bin, over the queues that use quota or have waiting jobs.

    The index is NaN in a bin with fewer than two such queues, or if none of them uses quota.
    """
    indexes = []
    for number in range(len(timeline.edges) - 1):
        active = [
            share[number]
            for queue, share in shares.items()
            if share[number] or ((jobs := timeline.jobs.get(queue)) is not None and jobs.waiting[number])
        ]
        found = jain_index(active) if len(active) > 1 else None
        indexes.append(nan if found is None else found)
    return indexes


def average_known(values: Sequence[float]) -> float | None:
    """Return the mean of the values that are not NaN; None if there are none."""
    known = [value for value in values if not isnan(value)]
    return sum(known) / len(known) if known else None


def _draw_runs(parts: Sequence[tuple[float, float, float | None]]) -> list[LinePoints]:
    """Return a line for each uninterrupted sequence of parts that have a value.

    parts: the start, the end and the value of each part; None for no value.
    """
    runs = (list(run) for known, run in groupby(parts, lambda part: part[2] is not None) if known)
    return [
        LinePoints(
            "Jain's index", [(at, value) for start, end, value in run if value is not None for at in (start, end)], "0"
        )
        for run in runs
    ]


def _split(length: int) -> list[range]:
    parts = min(_PARTS, length)
    return [range(number * length // parts, (number + 1) * length // parts) for number in range(parts)]


def _add(one: Sequence[float], two: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(one, two, strict=True)]
