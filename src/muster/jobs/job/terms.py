"""Read a Job's spec once, with the API server's defaults for missing fields.

A Job without defaults (an old object, another server) is read as if it had them. A field with the value 0 always
differs from an absent one: a Job with `completions: 0` is complete at once, and a Job without `completions` is a work
queue.
"""

from typing import Self

from msgspec import Struct

from muster.api.batch import INDEXED, JOB_CONTROLLER_NAME, NON_INDEXED, Job, PodFailurePolicy, SuccessPolicy
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import GROUP_SCHEDULING_EPOCH
from muster.api.meta import controller_of
from muster.api.ours.elastic import GANG_ANNOTATION
from muster.api.ours.trials import cancelled_of
from muster.api.values.indexes import Indexes

# kube-apiserver's default of `spec.backoffLimit`, in effect unlimited where there is a limit per index.
DEFAULT_BACKOFF_LIMIT = 6
NO_BACKOFF_LIMIT = 2**31 - 1


class JobTerms(Struct, frozen=True):
    """The fields of a JobSpec that the algorithm reads.

    completions: how many successes are needed; None for a work queue, which needs one success and the end of all pods.
    An Indexed Job always has a number.
    replace_only_failed: whether a pod that is being deleted is replaced only after it has ended (podReplacementPolicy
    Failed).
    restarts_in_place: whether containers restart inside their pod (restartPolicy OnFailure).
    is_of_jobset: whether a JobSet created the Job. The JobSet then counts the suspensions of all its Jobs.
    restarts_whole: whether the Job's JobSet restarts all pods when one pod is interrupted.
    cancelled: the indexes that a user cancelled. Only a Job with a back-off limit per index can have them, because only
    then can one index end without the others.
    """

    indexed: bool
    parallelism: int
    completions: int | None
    suspended: bool
    backoff_limit: int
    backoff_limit_per_index: int | None
    max_failed_indexes: int | None
    active_deadline_seconds: int | None
    replace_only_failed: bool
    restarts_in_place: bool
    is_of_jobset: bool
    restarts_whole: bool
    pod_failure_policy: PodFailurePolicy | None
    success_policy: SuccessPolicy | None
    cancelled: Indexes

    @classmethod
    def of(cls, job: Job) -> Self:
        """Return the terms of a Job whose completion mode is known."""
        spec = job.spec
        indexed = spec.completion_mode == INDEXED
        parallelism = spec.parallelism if spec.parallelism is not None else 1
        completions = spec.completions
        if completions is None and (indexed or spec.parallelism is None):
            completions = parallelism  # 1 if parallelism is absent too
        per_index = spec.backoff_limit_per_index if indexed else None
        backoff_limit = spec.backoff_limit
        if backoff_limit is None:
            backoff_limit = DEFAULT_BACKOFF_LIMIT if per_index is None else NO_BACKOFF_LIMIT
        return cls(
            indexed=indexed,
            parallelism=parallelism,
            completions=completions,
            suspended=bool(spec.suspend),
            backoff_limit=backoff_limit,
            backoff_limit_per_index=per_index,
            max_failed_indexes=spec.max_failed_indexes if per_index is not None else None,
            active_deadline_seconds=spec.active_deadline_seconds,
            replace_only_failed=spec.pod_replacement_policy == "Failed" or spec.pod_failure_policy is not None,
            restarts_in_place=spec.template.spec.restart_policy == "OnFailure",
            is_of_jobset=_is_of_jobset(job),
            restarts_whole=_restarts_whole(job, backoff_limit),
            pod_failure_policy=spec.pod_failure_policy,
            success_policy=spec.success_policy if indexed else None,
            cancelled=cancelled_of(job.metadata.annotations, completions or 0) if per_index is not None else Indexes(),
        )

    def has_index(self, index: int) -> bool:
        """Return whether pods of this index count: any index in a NonIndexed Job, else an index in range."""
        return not self.indexed or 0 <= index < (self.completions or 0)


def _is_of_jobset(job: Job) -> bool:
    owner = controller_of(job.metadata)
    return owner is not None and JOB_SET.is_of(owner)


def _restarts_whole(job: Job, backoff_limit: int) -> bool:
    """Return whether the pods of a JobSet's Job are only useful together, so that losing one pod loses all.

    That holds if they start together, if they are placed together with pods of other Jobs, or if the Job tolerates no
    failure of a pod.
    """
    template = job.spec.template.metadata.annotations
    if not _is_of_jobset(job):
        return False
    return GROUP_SCHEDULING_EPOCH in template or template.get(GANG_ANNOTATION) == "true" or backoff_limit == 0


def managed_by(job: Job) -> str:
    """Return the controller that reconciles the Job, by default the built-in one.

    No other controller may write to the Job or its pods.
    """
    return job.spec.managed_by or JOB_CONTROLLER_NAME


def completion_mode(job: Job) -> str:
    """Return `Indexed` or `NonIndexed`, or the Job's own unknown value."""
    return job.spec.completion_mode or NON_INDEXED
