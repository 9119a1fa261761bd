"""Write a dashboard for Grafana over the engine's metrics, and the ConfigMap by which Grafana's sidecar finds it."""

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from muster.install.options import Json, Options, make_metadata

_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8


class Panel(NamedTuple):
    """A chart of Muster's Grafana dashboard.

    queries: PromQL expressions with their legends.
    unit: a unit of Grafana.
    """

    title: str
    reading: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"


def _make_quantile_query(part: float, metric: str, by: str) -> str:
    return f"histogram_quantile({part}, sum by ({by}, le) (rate({metric}_bucket[$__rate_interval])))"


PANELS: Final = (
    Panel(
        "Jobs that wait",
        "Active ones would be tried now; inadmissible ones wait for a change.",
        (("sum by (cluster_queue, status) (kueue_pending_workloads)", "{{cluster_queue}} {{status}}"),),
    ),
    Panel(
        "Jobs that have quota",
        "Admitted, and not ended.",
        (("sum by (cluster_queue) (kueue_admitted_active_workloads)", "{{cluster_queue}}"),),
    ),
    Panel(
        "Wait until admission",
        "Half of the jobs waited less than the lower line, nine of ten less than the upper one.",
        tuple(
            (
                _make_quantile_query(part, "kueue_admission_wait_time_seconds", "cluster_queue"),
                f"{{{{cluster_queue}}}} p{part:.0%}",
            )
            for part in (0.5, 0.9)
        ),
        "s",
    ),
    Panel(
        "Admitted and evicted",
        "Jobs a minute. Evictions above zero are work done twice.",
        (
            ("sum by (cluster_queue) (rate(kueue_admitted_workloads_total[5m])) * 60", "{{cluster_queue}} admitted"),
            (
                "sum by (cluster_queue, reason) (rate(kueue_evicted_workloads_total[5m])) * 60",
                "{{cluster_queue}} evicted: {{reason}}",
            ),
        ),
    ),
    Panel(
        "Gangs that find no nodes",
        "They have quota, and nodes for all of their pods are not free.",
        (("muster_scheduler_waiting_gangs", "gangs"),),
    ),
    Panel(
        "From admission to all pods ready",
        "Includes images and the start of containers.",
        (
            (
                _make_quantile_query(0.9, "kueue_admitted_until_ready_wait_time_seconds", "cluster_queue"),
                "{{cluster_queue}} p90",
            ),
        ),
        "s",
    ),
    Panel(
        "Decisions",
        "How long one look at the queues takes.",
        ((_make_quantile_query(0.99, "kueue_admission_attempt_duration_seconds", "result"), "{{result}} p99"),),
        "s",
    ),
    Panel(
        "Controllers",
        "Objects that wait to be looked at, and looks that failed a second.",
        (
            ("max by (name) (workqueue_depth)", "{{name}} waits"),
            ("sum by (controller) (rate(controller_runtime_reconcile_errors_total[5m]))", "{{controller}} fails"),
        ),
    ),
)


def make_dashboard() -> Json:
    """Return Muster's Grafana dashboard as Grafana's JSON model."""
    source = {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    return {
        "uid": "muster",
        "title": "Muster",
        "tags": ["muster", "batch"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [source]},
        "panels": list(_list_panels()),
    }


def _list_panels() -> Iterator[Json]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    for number, panel in enumerate(PANELS):
        row, column = divmod(number, _COLUMNS)
        yield {
            "id": number + 1,
            "type": "timeseries",
            "title": panel.title,
            "description": panel.reading,
            "datasource": source,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [
                {"refId": chr(ord("A") + at), "datasource": source, "expr": expression, "legendFormat": legend}
                for at, (expression, legend) in enumerate(panel.queries)
            ],
        }


def dashboard_document(options: Options) -> Json:
    """Return the ConfigMap with the dashboard, which has the label that Grafana's sidecar searches for."""
    head = make_metadata("muster-grafana-dashboard", options.namespace)
    labels = {**head.get("labels", {}), "grafana_dashboard": "1"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**head, "labels": labels},
        "data": {"muster.json": json.dumps(make_dashboard(), indent=2)},
    }
