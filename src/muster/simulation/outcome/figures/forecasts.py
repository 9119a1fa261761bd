"""Draw the errors of the forecast waits."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from muster.charts.markup import join
from muster.charts.page import Figure, Section
from muster.charts.plot import LinePoints, color_of, draw_cells, draw_legend, draw_lines, draw_table
from muster.charts.scales import Tick, list_log_ticks, place_log
from muster.simulation.outcome.figures.palette import Palette, name_queue
from muster.simulation.outcome.figures.waits import Groups, group_jobs, keep_largest, name_size, order_sizes
from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.summary import Spread, compute_forecast_error, has_waited

_CELLS = 24
_MOST_POINTS = 200
_MOST_ROWS = 100
# The errors with labels on the axis, in percent; larger errors are beyond its end.
_PERCENTS = (1, 10, 100, 1000)


def draw_forecasts(jobs: Sequence[JobOutcome], palette: Palette) -> Section | None:
    """Return the section about forecasts; None if no job that waited and started has one."""
    some = [job for job in jobs if compute_forecast_error(job) is not None]
    if not some:
        return None
    queues = group_jobs(some, lambda job: job.queue, lambda name: name)
    sizes = group_jobs(some, lambda job: name_size(job.pods), order_sizes)
    figures = [_draw_truth(some, sum(map(has_waited, jobs)))]
    figures += [
        _draw_errors(
            "Errors of forecasts by queue", queues, {name: palette.color(name) for name in keep_largest(queues)}
        ),
        _draw_errors(
            "Errors of forecasts by size",
            sizes,
            {name: color_of(number) for number, name in enumerate(keep_largest(sizes))},
        ),
    ]
    return Section("forecasts", "Forecasts beside the truth", figures)


def _draw_truth(jobs: Sequence[JobOutcome], waited: int) -> Figure:
    """Draw forecast waits against actual waits.

    jobs: the jobs that waited and started, and have a forecast.
    waited: the number of all jobs that waited and started, with or without a forecast.
    """
    longest = max(max(job.wait, job.forecast or 0.0) for job in jobs)

    def find_cell(seconds: float) -> int:
        return min(_CELLS - 1, int(place_log(seconds, longest) * _CELLS))

    cells = Counter((find_cell(job.wait), find_cell(job.forecast or 0.0)) for job in jobs)
    rows = [[float(cells[row, column]) for column in range(_CELLS)] for row in range(_CELLS)]
    ticks = list_log_ticks(longest)
    names = [Tick(tick.at, f"waited {tick.label}") for tick in ticks[1:]]
    reading = (
        "Each job stands above the wait that muster why would have forecast as it came, and beside the wait that it "
        "had. The errors are those of such forecasts; the waits of this report do not depend on them. "
        "Cells that stand out more hold more jobs. A job above the diagonal waited longer than was forecast. "
        f"Of {waited:,} jobs that waited, {len(jobs):,} have a forecast."
    )
    return Figure(
        "Forecast against wait", reading, draw_cells(rows, ticks, names, "Forecasts against waits"), wide=True
    )


def _draw_errors(title: str, groups: Groups, colors: Mapping[str, str]) -> Figure:
    lines = [LinePoints(name_queue(name), trace_errors(_list_errors(groups[name])), colors[name]) for name in colors]
    ticks = [Tick(place_log(percent, _PERCENTS[-1]), f"{percent}%") for percent in _PERCENTS]
    rows = [
        (name_queue(name), f"{len(some):,}", *_write_errors(_list_errors(some)))
        for name, some in list(groups.items())[:_MOST_ROWS]
    ]
    table = draw_table((title.rpartition(" ")[2], "jobs that waited", "half within", "nine of ten within"), rows)
    reading = (
        "The share of jobs whose forecast was off by at most so much of the wait, of at least a minute: "
        "a curve further to the left and above is better."
    )
    body = join((draw_lines(lines, ticks, 100.0, f"{title}: shares of jobs", "%"), table))
    return Figure(title, reading, body, draw_legend((line.name, line.color) for line in lines), wide=True)


def _list_errors(jobs: Iterable[JobOutcome]) -> list[float]:
    return [error for job in jobs if (error := compute_forecast_error(job)) is not None]


def trace_errors(errors: Sequence[float]) -> list[tuple[float, float]]:
    """Return the points of a curve: for each size of error, the percentage of jobs with at most that error.

    errors: the relative errors; not empty.

    The points are thinned out, on a logarithmic axis from 0 to 1.
    """
    known, count = sorted(errors), len(errors)
    numbers = {round(step * (count - 1) / (_MOST_POINTS - 1)) for step in range(_MOST_POINTS)}
    points = [(0.0, 0.0)] + [
        (place_log(known[number] * 100, _PERCENTS[-1]), (number + 1) / count * 100)
        for number in sorted(numbers)
        if known[number] * 100 < _PERCENTS[-1]
    ]
    return [*points, (1.0, points[-1][1])]


def _write_errors(errors: Sequence[float]) -> tuple[str, str]:
    spread = Spread.of(errors)
    assert spread is not None, "a group has a job"
    return f"{spread.p50:.0%}", f"{spread.p90:.0%}"
