"""Write the documents for Prometheus and Grafana: a ServiceMonitor and its rights, alerts, and a dashboard.

Prometheus' operator must be installed in the cluster.
"""

from typing import Final

from muster.api.core import ENDPOINTS, POD, SERVICE
from muster.api.groups.discovery import ENDPOINT_SLICE
from muster.api.kinds import Kind
from muster.api.server.rbac import GROUP
from muster.install.alerts import alert_document
from muster.install.grafana import dashboard_document
from muster.install.options import PART_OF, Json, Options, make_metadata
from muster.install.roles import READ, cluster_role, make_role, make_rules
from muster.operator.addresses import OFF

SERVICE_MONITOR: Final = Kind("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors", dict)

_SCRAPING: Final = "muster-metrics-reader"
_FINDING: Final = "muster-metrics-discovery"
# Prometheus' account in an installation by kube-prometheus.
_PROMETHEUS: Final = {"kind": "ServiceAccount", "name": "prometheus-k8s", "namespace": "monitoring"}
_TOKEN: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"  # noqa: S105  (where it is, and not what)


def monitoring_documents(options: Options) -> list[Json]:
    """Return the ServiceMonitor, the alerting rules, the Grafana dashboard and Prometheus' rights.

    The list is empty if metrics are off.
    """
    if options.settings.metrics.bind_address == OFF:
        return []
    endpoint = {
        "port": "metrics",
        "path": "/metrics",
        "scheme": "https",
        "bearerTokenFile": _TOKEN,
        "tlsConfig": {"insecureSkipVerify": True},  # replicas serve metrics with self-made certificates
    }
    documents = {
        "apiVersion": SERVICE_MONITOR.api_version,
        "kind": SERVICE_MONITOR.kind,
        "metadata": make_metadata("muster-controller-manager", options.namespace),
        "spec": {"selector": {"matchLabels": PART_OF}, "endpoints": [endpoint]},
    }
    return [
        cluster_role(_SCRAPING, [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
        _make_object("ClusterRole", _SCRAPING, ""),
        make_role(_FINDING, options.namespace, make_rules(READ, SERVICE, ENDPOINTS, POD, ENDPOINT_SLICE)),
        _make_object("Role", _FINDING, options.namespace),
        documents,
        alert_document(options),
        dashboard_document(options),
    ]


def _make_object(kind: str, name: str, namespace: str) -> Json:
    head = {"apiVersion": f"{GROUP}/v1", "kind": f"{kind}Binding", "metadata": make_metadata(name, namespace)}
    return head | {"roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}, "subjects": [_PROMETHEUS]}
