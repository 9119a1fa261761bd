"""`jobset.x-k8s.io/v1alpha2`: a JobSet, Jobs of several roles that are one object; with the start of jobset KEP-498."""

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
    """An earlier replicated job that must have come so far.

    name: which one.
    status: Ready: all its Jobs are ready, or have ended; Complete: all have succeeded.
    """

    name: Required[str] = ""
    status: Annotated[Required[str], one_of(names.READY, names.COMPLETE)] = ""


class ReplicatedJob(Struct):
    """One role: Jobs from one template.

    name: of the role; the Jobs are called JOBSET-NAME-INDEX.
    group_name: the group of roles within which Jobs are counted; `default` if absent.
    template: what the Jobs are like.
    replicas: how many Jobs; 1 if absent.
    depends_on: earlier roles that must have come so far before these Jobs are made.
    """

    name: Required[str] = ""
    group_name: Annotated[str, DEFAULTED] = "default"
    template: Required[JobTemplateSpec] = JobTemplateSpec()
    replicas: Annotated[Count, DEFAULTED] = 1
    depends_on: Annotated[tuple[DependsOn, ...], map_by("name"), limits(max_items=5)] = ()


class Network(Struct):
    """How the pods find each other.

    enable_dns_hostnames: whether a headless Service gives them names; they have them if absent.
    subdomain: the name of that Service; the JobSet's own if empty.
    publish_not_ready_addresses: whether pods have names before they are ready; they have them if absent.
    """

    enable_dns_hostnames: bool | None = None
    subdomain: str = ""
    publish_not_ready_addresses: bool | None = None


class SuccessPolicy(Struct):
    """When the JobSet has succeeded.

    operator: All or Any of the Jobs must have.
    target_replicated_jobs: the roles that count; all if empty.
    """

    operator: Annotated[Required[str], one_of(names.ALL, names.ANY)] = ""
    target_replicated_jobs: Strings = ()


class FailurePolicyRule(Struct):
    """What to do when a Job fails that meets all of this.

    name: of the rule; failurePolicyRule and its place in the list, from 0, if empty.
    action: FailJobSet, RestartJobSet, RestartJob, or one of the latter two without counting.
    on_job_failure_reasons: reasons of the Job's failure; any if empty.
    on_job_failure_message_patterns: expressions (RE2), one of which is found in its message; any if empty.
    target_replicated_jobs: the roles that it is about; all if empty.
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
    """What to do when Jobs fail; without it the JobSet fails with the first.

    max_restarts: how many restarts count before the JobSet fails.
    restart_strategy: Recreate: each Job anew as soon as the old one is gone; BlockingRecreate: none before all old ones
        are gone; InPlaceRestart: the containers restart in their pods.
    rules: the first that a failed Job meets decides; if none does, the JobSet is restarted.
    """

    max_restarts: Int32 = 0
    restart_strategy: Annotated[
        str, one_of(names.RECREATE, names.BLOCKING_RECREATE, names.IN_PLACE_RESTART), DEFAULTED
    ] = names.RECREATE
    rules: tuple[FailurePolicyRule, ...] = ()


class StartupPolicy(Struct):
    """In which order roles start.

    startup_policy_order: AnyOrder, or InOrder: a role starts once all before it are ready.
    """

    startup_policy_order: Annotated[Required[str], one_of(names.ANY_ORDER, names.IN_ORDER)] = ""


class Coordinator(Struct):
    """The pod that others look for; its host name is a label of all Jobs and pods.

    replicated_job: its role.
    job_index: its Job.
    pod_index: its completion index.
    """

    replicated_job: Required[str] = ""
    job_index: Annotated[int, Format("int")] = 0
    pod_index: Annotated[int, Format("int")] = 0


class VolumeRetentionPolicy(Struct):
    """What becomes of the claims.

    when_deleted: Delete or Retain them when the JobSet is deleted.
    """

    when_deleted: Annotated[str, one_of(names.DELETE, names.RETAIN), DEFAULTED] = names.DELETE


class VolumeClaimPolicy(Struct):
    """Claims on storage that are made for the JobSet, and shared by those of its pods that mount them.

    templates: the claims; each is called NAME-JOBSET.
    retention_policy: what becomes of them.
    """

    templates: Annotated[tuple[PersistentVolumeClaim, ...], ATOMIC, limits(max_items=50)] = ()
    retention_policy: VolumeRetentionPolicy | None = None


class GroupSchedulingConfig(Struct):
    """Main containers start once all pods of the group have started (jobset KEP-498).

    timeout_after_seconds: the group fails if that takes longer; for ever if absent.
    target_replicated_jobs: the roles whose pods are the group; all if empty.
    """

    timeout_after_seconds: Annotated[Int32, limits(minimum=1)] | None = None
    target_replicated_jobs: Strings = ()


class JobSetSpec(Struct):
    """What Jobs there are, in which order they start, and when the whole has succeeded or failed.

    replicated_jobs: the roles.
    network: how the pods find each other.
    success_policy: when it has succeeded; once all Jobs have, if absent.
    failure_policy: what to do when Jobs fail; the first failure fails the JobSet, if absent.
    startup_policy: in which order roles start; dependsOn says more.
    suspend: whether no pods run for the time being.
    coordinator: the pod that others look for.
    managed_by: who runs it; jobset.sigs.k8s.io/jobset-controller if absent.
    ttl_seconds_after_finished: it is deleted so long after its end; never if absent.
    volume_claim_policies: claims on storage that are made for it.
    group_scheduling_config: main containers start once all pods of the group have started.
    """

    # Merged by name, as upstream's are not: a manifest that is applied again leaves alone what a queue has added.
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
    """How far the Jobs of a role are.

    name: the role.
    ready: Jobs whose pods are all ready, or have succeeded.
    succeeded: Jobs that have.
    failed: Jobs that have.
    active: Jobs with a pod that is pending or runs.
    suspended: Jobs that are.
    job_restarts: by the Job's index, how many times it was restarted by itself.
    job_restarts_count_towards_max: those of them that count.
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
    """How far the start of the group is.

    epoch: counts the starts of the group: a restart or a resume is another one.
    released_epoch: the last epoch whose main containers may start; 0 if none ever might.
    started: of this epoch, pods that have started, as far as it was told.
    expected: how many there have to be.
    start_time: when the first pod of this epoch had started, from which on the timeout counts.
    """

    epoch: Int32 = 0
    released_epoch: Int32 = 0
    started: Int32 = 0
    expected: Int32 = 0
    start_time: datetime | None = None


class JobSetStatus(Struct):
    """What was observed of a JobSet.

    conditions: observed aspects; Completed and Failed are final.
    restarts: how many times all Jobs were restarted.
    restarts_count_towards_max: those of them that count.
    terminal_state: Completed or Failed, once it has ended.
    replicated_jobs_status: how far each role is.
    previous_in_place_restart_attempt: containers of this attempt and of earlier ones restart.
    current_in_place_restart_attempt: containers of this attempt may go on.
    group_scheduling: how far the start of the group is.
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
    """Jobs of several roles that are one: they start, succeed, fail and are restarted together.

    metadata: what every object carries.
    spec: what Jobs there are, and what becomes of the whole.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()


JOB_SET = Kind("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", JobSet)
