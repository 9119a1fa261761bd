# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""`batch.volcano.sh/v1alpha1`: Volcano's Job, tasks whose pods are one gang; and the names that its pods carry."""

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

# Phases of a Job.
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

# Events that policies name. Upstream's JobUpdated is not here.
ANY_EVENT: Final = "*"
POD_PENDING: Final = "PodPending"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
JOB_UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
EVENTS: Final = (ANY_EVENT, POD_PENDING, POD_FAILED, POD_EVICTED, JOB_UNKNOWN, TASK_COMPLETED, TASK_FAILED)

# Actions that policies name. Upstream's RestartPartition and ResumeJob are not here.
ABORT_JOB: Final = "AbortJob"
RESTART_JOB: Final = "RestartJob"
RESTART_TASK: Final = "RestartTask"
RESTART_POD: Final = "RestartPod"
TERMINATE_JOB: Final = "TerminateJob"
COMPLETE_JOB: Final = "CompleteJob"
ACTIONS: Final = (ABORT_JOB, RESTART_JOB, RESTART_TASK, RESTART_POD, TERMINATE_JOB, COMPLETE_JOB)

# Plugins.
ENV: Final = "env"
SVC: Final = "svc"
SSH: Final = "ssh"
PYTORCH: Final = "pytorch"
PLUGINS: Final = (ENV, SVC, PYTORCH)  # those that do something here

DEFAULT_QUEUE: Final = "default"
DEFAULT_TASK: Final = "default"
DEFAULT_RETRIES: Final = 3

# Labels and annotations of pods.
TASK_INDEX: Final = "volcano.sh/task-index"
TASK_SPEC: Final = "volcano.sh/task-spec"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
QUEUE_NAME: Final = "volcano.sh/queue-name"
# Annotations of pods.
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
POD_TEMPLATE: Final = "volcano.sh/template-uid"
# Ours, on a pod that its Job replaces: the number of the retry that the replacement counts as.
REPLACED_BY_RETRY: Final = "muster.dev/replaced-by-retry"


class LifecyclePolicy(Struct):
    """What is done when something happens to the pods.

    action: AbortJob, RestartJob, RestartTask, RestartPod, TerminateJob or CompleteJob.
    event: PodFailed, PodEvicted, PodPending, TaskCompleted, TaskFailed, Unknown, or * for any.
    events: several of these.
    exit_code: instead of events, the exit code of a failed pod's first container.
    timeout: for PodPending, how long a pod waits before the action is taken.
    """

    action: str = ""
    event: str = ""
    events: tuple[str, ...] = ()
    exit_code: Int32 | None = None
    timeout: str = ""


class DependsOn(Struct):
    """Tasks of which enough pods must run before this task's pods are created.

    name: the names of the tasks.
    iteration: any: one of the tasks is enough; all of them if empty.
    """

    name: tuple[str, ...] = ()
    iteration: Annotated[str, one_of("any", "all")] = ""


class PartitionPolicySpec(Struct):
    """How a task is divided into parts.

    total_partitions: the number of parts.
    partition_size: the number of pods in each.
    network_topology: how close together the pods of a part must be.
    min_partitions: how many parts start together.
    """

    total_partitions: Required[Annotated[Int32, limits(minimum=1)]] = 0
    partition_size: Required[Annotated[Int32, limits(minimum=1)]] = 0
    network_topology: NetworkTopologySpec | None = None
    min_partitions: Annotated[_Count, DEFAULTED] = 0


class TaskSpec(Struct):
    """Pods of one role.

    name: of the role; the pods are called JOB-NAME-INDEX. default and its place in the list if empty.
    replicas: how many pods.
    min_available: how many of them start together, or none; all if absent.
    template: what the pods are like.
    policies: what is done when something happens to these pods; they go before those of the Job.
    topology_policy: how the memory of a node's processors is shared out.
    max_retry: how often containers of the task may restart in their pods before the task counts as failed.
    depends_on: tasks that must run before this one.
    partition_policy: how the task is divided into parts.
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

    mount_path: where they mount it.
    volume_claim_name: the name of a claim that is there.
    volume_claim: instead of that, a claim to create for the Job.
    """

    mount_path: Annotated[Required[str], limits(min_length=1, pattern=r"^[^:]+$")] = ""
    volume_claim_name: Annotated[str, limits(max_length=253)] = ""
    volume_claim: PersistentVolumeClaimSpec | None = None


class JobSpec(Struct):
    """What is asked for the Job.

    scheduler_name: the scheduler of pods whose template names none.
    min_available: how many pods start together, or none; those of all tasks if 0.
    volumes: claims on storage.
    tasks: the roles.
    policies: what is done when something happens to pods of any task.
    plugins: what is added to the pods, by name, with arguments.
    running_estimate: how long the Job is expected to run.
    queue: the name of Volcano's queue.
    max_retry: with how many retries the Job fails; 3 if 0.
    ttl_seconds_after_finished: for how long the Job stays after its end; for ever if absent.
    priority_class_name: the PriorityClass of pods whose template names none.
    min_success: with how many succeeded pods the Job is complete.
    network_topology: how close together the pods must be.
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
    """Where the Job is on its way.

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
    """A phase that the Job has been in.

    status: the phase.
    last_transition_time: when it last came into it.
    """

    status: Required[str] = ""
    last_transition_time: datetime | None = None


class JobStatus(Struct):
    """What was observed of the Job.

    state: where it is on its way.
    min_available: how many pods start together.
    task_status_count: its pods by task and phase.
    pending: pods that wait.
    running: pods that run.
    succeeded: pods that have succeeded.
    failed: pods that have failed.
    terminating: pods on their way out.
    unknown: pods of which nothing is known.
    version: how often the whole Job was stopped or restarted.
    retry_count: how often it was restarted, as a whole or in part.
    running_duration: how long the Job took from its creation to its end.
    controlled_resources: what was made for the Job beside its pods.
    conditions: the phases that it has been in.
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
    """Pods of several tasks that start together or not at all.

    metadata: what every object carries.
    spec: what is asked for the Job.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


VOLCANO_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs", Job)
