"""The JobSet controller's numbers, named as upstream names them."""

from muster.api.jobset import JobSet, JobSetStatus, names
from muster.runtime.metrics import Registry


class JobSetMetrics:
    """What the controller counts."""

    def __init__(self, registry: Registry) -> None:
        whose = ("jobset_name", "namespace")
        self._ended = {
            names.COMPLETED: registry.counter("jobset_completed_total", "The total number of completed JobSets", whose),
            names.FAILED: registry.counter("jobset_failed_total", "The total number of failed JobSets", whose),
        }

    def stored(self, jobset: JobSet, status: JobSetStatus) -> None:
        """A status was stored: an end counts once, however many tries it took."""
        if status.terminal_state != jobset.status.terminal_state and status.terminal_state in self._ended:
            self._ended[status.terminal_state].labels(jobset.metadata.name, jobset.metadata.namespace).inc()
