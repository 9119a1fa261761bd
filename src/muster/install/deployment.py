"""Write the engine's Deployment and the objects around it: its account, its settings, its Services.

Its pods meet Kubernetes' `restricted` pod security standard: no root, no kernel capabilities, a root file system that
no process writes to.
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Final

from muster.api.kueue.visibility import VISIBILITY_GROUP, VISIBILITY_VERSIONS
from muster.api.server.apiregistration import API_SERVICE
from muster.install.options import NAME, PART_OF, SELECTED, Json, Options, make_metadata, most_replicas
from muster.operator.addresses import OFF, parse_address
from muster.operator.leaderlabel import LABEL, VALUE
from muster.runtime.control.manager import STOP_LIMIT_SECONDS
from muster.webhooks.endpoints import VISIBILITY_SERVICE

CONFIG_MAP: Final = "muster-manager-config"
SETTINGS_FOLDER: Final = "/etc/muster"
SETTINGS_FILE: Final = "config.yaml"
METRICS_SERVICE: Final = "muster-controller-manager-metrics-service"

# Any user but root; the image defines no user of its own.
USER: Final = 65532
# Above the priority of jobs, because no job starts without the engine.
_PRIORITY: Final = "system-cluster-critical"
# The needs of an idle engine. They grow with the cluster, so there are no limits unless an administrator adds them.
_REQUESTS: Final = {"cpu": "500m", "memory": "512Mi"}
# For this time the API server still calls a stopping replica, until every node knows of the stop.
_STILL_ASKED_SECONDS: Final = 5
# The sum of that, the time for parts to finish their writes, and the release of the Lease.
_STOPPING_SECONDS: Final = _STILL_ASKED_SECONDS + int(STOP_LIMIT_SECONDS) + 10


def make_namespace(options: Options) -> Json:
    """Return the engine's own namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": make_metadata(options.namespace, labels=labels)}


def service_account(options: Options) -> Json:
    """Return the engine's ServiceAccount."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": make_metadata(NAME, options.namespace)}


def config_map(options: Options) -> Json:
    """Return the ConfigMap with the Configuration."""
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": make_metadata(CONFIG_MAP, options.namespace)}
    return head | {"data": {SETTINGS_FILE: options.text}}


def make_services(options: Options) -> Iterator[Json]:
    """Yield the Services with which scrapers and the API server reach the engine."""
    if port := _parse_port(options.settings.metrics.bind_address):
        yield _make_service(METRICS_SERVICE, options, {"name": "metrics", "port": port, "targetPort": "metrics"})
    if options.webhooks:
        name = options.settings.internal_cert_management.webhook_service_name
        yield _make_service(name, options, {"name": "webhooks", "port": 443, "targetPort": "webhooks"})
    if options.visibility:
        # Only the leader has the pending workloads.
        visibility_port = {"name": "visibility", "port": 443, "targetPort": "visibility"}
        yield _make_service(VISIBILITY_SERVICE, options, visibility_port, SELECTED | {LABEL: VALUE})


def api_services(options: Options) -> Iterator[Json]:
    """Yield the visibility API's APIServices. They lack the authority's bundle, which the leader writes."""
    for priority, version in zip((100, 50), VISIBILITY_VERSIONS, strict=True):
        yield {
            "apiVersion": f"{API_SERVICE.group}/v1",
            "kind": "APIService",
            "metadata": make_metadata(f"{version}.{VISIBILITY_GROUP}"),
            "spec": {
                "group": VISIBILITY_GROUP,
                "version": version,
                "service": {"namespace": options.namespace, "name": VISIBILITY_SERVICE, "port": 443},
                "insecureSkipTLSVerify": False,  # true in Kueue's manifest
                "groupPriorityMinimum": 100,
                "versionPriority": priority,
            },
        }


def make_deployment(options: Options) -> Json:
    """Return the Deployment of the replicas; one leads, the others stand by."""
    # Replicas read their settings only at their start, so changed settings must replace the pods.
    settings = {"muster.dev/configuration": hashlib.sha256(options.text.encode()).hexdigest()[:16]}
    # By default a new replica starts before the old one exits; without an election that is one too many.
    strategy = {} if most_replicas(options.settings) is None else {"strategy": {"type": "Recreate"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": make_metadata(NAME, options.namespace, SELECTED),
        "spec": {
            "replicas": options.replicas,
            **strategy,
            "selector": {"matchLabels": SELECTED},
            "template": {
                "metadata": {"labels": PART_OF | SELECTED, "annotations": settings},
                "spec": _make_pod(options),
            },
        },
    }


def make_disruption_budget(options: Options) -> Json:
    """Return the disruption budget: one replica at a time may be drained, even if there is only one."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": make_metadata(NAME, options.namespace),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTED}},
    }


def make_command(options: Options) -> list[str]:
    """Return the command of a replica."""
    plain = ["muster", "controllers", "--config", f"{SETTINGS_FOLDER}/{SETTINGS_FILE}", "--log-format", "json"]
    return plain if options.webhooks else [*plain, "--without-webhooks"]


def _make_pod(options: Options) -> Json:
    apart = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": SELECTED},
    }
    return {
        "serviceAccountName": NAME,
        "priorityClassName": _PRIORITY,
        "terminationGracePeriodSeconds": _STOPPING_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [apart],
        "containers": [_make_container(options)],
        "volumes": [{"name": "settings", "configMap": {"name": CONFIG_MAP}}, {"name": "scratch", "emptyDir": {}}],
    }


def _make_container(options: Options) -> Json:
    """Return the engine's container, with a port for each server that the settings turn on."""
    settings = options.settings
    ports = {
        "probes": _parse_port(settings.health.health_probe_bind_address),
        "metrics": _parse_port(settings.metrics.bind_address),
        "webhooks": settings.webhook.port if options.webhooks else 0,
        "visibility": settings.visibility_server.bind_port if options.visibility else 0,
    }
    return {
        "name": "manager",
        "image": options.image,
        "command": make_command(options),
        "ports": [{"name": name, "containerPort": port} for name, port in ports.items() if port],
        **(_make_probes(options) if ports["probes"] else {}),
        "lifecycle": {"preStop": {"sleep": {"seconds": _STILL_ASKED_SECONDS}}},
        "resources": {"requests": _REQUESTS},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": SETTINGS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108  (of the pod alone)
        ],
    }


def _make_probes(options: Options) -> Json:
    health = options.settings.health
    live, ready = health.liveness_endpoint_name or "healthz", health.readiness_endpoint_name or "readyz"
    return {
        "livenessProbe": _make_probe(live) | {"periodSeconds": 20, "failureThreshold": 6},
        "readinessProbe": _make_probe(ready) | {"periodSeconds": 10},
    }


def _make_probe(path: str) -> Json:
    return {"httpGet": {"path": f"/{path.strip('/')}", "port": "probes"}}


def _make_service(name: str, options: Options, port: Json, selected: Mapping[str, str] = SELECTED) -> Json:
    head = {"apiVersion": "v1", "kind": "Service", "metadata": make_metadata(name, options.namespace)}
    return head | {"spec": {"selector": dict(selected), "ports": [port]}}


def _parse_port(where: str) -> int:
    """Return the port of an address; 0 if it is off. Raises `BadAddressError`."""
    return 0 if where == OFF else parse_address(where)[1]
