"""The defaults of the kinds that create pods (k8s.io/kubernetes/pkg/apis/{apps,batch,core}/v1/defaults.go)."""

from typing import Any

from muster.api.defaults.pod import default_pod_template
from muster.api.defaults.resources import fill
from muster.api.defaults.storage import default_claim

Json = dict[str, Any]

_HISTORY = 10


def default_deployment(deployment: Json) -> None:
    """Set the defaults of a Deployment."""
    spec = _default_template(deployment)
    strategy = spec.setdefault("strategy", {})
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        pace = strategy.setdefault("rollingUpdate", {})
        pace.setdefault("maxUnavailable", "25%")
        pace.setdefault("maxSurge", "25%")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    spec.setdefault("progressDeadlineSeconds", 600)


def default_replica_set(replica_set: Json) -> None:
    """Set the defaults of a ReplicaSet."""
    _default_template(replica_set).setdefault("replicas", 1)


def default_stateful_set(stateful_set: Json) -> None:
    """Set the defaults of a StatefulSet, and the kind and version of the claims in it."""
    spec = _default_template(stateful_set)
    fill(spec, "podManagementPolicy", "OrderedReady")
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, "whenDeleted", "Retain")
    fill(retention, "whenScaled", "Retain")
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", _HISTORY)
    for claim in spec.get("volumeClaimTemplates", ()):
        claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
        default_claim(claim)


def default_daemon_set(daemon_set: Json) -> None:
    """Set the defaults of a DaemonSet."""
    spec = _default_template(daemon_set)
    strategy = spec.setdefault("updateStrategy", {})
    fill(strategy, "type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        pace = strategy.setdefault("rollingUpdate", {})
        pace.setdefault("maxUnavailable", 1)
        pace.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", _HISTORY)


def default_replication_controller(controller: Json) -> None:
    """Set the defaults of a ReplicationController.

    An absent selector, and absent labels, are copied from its pod template.
    """
    spec = controller.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    if "template" not in spec:
        return
    default_pod_template(spec["template"])
    labels = spec["template"].get("metadata", {}).get("labels")
    if labels:
        metadata = controller.setdefault("metadata", {})
        for parent, field in ((spec, "selector"), (metadata, "labels")):
            if not parent.get(field):
                parent[field] = dict(labels)


def default_cron_job(cron_job: Json) -> None:
    """Set the defaults of a CronJob and its pod template. Its Jobs get their own defaults when they are created."""
    spec = cron_job.setdefault("spec", {})
    fill(spec, "concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    default_pod_template(spec.setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {}))


def default_template(template: Json) -> None:
    """Set the defaults of a PodTemplate."""
    default_pod_template(template.setdefault("template", {}))


def _default_template(controller: Json) -> Json:
    """Set the defaults of the pod template in a controller's spec, and return the spec."""
    spec: Json = controller.setdefault("spec", {})
    default_pod_template(spec.setdefault("template", {}))
    return spec
