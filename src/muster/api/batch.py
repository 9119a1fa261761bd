"""The batch group, `batch/v1`: the Job and the CronJob."""

from datetime import datetime

from muster.api.core.pod import PodTemplateSpec
from muster.api.core.references import ObjectReference
from muster.api.kinds import Kind
from muster.api.markers import Int32, Required
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
# A strategic merge patch of the metadata that removes only the tracking finalizer.
UNTRACK = {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]}
# Annotation of a CronJob's Job: the start that it was made for.
SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"
JOB_CONTROLLER_NAME = "kubernetes.io/job-controller"

INDEXED = "Indexed"
NON_INDEXED = "NonIndexed"

# The limit for an Indexed Job, which bounds the length of status.completedIndexes.
MAX_PARALLELISM = 100_000


class PodFailurePolicyOnExitCodesRequirement(Struct):
    """A condition on the exit code of a container."""

    container_name: str | None = None
    operator: Required[str] = ""
    values: Required[tuple[Int32, ...]] = ()


class PodFailurePolicyOnPodConditionsPattern(Struct):
    """A condition that the pod has."""

    type: Required[str] = ""
    status: str = ""


class PodFailurePolicyRule(Struct):
    """A rule for failed pods that meet one of two kinds of conditions."""

    action: Required[str] = ""
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: tuple[PodFailurePolicyOnPodConditionsPattern, ...] = ()


class PodFailurePolicy(Struct):
    """The rules for failed pods."""

    rules: Required[tuple[PodFailurePolicyRule, ...]] = ()


class SuccessPolicyRule(Struct):
    """A condition under which an Indexed Job succeeds. All given fields must hold."""

    succeeded_indexes: str | None = None
    succeeded_count: Int32 | None = None


class SuccessPolicy(Struct):
    """The conditions under which an Indexed Job succeeds before all its indexes do."""

    rules: Required[tuple[SuccessPolicyRule, ...]] = ()


class JobSpec(Struct):
    """The desired state of a Job: what it runs, how often, and when it fails."""

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
    completion_mode: str | None = None
    suspend: bool | None = None
    pod_replacement_policy: str | None = None
    managed_by: str | None = None


class JobCondition(Struct):
    """One observed aspect of a Job."""

    type: Required[str] = ""
    status: Required[str] = ""
    last_probe_time: datetime | None = None
    last_transition_time: datetime | None = None
    reason: str = ""
    message: str = ""


class UncountedTerminatedPods(Struct):
    """The UIDs of ended pods that the controller has yet to count. The controller counts each pod exactly once."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Struct):
    """The observed state of a Job."""

    conditions: tuple[JobCondition, ...] = ()
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
    """A workload that runs pods until a given number of them have succeeded."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplateSpec(Struct):
    """A template of the Jobs that a controller creates."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Struct):
    """The schedule of a CronJob, and the template of its Jobs."""

    schedule: Required[str] = ""
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = ""
    suspend: bool | None = None
    job_template: Required[JobTemplateSpec] = JobTemplateSpec()
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(Struct):
    """The status of a CronJob: the Jobs that it runs, and its last start and success."""

    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(Struct):
    """A job template that creates Jobs at the times of a schedule."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


def pods_at_once(spec: JobSpec, succeeded: int = 0) -> int:
    """Return how many pods a Job runs at the same time, once `succeeded` pods have succeeded."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else max(0, min(parallelism, spec.completions - succeeded))


def comes_in_waves(spec: JobSpec) -> bool:
    """Return whether a Job has more completions than it runs pods at the same time."""
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return spec.completions is not None and spec.completions > parallelism


JOB = Kind("batch", "v1", "Job", "jobs", Job)
CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", CronJob)
