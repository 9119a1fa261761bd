"""Read from Workloads how long they hold quota. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from muster.api.conditions import find_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED

# The number of last finished workloads that an estimate of the next run time uses.
RECENT = 20

Queue: TypeAlias = tuple[str, str]  # namespace and name of a LocalQueue


def limit(workload: Workload) -> timedelta | None:
    """Return the time after which the queue ends the workload; None if it does not."""
    most = workload.spec.maximum_execution_time_seconds
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return timedelta(seconds=most - past) if most is not None else None


def recent(workloads: Iterable[Workload]) -> dict[Queue, tuple[timedelta, ...]]:
    """Return the run times of the workloads that finished last, by LocalQueue."""
    ended: dict[Queue, list[tuple[datetime, timedelta]]] = {}
    for workload in workloads:
        conditions = workload.status.conditions
        finished = find_true(conditions, FINISHED)
        if finished is None:
            continue
        began = find_true(conditions, ADMITTED) or find_true(conditions, QUOTA_RESERVED)
        start, end = began.last_transition_time if began is not None else None, finished.last_transition_time
        if start is not None and end is not None and end >= start:
            queue = workload.metadata.namespace, workload.spec.queue_name
            ended.setdefault(queue, []).append((end, end - start))
    return {queue: tuple(time for _, time in sorted(times)[-RECENT:]) for queue, times in ended.items()}
