"""Count events of JobSets, under upstream's metric names if it has them."""

from datetime import datetime

from muster.api.conditions import find
from muster.api.jobset import JobSet, JobSetStatus, names
from muster.runtime.metrics import Registry

# Times in the status have whole seconds.
_BUCKETS = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


class JobSetMetrics:
    """The metrics of the JobSet controller."""

    def __init__(self, registry: Registry) -> None:
        whose = ("jobset_name", "namespace")
        self._ended = {
            names.COMPLETED: registry.counter("jobset_completed_total", "The total number of completed JobSets", whose),
            names.FAILED: registry.counter("jobset_failed_total", "The total number of failed JobSets", whose),
        }
        self._gathered = registry.histogram(
            "muster_jobset_group_start_seconds",
            "Time from the first pod of a group that has started until all have, and the group may begin",
            (),
            _BUCKETS,
        ).labels()
        self._began = registry.histogram(
            "muster_jobset_group_wait_seconds",
            "Time from when a JobSet was made, resumed or restarted until its group may begin",
            (),
            _BUCKETS,
        ).labels()

    def count_stored_status(self, jobset: JobSet, status: JobSetStatus, now: datetime) -> None:
        """Count the end of a JobSet, or the start of its group, that a new status records.

        Call it after the status is stored, so that a retried write counts once.
        """
        if status.terminal_state != jobset.status.terminal_state and status.terminal_state in self._ended:
            self._ended[status.terminal_state].labels(jobset.metadata.name, jobset.metadata.namespace).inc()
        before, group = jobset.status.group_scheduling, status.group_scheduling
        released = before.released_epoch if before is not None else 0
        if group is not None and group.released_epoch != released:
            first = group.start_time or now  # a group without pods starts at once
            self._gathered.observe((now - first).total_seconds())
            self._began.observe((now - _wait_began(jobset, now)).total_seconds())


def _wait_began(jobset: JobSet, now: datetime) -> datetime:
    """Return when the JobSet was last created, resumed or restarted."""
    began = [jobset.metadata.creation_timestamp or now]
    for type, status in ((names.SUSPENDED, "False"), (names.RESTARTING, "True")):
        condition = find(jobset.status.conditions, type)
        if condition is not None and condition.status == status and condition.last_transition_time is not None:
            began.append(condition.last_transition_time)
    return max(began)
