"""Compute which resources jobs used over time, from ended and running jobs, as steps that can be drawn. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from muster.api.kueue import Workload
from muster.api.values.quantity import QuantityError, parse_amount
from muster.insight.history.build import owner_of
from muster.insight.history.runs import Run
from muster.insight.quota.state import find_quota_state

OTHERS = "others"
UNKNOWN = "unknown"


class UseSpan(Struct, frozen=True):
    """The amount of one resource that a job used from one time to another.

    end: when the use ended; None while the job runs.
    owner: the user; "" if unknown.
    """

    owner: str
    start: datetime
    end: datetime | None
    amount: float


class UseLayer(Struct, frozen=True):
    """One owner's mean use of a resource in each time step."""

    owner: str
    values: tuple[float, ...]


class UseSteps(Struct, frozen=True):
    """The use of a resource by owner, in equal time steps from `since` on.

    The owner with the largest use comes first. The owners beyond the first few share the last layer.
    """

    since: datetime
    step: timedelta
    layers: tuple[UseLayer, ...]


def spans_of_runs(runs: Iterable[Run], resource: str) -> list[UseSpan]:
    """Return how much of a resource each run used, and when. A run that never started used nothing."""
    return [
        UseSpan(run.owner, run.started, run.ended, used)
        for run in runs
        if run.started is not None and (used := _read_use(run, resource))
    ]


def _read_use(run: Run, resource: str) -> float:
    """Return the requests of a resource by the pods of a run that run at the same time, with CPUs in whole CPUs.

    The result is 0 if that is unknown or invalid.
    """
    try:
        total = sum(one.pods * parse_amount(resource, one.requests.get(resource, 0)) for one in run.pod_requests)
    except QuantityError:
        return 0.0
    if resource != "cpu":
        return float(total)
    return total / 1000 or run.requested_cpus or 0.0


def spans_of_holders(workloads: Iterable[Workload], resource: str) -> list[UseSpan]:
    """Return the amount of a resource that each unfinished workload with quota has used since its admission.

    Workloads that use none of it are left out.
    """
    spans = []
    for workload in workloads:
        state = find_quota_state(workload)
        if state.finished or workload.status.admission is None or state.since is None:
            continue
        assigned = workload.status.admission.pod_set_assignments
        used = sum(parse_amount(resource, one.resource_usage.get(resource, 0)) for one in assigned)
        if used:
            spans.append(
                UseSpan(owner_of(workload.metadata), state.since, None, used / 1000 if resource == "cpu" else used)
            )
    return spans


def sum_use(spans: Iterable[UseSpan], until: datetime, span: timedelta, steps: int, most: int = 6) -> UseSteps:
    """Return each owner's mean use of a resource, in equal steps of the period `span` before `until`.

    most: the number of owners with a layer of their own; the others share one.
    """
    since, step = until - span, span / steps
    seconds = step.total_seconds()
    totals: dict[str, list[float]] = {}
    for one in spans:
        begin = max((one.start - since).total_seconds(), 0.0) / seconds
        end = min(((one.end or until) - since).total_seconds() / seconds, float(steps))
        if end <= begin:
            continue
        values = totals.setdefault(one.owner or UNKNOWN, [0.0] * steps)
        for number in range(int(begin), min(steps, int(end) + 1)):
            values[number] += one.amount * max(0.0, min(end, number + 1) - max(begin, number))
    ranked = sorted(totals.items(), key=lambda item: (-sum(item[1]), item[0]))
    layers = [UseLayer(owner, tuple(values)) for owner, values in ranked[:most]]
    if rest := [values for _, values in ranked[most:]]:
        layers.append(UseLayer(OTHERS, _add_up(rest)))
    return UseSteps(since, step, tuple(layers))


def _add_up(rows: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(sum(column) for column in zip(*rows, strict=True))
