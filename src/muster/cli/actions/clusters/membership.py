"""Compute the changes of objects that add a worker cluster to a manager, or remove it. Pure.

The manager has one MultiKueueConfig with all its clusters and one AdmissionCheck for it; ClusterQueues with that check
send their jobs to one of these clusters.
"""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.kueue import (
    MULTI_KUEUE_CONFIG,
    AdmissionCheck,
    AdmissionCheckStrategyRule,
    ClusterQueue,
    MultiKueueCluster,
    MultiKueueConfig,
)
from muster.api.kueue.checks import SECRET_LOCATION
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.multicluster.links.kubeconfigs import SECRET_KEY

CHECK = "multikueue"  # the name of the check, and of its configuration


class MembershipError(ValueError):
    """An existing object that prevents a change of worker clusters. The message gives the reason and the remedy."""


def config_name(check: AdmissionCheck | None) -> str:
    """Return the name of the MultiKueueConfig that the admission check names or will name. Raises `MembershipError`."""
    if check is None:
        return CHECK
    if check.metadata.deletion_timestamp is not None:
        raise MembershipError(
            f"AdmissionCheck {CHECK} is being deleted, and stays while ClusterQueues name it: remove it from them"
        )
    parameters = check.spec.parameters
    if check.spec.controller_name != MULTI_KUEUE_CONTROLLER or parameters is None:
        raise MembershipError(f"there is an AdmissionCheck {CHECK} that is not MultiKueue's: remove or rename it")
    return parameters.name


def secret_name(cluster: str) -> str:
    """Return the name of the Secret for the kubeconfig of a worker cluster."""
    return f"{cluster}-kubeconfig"


def make_secret(cluster: str, kubeconfig: str) -> dict[str, Any]:
    """Return the manifest of the Secret with the kubeconfig of a worker cluster."""
    data = {SECRET_KEY: base64.b64encode(kubeconfig.encode()).decode()}
    return {"metadata": {"name": secret_name(cluster)}, "type": "Opaque", "data": data}


def make_member(cluster: str) -> dict[str, Any]:
    """Return the manifest of the MultiKueueCluster, which names the Secret with the kubeconfig."""
    source = {"kubeConfig": {"location": secret_name(cluster), "locationType": SECRET_LOCATION}}
    return {"metadata": {"name": cluster}, "spec": {"clusterSource": source}}


def make_admission_check() -> dict[str, Any]:
    """Return the manifest of the AdmissionCheck of MultiKueue, which names the MultiKueueConfig."""
    parameters = {"apiGroup": MULTI_KUEUE_CONFIG.group, "kind": MULTI_KUEUE_CONFIG.kind, "name": CHECK}
    return {
        "metadata": {"name": CHECK},
        "spec": {"controllerName": MULTI_KUEUE_CONTROLLER, "parameters": parameters},
    }


def require_free(name: str, existing: MultiKueueCluster | None) -> None:
    """Raise `MembershipError` if this command did not create `existing`, a worker cluster of that name."""
    if existing is None:
        return
    source = existing.spec.cluster_source.kube_config
    if source is None or (source.location_type, source.location) != (SECRET_LOCATION, secret_name(name)):
        where = f"{source.location_type} {source.location}" if source is not None else "a ClusterProfile"
        raise MembershipError(
            f"there is a MultiKueueCluster {name}, whose kubeconfig is in {where}: choose another name, "
            f"or remove that one with: muster cluster leave {name}"
        )


def with_cluster(config: MultiKueueConfig | None, name: str) -> list[str] | None:
    """Return the clusters of a MultiKueueConfig, and this one last; None if the config already names this one."""
    clusters = list(config.spec.clusters) if config is not None else []
    return None if name in clusters else [*clusters, name]


def remove_cluster_name(config: MultiKueueConfig | None, name: str) -> list[str] | None:
    """Return the clusters of a MultiKueueConfig without this one; None if the config does not name this one."""
    clusters = list(config.spec.clusters) if config is not None else []
    return [one for one in clusters if one != name] if name in clusters else None


def with_check(queue: ClusterQueue) -> dict[str, Any] | None:
    """Return the merge patch that adds the admission check to a ClusterQueue; None if the ClusterQueue has it."""
    strategy = queue.spec.admission_checks_strategy
    rules: Sequence[AdmissionCheckStrategyRule] = strategy.admission_checks if strategy is not None else ()
    if any(rule.name == CHECK for rule in rules):
        return None
    return _make_strategy_patch([*rules, AdmissionCheckStrategyRule(name=CHECK)])


def _make_strategy_patch(rules: Sequence[AdmissionCheckStrategyRule]) -> dict[str, Any]:
    return {"spec": {"admissionChecksStrategy": {"admissionChecks": msgspec.to_builtins(rules)}}}


def has_check(queue: ClusterQueue) -> bool:
    """Return whether a ClusterQueue has the admission check that sends its jobs to worker clusters."""
    return with_check(queue) is None
