"""`jobset.x-k8s.io/v1alpha2`: the JobSet, with the group start of jobset KEP-498."""

from datetime import datetime
from typing import Annotated

from muster.api.batch import JobTemplateSpec
from muster.api.core.claims import PersistentVolumeClaim
from muster.api.jobset import names
from muster.api.kinds import Kind
from muster.api.markers import ATOMIC, DEFAULTED, Format, Int32, Required, Strings, limits, map_by, merged_by, one_of
from muster.api.meta import WRITTEN_ZERO, Condition, ObjectMeta, Struct

Count = Annotated[Int32, limits(minimum=0)]


class DependsOn(Struct):
    """A dependency on an earlier replicated job, which must reach a status first.

    name: the name of the replicated job.
    status: Ready: all its Jobs are ready or have ended. Complete: all have succeeded.
    """

    name: Required[str] = ""
    status: Annotated[Required[str], one_of(names.READY, names.COMPLETE)] = ""


class ReplicatedJob(Struct):
    """A role of a JobSet: Jobs from one template.

    name: the name of the role; the names of its Jobs are JOBSET-NAME-INDEX.
    group_name: the group of roles within which Jobs are counted; `default` if absent.
    template: the template of the Jobs.
    replicas: the number of Jobs; 1 if absent.
    depends_on: the earlier roles that must reach a status before these Jobs are created.
    """

    name: Required[str] = ""
    group_name: Annotated[str, DEFAULTED] = "default"
    template: Required[JobTemplateSpec] = JobTemplateSpec()
    replicas: Annotated[Count, DEFAULTED] = 1
    depends_on: Annotated[tuple[DependsOn, ...], map_by("name"), limits(max_items=5)] = ()


class Network(Struct):
    """The network settings by which the pods of a JobSet find each other.

    enable_dns_hostnames: whether a headless Service gives the pods host names; true if absent.
    subdomain: the name of that Service; the JobSet's own if empty.
    publish_not_ready_addresses: whether pods have host names before they are ready; true if absent.
    """

    enable_dns_hostnames: bool | None = None
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(Struct):
    """The condition under which a JobSet succeeds.

    operator: whether All or Any of the Jobs must succeed.
    target_replicated_jobs: the roles that count; all if empty.
    """

    operator: Annotated[Required[str], one_of(names.ALL, names.ANY)] = ""
    target_replicated_jobs: Strings = ()


class FailurePolicyRule(Struct):
    """A rule for failed Jobs that match all its fields.

    name: the name of the rule; if empty, failurePolicyRule and its index in the list.
    action: FailJobSet, RestartJobSet, RestartJob, or one of the last two without counting the restart.
    on_job_failure_reasons: reasons of the Job's failure; any if empty.
    on_job_failure_message_patterns: regular expressions (RE2), of which one must match the message; any if empty.
    target_replicated_jobs: the roles to which the rule applies; all if empty.
    """

    name: str = ""
    action: Annotated[
        Required[str],
        one_of(
            names.FAIL_JOBSET,
            names.RESTART_JOBSET,
            names.RESTART_JOBSET_IGNORING_MAX,
            names.RESTART_JOB,
            names.RESTART_JOB_IGNORING_MAX,
        ),
    ] = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: Strings = ()


class FailurePolicy(Struct):
    """The policy for failed Jobs. Without it the first failed Job fails the JobSet.

    max_restarts: the number of counted restarts after which the JobSet fails.
    restart_strategy: Recreate: each Job anew as soon as the old one is gone; BlockingRecreate: none before all old ones
        are gone; InPlaceRestart: the containers restart in their pods.
    rules: the first matching rule decides; if none matches, the JobSet restarts.
    """

    max_restarts: Int32 = 0
    restart_strategy: Annotated[
        str, one_of(names.RECREATE, names.BLOCKING_RECREATE, names.IN_PLACE_RESTART), DEFAULTED
    ] = names.RECREATE
    rules: tuple[FailurePolicyRule, ...] = ()


class StartupPolicy(Struct):
    """The order in which roles start.

    startup_policy_order: AnyOrder, or InOrder: a role starts once all earlier roles are ready.
    """

    startup_policy_order: Annotated[Required[str], one_of(names.ANY_ORDER, names.IN_ORDER)] = ""


class Coordinator(Struct):
    """The pod that the other pods look up. All Jobs and pods have a label with its host name.

    replicated_job: the role of the pod.
    job_index: the index of its Job.
    pod_index: its completion index.
    """

    replicated_job: Required[str] = ""
    job_index: Annotated[int, Format("int")] = 0
    pod_index: Annotated[int, Format("int")] = 0


class VolumeRetentionPolicy(Struct):
    """The retention of the claims of a JobSet.

    when_deleted: whether to Delete or Retain the claims when the JobSet is deleted.
    """

    when_deleted: Annotated[str, one_of(names.DELETE, names.RETAIN), DEFAULTED] = names.DELETE


class VolumeClaimPolicy(Struct):
    """The claims on storage that are created for a JobSet and shared by the pods that mount them.

    templates: the templates of the claims; the name of each claim is NAME-JOBSET.
    retention_policy: the retention of the claims.
    """

    templates: Annotated[tuple[PersistentVolumeClaim, ...], ATOMIC, limits(max_items=50)] = ()
    retention_policy: VolumeRetentionPolicy | None = None


class GroupSchedulingConfig(Struct):
    """The group start of a JobSet: main containers start once all pods of the group have started (jobset KEP-498).

    timeout_after_seconds: the time after which the start of the group fails; no limit if absent.
    target_replicated_jobs: the roles whose pods are the group; all if empty.
    """

    timeout_after_seconds: Annotated[Int32, limits(minimum=1)] | None = None
    target_replicated_jobs: Strings = ()


class JobSetSpec(Struct):
    """The desired state of a JobSet: its Jobs, their order, and when the whole succeeds or fails.

    replicated_jobs: the roles.
    network: the network settings by which the pods find each other.
    success_policy: the condition of success; if absent, all Jobs must succeed.
    failure_policy: the policy for failed Jobs; if absent, the first failure fails the JobSet.
    startup_policy: the order in which roles start; dependsOn can refine it.
    suspend: whether the JobSet is suspended, so that no pods run.
    coordinator: the pod that the other pods look up.
    managed_by: the controller of the JobSet; jobset.sigs.k8s.io/jobset-controller if absent.
    ttl_seconds_after_finished: how long after its end the JobSet is deleted; never if absent.
    volume_claim_policies: the claims on storage that are created for the JobSet.
    group_scheduling_config: the group start, which delays main containers until all pods of the group have started.
    """

    # Unlike upstream, a list merged by name, so that applying a manifest again keeps what a queue added.
    replicated_jobs: Annotated[tuple[ReplicatedJob, ...], merged_by("name")] = ()
    network: Network | None = None
    success_policy: SuccessPolicy | None = None
    failure_policy: FailurePolicy | None = None
    startup_policy: StartupPolicy | None = None
    suspend: bool | None = None
    coordinator: Coordinator | None = None
    managed_by: str | None = None
    ttl_seconds_after_finished: Count | None = None
    volume_claim_policies: Annotated[tuple[VolumeClaimPolicy, ...], ATOMIC, limits(max_items=50)] = ()
    group_scheduling_config: GroupSchedulingConfig | None = None


class ReplicatedJobStatus(Struct):
    """The state of the Jobs of a role.

    name: the role.
    ready: the number of Jobs whose pods are all ready or have succeeded.
    succeeded: the number of succeeded Jobs.
    failed: the number of failed Jobs.
    active: the number of Jobs with a pending or running pod.
    suspended: the number of suspended Jobs.
    job_restarts: the individual restarts of each Job, by its index.
    job_restarts_count_towards_max: the individual restarts that count towards maxRestarts.
    """

    name: Required[str] = ""
    ready: Required[Int32] = WRITTEN_ZERO
    succeeded: Required[Int32] = WRITTEN_ZERO
    failed: Required[Int32] = WRITTEN_ZERO
    active: Required[Int32] = WRITTEN_ZERO
    suspended: Required[Int32] = WRITTEN_ZERO
    job_restarts: Annotated[tuple[Int32, ...], ATOMIC, limits(max_items=1024)] = ()
    job_restarts_count_towards_max: Annotated[tuple[Int32, ...], ATOMIC, limits(max_items=1024)] = ()


class GroupSchedulingStatus(Struct):
    """The progress of the group start.

    epoch: the number of the current start; each restart or resume increases it.
    released_epoch: the last epoch whose main containers may start; 0 if there is none yet.
    started: the pods of this epoch that reported their start.
    expected: the pods that have to start.
    start_time: when the first pod of this epoch started, which is the beginning of the timeout.
    """

    epoch: Int32 = 0
    released_epoch: Int32 = 0
    started: Int32 = 0
    expected: Int32 = 0
    start_time: datetime | None = None


class JobSetStatus(Struct):
    """The observed state of a JobSet.

    conditions: observed aspects; Completed and Failed are final.
    restarts: how often all Jobs were restarted.
    restarts_count_towards_max: the restarts that count towards maxRestarts.
    terminal_state: Completed or Failed, once it has ended.
    replicated_jobs_status: the state of each role.
    previous_in_place_restart_attempt: containers of this attempt and of earlier ones restart.
    current_in_place_restart_attempt: containers of this attempt may go on.
    group_scheduling: the progress of the group start.
    """

    conditions: Annotated[tuple[Condition, ...], map_by("type")] = ()
    restarts: Int32 = WRITTEN_ZERO
    restarts_count_towards_max: Int32 = 0
    terminal_state: str = ""
    replicated_jobs_status: Annotated[tuple[ReplicatedJobStatus, ...], map_by("name")] = ()
    previous_in_place_restart_attempt: Count | None = None
    current_in_place_restart_attempt: Count | None = None
    group_scheduling: GroupSchedulingStatus | None = None


class JobSet(Struct):
    """A set of Jobs of several roles that start, succeed, fail and restart together.

    metadata: the standard metadata of an object.
    spec: the Jobs and the policies of the whole.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", JobSet)
