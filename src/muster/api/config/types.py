# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The settings of an engine: Kueue's Configuration (config.kueue.x-k8s.io), and a section of Muster's own.

The structs have the fields and the defaults of v1beta2. `written` converts a file of either version to them. All
durations are in nanoseconds (`muster.api.values.durations`). Every `Configuration` that `load` returns satisfies all
rules. `unread` lists the fields that Kueue's files may have, and that the engine does not read.
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

DURATION: Final = "duration"  # the file has Go's notation: 5m, 1h30m
ONLY_IN: Final = "only-in"  # the one version that has the field
EMPTY_IS_UNSET: Final = "empty-is-unset"  # the values "", 0 and [] mean the default

V1BETA1: Final = "v1beta1"
V1BETA2: Final = "v1beta2"

Duration = Annotated[int, msgspec.Meta(extra={DURATION: True})]
# Go's zero values of fields that are no pointers: upstream cannot distinguish them from absent fields.
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
    """The server of the admission webhooks.

    port: the port of the HTTPS server that the API server calls.
    host: the address on which the server listens; all addresses if empty.
    cert_dir: a folder with the certificate of the server.
    """

    port: int = 9443
    host: str = ""
    cert_dir: TextOrDefault = "/tmp/k8s-webhook-server/serving-certs"  # noqa: S108  (upstream's default)


class CustomLabel(Struct):
    """A label or annotation of an object that becomes a label of its metrics.

    name: the name of the label, to which the metric adds the prefix `custom_`.
    source_label_key: the label to read; the name itself if neither key is given.
    source_annotation_key: the annotation to read instead of a label.
    source_kind: the kind of the object to read.
    tracked_values: the values that the metric shows; all others become one value. If empty, all values are shown.
    """

    name: str = ""
    source_label_key: str = ""
    source_annotation_key: str = ""
    source_kind: Annotated[str, NEW] = "ClusterQueue"
    tracked_values: Annotated[tuple[str, ...], NEW] = ()


class LocalQueueMetrics(Struct):
    """The metrics of LocalQueues.

    enable: whether LocalQueues have metrics of their own.
    """

    enable: bool = False
    local_queue_selector: LabelSelector | None = None


class Metrics(Struct):
    """The metrics of the engine, and where they are served.

    bind_address: the address that Prometheus scrapes, as host:port; `0` serves no metrics.
    enable_cluster_queue_resources: whether there are metrics of the quota and usage of each ClusterQueue.
    custom_labels: labels of metrics whose values come from queues, cohorts and workloads.
    """

    bind_address: TextOrDefault = ":8443"
    enable_cluster_queue_resources: bool = False
    custom_labels: tuple[CustomLabel, ...] = ()
    local_queue_metrics: LocalQueueMetrics = LocalQueueMetrics(enable=True)


class Health(Struct):
    """The probes of the engine.

    health_probe_bind_address: the address that answers probes, as host:port; `0` serves no probes.
    readiness_endpoint_name: the path of the readiness probe; `readyz` if empty.
    liveness_endpoint_name: the path of the liveness probe; `healthz` if empty.
    """

    health_probe_bind_address: TextOrDefault = ":8081"
    readiness_endpoint_name: str = ""
    liveness_endpoint_name: str = ""


class LeaderElection(Struct):
    """The election of a leader among replicas.

    leader_elect: whether replicas elect a leader. Without an election there may be only one replica.
    lease_duration: how long the other replicas wait before they take over from a leader that stopped renewing.
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
    """The concurrency of the controllers (`Job.batch: 5`), and how long caches may take to fill.

    group_kind_concurrency: the number of workers by kind.
    cache_sync_timeout: the time limit of the first lists, in nanoseconds.
    """

    group_kind_concurrency: dict[str, int] = {}
    cache_sync_timeout: int | None = None


class TLSOptions(Struct):
    """The TLS options that servers accept, in Go's names and numbers.

    min_version: the oldest version, such as `VersionTLS12`.
    cipher_suites: the suites of TLS 1.2; all safe suites if empty.
    curve_preferences: the numbers of the curves, in order.
    """

    min_version: str = ""
    cipher_suites: tuple[str, ...] = ()
    curve_preferences: tuple[Int32, ...] = ()


class InternalCertManagement(Struct):
    """The engine's own management of the certificates of its webhooks.

    enable: whether the engine creates the certificates itself.
    webhook_service_name: the Service for which the certificate is valid.
    webhook_secret_name: the Secret that stores the certificate.
    """

    enable: bool = True
    webhook_service_name: str = "kueue-webhook-service"
    webhook_secret_name: str = "kueue-webhook-server-cert"  # noqa: S105  (the name of an object)


class ClientConnection(Struct):
    """The limits of requests to the API server and to each worker cluster.

    As in client-go, a negative number means no limit, and 0 means the defaults 5 and 10.

    qps: the requests per second.
    burst: the requests that may exceed this rate at once.
    """

    qps: float = 300.0
    burst: Int32 = 500


class RequeuingStrategy(Struct):
    """The requeuing of a workload whose pods were not ready in time.

    timestamp: the time by which the queue orders the workload: its creation or its eviction.
    backoff_limit_count: the number of requeues after which the workload is deactivated; None means never.
    backoff_base_seconds: the first wait, which doubles each time.
    backoff_max_seconds: the longest wait.
    """

    timestamp: Literal["Creation", "Eviction"] = "Eviction"
    backoff_limit_count: Int32 | None = None
    backoff_base_seconds: Int32 = 60
    backoff_max_seconds: Int32 = 3600


class WaitForPodsReady(Struct):
    """All-or-nothing readiness (Kueue KEP-349): a workload whose pods are not ready in time releases its quota.

    timeout: how long the pods may take to become ready.
    timeout_seconds: the same in the spelling of Kueue KEP-349, counted from the start of the job. Only one of the two
        may be given.
    clock: the start of the timeout: the Admitted condition (Kueue's `timeout`), or the start of the job
        (`timeoutSeconds` of Kueue KEP-349).
    block_admission: whether the engine admits no other workload while an admitted workload is not ready.
    recovery_timeout: how long a pod that stopped being ready may take to be ready again; None means forever.
    """

    timeout: Duration = 30 * MINUTE
    clock: Clock = "Admitted"
    block_admission: bool = False
    requeuing_strategy: RequeuingStrategy = RequeuingStrategy()
    recovery_timeout: Duration | None = 30 * MINUTE


class Integrations(Struct):
    """The kinds of jobs that the engine manages.

    frameworks: the kinds that the engine supports, by upstream's names (`batch/job`).
    external_frameworks: the kinds with external controllers, as `Kind.version.group`.
    label_keys_to_copy: the labels that the engine copies from jobs to their workloads.
    """

    frameworks: Annotated[tuple[str, ...], msgspec.Meta(extra={EMPTY_IS_UNSET: True})] = ("batch/job",)
    external_frameworks: tuple[str, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()


class MultiKueueExternalFramework(Struct):
    """An external kind of job that MultiKueue dispatches.

    name: the kind, as `Kind.version.group`.
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
    env: additional variables of its environment.
    api_version: the version of `client.authentication.k8s.io` that the plugin uses.
    install_hint: the message for users if the program is missing.
    provide_cluster_info: whether the plugin gets information about the cluster.
    interactive_mode: whether the plugin needs a terminal: `Never`, `IfAvailable` or `Always`.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[ExecVariable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class AccessProvider(Struct):
    """The credential plugin for the clusters of one provider of ClusterProfiles.

    name: the provider, as a ClusterProfile names it.
    exec_config: the plugin that gets credentials for its clusters.
    """

    name: str = ""
    exec_config: ExecCredentials = ExecCredentials()


class ClusterProfile(Struct):
    """The connections to clusters that ClusterProfiles describe.

    access_providers: the providers.
    credentials_providers: the old name of the same list.
    """

    access_providers: tuple[AccessProvider, ...] = ()
    credentials_providers: tuple[AccessProvider, ...] = ()


class IncrementalDispatcher(Struct):
    """The incremental dispatcher, which nominates more clusters in each round.

    step_size: how many clusters each round adds.
    """

    step_size: Int32 = 3


class MultiKueue(Struct):
    """The dispatching of workloads to worker clusters (Kueue KEP-693).

    gc_interval: how often the manager looks for orphans in workers; 0 means never.
    origin: the label value that marks the objects of this manager in workers.
    worker_lost_timeout: how long workloads stay assigned to a lost worker.
    dispatcher_name: the dispatcher that nominates workers: all at once, a few more in each round, or (Muster's own) the
        worker where the job would start first.
    external_frameworks: the external kinds that MultiKueue also dispatches.
    """

    gc_interval: Duration = MINUTE
    origin: TextOrDefault = "multikueue"
    worker_lost_timeout: Duration = 15 * MINUTE
    dispatcher_name: str = ALL_AT_ONCE
    external_frameworks: tuple[MultiKueueExternalFramework, ...] = ()
    cluster_profile: Annotated[ClusterProfile | None, NEW] = None
    incremental_dispatcher_config: Annotated[IncrementalDispatcher | None, NEW] = None


class FairSharing(Struct):
    """The settings of fair sharing (Kueue KEP-1714), which is on if they are present.

    preemption_strategies: the rules that decide whether a preemption is fair, in the order in which they are tried:
        `LessThanOrEqualToFinalShare` and `LessThanInitialShare`.
    """

    preemption_strategies: tuple[str, ...] = ()


# All rules, in Kueue's order. A file of v1beta1 that names no rules has all of them.
PREEMPTION_STRATEGIES: Final = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")


class AdmissionFairSharing(Struct):
    """The settings of admission fair sharing, which orders LocalQueues by their past usage (Kueue KEP-4136).

    usage_half_life_time: the time after which past usage counts half; 0 means that usage neither fades nor grows.
    usage_sampling_interval: how often the engine samples usage.
    resource_weights: how much a unit of each resource counts; 1 by default.
    """

    usage_half_life_time: Duration = 0
    usage_sampling_interval: DurationOrDefault = 5 * MINUTE
    resource_weights: dict[str, float] = {}


class ResourceTransformation(Struct):
    """A rule that counts each unit of a resource (`input`) as other resources (`outputs`).

    input: the resource that pods request.
    strategy: whether the resource itself counts too.
    multiply_by: a resource of the pod whose amount multiplies the outputs.
    outputs: the resources and amounts as which one unit counts.
    """

    input: str = ""
    strategy: Literal["Retain", "Replace"] = "Retain"
    multiply_by: str = ""
    outputs: ResourceList = {}


class CELSelector(Struct):
    """An expression over devices.

    expression: the expression, which is true for the selected devices.
    """

    expression: str = ""


class DeviceSelector(Struct):
    """A selector of devices.

    cel: the expression that selects them; all devices of the driver if absent.
    """

    cel: CELSelector | None = None


class DeviceClassSource(Struct):
    """A counter or a capacity of the devices of a driver, which counts in quotas.

    name: the name of the counter or the capacity.
    driver: the driver whose devices have it.
    device_selector: the devices that count.
    """

    name: str = ""
    driver: str = ""
    device_selector: DeviceSelector = DeviceSelector()


class DeviceClassSources(Struct):
    """A source of the amount that counts in quotas. Exactly one field is set.

    counter: a counter that devices share.
    capacity: a capacity of each device.
    """

    counter: DeviceClassSource | None = None
    capacity: DeviceClassSource | None = None


class DeviceClassMapping(Struct):
    """The name under which devices of some classes count in quotas.

    name: the name in quotas.
    device_class_names: the classes.
    sources: the counters or capacities that count instead of the number of devices.
    """

    name: str = ""
    device_class_names: tuple[str, ...] = ()
    sources: Annotated[tuple[DeviceClassSources, ...], NEW] = ()


class Resources(Struct):
    """The resources of pods that count in quotas.

    quota_check_strategy: whether a pod may request a resource that its ClusterQueue does not name.
    exclude_resource_prefixes: the prefixes of the names of resources that do not count.
    transformations: the resources that count as other resources.
    device_class_mappings: the names of device classes in quotas.
    """

    quota_check_strategy: Annotated[QuotaCheckStrategy, NEW] = "BlockUndeclared"
    exclude_resource_prefixes: tuple[str, ...] = ()
    transformations: tuple[ResourceTransformation, ...] = ()
    device_class_mappings: tuple[DeviceClassMapping, ...] = ()


class WorkloadRetention(Struct):
    """The retention of workloads after their end. None means as long as their owners exist.

    after_finished: how long after its end a finished workload is deleted.
    after_deactivated_by_kueue: how long after its deactivation by the engine a workload is deleted, with its job.
    """

    after_finished: Duration | None = None
    after_deactivated_by_kueue: Duration | None = None


class ObjectRetentionPolicies(Struct):
    """The settings on how long ended objects are kept.

    workloads: the retention of workloads.
    """

    workloads: WorkloadRetention = WorkloadRetention()


class VisibilityServer(Struct):
    """The server of the visibility API.

    bind_address: the address on which it listens; all addresses if absent.
    bind_port: the port.
    """

    bind_address: str | None = None
    bind_port: Int32 = 8082


# Muster's own, Kubernetes', and the schedulers whose PodGroups Muster supports: their manifests work unchanged.
SCHEDULER_NAMES: Final = ("default-scheduler", "muster", "volcano", "kube-batch", "scheduler-plugins-scheduler")


class Scheduling(Struct):
    """The placement of pods on nodes.

    scheduler_names: the names of schedulers whose pods Muster places; other pods are left to their schedulers.
    overtakings: how many gangs without a known end may start before the gang at the head, while that has no room.
    minimum_run_time: how long a gang runs before a gang of higher priority may preempt it.
    recovery_timeout: how long a gang that lost members, and finds no room for replacements, keeps the nodes of its
        other members; 0 means forever. Gangs with a queue have `waitForPodsReady.recoveryTimeout` if that is set.
    scoring_strategy: how the scheduler chooses among equally suitable nodes: as few nodes as possible, the fullest
        first, the emptiest first, or the nodes whose resources are then used most evenly.
    provisioning_class_name: the class of requests to an autoscaler for room that a gang lacks; no requests if empty.
    """

    scheduler_names: Annotated[tuple[str, ...], msgspec.Meta(extra={EMPTY_IS_UNSET: True})] = SCHEDULER_NAMES
    scoring_strategy: ScoringStrategy = "Tight"
    overtakings: int = 32
    minimum_run_time: Duration = 0
    recovery_timeout: Duration = 5 * MINUTE
    provisioning_class_name: str = ""


# The namespace of the controller in JobSet's own manifests.
JOBSET_NAMESPACE: Final = "jobset-system"


class GroupScheduling(Struct):
    """The group start of JobSets, whose pods wait for each other (jobset KEP-498).

    image: the image of the init container that waits, which must have bash.
    resources: its requests; if absent, a little, and no more than those of the first main container.
    security_context: its rights; if absent, those of the first main container that restricted namespaces allow.
    bind_address: the address that tells waiting pods at once that all may start, as host:port. If empty, only the
        ConfigMap tells them, which takes a kubelet up to a minute and a half.
    address: the address under which pods reach it, as host:port, such as that of a Service; bindAddress if empty.
    """

    image: TextOrDefault = "bash"
    resources: ResourceRequirements | None = None
    security_context: SecurityContext | None = None
    bind_address: str = ""
    address: str = ""


class History(Struct):
    """The history of ended jobs, which the embedded cluster keeps.

    max_age: how long after its end the cluster keeps the record of a job.
    max_records: the most records that the cluster keeps; older ones are removed.
    max_decision_bytes: the most bytes of the record of decisions; the oldest are removed.
    """

    max_age: Duration = 180 * 24 * HOUR
    max_records: Int32 = 100_000
    max_decision_bytes: int = 64 * 1024**2


class Nodes(Struct):
    """The handling of lost nodes in an embedded cluster, which Kubernetes configures by flags.

    monitor_grace_period: how long a node may fail to renew its Lease before it counts as lost
        (`--node-monitor-grace-period`).
    default_toleration_seconds: how long pods without their own toleration stay on a node that is lost or not ready
        (`--default-unreachable-toleration-seconds`, `--default-not-ready-toleration-seconds`).
    """

    monitor_grace_period: Duration = 50 * SECOND
    default_toleration_seconds: Int32 = 300


class IdentityHeaders(Struct):
    """The headers in which a proxy in front of the dashboard names the viewer, and what proves the proxy.

    user_header: the header with the viewer's name, such as `X-Forwarded-User`.
    groups_header: the header with the viewer's groups; "" for none.
    groups_separator: what stands between two groups in one header; "" if each group has a header of its own.
    extra_headers: the headers with further information on the viewer, by the key under which the API server gets it.
    allowed_users: the users who may come through the proxy; all but the system's own if empty.
    allowed_groups: the groups that the API server is told of. Others are left out.
    allowed_names: the common names of the proxy's client certificate. Its authority is `ca.crt` of the Secret, and the
        dashboard serves with `tls.crt` and `tls.key` of the Secret.
    secret_header: the header with the proxy's secret, which is a line of `secret` of the Secret. With names of
        certificates as well, the proxy needs both.
    secret_name: the Secret, in the namespace of the engine.
    """

    user_header: str = ""
    groups_header: str = ""
    groups_separator: str = ","
    extra_headers: dict[str, str] = {}
    allowed_users: tuple[str, ...] = ()
    allowed_groups: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()
    secret_header: str = ""
    secret_name: TextOrDefault = "muster-dashboard-proxy"  # noqa: S105  (the name of an object)


class Dashboard(Struct):
    """The dashboard that `muster manifests --dashboard` installs.

    token_header: the header in which a proxy in front hands over the token of a viewer whom it has signed in, such as
        `X-Forwarded-Access-Token`; "" for none, so that viewers sign in on a page.
    identity_headers: the headers in which a proxy in front names the viewers; without it, viewers have tokens.
    sign_out_path: where the proxy signs viewers out, such as `/oauth2/sign_out`; "" for no button.
    """

    token_header: str = ""
    identity_headers: IdentityHeaders | None = None
    sign_out_path: str = ""


class Muster(Struct):
    """The settings that only Muster has.

    elastic_indexed_jobs: the rule for a change of an Indexed Job's completions: the text of kubernetes KEP-3715 (they
        equal parallelism before and after, and the Job is not finished), or the check of today's kube-apiserver (they
        equal parallelism after).
    apis: the alpha versions to serve too. Upstream serves none by default (`--runtime-config`).
    scheduling: the placement of pods on nodes.
    group_scheduling: the group start of JobSets.
    history: the history of ended jobs.
    dashboard: the dashboard of a cluster.
    nodes: the handling of lost nodes in an embedded cluster.
    fair_sharing_on_demand: whether queues get fair sharing by asking for it: by weight while any ClusterQueue or Cohort
        has one, without `fairSharing`; by past usage in a ClusterQueue with an `admissionScope`, without
        `admissionFairSharing` and with a half-life of a week. On under `muster up` unless its file says otherwise.
    job_set_namespace: the namespace of JobSet's own controller, if there is one. Muster leaves JobSets to it while it
        works.
    """

    elastic_indexed_jobs: ElasticRule = "KEP"
    apis: tuple[AlphaVersion, ...] = ()
    scheduling: Scheduling = Scheduling()
    group_scheduling: GroupScheduling = GroupScheduling()
    history: History = History()
    dashboard: Dashboard = Dashboard()
    nodes: Nodes = Nodes()
    fair_sharing_on_demand: bool = False
    job_set_namespace: TextOrDefault = JOBSET_NAMESPACE

    @property
    def elastic(self) -> Elastic:
        """The rule `elasticIndexedJobs` as the validation of Jobs names it: `kep` or `upstream`."""
        return "kep" if self.elastic_indexed_jobs == "KEP" else "upstream"


class CommonSettings(Struct):
    """The settings that are the same in every version.

    namespace: the namespace of the engine, which has its Lease, its Secrets and kubeconfigs.
    pprof_bind_address: the address that serves profiles.
    manage_jobs_without_queue_name: whether jobs without a queue are managed too: they stay suspended until they
        get a queue.
    managed_jobs_namespace_selector: the namespaces whose jobs and pods are managed; by default all but `kube-system`
        and the namespace of the engine.
    client_connection: limits of requests to the API server and to each worker cluster; no limits if absent.
    feature_gates: the settings of Kueue's features by name; `AllAlpha` and `AllBeta` set a whole stage.
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
        """The feature gates."""
        return FeatureGates(self.feature_gates)


class Configuration(CommonSettings):
    """The complete settings. A section that is None is off.

    warnings: a line for each setting of the file without effect.
    """

    wait_for_pods_ready: WaitForPodsReady | None = WaitForPodsReady()
    fair_sharing: FairSharing | None = None
    integrations: Integrations = Integrations()
    warnings: tuple[str, ...] = ()

    @property
    def custom_labels(self) -> tuple[CustomLabel, ...]:
        """The additional labels of metrics; () unless the gate `CustomMetricLabels` is on."""
        return self.metrics.custom_labels if self.features.is_enabled("CustomMetricLabels") else ()

    @property
    def labels_to_copy(self) -> tuple[str, ...]:
        """The labels that the engine copies from jobs to their Workloads, including those that metrics read."""
        metrics = [
            label.source_label_key or label.name
            for label in self.custom_labels
            if label.source_kind == "Workload" and not label.source_annotation_key
        ]
        return tuple(dict.fromkeys((*self.integrations.label_keys_to_copy, *metrics)))

    @property
    def annotations_to_copy(self) -> tuple[str, ...]:
        """The annotations that the engine copies from jobs to their Workloads, because metrics read them."""
        ours = [label for label in self.custom_labels if label.source_kind == "Workload"]
        return tuple(label.source_annotation_key for label in ours if label.source_annotation_key)

    @classmethod
    def default(cls) -> "Configuration":
        """Return the settings for a missing file: Kueue's defaults (v1beta2)."""
        return cls(managed_jobs_namespace_selector=all_namespaces_but("kube-system", NAMESPACE))


def all_namespaces_but(*names: str) -> LabelSelector:
    """Return a selector of all namespaces except these."""
    requirement = LabelSelectorRequirement(key="kubernetes.io/metadata.name", operator="NotIn", values=names)
    return LabelSelector(match_expressions=(requirement,))
