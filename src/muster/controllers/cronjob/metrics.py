"""Count events of CronJobs, under upstream's metric name."""

from datetime import datetime

from muster.api.batch import Job
from muster.runtime.metrics import Registry

_BUCKETS = tuple(2**exponent for exponent in range(10))


class CronJobMetrics:
    """The metrics of the CronJob controller."""

    def __init__(self, registry: Registry) -> None:
        self._skew = registry.histogram(
            "cronjob_controller_job_creation_skew_duration_seconds",
            "Time from a start of a CronJob's schedule until the Job of that start was created",
            (),
            _BUCKETS,
        ).labels()

    def job_created(self, job: Job, at: datetime) -> None:
        """Record how late a CronJob's new Job was created.

        at: the time in the schedule for which it was created.
        """
        created = job.metadata.creation_timestamp or at
        self._skew.observe((created - at).total_seconds())
