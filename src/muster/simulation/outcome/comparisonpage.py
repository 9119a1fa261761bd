"""Render the page of a comparison: how the variants of a scenario differ, and which differences exceed the noise."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from muster.charts.intervals import Interval, draw_intervals
from muster.charts.markup import Markup, make_element
from muster.charts.page import Figure, Section, Tile, render_page
from muster.charts.plot import draw_legend, draw_table
from muster.charts.scales import format_span, format_value
from muster.insight.text import format_mean
from muster.simulation.outcome.comparison import (
    SECONDS,
    Comparison,
    Difference,
    SimulationRun,
    describe_never,
    group_failures,
    list_changes,
    name_seeds,
)
from muster.simulation.outcome.comparison import Figure as Compared
from muster.simulation.outcome.figures.palette import name_queue

# The maximum numbers of variants in a chart, of charts, and of rows in the table.
_MOST_ROWS, _MOST_FIGURES, _MOST_LINES = 12, 24, 1000
# The colours of differences that exceed the noise, of other differences, and of differences without an estimate.
_COLORS: Mapping[bool | None, str] = {True: "0", False: "rest", None: "rest"}
_WORDS: Mapping[bool | None, str] = {True: "beyond noise", False: "within noise", None: "one seed: unknown"}


def render_comparison(
    comparison: Comparison, runs: Sequence[SimulationRun], name_folder: Callable[[str, int], str]
) -> str:
    """Return the HTML page of a comparison.

    name_folder: returns the folder with the report of a variant and a seed, for a link.
    """
    first, *others = comparison.variants or [""]
    title = f"Comparison with {first}" if others else f"Seeds of {first}"
    differences = list_changes(comparison)
    beyond = sum(one.beyond_noise is True for one in differences)
    tiles = [
        Tile("Variants", f"{len(comparison.variants):,}", f"{len(comparison.seeds):,} seeds each"),
        Tile("Beyond noise", f"{beyond:,}", f"of {len(differences):,} differences"),
    ]
    figures = list(_draw_figures(differences))
    sections = [Section("changes", "What changes", figures)] if figures else []
    sections.append(Section("runs", "All simulations", [_list_runs(runs, name_folder)]))
    return render_page(title, _list_failures(runs), tiles, sections)


def _draw_figures(differences: Sequence[Difference]) -> Iterator[Figure]:
    by_figure: dict[Compared, list[Difference]] = {}
    for one in differences:
        by_figure.setdefault(one.figure, []).append(one)
    for figure, some in list(by_figure.items())[:_MOST_FIGURES]:
        shown = some[:_MOST_ROWS]
        write = partial(_format_with_unit, figure)
        intervals = [_make_interval(one) for one in shown]
        queue = "all queues" if figure.queue is None else name_queue(figure.queue)
        before = _format_with_unit(figure, some[0].before.mean)
        reading = f"The change from {before}, with its interval at 95 %. The upright line is no change."
        if left_out := len(some) - len(shown):
            reading += f" {left_out} more variants are in the table."
        keys = dict.fromkeys(one.beyond_noise for one in shown)
        legend = draw_legend((_WORDS[key], _COLORS[key]) for key in keys)
        body = draw_intervals(intervals, write, f"Changes of {figure.name}", are_times=figure.unit == SECONDS)
        yield Figure(f"{figure.name}, {queue}", reading, body, legend)
    if differences:
        yield _tabulate(differences)


def _make_interval(difference: Difference) -> Interval:
    low, high = difference.change.low, difference.change.high
    middle = difference.change.mean
    return Interval(
        difference.variant,
        middle if low is None else low,
        middle,
        middle if high is None else high,
        _COLORS[difference.beyond_noise],
    )


def _tabulate(differences: Sequence[Difference]) -> Figure:
    header = ("variant", "queue", "figure", "before", "after", "change", "interval", "noise")
    body = draw_table(header, map(_make_row, differences[:_MOST_LINES]), words=3)
    reading = "All differences. Of twenty figures that do not differ, one is expected to be beyond noise all the same."
    if left_out := len(differences) - _MOST_LINES:
        reading += f" {left_out:,} more are in summary.json." if left_out > 0 else ""
    return Figure("Differences", reading, body, wide=True)


def _make_row(difference: Difference) -> tuple[str, ...]:
    write, change = partial(_format_with_unit, difference.figure), difference.change
    interval = "-" if change.low is None or change.high is None else f"{write(change.low)} to {write(change.high)}"
    queue = "all" if difference.figure.queue is None else name_queue(difference.figure.queue)
    values = (write(difference.before.mean), write(difference.after.mean), write(change.mean))
    return (difference.variant, queue, difference.figure.name, *values, interval, _WORDS[difference.beyond_noise])


def _list_runs(runs: Sequence[SimulationRun], name_folder: Callable[[str, int], str]) -> Figure:
    items = (
        make_element(
            "li", {}, make_element("a", {"href": f"{name_folder(run.variant, run.seed)}/report.html"}, _name_run(run))
        )
        for run in runs
    )
    return Figure("Reports", "The report of each simulation.", make_element("ul", {}, *items), wide=True)


def _list_failures(runs: Sequence[SimulationRun]) -> Iterator[Markup]:
    for (variant, text), failures in group_failures(runs).items():
        yield make_element("p", {"class": "bad"}, f"{variant}, {name_seeds(list(failures))}: {text} fails")
    for sentence in describe_never(runs):
        yield make_element("p", {"class": "bad"}, sentence)


def _name_run(run: SimulationRun) -> str:
    return f"{run.variant}, seed {run.seed}"


def _format_with_unit(figure: Compared, value: float) -> str:
    """Return the value of a figure, or a change of the value, as text with its unit."""
    if value < 0:
        return f"-{_format_with_unit(figure, -value)}"
    if figure.unit == SECONDS:
        return format_span(value)
    return format_mean(figure.unit, value) if figure.unit else format_value(value)
