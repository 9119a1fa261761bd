"""Write alerting rules for Prometheus on the engine's metrics; each names the problem and where its cause may be."""

from typing import Final

from muster.api.kinds import Kind
from muster.install.options import Json, Options, make_metadata

PROMETHEUS_RULE: Final = Kind("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules", dict)


def _make_alert(name: str, expression: str, lasts: str, severity: str, summary: str, description: str) -> Json:
    return {
        "alert": name,
        "expr": expression,
        "for": lasts,
        "labels": {"severity": severity},
        "annotations": {"summary": summary, "description": description},
    }


ALERTS: Final = (
    _make_alert(
        "MusterEngineAbsent",
        'absent(kueue_build_info{replica_role=~"leader|standalone"})',
        "5m",
        "critical",
        "No engine leads, so no waiting job starts.",
        "Running jobs continue. Check the pods of the engine and its Lease: kubectl -n kueue-system get pods,leases",
    ),
    _make_alert(
        "MusterClusterQueueInactive",
        'kueue_cluster_queue_status{status="active"} == 0',
        "10m",
        "warning",
        "ClusterQueue {{ $labels.cluster_queue }} admits nothing.",
        "Its condition Active says why: kubectl get clusterqueue {{ $labels.cluster_queue }} -o yaml",
    ),
    _make_alert(
        "MusterQueueStandsStill",
        'sum by (cluster_queue) (kueue_pending_workloads{status="active"}) > 0'
        " unless sum by (cluster_queue) (increase(kueue_admitted_workloads_total[1h])) > 0",
        "1h",
        "warning",
        "Jobs wait in ClusterQueue {{ $labels.cluster_queue }}, and none was admitted for an hour.",
        "The head may need more than there ever is, or all quota is held by long jobs: muster why JOB says which.",
    ),
    _make_alert(
        "MusterManyEvictions",
        "sum by (cluster_queue, reason) (increase(kueue_evicted_workloads_total[1h])) > 20",
        "15m",
        "warning",
        "ClusterQueue {{ $labels.cluster_queue }} lost over 20 jobs in an hour to {{ $labels.reason }}.",
        "Evicted jobs lose what they did since their last checkpoint. Look at preemption, at priorities and at nodes.",
    ),
    _make_alert(
        "MusterGangsWaitForNodes",
        "muster_scheduler_waiting_gangs > 0",
        "1h",
        "info",
        "{{ $value }} gangs have quota and find no nodes.",
        "The quota promises more than the nodes have, or nodes are lost or cordoned: muster status, muster top",
    ),
    _make_alert(
        "MusterReconcileErrors",
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total[10m])) > 0.1",
        "15m",
        "warning",
        "Controller {{ $labels.controller }} fails again and again.",
        "The log of the leading replica names the object and the error.",
    ),
    _make_alert(
        "MusterControllerFallsBehind",
        "max by (name) (workqueue_depth) > 1000",
        "15m",
        "warning",
        "{{ $value }} objects wait for controller {{ $labels.name }}.",
        "The API server may be slow, or the engine short of CPU.",
    ),
)


def alert_groups() -> Json:
    """Return the alerting rules in the form of a Prometheus rule file."""
    return {"groups": [{"name": "muster", "rules": list(ALERTS)}]}


def alert_document(options: Options) -> Json:
    """Return the alerting rules as a PrometheusRule, for the Prometheus operator."""
    return {
        "apiVersion": PROMETHEUS_RULE.api_version,
        "kind": PROMETHEUS_RULE.kind,
        "metadata": make_metadata("muster-alerts", options.namespace),
        "spec": alert_groups(),
    }
