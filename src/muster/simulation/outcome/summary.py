"""Summarize the outcome of a simulation's jobs. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from math import ceil
from operator import attrgetter
from typing import Any

from msgspec import Struct

from muster.simulation.outcome.record import JobOutcome, QuotaChange

# The minimum run time in seconds that bounds slowdowns, as in the literature (Feitelson and Rudolph).
SLOWDOWN_SECONDS = 10.0
# The minimum wait in seconds to which the error of a forecast is related; errors of shorter waits do not matter.
FORECAST_SECONDS = 60.0


class Spread(Struct, frozen=True):
    """The mean, some percentiles and the maximum of some values."""

    mean: float
    p50: float
    p90: float
    p99: float
    longest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        """Return the mean, percentiles and maximum of some values; None if there are no values."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p90, p99 = (find_percentile(ordered, share) for share in (0.5, 0.9, 0.99))
        return cls(sum(ordered) / len(ordered), p50, p90, p99, ordered[-1])


class GroupSummary(Struct, frozen=True):
    """The outcome of some jobs.

    running: the number of jobs that have started and not ended, including those that an eviction has stopped.
    waiting: the number of jobs that have not started.
    never: the number of these that could not run even on an otherwise empty cluster.
    wait: the seconds from submission to the first start, or so far, without the jobs that could never run.
    slowdown: the bounded slowdown of the jobs that have ended.
    lost: the pod seconds that evictions and interruptions wasted.
    forecast: the errors of the forecasts of jobs that waited and have started.
    interruptions: how often jobs lost nodes.
    interrupted: the part of `lost` that interruptions wasted.
    waited: the number of jobs that waited and have started.
    forecasts: the number of these that have a forecast.
    over_limit: the number of jobs that were ended by their time limits.
    """

    submitted: int
    ended: int
    running: int
    waiting: int
    wait: Spread | None
    slowdown: Spread | None
    evictions: int
    lost: float
    forecast: Spread | None
    interruptions: int = 0
    interrupted: float = 0.0
    never: int = 0
    waited: int = 0
    forecasts: int = 0
    over_limit: int = 0


class Use(Struct, frozen=True):
    """The use of a queue's quota for one resource of one flavor.

    The unit is a millicore for CPU, and a whole unit (a byte, a GPU) for other resources.

    mean: the mean over the simulated time.
    peak: the highest use at any time.
    """

    queue: str
    flavor: str
    resource: str
    mean: float
    peak: int


class Summary(Struct, frozen=True):
    """The outcome of all jobs, and of the jobs of each queue, each source of work and each size.

    seconds: the simulated time.
    makespan: the time until the last job ended.
    fairness: Jain's index of the mean slowdowns of the queues, from 1/n to 1; None without jobs that have ended.
    """

    seconds: float
    makespan: float
    total: GroupSummary
    queues: Mapping[str, GroupSummary]
    works: Mapping[str, GroupSummary]
    sizes: Mapping[str, GroupSummary]
    use: Sequence[Use]
    fairness: float | None


def summarize(
    jobs: Sequence[JobOutcome],
    changes: Iterable[QuotaChange],
    seconds: float,
    never: Collection[str] = frozenset(),
) -> Summary:
    """Return the summary of a simulation of `seconds` seconds.

    never: the names of the jobs that could not run even on an otherwise empty cluster.
    """
    queues = {name: _summarize_group(some, never) for name, some in _group_jobs(jobs, attrgetter("queue")).items()}
    slowdowns = [one.slowdown.mean for one in queues.values() if one.slowdown is not None]
    return Summary(
        seconds,
        max((job.ended for job in jobs if job.ended is not None), default=0.0),
        _summarize_group(jobs, never),
        queues,
        {name: _summarize_group(some, never) for name, some in _group_jobs(jobs, attrgetter("work")).items()},
        {_name_size(bits): _summarize_group(some, never) for bits, some in _group_jobs(jobs, _find_size).items()},
        _measure_use(changes, seconds),
        jain_index(slowdowns),
    )


def _group_jobs(jobs: Iterable[JobOutcome], by: Callable[[JobOutcome], Any]) -> dict[Any, list[JobOutcome]]:
    return {name: list(some) for name, some in groupby(sorted(jobs, key=by), by)}


def _find_size(job: JobOutcome) -> int:
    """Return the size class of a job: how often 1 has to be doubled to reach its number of pods."""
    return max(0, job.pods - 1).bit_length()


def _name_size(doublings: int) -> str:
    """Return the number or range of pods of a size class: `1`, `2`, `3-4`, `5-8`."""
    least, most = (1 << doublings >> 1) + 1, 1 << doublings
    return str(most) if most <= 2 else f"{least}-{most}"


def _summarize_group(jobs: Sequence[JobOutcome], never: Collection[str]) -> GroupSummary:
    started = sum(job.started is not None for job in jobs)
    ended = sum(job.ended is not None for job in jobs)
    errors = [error for job in jobs if (error := compute_forecast_error(job)) is not None]
    return GroupSummary(
        len(jobs),
        ended,
        started - ended,
        len(jobs) - started,
        Spread.of(job.wait for job in jobs if job.started is not None or job.name not in never),
        Spread.of(slowdown for job in jobs if (slowdown := compute_slowdown(job)) is not None),
        sum(job.evictions for job in jobs),
        sum(job.lost for job in jobs),
        Spread.of(errors),
        sum(job.interruptions for job in jobs),
        sum(job.interrupted for job in jobs),
        sum(job.started is None and job.name in never for job in jobs),
        sum(map(has_waited, jobs)),
        len(errors),
        sum(job.over_limit for job in jobs),
    )


def has_waited(job: JobOutcome) -> bool:
    """Return whether a job waited and has started."""
    return job.started is not None and job.wait > 0


def compute_forecast_error(job: JobOutcome) -> float | None:
    """Return the error of a job's forecast, as a fraction of its wait, or of a minute if the wait is shorter.

    Returns None if the job has no forecast, did not wait, or still waits.
    """
    if job.forecast is None or not has_waited(job):
        return None
    return abs(job.forecast - job.wait) / max(job.wait, FORECAST_SECONDS)


def compute_slowdown(job: JobOutcome) -> float | None:
    """Return the bounded slowdown of a job: the time from submission to end divided by its run time, at least 1.

    Returns None if the job has not ended. A very short run time is raised to a minimum. The run time of a job that its
    time limit ended is at most the time from its first start to its end.
    """
    if job.ended is None:
        return None
    run_time = job.run_time
    if job.over_limit and job.started is not None:
        run_time = min(run_time, job.ended - job.started)
    return max(1.0, (job.ended - job.submitted) / max(run_time, SLOWDOWN_SECONDS))


def find_percentile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values does not exceed.

    ordered: the sorted values; not empty.
    """
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def jain_index(values: Sequence[float]) -> float | None:
    """Return Jain's index of fairness; None if there are no values, or all are 0."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def _measure_use(changes: Iterable[QuotaChange], seconds: float) -> list[Use]:
    used: Counter[tuple[str, str, str]] = Counter()
    area: dict[tuple[str, str, str], float] = defaultdict(float)
    peak: Counter[tuple[str, str, str]] = Counter()
    since: dict[tuple[str, str, str], float] = {}
    for one in changes:
        key = one.queue, one.flavor, one.resource
        area[key] += used[key] * (one.at - since.get(key, 0.0))
        used[key] += one.amount
        since[key] = one.at
        peak[key] = max(peak[key], used[key])
    return [
        Use(*key, round_mean((area[key] + used[key] * (seconds - since[key])) / seconds) if seconds else 0.0, peak[key])
        for key in sorted(since)
    ]


def round_mean(value: float) -> float:
    """Return a mean to 12 digits, without the error of its sums, which would look like a difference of variants."""
    return float(f"{value:.12g}")
