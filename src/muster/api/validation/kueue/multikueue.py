"""Rules of MultiKueueClusters and MultiKueueConfigs."""

from muster.api.kueue import MultiKueueCluster, MultiKueueConfig
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import ARRAY, OBJECT, changed, created


def validate_create_cluster(cluster: MultiKueueCluster) -> list[FieldError]:
    """A new MultiKueueCluster with its defaults."""
    return created(cluster.metadata, _one_source(cluster))


def validate_update_cluster(new: MultiKueueCluster, old: MultiKueueCluster) -> list[FieldError]:
    """A change of a MultiKueueCluster."""
    return changed(new.metadata, old.metadata, _one_source(new))


def validate_status_update_cluster(new: MultiKueueCluster, old: MultiKueueCluster) -> list[FieldError]:
    """A change of a MultiKueueCluster's status, of which the schema says all."""
    return changed(new.metadata, old.metadata)


def validate_create_config(config: MultiKueueConfig) -> list[FieldError]:
    """A new MultiKueueConfig."""
    return created(config.metadata, _unique_clusters(config))


def validate_update_config(new: MultiKueueConfig, old: MultiKueueConfig) -> list[FieldError]:
    """A change of a MultiKueueConfig."""
    return changed(new.metadata, old.metadata, _unique_clusters(new))


def _one_source(cluster: MultiKueueCluster) -> Errors:
    source = cluster.spec.cluster_source
    if (source.kube_config is None) == (source.cluster_profile_ref is None):
        sentence = "exactly one of the fields in [kubeConfig clusterProfileRef] must be set"
        yield invalid("spec.clusterSource", OBJECT, sentence)


def _unique_clusters(config: MultiKueueConfig) -> Errors:
    if len(set(config.spec.clusters)) < len(config.spec.clusters):
        yield invalid("spec.clusters", ARRAY, "must be unique")
