"""What a Job's spec asks for, read once, with the API server's defaults where it says nothing.

A Job that reached us without defaults (an old object, another server) is read as if it had them. 0 and absent are
different everywhere: `completions` 0 is done at once, absent makes a work queue.
"""

from typing import Self

from msgspec import Struct

from muster.api.batch import INDEXED, JOB_CONTROLLER_NAME, NON_INDEXED, Job, PodFailurePolicy, SuccessPolicy

# kube-apiserver's default of `spec.backoffLimit`; with a limit per index the global one is as good as none.
DEFAULT_BACKOFF_LIMIT = 6
NO_BACKOFF_LIMIT = 2**31 - 1


class Terms(Struct, frozen=True):
    """The fields of a JobSpec that the algorithm reads.

    completions: how many successes are asked for; None for a work queue (one success and all pods ended).
        Always set for an Indexed Job.
    replace_only_failed: a pod being deleted keeps its place until it has ended (podReplacementPolicy Failed).
    restarts_in_place: containers restart inside their pod (restartPolicy OnFailure).
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
    pod_failure_policy: PodFailurePolicy | None
    success_policy: SuccessPolicy | None

    @classmethod
    def of(cls, job: Job) -> Self:
        """The terms of a Job whose completion mode we know."""
        spec = job.spec
        indexed = spec.completion_mode == INDEXED
        parallelism = spec.parallelism if spec.parallelism is not None else 1
        completions = spec.completions
        if completions is None and (indexed or spec.parallelism is None):
            completions = parallelism  # 1 where that is absent too
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
            pod_failure_policy=spec.pod_failure_policy,
            success_policy=spec.success_policy if indexed else None,
        )

    def has_index(self, index: int) -> bool:
        """Whether a pod of this index counts: always in a NonIndexed Job; in an Indexed one if it is in range."""
        return not self.indexed or 0 <= index < (self.completions or 0)


def managed_by(job: Job) -> str:
    """The controller that reconciles the Job, the built-in one if it names none. No other may write anything."""
    return job.spec.managed_by or JOB_CONTROLLER_NAME


def completion_mode(job: Job) -> str:
    """`Indexed` or `NonIndexed`, or whatever unknown word the Job says."""
    return job.spec.completion_mode or NON_INDEXED
