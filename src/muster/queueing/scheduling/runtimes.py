"""How long workloads hold quota, as far as it can be read off Workloads. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from muster.api.conditions import find_true
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, FINISHED, QUOTA_RESERVED

# So many of those that finished last tell how long the next will take.
RECENT = 20

Queue: TypeAlias = tuple[str, str]  # namespace and name of a LocalQueue


def limit(workload: Workload) -> timedelta | None:
    """After how long its queue ends it; None if it does not."""
    most = workload.spec.maximum_execution_time_seconds
    past = workload.status.accumulated_past_execution_time_seconds or 0
    return timedelta(seconds=most - past) if most is not None else None


def recent(workloads: Iterable[Workload]) -> dict[Queue, tuple[timedelta, ...]]:
    """How long those that finished last had run, by LocalQueue."""
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
