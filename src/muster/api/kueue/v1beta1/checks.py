"""AdmissionCheck, MultiKueueConfig, MultiKueueCluster and ProvisioningRequestConfig of v1beta1."""

from typing import Annotated

from muster.api.kinds import Kind
from muster.api.kueue import checks
from muster.api.kueue.fields import GROUP, OLD_VERSION
from muster.api.markers import DEFAULTED, SET, Required, limits, one_of
from muster.api.meta import ObjectMeta, Struct


class AdmissionCheckSpec(checks.AdmissionCheckSpec):
    """Who carries out a check, and how.

    retry_delay_minutes: deprecated and without effect.
    """

    retry_delay_minutes: Annotated[int, DEFAULTED] = 15


class AdmissionCheck(Struct):
    """Something that must be ready for a workload with quota to be admitted.

    metadata: what every object carries.
    spec: who carries it out, and how.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: checks.AdmissionCheckStatus = checks.AdmissionCheckStatus()


class MultiKueueConfigSpec(Struct):
    """The clusters of a MultiKueue check.

    clusters: names of MultiKueueClusters.
    """

    clusters: Required[
        Annotated[tuple[Annotated[str, limits(max_length=256)], ...], SET, limits(min_items=1, max_items=20)]
    ] = ()


class MultiKueueConfig(Struct):
    """Configures a MultiKueue check.

    metadata: what every object carries.
    spec: the clusters.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueConfigSpec = MultiKueueConfigSpec()


class KubeConfig(Struct):
    """Where the kubeconfig of a cluster is.

    location: name of a Secret, or path of a file; empty if the cluster is reached by a ClusterProfile.
    location_type: Secret or Path.
    """

    location: Annotated[Required[str], limits(max_length=256)] = ""
    location_type: Annotated[
        Required[str], one_of(checks.SECRET_LOCATION, checks.PATH_LOCATION), DEFAULTED
    ] = checks.SECRET_LOCATION  # fmt: skip


class MultiKueueClusterSpec(Struct):
    """How to reach a worker cluster.

    kube_config: where its kubeconfig is.
    cluster_profile_ref: the ClusterProfile that describes it.
    """

    kube_config: Required[KubeConfig] = KubeConfig()
    cluster_profile_ref: checks.ClusterProfileReference | None = None


class MultiKueueCluster(Struct):
    """A cluster that workloads may be dispatched to.

    metadata: what every object carries.
    spec: how to reach it.
    status: what was observed.
    """

    metadata: ObjectMeta = ObjectMeta()
    spec: MultiKueueClusterSpec = MultiKueueClusterSpec()
    status: checks.MultiKueueClusterStatus = checks.MultiKueueClusterStatus()


class ProvisioningRequestConfig(checks.ProvisioningRequestConfig):
    """Configures a check by ProvisioningRequest."""


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
