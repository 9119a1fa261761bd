"""Writes the Deployment of the dashboard. It has no rights: each viewer signs in, and the pages act as the viewer."""

from collections.abc import Iterator
from typing import Final

from muster.install.options import PART_OF, Json, Options, metadata

DASHBOARD: Final = "muster-dashboard"
_SELECTED: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "dashboard"}
_PORT: Final = 8080
_USER: Final = 65532
_FOLDER: Final = "/etc/muster"
# It names the server and its authority, and no user.
_KUBECONFIG: Final = f"""apiVersion: v1
kind: Config
clusters:
- name: here
  cluster:
    server: https://kubernetes.default.svc
    certificate-authority: {_FOLDER}/authority/ca.crt
contexts:
- name: here
  context: {{cluster: here, user: viewer}}
users:
- name: viewer
  user: {{}}
current-context: here
"""


def dashboard_documents(options: Options) -> Iterator[Json]:
    """Yield the documents."""
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(DASHBOARD, options.namespace, _SELECTED),
        "automountServiceAccountToken": False,
    }
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(DASHBOARD, options.namespace, _SELECTED),
        "data": {"kubeconfig": _KUBECONFIG},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(DASHBOARD, options.namespace, _SELECTED),
        "spec": {"selector": dict(_SELECTED), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(DASHBOARD, options.namespace, _SELECTED),
        "spec": {
            "replicas": 1,  # sessions are in its memory
            "selector": {"matchLabels": _SELECTED},
            "template": {"metadata": {"labels": PART_OF | _SELECTED}, "spec": _pod(options)},
        },
    }


def _pod(options: Options) -> Json:
    return {
        "serviceAccountName": DASHBOARD,
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(options)],
        "volumes": [
            {"name": "settings", "configMap": {"name": DASHBOARD}},
            {"name": "authority", "configMap": {"name": "kube-root-ca.crt"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    }


def _container(options: Options) -> Json:
    kubeconfig = f"{_FOLDER}/settings/kubeconfig"
    listen = ["--listen", f"0.0.0.0:{_PORT}"]
    header = options.settings.muster.dashboard.token_header
    return {
        "name": "dashboard",
        "image": options.image,
        "command": [
            "muster", "dashboard", "--kubeconfig", kubeconfig, "--sign-in", *listen,
            *(["--token-header", header] if header else []),
        ],
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108  (of the pod alone)
        "ports": [{"name": "http", "containerPort": _PORT}],
        "readinessProbe": {"tcpSocket": {"port": "http"}, "periodSeconds": 10},
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "settings", "mountPath": f"{_FOLDER}/settings", "readOnly": True},
            {"name": "authority", "mountPath": f"{_FOLDER}/authority", "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
        ],
    }  # fmt: skip
