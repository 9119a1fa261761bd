"""The batch group, `batch/v1`: the Job and the CronJob."""

from datetime import datetime
from typing import Annotated

from muster.api.core.pod import PodTemplateSpec
from muster.api.core.references import ObjectReference
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, SET, Int32, Required, one_of, patched_by
from muster.api.meta import LabelSelector, ObjectMeta, Struct

# Label, annotation and finalizer names of the Job controller.
CONTROLLER_UID_LABEL = "batch.kubernetes.io/controller-uid"
JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID_LABEL = "controller-uid"
LEGACY_JOB_NAME_LABEL = "job-name"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"  # both a label and an annotation
INDEX_FAILURE_COUNT = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT = "batch.kubernetes.io/job-index-ignored-failure-count"
TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
# A strategic merge patch of metadata that takes the tracking finalizer away and leaves others alone.
UNTRACK = {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}
JOB_CONTROLLER_NAME = "kubernetes.io/job-controller"

INDEXED = "Indexed"
NON_INDEXED = "NonIndexed"

# Of an Indexed Job: it bounds the length of status.completedIndexes.
MAX_PARALLELISM = 100_000


class PodFailurePolicyOnExitCodesRequirement(Struct):
    """A condition on the exit code of a container.

    container_name: which container; any if absent.
    operator: In, or NotIn (0 never matches).
    values: the codes, in order, at most 255.
    """

    container_name: str | None = None
    operator: Annotated[Required[str], one_of("In", "NotIn")] = ""
    values: Required[Annotated[tuple[Int32, ...], SET]] = ()


class PodFailurePolicyOnPodConditionsPattern(Struct):
    """A condition that the pod has.

    type: its type.
    status: its status; True if empty.
    """

    type: Required[str] = ""
    status: str = ""


class PodFailurePolicyRule(Struct):
    """What to do about a failed pod that meets one of two kinds of condition.

    action: FailJob, FailIndex, Ignore or Count.
    on_exit_codes: the exit code of a container.
    on_pod_conditions: a condition of the pod; any of them.
    """

    action: Annotated[Required[str], one_of("Count", "FailIndex", "FailJob", "Ignore")] = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: Annotated[tuple[PodFailurePolicyOnPodConditionsPattern, ...], ATOMIC] = ()


class PodFailurePolicy(Struct):
    """What to do about failed pods.

    rules: the first that matches decides; a pod that none matches counts as usual.
    """

    rules: Required[Annotated[tuple[PodFailurePolicyRule, ...], ATOMIC]] = ()


class SuccessPolicyRule(Struct):
    """When an Indexed Job has succeeded; what is given must all hold.

    succeeded_indexes: these indexes have succeeded, such as 0,2-4.
    succeeded_count: so many have succeeded, of these indexes if given.
    """

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Struct):
    """When an Indexed Job has succeeded before all its indexes have.

    rules: any of them.
    """

    rules: Required[Annotated[tuple[SuccessPolicyRule, ...], ATOMIC]] = ()


class JobSpec(Struct):
    """What a Job runs, how often, and when it gives up.

    parallelism: how many pods run at once; 1 if absent; 0 pauses the Job.
    completions: how many pods must succeed; if absent, one success ends the Job once no pod runs any more.
    active_deadline_seconds: the Job fails after being active for so long.
    pod_failure_policy: what to do about failed pods.
    success_policy: when an Indexed Job has succeeded before all its indexes have.
    backoff_limit: how many pods may fail before the Job does; 6 if absent.
    backoff_limit_per_index: how many pods may fail before an index does.
    max_failed_indexes: how many indexes may fail before the Job does.
    selector: which pods belong to the Job; made by the server.
    manual_selector: whether the selector was chosen by the user, who then answers for it being unique.
    template: what the pods are like.
    ttl_seconds_after_finished: the Job is deleted so long after its end; never if absent.
    completion_mode: NonIndexed, or Indexed: every pod has an index from 0 to completions - 1.
    suspend: whether no pods run for the time being.
    pod_replacement_policy: TerminatingOrFailed, or Failed: when a pod is replaced.
    managed_by: who reconciles the Job; kubernetes.io/job-controller if absent.
    """

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    success_policy: SuccessPolicy | None = None
    backoff_limit: Int32 | None = None
    backoff_limit_per_index: Int32 | None = None
    max_failed_indexes: Int32 | None = None
    selector: LabelSelector | None = None
    manual_selector: bool | None = None
    template: Required[PodTemplateSpec] = PodTemplateSpec()
    ttl_seconds_after_finished: Int32 | None = None
    completion_mode: Annotated[str, one_of("Indexed", "NonIndexed")] | None = None
    suspend: bool | None = None
    pod_replacement_policy: Annotated[str, one_of("Failed", "TerminatingOrFailed")] | None = None
    managed_by: str | None = None


class JobCondition(Struct):
    """One observed aspect of a Job.

    type: Suspended, SuccessCriteriaMet, FailureTarget, Complete or Failed.
    status: True, False or Unknown.
    last_probe_time: when it was last looked at.
    last_transition_time: when the status last changed.
    reason: one word for the status.
    message: a sentence for people.
    """

    type: Required[str] = ""
    status: Required[str] = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(Struct):
    """UIDs of ended pods that are being counted; none is ever counted twice or lost.

    succeeded: pods that have succeeded.
    failed: pods that have failed.
    """

    succeeded: Annotated[tuple[str, ...], SET] = ()
    failed: Annotated[tuple[str, ...], SET] = ()


class JobStatus(Struct):
    """What was observed of a Job.

    conditions: observed aspects; Complete and Failed are final.
    start_time: when it was started, or last resumed.
    completion_time: when it completed; only then.
    active: pods that run or are about to.
    succeeded: pods that have succeeded; for Indexed Jobs, indexes in range.
    failed: pods that have failed.
    terminating: pods that are being deleted.
    completed_indexes: indexes that have succeeded, such as 0,2-4.
    failed_indexes: indexes that have failed, with backoffLimitPerIndex.
    uncounted_terminated_pods: ended pods that are being counted.
    ready: active pods that are ready.
    """

    conditions: Annotated[tuple[JobCondition, ...], patched_by("type")] = ()
    start_time: datetime | None = None
    completion_time: datetime | None = None
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    terminating: Int32 | None = None
    completed_indexes: str = ""
    failed_indexes: str | None = None
    uncounted_terminated_pods: UncountedTerminatedPods | None = None
    ready: Int32 | None = None


class Job(Struct):
    """Runs pods until so many of them have succeeded.

    metadata: what every object carries.
    spec: what it runs, how often, and when it gives up.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Struct):
    """Describes the Jobs that a controller makes.

    metadata: labels and annotations of the Jobs.
    spec: the Jobs' spec.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Struct):
    """When a CronJob makes Jobs, and what they are like.

    schedule: when, as cron writes it.
    time_zone: where that is meant, such as Etc/UTC.
    starting_deadline_seconds: how late a Job may be made; if absent, however late.
    concurrency_policy: Allow, Forbid or Replace, if the last Job still runs.
    suspend: whether no Jobs are made for the time being.
    job_template: what the Jobs are like.
    successful_jobs_history_limit: how many Jobs that have succeeded are kept; 3 if absent.
    failed_jobs_history_limit: how many Jobs that have failed are kept; 1 if absent.
    """

    schedule: Required[str] = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: Annotated[str, one_of("Allow", "Forbid", "Replace")] = ""
    suspend: bool | None = None
    job_template: Required[JobTemplateSpec] = JobTemplateSpec()
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(Struct):
    """What was observed of a CronJob.

    active: Jobs that run.
    last_schedule_time: when a Job was last made.
    last_successful_time: when a Job last succeeded.
    """

    active: Annotated[tuple[ObjectReference, ...], ATOMIC] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(Struct):
    """Makes Jobs at given times. It is kept and shown; nothing here makes its Jobs.

    metadata: what every object carries.
    spec: when it makes Jobs, and what they are like.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


def pods_at_once(spec: JobSpec, succeeded: int = 0) -> int:
    """How many pods a Job has side by side, once so many have succeeded."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else max(0, min(parallelism, spec.completions - succeeded))


JOB = Kind("batch", "v1", "Job", "jobs", Job)
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", CronJob)
