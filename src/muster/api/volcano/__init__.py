# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`batch.volcano.sh/v1alpha1`: Volcano's Job, whose tasks are one gang, and the names on its pods."""

from datetime import datetime
from typing import Annotated, Final

from muster.api.core.claims import PersistentVolumeClaimSpec
from muster.api.core.pod import PodTemplateSpec
from muster.api.kinds import Kind
from muster.api.markers import DEFAULTED, Int32, Required, limits, one_of
from muster.api.meta import ObjectMeta, Struct
from muster.api.podgroups.volcano import NetworkTopologySpec

_Count = Annotated[Int32, limits(minimum=0)]
_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

# The phases of a Job.
PENDING: Final = "Pending"
RUNNING: Final = "Running"
RESTARTING: Final = "Restarting"
ABORTING: Final = "Aborting"
ABORTED: Final = "Aborted"
COMPLETING: Final = "Completing"
COMPLETED: Final = "Completed"
TERMINATING: Final = "Terminating"
TERMINATED: Final = "Terminated"
FAILED: Final = "Failed"
PHASES: Final = (
    PENDING,
    ABORTING,
    ABORTED,
    RUNNING,
    RESTARTING,
    COMPLETING,
    COMPLETED,
    TERMINATING,
    TERMINATED,
    FAILED,
)

# The events that policies name, without upstream's JobUpdated.
ANY_EVENT: Final = "*"
POD_PENDING: Final = "PodPending"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
JOB_UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
EVENTS: Final = (ANY_EVENT, POD_PENDING, POD_FAILED, POD_EVICTED, JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED)

# The actions that policies name, without upstream's RestartPartition and ResumeJob.
ABORT_JOB: Final = "AbortJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
ACTIONS: Final = (ABORT_JOB, RESTART_JOB, RESTART_TASK, RESTART_POD, TERMINATE_JOB, COMPLETE_JOB)

# The plugins.
ENV: Final = "env"
SVC: Final = "svc"
SSH: Final = "ssh"
PYTORCH: Final = "pytorch"
PLUGINS: Final = (ENV, SVC, PYTORCH)  # the plugins that Muster implements

DEFAULT_QUEUE: Final = "default"
DEFAULT_TASK: Final = "default"
DEFAULT_RETRIES: Final = 3

# The labels and annotations of pods.
TASK_INDEX: Final = "volcano.sh/task-index"
TASK_SPEC: Final = "volcano.sh/task-spec"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
QUEUE_NAME: Final = "volcano.sh/queue-name"
# The annotations of pods.
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
POD_TEMPLATE: Final = "volcano.sh/template-uid"
# Muster's annotation of a pod that its Job replaces, with the number of the retry as which the replacement counts.
REPLACED_BY_RETRY: Final = "muster.dev/replaced-by-retry"


class LifecyclePolicy(Struct):
    """A policy for an event of the pods.

    action: AbortJob, RestartJob, RestartTask, RestartPod, TerminateJob or CompleteJob.
    event: PodFailed, PodEvicted, PodPending, TaskCompleted, TaskFailed, Unknown, or * for any event.
    events: several events.
    exit_code: instead of events, the exit code of the first container of a failed pod.
    timeout: for PodPending, how long a pod waits before the action.
    """

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: Int32 | None = None
    timeout: str = ""


class DependsOn(Struct):
    """The tasks of which enough pods must run before the pods of this task are created.

    name: the names of the tasks.
    iteration: any if one of the tasks suffices; all of them if empty.
    """

    name: tuple[str, ...] = ()
    iteration: Annotated[str, one_of("any", "all")] = ""


class PartitionPolicySpec(Struct):
    """The division of a task into parts.

    total_partitions: the number of parts.
    partition_size: the number of pods in each.
    network_topology: the constraint on how close together the pods of a part must be.
    min_partitions: the number of parts that start together.
    """

    total_partitions: Required[Annotated[Int32, limits(minimum=1)]] = 0
    partition_size: Required[Annotated[Int32, limits(minimum=1)]] = 0
    network_topology: NetworkTopologySpec | None = None
    min_partitions: Annotated[_Count, DEFAULTED] = 0


class TaskSpec(Struct):
    """A task: the pods of one role.

    name: the name of the task; if empty, default and its index in the list. The names of its pods are JOB-NAME-INDEX.
    replicas: the number of pods.
    min_available: the number of pods that start together (with fewer, none starts); all if absent.
    template: the template of the pods.
    policies: the policies for events of these pods, which come before those of the Job.
    topology_policy: the policy of sharing the memory of a node's processors.
    max_retry: how often containers of the task may restart in their pods before the task counts as failed.
    depends_on: the tasks that must run before this one.
    partition_policy: the division of the task into parts.
    """

    name: Annotated[str, limits(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")] = ""
    replicas: _Count = 0
    min_available: _Count | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    policies: tuple[LifecyclePolicy, ...] = ()
    topology_policy: Annotated[str, one_of("none", "best-effort", "restricted", "single-numa-node")] = ""
    max_retry: _Count = 0
    depends_on: DependsOn | None = None
    partition_policy: PartitionPolicySpec | None = None


class VolumeSpec(Struct):
    """A claim on storage that all containers mount.

    mount_path: the path at which the containers mount it.
    volume_claim_name: the name of an existing claim.
    volume_claim: instead of an existing claim, a claim to create for the Job.
    """

    mount_path: Annotated[Required[str], limits(min_length=1, pattern=r"^[^:]+$")] = ""
    volume_claim_name: Annotated[str, limits(max_length=253)] = ""
    volume_claim: PersistentVolumeClaimSpec | None = None


class JobSpec(Struct):
    """The desired state of a Volcano Job.

    scheduler_name: the scheduler of pods whose template names none.
    min_available: the number of pods that start together (with fewer, none starts); those of all tasks if 0.
    volumes: the claims on storage.
    tasks: the tasks.
    policies: the policies for events of the pods of any task.
    plugins: the plugins that change the pods, by name, with their arguments.
    running_estimate: how long the Job is expected to run.
    queue: the name of Volcano's queue.
    max_retry: the number of retries with which the Job fails; 3 if 0.
    ttl_seconds_after_finished: how long after its end the Job is deleted; never if absent.
    priority_class_name: the PriorityClass of pods whose template names none.
    min_success: the number of succeeded pods with which the Job is complete.
    network_topology: the constraint on how close together the pods must be.
    """

    scheduler_name: Annotated[str, limits(max_length=63)] = ""
    min_available: _Count = 0
    volumes: tuple[VolumeSpec, ...] = ()
    tasks: Annotated[tuple[TaskSpec, ...], limits(min_items=1)] = ()
    policies: tuple[LifecyclePolicy, ...] = ()
    plugins: dict[str, tuple[str, ...]] = {}
    running_estimate: str = ""
    queue: Annotated[str, limits(max_length=253, pattern=_SUBDOMAIN), DEFAULTED] = DEFAULT_QUEUE
    max_retry: Annotated[_Count, DEFAULTED] = DEFAULT_RETRIES
    ttl_seconds_after_finished: _Count | None = None
    priority_class_name: Annotated[str, limits(max_length=253, pattern=_SUBDOMAIN)] = ""
    min_success: Annotated[Int32, limits(minimum=1)] | None = None
    network_topology: NetworkTopologySpec | None = None


class JobState(Struct):
    """The phase of a Job.

    phase: Pending, Running, Restarting, Aborting, Aborted, Completing, Completed, Terminating, Terminated or Failed.
    reason: one word for the last change of phase.
    message: a sentence for people.
    last_transition_time: when the phase last changed.
    """

    phase: Annotated[str, one_of(*PHASES)] = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class TaskState(Struct):
    """The pods of one task.

    phase: their number, by phase.
    """

    phase: dict[str, Int32] = {}


class JobCondition(Struct):
    """A phase that the Job had.

    status: the phase.
    last_transition_time: when the Job last entered the phase.
    """

    status: Required[str] = ""
    last_transition_time: datetime | None = None


class JobStatus(Struct):
    """The observed state of the Job.

    state: the phase of the Job.
    min_available: the number of pods that start together.
    task_status_count: the numbers of pods by task and phase.
    pending: the number of pending pods.
    running: the number of running pods.
    succeeded: the number of succeeded pods.
    failed: the number of failed pods.
    terminating: the number of terminating pods.
    unknown: the number of pods in an unknown state.
    version: how often the whole Job was stopped or restarted.
    retry_count: how often the Job was restarted, as a whole or in part.
    running_duration: the time from the creation of the Job to its end.
    controlled_resources: the objects that were created for the Job besides its pods.
    conditions: the phases that the Job had.
    """

    state: JobState = JobState()
    min_available: _Count = 0
    task_status_count: dict[str, TaskState] = {}
    pending: _Count = 0
    running: _Count = 0
    succeeded: _Count = 0
    failed: _Count = 0
    terminating: _Count = 0
    unknown: _Count = 0
    version: _Count = 0
    retry_count: _Count = 0
    running_duration: str = ""
    controlled_resources: dict[str, str] = {}
    conditions: tuple[JobCondition, ...] = ()


class Job(Struct):
    """A job of several tasks, whose pods start together or not at all.

    metadata: the standard metadata of an object.
    spec: the desired state.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


VOLCANO_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", Job)
