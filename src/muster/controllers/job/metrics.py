"""Count events of Jobs, under upstream's metric names."""

from collections import Counter
from collections.abc import Iterable

from muster.api.batch import INDEXED, Job, JobStatus
from muster.api.conditions import find_true
from muster.api.core import Pod
from muster.api.pods import is_finished
from muster.api.values.indexes import Indexes
from muster.controllers.job.claims import is_tracked
from muster.jobs.job.conditions import COMPLETE, FAILED
from muster.jobs.job.plan import JobPlan
from muster.jobs.job.terms import JobTerms, completion_mode
from muster.runtime.metrics import Registry

_PREFIX = "job_controller_"
_SYNC_BUCKETS = tuple(0.004 * 2**power for power in range(15))


class JobMetrics:
    """The metrics of the Job controller."""

    def __init__(self, registry: Registry) -> None:
        by_sync = ("completion_mode", "result", "action")
        self._syncs = registry.counter(_PREFIX + "job_syncs_total", "The number of job syncs", by_sync)
        self._seconds = registry.histogram(
            _PREFIX + "job_sync_duration_seconds", "The time it took to sync a job", by_sync, _SYNC_BUCKETS
        )
        self._jobs = registry.counter(
            _PREFIX + "jobs_finished_total", "The number of finished jobs", ("completion_mode", "result", "reason")
        )
        self._pods = registry.counter(
            _PREFIX + "job_pods_finished_total",
            "The number of finished Pods that are counted",
            ("completion_mode", "result"),
        )
        self._indexes = registry.counter(
            _PREFIX + "job_finished_indexes_total", "The number of finished indexes", ("status", "backoffLimit")
        )
        self._created = registry.counter(
            _PREFIX + "job_pods_creation_total",
            "The number of Pods created, by reason and status",
            ("reason", "status"),
        )
        self._judged = registry.counter(
            _PREFIX + "pod_failures_handled_by_failure_policy_total",
            "The number of failed Pods handled by failure policy, by action",
            ("action",),
        )
        self._tracked = registry.counter(
            _PREFIX + "terminated_pods_tracking_finalizer_total",
            "The number of ended Pods that came to have the tracking finalizer (add), or have it no more (delete)",
            ("event",),
        )
        self._elsewhere = registry.counter(
            _PREFIX + "jobs_by_external_controller_total",
            "The number of Jobs managed by an external controller",
            ("controller_name",),
        )
        self._stale = registry.counter(
            _PREFIX + "stale_sync_skips_total", "The number of syncs put off until own writes are seen"
        ).labels()

    def count_sync(self, job: Job, plan: JobPlan | None, *, failed: bool, seconds: float) -> None:
        """Count one reconcile of a Job and its duration, by whether the plan creates or deletes pods.

        plan: None if the reconcile made no plan.
        """
        action = "reconciling" if plan is None else "tracking"
        if plan is not None and (plan.create or plan.delete):
            action = "pods_created" if plan.create else "pods_deleted"
        labels = completion_mode(job), "error" if failed else "success", action
        self._syncs.labels(*labels).inc()
        self._seconds.labels(*labels).observe(seconds)

    def count_stored_status(self, job: Job, status: JobStatus) -> None:
        """Count the pods and Jobs that have ended, when a new status was stored.

        job: the Job with its previous status.
        status: the new status.
        """
        mode = completion_mode(job)
        self._pods.labels(mode, "failed").inc(max(0, status.failed - job.status.failed))
        if mode != INDEXED:
            self._pods.labels(mode, "succeeded").inc(max(0, status.succeeded - job.status.succeeded))
        else:
            self._count_finished_indexes(job, status, mode)
        for type, result in ((COMPLETE, "succeeded"), (FAILED, "failed")):
            if (end := find_true(status.conditions, type)) is not None:
                self._jobs.labels(mode, result, end.reason).inc()

    def count_policy_actions(self, actions: Iterable[str]) -> None:
        """Count the actions of podFailurePolicies on failed pods. The controller reports each failed pod once."""
        for action, count in Counter(actions).items():
            self._judged.labels(action).inc(count)

    def _count_finished_indexes(self, job: Job, status: JobStatus, mode: str) -> None:
        """Count indexes that have finished, within the current range of indexes.

        An index that a resize removed does not count as a negative success.
        """
        terms = JobTerms.of(job)
        limit = terms.completions or 0
        new = len(Indexes.parse(status.completed_indexes, limit)) - len(
            Indexes.parse(job.status.completed_indexes, limit)
        )
        failed = len(Indexes.parse(status.failed_indexes or "", limit)) - len(
            Indexes.parse(job.status.failed_indexes or "", limit)
        )
        backoff_limit = "global" if terms.backoff_limit_per_index is None else "perIndex"
        self._pods.labels(mode, "succeeded").inc(max(0, new))
        self._indexes.labels("succeeded", backoff_limit).inc(max(0, new))
        self._indexes.labels("failed", backoff_limit).inc(max(0, failed))

    def pods_created(self, job: Job, plan: JobPlan, created: int, refused: int) -> None:
        """Count the plan's created pods, and the pods that the server refused."""
        status, uncounted = plan.status, plan.status.uncounted_terminated_pods
        failed = status.failed or (uncounted and uncounted.failed) or any(pod.failures for pod in plan.create)
        reason = "new"
        if JobTerms.of(job).replace_only_failed and failed:
            reason = "recreate_failed"
        elif failed or status.terminating:
            reason = "recreate_terminating_or_failed"
        for result, count in (("succeeded", created), ("failed", refused)):
            if count:
                self._created.labels(reason, result).inc(count)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Count when a pod with the tracking finalizer ends, and when such a pod loses the finalizer, for any owner."""
        before, after = _is_held(old), _is_held(new)
        if before != after:
            self._tracked.labels("add" if after else "delete").inc()

    def managed_elsewhere(self, controller: str) -> None:
        """Count a new Job that names another controller."""
        self._elsewhere.labels(controller).inc()

    def put_off(self) -> None:
        """Count a reconcile that was delayed because of stale caches."""
        self._stale.inc()


def _is_held(pod: Pod | None) -> bool:
    """Return whether the pod has ended and still has the tracking finalizer."""
    return pod is not None and is_tracked(pod) and is_finished(pod)
