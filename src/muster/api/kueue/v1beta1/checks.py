"""The AdmissionCheck, MultiKueueConfig, MultiKueueCluster and ProvisioningRequestConfig of v1beta1."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.kueue import checks
from muster.api.kueue.fields import GROUP, OLD_VERSION
from muster.api.markers import DEFAULTED, SET, Required, limits, one_of
from muster.api.meta import ObjectMeta, Struct


class AdmissionCheckSpec(checks.AdmissionCheckSpec):
    """The controller of a check and its configuration.

    retry_delay_minutes: deprecated and without effect.
    """

    retry_delay_minutes: Annotated[int, DEFAULTED] = 15


class AdmissionCheck(Struct):
    """A check that must be ready before a workload with quota is admitted.

    metadata: the standard metadata of an object.
    spec: the controller of the check and its configuration.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: checks.AdmissionCheckStatus = checks.AdmissionCheckStatus()


class MultiKueueConfigSpec(Struct):
    """The clusters of a MultiKueue check.

    clusters: the names of MultiKueueClusters.
    """

    clusters: Required[
        Annotated[tuple[Annotated[str, limits(max_length=256)], ...], SET, limits(min_items=1, max_items=20)]
    ] = ()


class MultiKueueConfig(Struct):
    """The configuration of a MultiKueue check.

    metadata: the standard metadata of an object.
    spec: the clusters.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    """The location of the kubeconfig of a cluster.

    location: the name of a Secret, or the path of a file; empty if a ClusterProfile describes the cluster.
    location_type: Secret or Path.
    """

    location: Annotated[Required[str], limits(max_length=256)] = ""
    location_type: Annotated[
        Required[str], one_of(checks.SECRET_LOCATION, checks.PATH_LOCATION), DEFAULTED
    ] = checks.SECRET_LOCATION  # fmt: skip


class MultiKueueClusterSpec(Struct):
    """The access to a worker cluster.

    kube_config: the location of its kubeconfig.
    cluster_profile_ref: the ClusterProfile that describes it.
    """

    kube_config: Required[KubeConfig] = KubeConfig()
    cluster_profile_ref: checks.ClusterProfileReference | None = None


class MultiKueueCluster(Struct):
    """A worker cluster to which the manager can dispatch workloads.

    metadata: the standard metadata of an object.
    spec: the access to the cluster.
    status: the observed state.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: checks.MultiKueueClusterStatus = checks.MultiKueueClusterStatus()


class ProvisioningRequestConfig(checks.ProvisioningRequestConfig):
    """The configuration of a check by ProvisioningRequest."""


ADMISSION_CHECK = Kind(GROUP, OLD_VERSION, "AdmissionCheck", "admissionchecks", AdmissionCheck, namespaced=False)
MULTI_KUEUE_CONFIG = Kind(
    GROUP, OLD_VERSION, "MultiKueueConfig", "multikueueconfigs", MultiKueueConfig, namespaced=False
)
MULTI_KUEUE_CLUSTER = Kind(
    GROUP, OLD_VERSION, "MultiKueueCluster", "multikueueclusters", MultiKueueCluster, namespaced=False
)
PROVISIONING_REQUEST_CONFIG = Kind(
    GROUP,
    OLD_VERSION,
    "ProvisioningRequestConfig",
    "provisioningrequestconfigs",
    ProvisioningRequestConfig,
    namespaced=False,
)
