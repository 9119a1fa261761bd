# ruff: noqa: RUF012  (msgspec gives every object its own empty dict)
"""The AdmissionCheck, and the configurations of two controllers of checks: MultiKueue and provisioning requests."""

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
    """A reference to the object that configures a check.

    api_group: the API group of the object.
    kind: the kind of the object.
    name: the name of the object.
    """

    api_group: Annotated[Required[str], limits(min_length=1, max_length=253, pattern=SUBDOMAIN)] = ""
    kind: Annotated[Required[str], limits(min_length=1, max_length=63, pattern="^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$")] = ""
    name: Annotated[Required[str], limits(min_length=1, max_length=63, pattern=LABEL)] = ""


class AdmissionCheckSpec(Struct):
    """The controller of a check and its configuration.

    controller_name: the name of the controller, which never changes.
    parameters: the object that configures it.
    """

    controller_name: Annotated[Required[str], limits(min_length=1, max_length=253)] = ""
    parameters: AdmissionCheckParametersReference | None = None


class AdmissionCheckStatus(Struct):
    """The observed state of a check.

    conditions: observed aspects: Active.
    """

    conditions: Conditions = ()


class AdmissionCheck(Struct):
    """A check that must be ready before a workload with quota is admitted.

    metadata: the standard metadata of an object.
    spec: the controller of the check and its configuration.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()


class MultiKueueConfigSpec(Struct):
    """The clusters of a MultiKueue check.

    clusters: the names of MultiKueueClusters, in order of preference.
    quota_management: Manual, or Automated: the quota is the sum of the clusters'.
    """

    clusters: Required[
        Annotated[tuple[Annotated[str, limits(max_length=256)], ...], ATOMIC, limits(min_items=1, max_items=20)]
    ] = ()
    quota_management: Annotated[str, one_of(MANUAL, AUTOMATED)] | None = None


class MultiKueueConfig(Struct):
    """The configuration of a MultiKueue check.

    metadata: the standard metadata of an object.
    spec: the clusters.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    """The location of the kubeconfig of a cluster.

    location: the name of a Secret, or the path of a file.
    location_type: Secret or Path.
    """

    location: Annotated[Required[str], limits(min_length=1, max_length=256)] = ""
    location_type: Annotated[str, one_of(SECRET_LOCATION, PATH_LOCATION), DEFAULTED] = SECRET_LOCATION


class ClusterProfileReference(Struct):
    """A reference to a ClusterProfile.

    name: the name of the ClusterProfile.
    """

    name: Annotated[Required[str], limits(min_length=1, max_length=256)] = ""


class ClusterSource(Struct):
    """The way to access a cluster. Exactly one field is set.

    kube_config: the location of its kubeconfig.
    cluster_profile_ref: the ClusterProfile that describes it.
    """

    kube_config: KubeConfig | None = None
    cluster_profile_ref: ClusterProfileReference | None = None


class MultiKueueClusterSpec(Struct):
    """The access to a worker cluster.

    cluster_source: the way to access it.
    """

    cluster_source: Required[ClusterSource] = ClusterSource()


class MultiKueueClusterStatus(Struct):
    """The observed state of a worker cluster.

    conditions: observed aspects: Active.
    """

    conditions: Conditions = ()


class MultiKueueCluster(Struct):
    """A worker cluster to which the manager can dispatch workloads.

    metadata: the standard metadata of an object.
    spec: the access to the cluster.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: MultiKueueClusterStatus = MultiKueueClusterStatus()


class ProvisioningRequestRetryStrategy(Struct, omit_defaults=False):
    """The retries of a failed request, of which each waits base * 2^n seconds.

    backoff_limit_count: the most retries.
    backoff_base_seconds: the first wait.
    backoff_max_seconds: the longest wait.
    """

    backoff_limit_count: Annotated[Int32, DEFAULTED] = 3
    backoff_base_seconds: Annotated[Int32, DEFAULTED] = 60
    backoff_max_seconds: Annotated[Int32, DEFAULTED] = 1800


class ProvisioningRequestPodSetUpdatesNodeSelector(Struct):
    """A node label whose value comes from the details of the request's class.

    key: the label.
    value_from_provisioning_class_detail: the name of the detail with the value.
    """

    key: Annotated[Required[str], limits(min_length=1, max_length=317, pattern=QUALIFIED_NAME)] = ""
    value_from_provisioning_class_detail: Annotated[Required[str], limits(min_length=1, max_length=32768)] = ""


class ProvisioningRequestPodSetUpdates(Struct):
    """The changes of pods whose request is fulfilled.

    node_selector: the node labels to select.
    """

    node_selector: Annotated[
        tuple[ProvisioningRequestPodSetUpdatesNodeSelector, ...], map_by("key"), limits(max_items=8)
    ] = ()


class ProvisioningRequestConfigSpec(Struct):
    """The requests to the autoscaler of a cluster.

    provisioning_class_name: the class of the requests.
    parameters: the parameters of the class.
    managed_resources: the resources that need a request; all if empty.
    retry_strategy: the retries of a failed request.
    pod_set_updates: the changes of pods whose request is fulfilled.
    pod_set_merge_policy: podsets with one request: IdenticalPodTemplates or IdenticalWorkloadSchedulingRequirements.
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
    """The configuration of a check by ProvisioningRequest.

    metadata: the standard metadata of an object.
    spec: the requests to the autoscaler.
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
