"""The rules of MultiKueueClusters."""

from muster.api.kueue import MultiKueueCluster
from muster.api.status import FieldError
from muster.api.validation.fields import Errors, invalid
from muster.api.validation.kueue.rules import OBJECT, validate_changed, validate_created


def validate_create(cluster: MultiKueueCluster) -> list[FieldError]:
    """Return the errors in a new MultiKueueCluster with its defaults."""
    return validate_created(cluster.metadata, _validate_one_source(cluster))


def validate_update(new: MultiKueueCluster, old: MultiKueueCluster) -> list[FieldError]:
    """Return the errors in a change of a MultiKueueCluster."""
    return validate_changed(new.metadata, old.metadata, _validate_one_source(new))


def _validate_one_source(cluster: MultiKueueCluster) -> Errors:
    source = cluster.spec.cluster_source
    if (source.kube_config is None) == (source.cluster_profile_ref is None):
        sentence = "exactly one of the fields in [kubeConfig clusterProfileRef] must be set"
        yield invalid("spec.clusterSource", OBJECT, sentence)
