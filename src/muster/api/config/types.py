# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The settings of an engine, as Kueue's Configuration spells them (config.kueue.x-k8s.io), and a section of ours.

The structs are those of v1beta2 with its defaults; `written` says what a file of either version means in them. All
durations are nanoseconds (`muster.api.values.durations`). A `Configuration` that `load` has returned keeps all rules.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from muster.api.config.features import FeatureGates
from muster.api.core.container import ResourceRequirements
from muster.api.core.security import SecurityContext
from muster.api.markers import Int32
from muster.api.meta import LabelSelector, LabelSelectorRequirement, Struct
from muster.api.validation.jobs.job import Elastic
from muster.api.values.durations import HOUR, MINUTE, SECOND
from muster.api.values.quantity import ResourceList

DURATION: Final = "duration"  # written as Go writes it: 5m, 1h30m
ONLY_IN: Final = "only-in"  # the one version that has the field
EMPTY_IS_UNSET: Final = "empty-is-unset"  # "", 0 and [] stand for the default

V1BETA1: Final = "v1beta1"
V1BETA2: Final = "v1beta2"

Duration = Annotated[int, msgspec.Meta(extra={DURATION: True})]
# Go's zero values of fields that are no pointers: upstream cannot tell them from nothing.
DurationOrDefault = Annotated[int, msgspec.Meta(extra={DURATION: True, EMPTY_IS_UNSET: True})]
TextOrDefault = Annotated[str, msgspec.Meta(extra={EMPTY_IS_UNSET: True})]

NEW: Final = msgspec.Meta(extra={ONLY_IN: V1BETA2})
OLD: Final = msgspec.Meta(extra={ONLY_IN: V1BETA1})

NAMESPACE: Final = "kueue-system"
ALL_AT_ONCE: Final = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once"
INCREMENTAL: Final = "kueue.x-k8s.io/multikueue-dispatcher-incremental"
EARLIEST_START: Final = "muster.dev/multikueue-dispatcher-earliest-start"

Clock: TypeAlias = Literal["Admitted", "JobStart"]
QuotaCheckStrategy: TypeAlias = Literal["IgnoreUndeclared", "BlockUndeclared"]
ElasticRule: TypeAlias = Literal["KEP", "Upstream"]
ScoringStrategy: TypeAlias = Literal["Tight", "MostAllocated", "LeastAllocated", "BalancedAllocation"]
AlphaVersion: TypeAlias = Literal["scheduling.k8s.io/v1alpha2"]


class Webhook(Struct):
    """Where admission webhooks are served."""

    port: int = 9443
    host: str = ""
    cert_dir: TextOrDefault = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  (upstream's default)


class CustomLabel(Struct):
    """A label or annotation of an object that becomes a label of its metrics."""

    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Annotated[str, NEW] = "ClusterQueue"
    tracked_values: Annotated[tuple[str, ...], NEW] = ()


class LocalQueueMetrics(Struct):
    """Whether LocalQueues have metrics of their own, and which of them."""

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Struct):
    """What is measured, and where it is served."""

    bind_address: TextOrDefault = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[CustomLabel, ...] = ()
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics(enable=True)


class Health(Struct):
    """Where probes are answered."""

    health_probe_bind_address: TextOrDefault = ":8081"
    readiness_endpoint_name: str = ""
    liveness_endpoint_name: str = ""


class LeaderElection(Struct):
    """How one of several replicas becomes the leader."""

    leader_elect: bool = True
    lease_duration: DurationOrDefault = 15 * SECOND
    renew_deadline: DurationOrDefault = 10 * SECOND
    retry_period: DurationOrDefault = 2 * SECOND
    resource_lock: TextOrDefault = "leases"
    resource_name: TextOrDefault = "c1f6bfd2.kueue.x-k8s.io"
    resource_namespace: str = ""


class Controller(Struct):
    """How many workers each kind has (`Job.batch: 5`), and how long caches may take to fill (in ns)."""

    group_kind_concurrency: dict[str, int] = {}
    cache_sync_timeout: int | None = None


class TLSOptions(Struct):
    """What servers accept; Go's names and numbers."""

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[Int32, ...] = ()


class InternalCertManagement(Struct):
    """Whether the webhooks' certificates are made by ourselves, and for which names."""

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105  (the name of an object)


class ClientConnection(Struct):
    """How many requests a second are sent to each worker cluster, and how many at once.

    As client-go reads them: below 0 there is no limit, and 0 stands for 5 and 10.
    """

    qps: float = 300.0
    burst: Int32 = 500


class RequeuingStrategy(Struct):
    """What becomes of a workload whose pods did not get ready in time.

    timestamp: by which time it is ordered in its queue, that of its creation or of its eviction.
    backoff_limit_count: after so many times it is deactivated; None: never.
    backoff_base_seconds: the first wait; doubled each time.
    backoff_max_seconds: the longest wait.
    """

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Struct):
    """All or nothing in time (KEP-349): a workload's pods get ready within the timeout, or it gives everything back.

    timeout: how long the pods may take.
    clock: what the timeout counts from: the Admitted condition (Kueue's `timeout`), or the start of the job (the
        KEP's `timeoutSeconds`).
    block_admission: nothing else is admitted while an admitted workload is not ready.
    recovery_timeout: how long a pod that was ready once may take to be ready again; None: for ever.
    """

    timeout: Duration = 30 * MINUTE
    clock: Clock = "Admitted"
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    recovery_timeout: Duration | None = 30 * MINUTE


class Integrations(Struct):
    """Which kinds of jobs are managed.

    frameworks: kinds that come with the engine, by upstream's names (`batch/job`).
    external_frameworks: kinds with controllers from outside, as `Kind.version.group`.
    label_keys_to_copy: labels of jobs that their workloads get too.
    """

    frameworks: Annotated[tuple[str, ...], msgspec.Meta(extra={EMPTY_IS_UNSET: True})] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


class MultiKueueExternalFramework(Struct):
    """A kind from outside that is dispatched too, as `Kind.version.group`."""

    name: str = ""


class ExecVariable(Struct):
    """A variable of a credential plugin's environment."""

    name: str = ""
    value: str = ""


class ExecCredentials(Struct):
    """A credential plugin, as in a kubeconfig."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AccessProvider(Struct):
    """How to get at the clusters of a ClusterProfile's provider."""

    name: str = ""
    exec_config: ExecCredentials = ExecCredentials()


class ClusterProfile(Struct):
    """How ClusterProfiles are turned into connections; `credentials_providers` is the old name."""

    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


class IncrementalDispatcher(Struct):
    """How many more clusters are asked in each round."""

    step_size: Int32 = 3


class MultiKueue(Struct):
    """Dispatching to worker clusters (KEP-693).

    gc_interval: how often orphans are looked for in workers; 0: never.
    origin: marks what this manager has made in workers.
    worker_lost_timeout: how long a lost worker keeps its workloads.
    """

    gc_interval: Duration = MINUTE
    origin: TextOrDefault = "multikueue"
    worker_lost_timeout: Duration = 15 * MINUTE
    dispatcher_name: str = ALL_AT_ONCE
    external_frameworks: tuple[MultiKueueExternalFramework, ...] = ()
    cluster_profile: Annotated[ClusterProfile | None, NEW] = None
    incremental_dispatcher_config: Annotated[IncrementalDispatcher | None, NEW] = None


class FairSharing(Struct):
    """Fair sharing (KEP-1714) is on; which rules decide that a preemption is fair, in order."""

    preemption_strategies: tuple[str, ...] = ()


class AdmissionFairSharing(Struct):
    """LocalQueues are ordered by what they used, which counts half after each half life (KEP-4136)."""

    usage_half_life_time: Duration = 0
    usage_sampling_interval: DurationOrDefault = 5 * MINUTE
    resource_weights: dict[str, float] = {}


class ResourceTransformation(Struct):
    """Counts a resource as others: for each unit of `input`, the `outputs`, times the amount of `multiply_by`."""

    input: str = ""
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: ResourceList = {}


class CELSelector(Struct):
    """An expression over devices."""

    expression: str = ""


class DeviceSelector(Struct):
    """Which devices."""

    cel: CELSelector | None = None


class DeviceClassSource(Struct):
    """Counts a counter, or a capacity, of the devices that a driver has."""

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class DeviceClassSources(Struct):
    """One source: exactly one of the two."""

    counter: DeviceClassSource | None = None
    capacity: DeviceClassSource | None = None


class DeviceClassMapping(Struct):
    """The name under which devices of some classes count in quotas."""

    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: Annotated[tuple[DeviceClassSources, ...], NEW] = ()


class Resources(Struct):
    """What of a pod's requests counts in quotas, and as what."""

    quota_check_strategy: Annotated[QuotaCheckStrategy, NEW] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Struct):
    """How long workloads are kept after their end; None: as long as their owners."""

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Struct):
    """How long objects are kept."""

    workloads: WorkloadRetention = WorkloadRetention()


class VisibilityServer(Struct):
    """Where the visibility API is served."""

    bind_address: str | None = None
    bind_port: Int32 = 8082


# Our own, Kubernetes', and those whose PodGroups are known: manifests that were made for them need no change.
SCHEDULER_NAMES: Final = ("default-scheduler", "muster", "volcano", "kube-batch", "scheduler-plugins-scheduler")


class Scheduling(Struct):
    """How pods get their nodes.

    scheduler_names: pods that ask for a scheduler of one of these names are placed; others are left to theirs.
    overtakings: how many gangs whose end is not known may start before the one at the head, which has yet no room.
    minimum_run_time: for so long a gang runs before it may be told to go for one of higher priority.
    scoring_strategy: how nodes are used that are as welcome to a gang as each other: as few as can be, the fullest
        first, the emptiest first, or those whose resources are then used in the most equal shares.
    provisioning_class_name: how an autoscaler is asked for the room that a gang lacks; none is if it is empty.
    """

    scheduler_names: Annotated[tuple[str, ...], msgspec.Meta(extra={EMPTY_IS_UNSET: True})] = SCHEDULER_NAMES
    scoring_strategy: ScoringStrategy = "Tight"
    overtakings: int = 32
    minimum_run_time: Duration = 0
    provisioning_class_name: str = ""


# Where JobSet's own manifests put its controller.
JOBSET_NAMESPACE: Final = "jobset-system"


class GroupScheduling(Struct):
    """How the pods of a JobSet wait for each other (KEP-498).

    image: of the init container that waits; it has bash.
    resources: what that asks for; if absent, a little, and no more than the first main container does.
    security_context: its rights; if absent, those of the first main container, less what restricted namespaces refuse.
    bind_address: where the word that all may start is given at once, as host:port; if empty, it comes by the ConfigMap
        alone, which takes a kubelet up to a minute and a half.
    address: where pods find that, as host:port, such as a Service's; bindAddress if empty.
    """

    image: TextOrDefault = "bash"
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    bind_address: str = ""
    address: str = ""


class History(Struct):
    """What is kept of jobs that have ended, on a cluster of ours.

    max_age: for how long after their end.
    max_records: of how many at the most, the newest.
    """

    max_age: Duration = 180 * 24 * HOUR
    max_records: Int32 = 100_000


class Muster(Struct):
    """What is ours.

    elastic_indexed_jobs: which rule holds for a change of an Indexed Job's completions: the text of KEP-3715 (they
        equal parallelism before and after, and the Job is not finished), or what kube-apiserver checks today (they
        equal it after).
    apis: alpha versions that are served too. Upstream serves none unasked (`--runtime-config`).
    scheduling: how pods get their nodes.
    group_scheduling: how the pods of a JobSet wait for each other.
    history: what is kept of jobs that have ended.
    job_set_namespace: where JobSet's own controller is, if there is one: JobSets are left to it while it works.
    """

    elastic_indexed_jobs: ElasticRule = "KEP"
    apis: tuple[AlphaVersion, ...] = ()
    scheduling: Scheduling = Scheduling()
    group_scheduling: GroupScheduling = GroupScheduling()
    history: History = History()
    job_set_namespace: TextOrDefault = JOBSET_NAMESPACE

    @property
    def elastic(self) -> Elastic:
        """The rule, as the validation of Jobs calls it."""
        return "kep" if self.elastic_indexed_jobs == "KEP" else "upstream"


class CommonSettings(Struct):
    """What is the same in every version."""

    namespace: str = NAMESPACE
    webhook: Webhook = Webhook()
    leader_election: LeaderElection = LeaderElection()
    metrics: Metrics = Metrics()
    health: Health = Health()
    pprof_bind_address: str = ""
    controller: Controller = Controller()
    tls: TLSOptions | None = None
    manage_jobs_without_queue_name: bool = False
    managed_jobs_namespace_selector: LabelSelector | None = None
    internal_cert_management: InternalCertManagement = InternalCertManagement()
    client_connection: ClientConnection | None = None
    multi_kueue: MultiKueue = MultiKueue()
    admission_fair_sharing: AdmissionFairSharing | None = None
    resources: Resources = Resources()
    feature_gates: dict[str, bool] = {}
    object_retention_policies: ObjectRetentionPolicies = ObjectRetentionPolicies()
    visibility_server: Annotated[VisibilityServer, NEW] = VisibilityServer()
    muster: Muster = Muster()

    @property
    def features(self) -> FeatureGates:
        """Which features are on."""
        return FeatureGates(self.feature_gates)


class Configuration(CommonSettings):
    """All settings, complete. What is None is off."""

    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    fair_sharing: FairSharing | None = None
    integrations: Integrations = Integrations()

    @classmethod
    def default(cls) -> "Configuration":
        """What holds without a file: Kueue's defaults (v1beta2)."""
        return cls(managed_jobs_namespace_selector=all_namespaces_but("kube-system", NAMESPACE))


def all_namespaces_but(*names: str) -> LabelSelector:
    """Selects all namespaces but these."""
    requirement = LabelSelectorRequirement(key="kubernetes.io/metadata.name", operator="NotIn", values=names)
    return LabelSelector(match_expressions=(requirement,))
