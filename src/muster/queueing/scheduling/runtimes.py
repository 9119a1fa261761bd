"""Read the times for which Workloads held quota, and find the probable run times of new runs. Pure."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from muster.api.conditions import find_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED
from muster.api.ours.submitter import SUBMITTER_ANNOTATION

# The number of most recent runs that an estimate of the next run time uses.
RECENT = 20

# The minimum number of similar runs; with fewer, a wider group is used.
_ENOUGH = 2

_NUMBER = re.compile(r"[-_.]?\d+$")


class Traits(Struct, frozen=True):
    """The traits by which runs are compared.

    queue: the LocalQueue, as `namespace/name`.
    user: the submitter; "" if unknown.
    name: the job's name without a number at its end.
    pods: the number of pods.
    """

    queue: str
    user: str
    name: str
    pods: int


class PastRun(NamedTuple):
    """A run that has ended.

    ran: how long it held quota.
    limit: the time after which the run would have been stopped; None if there was no limit.
    """

    ran: timedelta
    limit: timedelta | None


class PastRuns:
    """The most recent runs, in groups of similar runs, from which the run time of a new run is estimated."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str | int, ...], deque[PastRun]] = {}

    def add(self, traits: Traits, run: PastRun) -> None:
        """Add a run. Runs must be added in the order of their ends."""
        for group in _list_groups(traits):
            self._runs.setdefault(group, deque(maxlen=RECENT)).append(run)

    def find(self, traits: Traits, limit: timedelta | None = None) -> tuple[timedelta, ...]:
        """Return probable run times of a new run, from the most similar group of past runs.

        limit: the time after which the new run is stopped; None for no limit. Past runs that had a limit then count by
        the fraction of their limit for which they ran.
        """
        groups = (self._runs.get(group, ()) for group in _list_groups(traits))
        runs = next((some for some in groups if len(some) >= _ENOUGH), self._runs.get((traits.queue,), ()))
        shares = [one.ran / one.limit for one in runs if one.limit]
        return tuple(limit * share for share in shares) if limit and shares else tuple(one.ran for one in runs)


def _list_groups(traits: Traits) -> Iterator[tuple[str | int, ...]]:
    """Yield the keys of the groups to which a run belongs, the most similar group first."""
    queue, user, name, pods = traits.queue, traits.user, traits.name, traits.pods
    if user:
        yield queue, user, name, pods
        yield queue, user, name
        yield queue, user
    yield queue, pods
    yield (queue,)


def name_series(name: str) -> str:
    """Return the name of a job without the number at its end: `train` for `train-7`."""
    return _NUMBER.sub("", name)


def find_time_limit(workload: Workload) -> timedelta | None:
    """Return the time after which the workload is stopped (its maximum execution time); None if it has no limit."""
    most = workload.spec.maximum_execution_time_seconds
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return timedelta(seconds=most - past) if most is not None else None


def find_traits(workload: Workload) -> Traits:
    """Return the traits by which the run of a Workload is compared with other runs."""
    meta = workload.metadata
    name = meta.owner_references[0].name if len(meta.owner_references) == 1 else meta.name
    user, pods = meta.annotations.get(SUBMITTER_ANNOTATION, ""), sum(podset.count for podset in workload.spec.pod_sets)
    return Traits(f"{meta.namespace}/{workload.spec.queue_name}", user, name_series(name), pods)


def read_past_runs(
    workloads: Iterable[Workload], find_limit: Callable[[Workload], timedelta | None] = find_time_limit
) -> PastRuns:
    """Return the past runs of the workloads that have finished.

    find_limit: returns the time limit of a workload.
    """
    ended: list[tuple[datetime, timedelta, Workload]] = []
    for workload in workloads:
        conditions = workload.status.conditions
        finished = find_true(conditions, FINISHED)
        if finished is None:
            continue
        began = find_true(conditions, ADMITTED) or find_true(conditions, QUOTA_RESERVED)
        start, end = began.last_transition_time if began is not None else None, finished.last_transition_time
        if start is not None and end is not None and end >= start:
            ended.append((end, end - start, workload))
    past = PastRuns()
    for _, ran, workload in sorted(ended, key=lambda one: one[:2]):
        past.add(find_traits(workload), PastRun(ran, find_limit(workload)))
    return past
