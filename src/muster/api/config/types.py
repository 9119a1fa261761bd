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
    """Where admission webhooks are served.

    port: the port of the HTTPS server that answers the API server.
    host: the address that it listens on; if empty, all.
    cert_dir: a folder with a certificate.
    """

    port: int = 9443
    host: str = ""
    cert_dir: TextOrDefault = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  (upstream's default)


class CustomLabel(Struct):
    """A label or annotation of an object that becomes a label of its metrics.

    name: the metric's label is `custom_` and this name.
    source_label_key: the label that is read; the name itself if neither key is given.
    source_annotation_key: the annotation that is read instead.
    source_kind: the kind of the object that is read.
    tracked_values: values that are shown as they are; all others are shown as one. If empty, all values are shown.
    """

    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Annotated[str, NEW] = "ClusterQueue"
    tracked_values: Annotated[tuple[str, ...], NEW] = ()


class LocalQueueMetrics(Struct):
    """Whether LocalQueues have metrics of their own, and which of them.

    enable: whether they have.
    """

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Struct):
    """What is measured, and where it is served.

    bind_address: where Prometheus scrapes them, as host:port; `0` serves none.
    enable_cluster_queue_resources: whether quota and usage of each ClusterQueue are measured.
    custom_labels: labels that queues, cohorts and workloads bring along.
    """

    bind_address: TextOrDefault = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[CustomLabel, ...] = ()
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics(enable=True)


class Health(Struct):
    """Where probes are answered.

    health_probe_bind_address: where, as host:port; `0` serves none.
    readiness_endpoint_name: the path of the readiness probe; `readyz` if empty.
    liveness_endpoint_name: the path of the liveness probe; `healthz` if empty.
    """

    health_probe_bind_address: TextOrDefault = ":8081"
    readiness_endpoint_name: str = ""
    liveness_endpoint_name: str = ""


class LeaderElection(Struct):
    """How one of several replicas becomes the leader.

    leader_elect: whether replicas elect a leader; without it there may be one replica.
    lease_duration: how long the others wait before they take over from a leader that is silent.
    renew_deadline: how long a leader tries to renew before it stops leading.
    retry_period: the time between two tries.
    resource_lock: the kind of the lock; only `leases`.
    resource_name: the name of the Lease.
    resource_namespace: the namespace of the Lease; that of the engine if empty.
    """

    leader_elect: bool = True
    lease_duration: DurationOrDefault = 15 * SECOND
    renew_deadline: DurationOrDefault = 10 * SECOND
    retry_period: DurationOrDefault = 2 * SECOND
    resource_lock: TextOrDefault = "leases"
    resource_name: TextOrDefault = "c1f6bfd2.kueue.x-k8s.io"
    resource_namespace: str = ""


class Controller(Struct):
    """How many workers each kind has (`Job.batch: 5`), and how long caches may take to fill (in ns).

    group_kind_concurrency: workers by kind.
    cache_sync_timeout: the limit of the first lists.
    """

    group_kind_concurrency: dict[str, int] = {}
    cache_sync_timeout: int | None = None


class TLSOptions(Struct):
    """What servers accept; Go's names and numbers.

    min_version: the oldest version, as `VersionTLS12`.
    cipher_suites: the suites of TLS 1.2; all safe suites if empty.
    curve_preferences: the numbers of the curves, in order.
    """

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[Int32, ...] = ()


class InternalCertManagement(Struct):
    """Whether the webhooks' certificates are made by ourselves, and for which names.

    enable: whether they are.
    webhook_service_name: the Service that the certificate is for.
    webhook_secret_name: the Secret that keeps the certificate.
    """

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105  (the name of an object)


class ClientConnection(Struct):
    """How many requests a second are sent to the API server and to each worker cluster, and how many at once.

    As client-go reads them: below 0 there is no limit, and 0 stands for 5 and 10.

    qps: requests a second.
    burst: requests at once.
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
    """All or nothing in time (Kueue KEP-349): a workload's pods get ready within the timeout, or it releases its quota.

    timeout: how long the pods may take.
    timeout_seconds: the same in Kueue KEP-349's spelling, counted from the start of the job; only one of the
        two may be given.
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
    """A kind from outside that is dispatched too, as `Kind.version.group`.

    name: the kind.
    """

    name: str = ""


class ExecVariable(Struct):
    """A variable of a credential plugin's environment.

    name: its name.
    value: its value.
    """

    name: str = ""
    value: str = ""


class ExecCredentials(Struct):
    """A credential plugin, as in a kubeconfig.

    command: the program.
    args: its arguments.
    env: variables that it gets besides.
    api_version: the version of `client.authentication.k8s.io` that it speaks.
    install_hint: what to tell where the program is missing.
    provide_cluster_info: whether it is told of the cluster.
    interactive_mode: `Never`, `IfAvailable` or `Always`: whether it needs a terminal.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AccessProvider(Struct):
    """How to get at the clusters of a ClusterProfile's provider.

    name: the provider, as a ClusterProfile names it.
    exec_config: the plugin that gets credentials for its clusters.
    """

    name: str = ""
    exec_config: ExecCredentials = ExecCredentials()


class ClusterProfile(Struct):
    """How ClusterProfiles are turned into connections; `credentials_providers` is the old name.

    access_providers: the providers.
    credentials_providers: the old name of the same list.
    """

    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


class IncrementalDispatcher(Struct):
    """How many more clusters are asked in each round.

    step_size: how many.
    """

    step_size: Int32 = 3


class MultiKueue(Struct):
    """Dispatching to worker clusters (Kueue KEP-693).

    gc_interval: how often orphans are looked for in workers; 0: never.
    origin: marks what this manager has made in workers.
    worker_lost_timeout: how long a lost worker keeps its workloads.
    dispatcher_name: who chooses the workers that are asked: all at once, a few more in each round, or
        (Muster's own) the worker where the job would start first.
    external_frameworks: kinds from outside that are dispatched, too.
    """

    gc_interval: Duration = MINUTE
    origin: TextOrDefault = "multikueue"
    worker_lost_timeout: Duration = 15 * MINUTE
    dispatcher_name: str = ALL_AT_ONCE
    external_frameworks: tuple[MultiKueueExternalFramework, ...] = ()
    cluster_profile: Annotated[ClusterProfile | None, NEW] = None
    incremental_dispatcher_config: Annotated[IncrementalDispatcher | None, NEW] = None


class FairSharing(Struct):
    """Fair sharing (Kueue KEP-1714) is on; which rules decide that a preemption is fair, in order.

    preemption_strategies: `LessThanOrEqualToFinalShare` and `LessThanInitialShare`, in the order in which they are
        tried.
    """

    preemption_strategies: tuple[str, ...] = ()


class AdmissionFairSharing(Struct):
    """LocalQueues are ordered by what they used, which counts half after each half life (Kueue KEP-4136).

    usage_half_life_time: after so long a usage counts half; 0: usage never fades, and none is added.
    usage_sampling_interval: how often usage is sampled.
    resource_weights: how much a unit of each resource counts; 1 if it is not named.
    """

    usage_half_life_time: Duration = 0
    usage_sampling_interval: DurationOrDefault = 5 * MINUTE
    resource_weights: dict[str, float] = {}


class ResourceTransformation(Struct):
    """Counts a resource as others: for each unit of `input`, the `outputs`, times the amount of `multiply_by`.

    input: the resource.
    strategy: whether it counts itself, too.
    multiply_by: a resource of the pod whose amount multiplies the outputs.
    outputs: what one unit of it counts as.
    """

    input: str = ""
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: ResourceList = {}


class CELSelector(Struct):
    """An expression over devices.

    expression: true for a device that is meant.
    """

    expression: str = ""


class DeviceSelector(Struct):
    """Which devices.

    cel: by an expression; all devices of the driver if absent.
    """

    cel: CELSelector | None = None


class DeviceClassSource(Struct):
    """Counts a counter, or a capacity, of the devices that a driver has.

    name: the counter, or the capacity.
    driver: the driver whose devices have it.
    device_selector: which of them.
    """

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class DeviceClassSources(Struct):
    """One source: exactly one of the two.

    counter: a counter that devices share.
    capacity: a capacity of each device.
    """

    counter: DeviceClassSource | None = None
    capacity: DeviceClassSource | None = None


class DeviceClassMapping(Struct):
    """The name under which devices of some classes count in quotas.

    name: the name in quotas.
    device_class_names: the classes.
    sources: what is counted instead of devices.
    """

    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: Annotated[tuple[DeviceClassSources, ...], NEW] = ()


class Resources(Struct):
    """What of a pod's requests counts in quotas, and as what.

    quota_check_strategy: whether a pod may ask for a resource that its ClusterQueue does not name.
    exclude_resource_prefixes: resources whose names begin so count nothing.
    transformations: resources that count as others.
    device_class_mappings: names of device classes in quotas.
    """

    quota_check_strategy: Annotated[QuotaCheckStrategy, NEW] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Struct):
    """How long workloads are kept after their end; None: as long as their owners.

    after_finished: after so long a finished workload is deleted.
    after_deactivated_by_kueue: after so long a workload that the engine deactivated is deleted, with its job.
    """

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Struct):
    """How long objects are kept.

    workloads: those of workloads.
    """

    workloads: WorkloadRetention = WorkloadRetention()


class VisibilityServer(Struct):
    """Where the visibility API is served.

    bind_address: the address; all if absent.
    bind_port: the port.
    """

    bind_address: str | None = None
    bind_port: Int32 = 8082


# Our own, Kubernetes', and those whose PodGroups are known: manifests that were made for them need no change.
SCHEDULER_NAMES: Final = ("default-scheduler", "muster", "volcano", "kube-batch", "scheduler-plugins-scheduler")


class Scheduling(Struct):
    """How pods get their nodes.

    scheduler_names: pods that ask for a scheduler of one of these names are placed; others are left to theirs.
    overtakings: how many gangs whose end is not known may start before the one at the head, which has yet no room.
    minimum_run_time: for so long a gang runs before it may be told to go for one of higher priority.
    recovery_timeout: for so long a gang that lost members, and finds no room for others, holds the nodes of the rest;
        0: for ever. Gangs with a queue have `waitForPodsReady.recoveryTimeout` where that is set.
    scoring_strategy: how nodes are used that are as welcome to a gang as each other: as few as can be, the fullest
        first, the emptiest first, or those whose resources are then used in the most equal shares.
    provisioning_class_name: how an autoscaler is asked for the room that a gang lacks; none is if it is empty.
    """

    scheduler_names: Annotated[tuple[str, ...], msgspec.Meta(extra={EMPTY_IS_UNSET: True})] = SCHEDULER_NAMES
    scoring_strategy: ScoringStrategy = "Tight"
    overtakings: int = 32
    minimum_run_time: Duration = 0
    recovery_timeout: Duration = 5 * MINUTE
    provisioning_class_name: str = ""


# Where JobSet's own manifests put its controller.
JOBSET_NAMESPACE: Final = "jobset-system"


class GroupScheduling(Struct):
    """How the pods of a JobSet wait for each other (jobset KEP-498).

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


class Nodes(Struct):
    """When an embedded cluster gives up a node, as kube-controller-manager and kube-apiserver are told by flags.

    monitor_grace_period: a node that renews its Lease is lost when it has not for this long
        (`--node-monitor-grace-period`).
    default_toleration_seconds: for how long pods that say nothing of it stay on a node that is lost or not ready
        (`--default-unreachable-toleration-seconds`, `--default-not-ready-toleration-seconds`).
    """

    monitor_grace_period: Duration = 50 * SECOND
    default_toleration_seconds: Int32 = 300


class Muster(Struct):
    """What is ours.

    elastic_indexed_jobs: which rule holds for a change of an Indexed Job's completions: the text of kubernetes KEP-3715
        (they equal parallelism before and after, and the Job is not finished), or what kube-apiserver checks today
        (they equal it after).
    apis: alpha versions that are served too. Upstream serves none unasked (`--runtime-config`).
    scheduling: how pods get their nodes.
    group_scheduling: how the pods of a JobSet wait for each other.
    history: what is kept of jobs that have ended.
    nodes: when a node is given up, on a cluster of ours.
    job_set_namespace: where JobSet's own controller is, if there is one: JobSets are left to it while it works.
    """

    elastic_indexed_jobs: ElasticRule = "KEP"
    apis: tuple[AlphaVersion, ...] = ()
    scheduling: Scheduling = Scheduling()
    group_scheduling: GroupScheduling = GroupScheduling()
    history: History = History()
    nodes: Nodes = Nodes()
    job_set_namespace: TextOrDefault = JOBSET_NAMESPACE

    @property
    def elastic(self) -> Elastic:
        """The rule, as the validation of Jobs calls it."""
        return "kep" if self.elastic_indexed_jobs == "KEP" else "upstream"


class CommonSettings(Struct):
    """What is the same in every version.

    namespace: where the engine runs: its Lease, its Secrets and kubeconfigs are there.
    pprof_bind_address: where profiles are served.
    manage_jobs_without_queue_name: whether jobs without a queue wait, too: they are suspended until they get one.
    managed_jobs_namespace_selector: the namespaces whose jobs and pods may queue; by default all but `kube-system` and
        the namespace of the engine.
    client_connection: limits of requests to the API server and to each worker cluster; no limits if absent.
    feature_gates: switches of Kueue's features, by name; `AllAlpha` and `AllBeta` switch a whole stage.
    """

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
    """All settings, complete. What is None is off.

    warnings: a line for each setting of the file that has no effect.
    """

    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    fair_sharing: FairSharing | None = None
    integrations: Integrations = Integrations()
    warnings: tuple[str, ...] = ()

    @property
    def custom_labels(self) -> tuple[CustomLabel, ...]:
        """The labels that metrics get besides their own, if the feature is on."""
        return self.metrics.custom_labels if self.features.enabled("CustomMetricLabels") else ()

    @property
    def labels_to_copy(self) -> tuple[str, ...]:
        """The labels of jobs that their Workloads get too, also for metrics to read them there."""
        metrics = [
            label.source_label_key or label.name
            for label in self.custom_labels
            if label.source_kind == "Workload" and not label.source_annotation_key
        ]
        return tuple(dict.fromkeys((*self.integrations.label_keys_to_copy, *metrics)))

    @property
    def annotations_to_copy(self) -> tuple[str, ...]:
        """The annotations of jobs that their Workloads get, for metrics to read them there."""
        ours = [label for label in self.custom_labels if label.source_kind == "Workload"]
        return tuple(label.source_annotation_key for label in ours if label.source_annotation_key)

    @classmethod
    def default(cls) -> "Configuration":
        """Return the settings without a file: Kueue's defaults (v1beta2)."""
        return cls(managed_jobs_namespace_selector=all_namespaces_but("kube-system", NAMESPACE))


def all_namespaces_but(*names: str) -> LabelSelector:
    """Return a selector of all namespaces but these."""
    requirement = LabelSelectorRequirement(key="kubernetes.io/metadata.name", operator="NotIn", values=names)
    return LabelSelector(match_expressions=(requirement,))
