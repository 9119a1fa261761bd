# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""Admission checks and the configurations of two of their controllers: MultiKueue and provisioning requests."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.kueue.fields import GROUP, LABEL, QUALIFIED_NAME, SUBDOMAIN, VERSION, Conditions
from muster.api.markers import ATOMIC, DEFAULTED, SET, Int32, Required, limits, map_by, one_of
from muster.api.meta import ObjectMeta, Struct

SECRET_LOCATION = "Secret"  # noqa: S105  (a kind, no secret)
PATH_LOCATION = "Path"
MANUAL = "Manual"
AUTOMATED = "Automated"


class AdmissionCheckParametersReference(Struct):
    """Names the object that configures a check.

    api_group: group of its kind.
    kind: its kind.
    name: its name.
    """

    api_group: Annotated[Required[str], limits(min_length=1, max_length=253, pattern=SUBDOMAIN)] = ""
    kind: Annotated[Required[str], limits(min_length=1, max_length=63, pattern="^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")] = ""
    name: Annotated[Required[str], limits(min_length=1, max_length=63, pattern=LABEL)] = ""


class AdmissionCheckSpec(Struct):
    """Who carries out a check, and how.

    controller_name: the controller; it never changes.
    parameters: the object that configures it.
    """

    controller_name: Annotated[Required[str], limits(min_length=1, max_length=253)] = ""
    parameters: AdmissionCheckParametersReference | None = None


class AdmissionCheckStatus(Struct):
    """What was observed of a check.

    conditions: observed aspects: Active.
    """

    conditions: Conditions = ()


class AdmissionCheck(Struct):
    """Something that must be ready for a workload with quota to be admitted.

    metadata: what every object carries.
    spec: who carries it out, and how.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class MultiKueueConfigSpec(Struct):
    """The clusters of a MultiKueue check.

    clusters: names of MultiKueueClusters, in order of preference.
    quota_management: Manual, or Automated: the quota is the sum of the clusters'.
    """

    clusters: Required[
        Annotated[tuple[Annotated[str, limits(max_length=256)], ...], ATOMIC, limits(min_items=1, max_items=20)]
    ] = ()
    quota_management: Annotated[str, one_of(MANUAL, AUTOMATED)] | None = None


class MultiKueueConfig(Struct):
    """Configures a MultiKueue check.

    metadata: what every object carries.
    spec: the clusters.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    """Where the kubeconfig of a cluster is.

    location: name of a Secret, or path of a file.
    location_type: Secret or Path.
    """

    location: Annotated[Required[str], limits(min_length=1, max_length=256)] = ""
    location_type: Annotated[str, one_of(SECRET_LOCATION, PATH_LOCATION), DEFAULTED] = SECRET_LOCATION


class ClusterProfileReference(Struct):
    """Names a ClusterProfile.

    name: its name.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=256)] = ""


class ClusterSource(Struct):
    """How to reach a cluster; exactly one of the two.

    kube_config: where its kubeconfig is.
    cluster_profile_ref: the ClusterProfile that describes it.
    """

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Struct):
    """How to reach a worker cluster.

    cluster_source: how to reach it.
    """

    cluster_source: Required[ClusterSource] = ClusterSource()


class MultiKueueClusterStatus(Struct):
    """What was observed of a worker cluster.

    conditions: observed aspects: Active.
    """

    conditions: Conditions = ()


class MultiKueueCluster(Struct):
    """A cluster that workloads may be dispatched to.

    metadata: what every object carries.
    spec: how to reach it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


class ProvisioningRequestRetryStrategy(Struct, omit_defaults=False):
    """When a failed request is made again: after base * 2^n seconds.

    backoff_limit_count: how often.
    backoff_base_seconds: the first wait.
    backoff_max_seconds: the longest wait.
    """

    backoff_limit_count: Annotated[Int32, DEFAULTED] = 3
    backoff_base_seconds: Annotated[Int32, DEFAULTED] = 60
    backoff_max_seconds: Annotated[Int32, DEFAULTED] = 1800


class ProvisioningRequestPodSetUpdatesNodeSelector(Struct):
    """A node label whose value the request's class tells.

    key: the label.
    value_from_provisioning_class_detail: name of the detail that holds the value.
    """

    key: Annotated[Required[str], limits(min_length=1, max_length=317, pattern=QUALIFIED_NAME)] = ""
    value_from_provisioning_class_detail: Annotated[Required[str], limits(min_length=1, max_length=32768)] = ""


class ProvisioningRequestPodSetUpdates(Struct):
    """What pods are given when their request is fulfilled.

    node_selector: labels of the nodes.
    """

    node_selector: Annotated[
        tuple[ProvisioningRequestPodSetUpdatesNodeSelector, ...], map_by("key"), limits(max_items=8)
    ] = ()


class ProvisioningRequestConfigSpec(Struct):
    """What is asked of a cluster's autoscaler.

    provisioning_class_name: class of the requests.
    parameters: passed on to the class.
    managed_resources: only workloads that ask for one of these need a request; all if empty.
    retry_strategy: when a failed request is made again.
    pod_set_updates: what pods are given when their request is fulfilled.
    pod_set_merge_policy: IdenticalPodTemplates or IdenticalWorkloadSchedulingRequirements: podsets asked for as one.
    """

    provisioning_class_name: Annotated[Required[str], limits(min_length=1, max_length=253, pattern=SUBDOMAIN)] = ""
    parameters: Annotated[dict[str, Annotated[str, limits(max_length=255)]], limits(max_properties=100)] = {}
    managed_resources: Annotated[tuple[str, ...], SET, limits(max_items=100)] = ()
    retry_strategy: Annotated[ProvisioningRequestRetryStrategy, DEFAULTED] = ProvisioningRequestRetryStrategy()
    pod_set_updates: ProvisioningRequestPodSetUpdates | None = None
    pod_set_merge_policy: (
        Annotated[str, one_of("IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements")] | None
    ) = None


class ProvisioningRequestConfig(Struct):
    """Configures a check by ProvisioningRequest.

    metadata: what every object carries.
    spec: what is asked of the autoscaler.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: ProvisioningRequestConfigSpec = ProvisioningRequestConfigSpec()


ADMISSION_CHECK = Kind(GROUP, VERSION, "AdmissionCheck", "admissionchecks", AdmissionCheck, namespaced=False)
MULTI_KUEUE_CONFIG = Kind(GROUP, VERSION, "MultiKueueConfig", "multikueueconfigs", MultiKueueConfig, namespaced=False)
MULTI_KUEUE_CLUSTER = Kind(
    GROUP, VERSION, "MultiKueueCluster", "multikueueclusters", MultiKueueCluster, namespaced=False
)
PROVISIONING_REQUEST_CONFIG = Kind(
    GROUP,
    VERSION,
    "ProvisioningRequestConfig",
    "provisioningrequestconfigs",
    ProvisioningRequestConfig,
    namespaced=False,
)
