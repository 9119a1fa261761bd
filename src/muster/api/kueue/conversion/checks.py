"""Convert AdmissionChecks and the kinds of MultiKueue from v1beta1 to v1beta2 and back."""

from muster.api.kueue.checks import SECRET_LOCATION
from muster.api.members import Json, remove_members

_SOURCES = ("kubeConfig", "clusterProfileRef")


def admission_check_spec_up(spec: Json) -> Json:
    """Convert an AdmissionCheck's spec to v1beta2: remove `retryDelayMinutes`, which had no effect."""
    return remove_members(spec, "retryDelayMinutes")


def config_spec_down(spec: Json) -> Json:
    """Convert a MultiKueueConfig's spec to v1beta1: remove `quotaManagement`, which v1beta1 lacks."""
    return remove_members(spec, "quotaManagement")


def cluster_spec_up(spec: Json) -> Json:
    """Convert a MultiKueueCluster's spec to v1beta2: move its fields into `clusterSource`.

    A kubeconfig without a location is dropped.
    """
    source = {name: spec[name] for name in _SOURCES if name in spec}
    if not (source.get("kubeConfig") or {}).get("location"):
        source.pop("kubeConfig", None)
    return remove_members(spec, *_SOURCES) | {"clusterSource": source}


def cluster_spec_down(spec: Json) -> Json:
    """Convert a MultiKueueCluster's spec to v1beta1: move the fields of `clusterSource` one level up.

    Without a kubeconfig, `kubeConfig` is set with an empty location, because v1beta1 requires the field.
    """
    source = spec.get("clusterSource") or {}
    config = source.get("kubeConfig") or {"location": "", "locationType": SECRET_LOCATION}
    return remove_members(spec, "clusterSource") | source | {"kubeConfig": config}
