"""Compute used quotas, nodes and waiting jobs of a simulation over time, in regular bins. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.gang import arrays as np
from muster.gang.arrays import Floats
from muster.simulation.outcome.bins import Bins, average_steps, sum_events
from muster.simulation.outcome.ledgers import QuotaKey
from muster.simulation.outcome.record import SimulationRecord
from muster.simulation.outcome.usechanges import (
    RecordedUse,
    read_steps,
    to_floats,
    to_ints,
)

Series = Sequence[float]
"""A number for each bin."""


class QuotaSeries(Struct, frozen=True):
    """The quota of a queue, as means over bins.

    nominal: the nominal quota.
    borrowed: the use above the nominal quota.
    lost: the use that later evictions and interruptions wasted.
    """

    nominal: Series
    used: Series
    borrowed: Series
    lost: Series


class JobSeries(Struct, frozen=True):
    """The jobs of a queue.

    running, waiting, pods_running, pods_waiting: means over bins.
    backlog: the run times of waiting jobs times their pods, in seconds, as means over bins.
    evictions, interruptions: the number of running jobs that were evicted, or lost nodes, in each bin.
    lost: the pod seconds that these evictions and interruptions wasted.
    """

    running: Series
    waiting: Series
    pods_running: Series
    pods_waiting: Series
    backlog: Series
    evictions: Series
    interruptions: Series
    lost: Series


class Timeline(Struct, frozen=True):
    """The course of a simulation, in regular bins. Times are seconds; amounts are in the units of decisions.

    width: the width of a bin.
    edges: the limits of the bins, one more than there are bins; the last bin may be shorter.
    quotas: the quotas and their use, by queue, flavor and resource.
    jobs: the jobs, by queue.
    demand: the amounts that running jobs request, by queue and resource.
    capacity: the capacity of the nodes, by resource; empty without nodes.
    """

    width: float
    edges: Series
    quotas: Mapping[QuotaKey, QuotaSeries]
    jobs: Mapping[str, JobSeries]
    demand: Mapping[tuple[str, str], Series]
    capacity: Mapping[str, Series]


class TimelineRow(Struct, frozen=True):
    """A row of `timeline.csv`: a bin of a quota, of the jobs of a queue, or of all nodes.

    Amounts of CPU are in CPUs, not in millicores.

    of: `quota`, `jobs`, `pods` or `nodes`.
    capacity: the nominal quota, or the capacity of the nodes.
    used: the mean use over the bin; for jobs and pods, the number of running ones.
    """

    start: float
    end: float
    of: str
    queue: str
    flavor: str
    resource: str
    capacity: float | None
    used: float
    borrowed: float | None
    lost: float | None
    waiting: float | None


def build_timeline(use: RecordedUse) -> Timeline:
    """Return the timeline of the simulation so far; without bins if no time has passed."""
    record = use.record
    bins = Bins.cover(record.now)
    if not len(bins):
        return Timeline(bins.width, (), {}, {}, {}, {})
    steps = record.capacity.changes
    resources = record.capacity.resources
    capacity = average_steps(bins, *read_steps(steps), len(resources))
    return Timeline(
        bins.width,
        bins.edges.tolist(),
        _build_quotas(bins, use),
        _build_jobs(bins, record),
        _build_demand(bins, use),
        dict(zip(resources, _to_series(capacity), strict=True)),
    )


def _build_quotas(bins: Bins, use: RecordedUse) -> dict[QuotaKey, QuotaSeries]:
    quotas = use.quotas
    changes = (quotas.nominal, quotas.used, use.borrowed, read_steps(use.record.quotas.losses))
    series = zip(*(_to_series(average_steps(bins, *each, len(quotas.keys))) for each in changes), strict=True)
    return {key: QuotaSeries(*each) for key, each in sorted(zip(quotas.keys, series, strict=True))}


def _build_jobs(bins: Bins, record: SimulationRecord) -> dict[str, JobSeries]:
    """Return the numbers of running and waiting jobs, their pods and their wasted work in each bin, by queue."""
    jobs, runs, count = record.columns(), record.runs, len(record.queues)
    queues, pods = to_ints(jobs.queues), to_floats(jobs.pods)
    work = pods * to_floats(jobs.run_times)
    run_jobs, undone = to_ints(runs.jobs), to_floats(runs.lost)
    starts, ends, lost = to_floats(runs.starts), to_floats(runs.ends), ~np.isnan(undone)
    over, begun = ~np.isnan(ends), to_ints(runs.continued) == 0
    times = np.concatenate((to_floats(jobs.submitted), starts[begun], ends[lost]))
    subjects = np.concatenate((np.arange(len(queues)), run_jobs[begun], run_jobs[lost]))
    signs = np.concatenate((np.ones(len(queues)), -np.ones(int(begun.sum())), np.ones(int(lost.sum()))))
    sizes = to_floats(runs.pods)
    run_pods = np.concatenate((sizes, sizes[over]))
    running = np.concatenate((starts, ends[over])), np.concatenate((run_jobs, run_jobs[over]))
    running_signs = np.concatenate((np.ones(len(starts)), -np.ones(int(over.sum()))))
    wasted = undone[lost] * pods[run_jobs[lost]]
    interrupted = to_floats(runs.interrupted)[lost]
    events = ends[lost], queues[run_jobs[lost]]
    columns = (
        average_steps(bins, running[0], queues[running[1]], running_signs, count),
        average_steps(bins, times, queues[subjects], signs, count),
        average_steps(bins, running[0], queues[running[1]], running_signs * run_pods, count),
        average_steps(bins, times, queues[subjects], signs * pods[subjects], count),
        average_steps(bins, times, queues[subjects], signs * work[subjects], count),
        *(sum_events(bins, *events, each, count) for each in (1.0 - interrupted, interrupted, wasted)),
    )
    present = set(np.unique(queues).tolist())
    rows = zip(*map(_to_series, columns), strict=True)
    named = sorted(zip(record.queues, range(count), rows, strict=True))
    return {queue: JobSeries(*each) for queue, number, each in named if number in present}


def _build_demand(bins: Bins, use: RecordedUse) -> dict[tuple[str, str], Series]:
    """Return the amounts that running jobs request, by queue and resource, as means over bins."""
    demand, queues = use.demand, use.record.queues
    series: dict[tuple[str, str], Series] = {}
    for resource, changes in zip(demand.resources, demand.changes, strict=True):
        means = average_steps(bins, *changes, len(queues))
        series |= {(queue, resource): one for queue, one in zip(queues, _to_series(means), strict=True) if any(one)}
    return series


def list_rows(timeline: Timeline) -> Iterator[TimelineRow]:
    """Yield the rows of `timeline.csv`, in order of time: for quotas, jobs, pods and nodes in each bin."""
    demand: dict[str, list[float]] = {}
    for (_, resource), series in timeline.demand.items():
        total = demand.setdefault(resource, [0.0] * len(series))
        demand[resource] = [one + two for one, two in zip(total, series, strict=True)]
    edges = timeline.edges
    for number in range(len(edges) - 1):
        start, end = edges[number], edges[number + 1]
        for (queue, flavor, resource), quota in timeline.quotas.items():
            given = (quota.nominal, quota.used, quota.borrowed, quota.lost)
            nominal, used, borrowed, lost = (scale_amount(resource, each[number]) for each in given)
            yield TimelineRow(start, end, "quota", queue, flavor, resource, nominal, used, borrowed, lost, None)
        for queue, jobs in timeline.jobs.items():
            counts = (("jobs", jobs.running, jobs.waiting), ("pods", jobs.pods_running, jobs.pods_waiting))
            for of, running, waiting in counts:
                shown = running[number], waiting[number]
                yield TimelineRow(start, end, of, queue, "", "", None, shown[0], None, None, shown[1])
        for resource, capacity in timeline.capacity.items():
            if resource in demand:
                has, used = (scale_amount(resource, each[number]) for each in (capacity, demand[resource]))
                yield TimelineRow(start, end, "nodes", "", "", resource, has, used, None, None, None)


def scale_amount(resource: str, amount: float) -> float:
    """Return an amount in the unit for users: millicores as CPUs, any other amount unchanged."""
    return round(amount / 1000, 6) if resource == "cpu" else amount


def _to_series(rows: Floats) -> list[list[float]]:
    """Return rows as Python floats, rounded to three decimal places, with negative numbers as 0."""
    series: list[list[float]] = np.maximum(np.round(rows, 3), 0.0).tolist()
    return series
