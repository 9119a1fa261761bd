"""AdmissionChecks and the kinds of MultiKueue, from v1beta1 to v1beta2 and back."""

from muster.api.kueue.checks import SECRET_LOCATION
from muster.api.members import Json, without

_SOURCES = ("kubeConfig", "clusterProfileRef")


def admission_check_spec_up(spec: Json) -> Json:
    """The delay had no effect."""
    return without(spec, "retryDelayMinutes")


def config_spec_down(spec: Json) -> Json:
    """How quota is managed is lost."""
    return without(spec, "quotaManagement")


def cluster_spec_up(spec: Json) -> Json:
    """The ways to reach a cluster go one level down; a kubeconfig without a location is none."""
    source = {name: spec[name] for name in _SOURCES if name in spec}
    if not (source.get("kubeConfig") or {}).get("location"):
        source.pop("kubeConfig", None)
    return without(spec, *_SOURCES) | {"clusterSource": source}


def cluster_spec_down(spec: Json) -> Json:
    """A kubeconfig is always there, if only an empty one."""
    source = spec.get("clusterSource") or {}
    config = source.get("kubeConfig") or {"location": "", "locationType": SECRET_LOCATION}
    return without(spec, "clusterSource") | source | {"kubeConfig": config}
