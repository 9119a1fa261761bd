"""Sum up runs by user, queue, day or state. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Literal, get_args

from msgspec import Struct

from muster.api.ours.gpus import is_gpu
from muster.api.values.quantity import parse_amount
from muster.insight.history.runs import Run

By = Literal["user", "queue", "day", "state"]
"""What runs are added up by."""
GROUPINGS: tuple[By, ...] = get_args(By)

_HOUR = 3600.0


class Total(Struct, frozen=True):
    """The sums over the runs of one group, such as one user, queue or day.

    name: the user, queue or day; "" for runs that have none.
    waited: the median waiting time, in seconds.
    gpu_hours, cpu_hours: the requests of the pods, multiplied by how long the pods ran.
    known: how many of the runs have recorded requests.
    """

    name: str
    runs: int
    completed: int
    failed: int
    waited: float
    gpu_hours: float
    cpu_hours: float
    known: int

    @property
    def others(self) -> int:
        """How many runs were cancelled or deleted."""
        return self.runs - self.completed - self.failed


def add_up(runs: Iterable[Run], by: By) -> list[Total]:
    """Return the total of each group of runs: by user, queue or day.

    The group with the most GPU-hours comes first; days are ordered from the newest to the oldest.
    """
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_name_group(run, by)].append(run)
    totals = [_make_total(name, group) for name, group in groups.items()]
    if by == "day":
        return sorted(totals, key=lambda total: total.name, reverse=True)
    return sorted(totals, key=lambda total: (-total.gpu_hours, -total.cpu_hours, -total.runs, total.name))


def _name_group(run: Run, by: By) -> str:
    match by:
        case "user":
            return run.owner
        case "queue":
            return f"{run.namespace}/{run.queue}" if run.queue else ""
        case "day":
            return f"{run.ended:%Y-%m-%d}"
        case "state":
            return run.state


def _make_total(name: str, runs: Sequence[Run]) -> Total:
    return Total(
        name,
        len(runs),
        sum(run.state == "Completed" for run in runs),
        sum(run.state == "Failed" for run in runs),
        median(run.waited_seconds for run in runs),
        sum(find_hours(run, gpus=True) for run in runs),
        sum(find_hours(run, gpus=False) for run in runs),
        sum(bool(run.pod_requests) for run in runs),
    )


def find_hours(run: Run, *, gpus: bool) -> float:
    """Return the GPU-hours, or the CPU-hours, that a run's pods requested while it ran.

    For an interrupted run, only the time after its last start counts, because the record has only that time.
    """
    count = sum(
        one.pods * (parse_amount(resource, quantity) if gpus else parse_amount(resource, quantity) / 1000)
        for one in run.pod_requests
        for resource, quantity in one.requests.items()
        if (is_gpu(resource) if gpus else resource == "cpu")
    )
    return count * (run.run_seconds or 0) / _HOUR
