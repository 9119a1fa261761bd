"""Draw how long jobs waited, and which jobs waited longest."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from muster.charts.markup import Markup, join, make_element
from muster.charts.page import Figure, Section
from muster.charts.plot import COLORS, LinePoints, color_of, draw_cells, draw_legend, draw_lines, draw_stack, draw_table
from muster.charts.scales import Tick, format_span, list_log_ticks, list_time_ticks, place_log
from muster.simulation.outcome.figures.palette import Palette, name_queue
from muster.simulation.outcome.record import JobOutcome
from muster.simulation.outcome.summary import Spread, compute_slowdown, find_percentile
from muster.simulation.outcome.timeline import Timeline

# The maximum number of points of a curve.
_MOST_POINTS = 200
_COLUMNS = 24
_MOST_ROWS = 100
_HOUR = 3600.0

_READING = (
    "The share of jobs that waited at most so long: a curve further to the left and above is better. "
    "Slowdown: the time in the system by the run time, of at least 10 seconds, over jobs that have ended."
)

Groups = Mapping[str, Sequence[JobOutcome]]


def draw_waiting(timeline: Timeline, palette: Palette, never: int = 0) -> Section:
    """Return the section about waiting work over time.

    never: the number of waiting jobs that could never run.
    """
    ticks = list_time_ticks(timeline.edges[-1])
    length = len(timeline.edges) - 1
    figures = []
    for title, reading, values in (
        (
            "Waiting jobs",
            "Jobs that have no place yet, or lost it.",
            {q: one.waiting for q, one in timeline.jobs.items()},
        ),
        (
            "Waiting work, in pod hours",
            "The run times of waiting jobs times their pods: what the cluster has yet to do.",
            {queue: [value / _HOUR for value in one.backlog] for queue, one in timeline.jobs.items()},
        ),
    ):
        layers = palette.stack(values.items(), length)
        body = draw_stack(timeline.edges, layers, [], ticks, f"{title} over time")
        if never:
            reading += f" With the {never:,} that could never run."
        figures.append(Figure(title, reading, body, draw_legend((one.name, one.color) for one in layers)))
    return Section("waiting", "Waiting work", figures)


def draw_waits(jobs: Sequence[JobOutcome], palette: Palette, never: int = 0) -> Section:
    """Return the section about waits by queue, size and, if there are several priorities, by priority.

    never: the number of jobs that could never run, in addition to `jobs`.
    """
    longest = max((job.wait for job in jobs), default=0.0)
    figures = []
    for title, groups in (
        ("Waits by queue", _group_queues(jobs, palette)),
        ("Waits by size", group_jobs(jobs, lambda job: name_size(job.pods), order_sizes)),
        ("Waits by priority", group_jobs(jobs, lambda job: str(job.priority), lambda name: -int(name))),
    ):
        if len(groups) < 2 and title == "Waits by priority":
            continue
        shown = keep_largest(groups)
        colors = {
            name: palette.color(name) if title.endswith("queue") else color_of(number)
            for number, name in enumerate(shown)
        }
        lines = [LinePoints(name_queue(name), trace_waits(some, longest), colors[name]) for name, some in shown.items()]
        body = draw_lines(lines, list_log_ticks(longest), 100.0, f"{title}: shares of jobs", "%")
        legend = draw_legend((line.name, line.color) for line in lines)
        reading = _READING if len(shown) == len(groups) else f"{_READING} Curves: the {len(shown)} largest groups."
        if never:
            reading += f" Without the {never:,} that could never run."
        figures.append(Figure(title, reading, join((body, _tabulate(title, groups))), legend, wide=True))
    figures.append(_draw_sizes(jobs, longest))
    return Section("waits", "How long jobs waited", figures)


def group_jobs(jobs: Iterable[JobOutcome], key: Callable[[JobOutcome], str], order: Callable[[str], object]) -> Groups:
    """Return jobs grouped by a key.

    order: returns the sort key of a group's key.
    """
    groups: dict[str, list[JobOutcome]] = {}
    for job in jobs:
        groups.setdefault(key(job), []).append(job)
    return {name: groups[name] for name in sorted(groups, key=order)}  # type: ignore[arg-type]


def name_size(pods: int) -> str:
    """Return the size class of a gang, as a number or range of pods: 1, 2-4, 5-16, 17-64 and so on."""
    low, high = 1, 1
    while pods > high:
        low, high = high + 1, high * 4
    return f"{low}" if low == high else f"{low}-{high}"


def order_sizes(name: str) -> int:
    """Return the sort key of a size class, such as 5 for 5-16."""
    return int(name.partition("-")[0])


def _group_queues(jobs: Sequence[JobOutcome], palette: Palette) -> Groups:
    known = list(palette.queues)
    return group_jobs(
        jobs, lambda job: job.queue, lambda name: (name not in known, known.index(name) if name in known else 0, name)
    )


def keep_largest(groups: Groups) -> Groups:
    """Return the groups with the most jobs, in their order, because too many curves cannot be distinguished."""
    largest = sorted(groups, key=lambda name: -len(groups[name]))[:COLORS]
    return {name: some for name, some in groups.items() if name in largest}


def trace_waits(jobs: Sequence[JobOutcome], longest: float) -> list[tuple[float, float]]:
    """Return the points of a curve: for each time, the percentage of jobs that waited at most that long.

    jobs: the jobs; not empty.
    longest: the end of the time axis in seconds. The axis is logarithmic, and goes from 0 to 1.
    """
    waits = sorted(job.wait for job in jobs)
    count = len(waits)
    numbers = {round(step * (count - 1) / (_MOST_POINTS - 1)) for step in range(_MOST_POINTS)}
    points = [(place_log(waits[number], longest), (number + 1) / count * 100) for number in sorted(numbers)]
    return [(0.0, 0.0), *points, (1.0, 100.0)]


def _tabulate(title: str, groups: Groups) -> Markup:
    header = (title.rpartition(" ")[2], "jobs", "wait mean", "p50", "p90", "p99", "slowdown mean", "p90", "evictions")
    rows = [_make_row(name_queue(name), some) for name, some in list(groups.items())[:_MOST_ROWS]]
    table = draw_table(header, rows)
    if left_out := len(groups) - len(rows):
        return join((table, make_element("p", {}, f"{left_out} more rows are left out.")))
    return table


def _make_row(name: str, jobs: Sequence[JobOutcome]) -> tuple[str, ...]:
    wait = Spread.of(job.wait for job in jobs)
    slowdown = Spread.of(value for job in jobs if (value := compute_slowdown(job)) is not None)
    waits = () if wait is None else (wait.mean, wait.p50, wait.p90, wait.p99)
    slowdowns = ("-", "-") if slowdown is None else (f"{slowdown.mean:.1f}", f"{slowdown.p90:.1f}")
    return (name, f"{len(jobs):,}", *map(format_span, waits), *slowdowns, f"{sum(job.evictions for job in jobs):,}")


def _draw_sizes(jobs: Sequence[JobOutcome], longest: float) -> Figure:
    sizes = group_jobs(jobs, lambda job: name_size(job.pods), order_sizes)
    rows, names = [], []
    for number, (name, some) in enumerate(sizes.items()):
        cells = Counter(min(_COLUMNS - 1, int(place_log(job.wait, longest) * _COLUMNS)) for job in some)
        rows.append([cells[column] / len(some) * 100 for column in range(_COLUMNS)])
        median = find_percentile(sorted(job.wait for job in some), 0.5)
        pods = "1 pod" if name == "1" else f"{name} pods"
        names.append(Tick((number + 1) / len(sizes), f"{pods}, median {format_span(median)}"))
    body = draw_cells(rows, list_log_ticks(longest), names, "Sizes of gangs against waits", named=True)
    reading = (
        "Each row is a size of gangs. A cell that stands out more holds a larger share of its jobs. "
        "Long waits are to the right."
    )
    return Figure("Gang size against wait", reading, body, wide=True)
