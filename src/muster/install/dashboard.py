"""Write the Deployment of the dashboard, which sends its requests with the rights of the viewer.

If each viewer signs in with a token, the dashboard's ServiceAccount has no rights. If a proxy authenticates the
viewers, the account may impersonate the users and groups that the Configuration names. If it names no users, the
account may impersonate every user, because RBAC has no patterns.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

from muster.api.config.types import IdentityHeaders
from muster.install.deployment import CONFIG_MAP, SETTINGS_FILE
from muster.install.options import PART_OF, Json, Options, make_metadata
from muster.install.roles import cluster_binding, cluster_role

DASHBOARD: Final = "muster-dashboard"
IMPERSONATING: Final = "muster-dashboard-impersonation"
_SELECTED: Final = {"app.kubernetes.io/name": "muster", "app.kubernetes.io/component": "dashboard"}
_PORT: Final = 8080
_USER: Final = 65532
_FOLDER: Final = "/etc/muster"
_PROXY: Final = f"{_FOLDER}/proxy"
_CONFIGURATION: Final = f"{_FOLDER}/configuration"
# The kubeconfig names the server and its authority. The account's token is there only if the account may impersonate.
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
  user: {{tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}}
current-context: here
"""


def dashboard_documents(options: Options) -> Iterator[Json]:
    """Yield the dashboard's ServiceAccount, kubeconfig, Service and Deployment.

    If a proxy names the viewers, also yield the rights to act as them.
    """
    identity = options.settings.muster.dashboard.identity_headers
    yield {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": make_metadata(DASHBOARD, options.namespace, _SELECTED),
        "automountServiceAccountToken": False,
    }
    if identity is not None:
        yield from impersonation_documents(options.namespace, identity)
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": make_metadata(DASHBOARD, options.namespace, _SELECTED),
        "data": {"kubeconfig": _KUBECONFIG},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": make_metadata(DASHBOARD, options.namespace, _SELECTED),
        "spec": {"selector": dict(_SELECTED), "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": make_metadata(DASHBOARD, options.namespace, _SELECTED),
        "spec": {
            "replicas": 1,  # sessions are in its memory
            "selector": {"matchLabels": _SELECTED},
            "template": {
                "metadata": {
                    "labels": PART_OF | _SELECTED,
                    "annotations": _make_annotations(options),
                },
                "spec": _make_pod(options, identity),
            },
        },
    }


def impersonation_documents(namespace: str, identity: IdentityHeaders) -> list[Json]:
    """Return the ClusterRole and the binding that let the dashboard's account impersonate viewers.

    namespace: the namespace of the account.
    """
    return [
        cluster_role(IMPERSONATING, impersonation_rules(identity), _SELECTED),
        cluster_binding(IMPERSONATING, namespace, account=DASHBOARD),
    ]


def impersonation_rules(identity: IdentityHeaders) -> list[Json]:
    """Return the RBAC rules to impersonate the users and groups that the Configuration names; every user if none."""
    users = {"resourceNames": list(identity.allowed_users)} if identity.allowed_users else {}
    found: list[Json] = [{"apiGroups": [""], "resources": ["users"], **users, "verbs": ["impersonate"]}]
    if identity.allowed_groups:
        groups = {"resources": ["groups"], "resourceNames": list(identity.allowed_groups)}
        found.append({"apiGroups": [""], **groups, "verbs": ["impersonate"]})
    if identity.extra_headers:
        extras = [f"userextras/{key}" for key in sorted(identity.extra_headers)]
        found.append({"apiGroups": ["authentication.k8s.io"], "resources": extras, "verbs": ["impersonate"]})
    return found


def describe_rights(options: Options) -> str:
    """Return a sentence for administrators about the users that the dashboard's account may impersonate; "" if none."""
    identity = options.settings.muster.dashboard.identity_headers
    if not options.dashboard or identity is None:
        return ""
    groups = ", ".join(identity.allowed_groups)
    users = f"as {', '.join(identity.allowed_users)}" if identity.allowed_users else "as every user of the cluster"
    narrower = "" if identity.allowed_users else ": muster.dashboard.identityHeaders.allowedUsers narrows that"
    return (
        f"the ServiceAccount {options.namespace}/{DASHBOARD} may act {users}"
        f"{f' and in the groups {groups}' if groups else ''}{narrower}"
    )


def _make_annotations(options: Options) -> Json:
    """Return an annotation with a hash of the Configuration, so that the pods restart when it changes."""
    return {"muster.dev/configuration": hashlib.sha256(options.text.encode()).hexdigest()[:16]}


def _make_pod(options: Options, identity: IdentityHeaders | None) -> Json:
    proof = [] if identity is None else [{"name": "proxy", "secret": {"secretName": identity.secret_name}}]
    return {
        "serviceAccountName": DASHBOARD,
        "automountServiceAccountToken": identity is not None,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_make_container(options, identity)],
        "volumes": [
            {"name": "settings", "configMap": {"name": DASHBOARD}},
            {"name": "configuration", "configMap": {"name": CONFIG_MAP}},
            {"name": "authority", "configMap": {"name": "kube-root-ca.crt"}},
            {"name": "scratch", "emptyDir": {}},
            *proof,
        ],
    }


def _make_container(options: Options, identity: IdentityHeaders | None) -> Json:
    """Return the dashboard's container.

    identity: the headers by which a proxy names viewers; None if viewers sign in with a token.
    """
    kubeconfig, config = f"{_FOLDER}/settings/kubeconfig", f"{_CONFIGURATION}/{SETTINGS_FILE}"
    listen = ["--listen", f"0.0.0.0:{_PORT}"]
    files = [] if identity is None else ["--proxy-files", _PROXY]
    proof = [] if identity is None else [{"name": "proxy", "mountPath": _PROXY, "readOnly": True}]
    return {
        "name": "dashboard",
        "image": options.image,
        "command": [
            "muster", "dashboard", "--kubeconfig", kubeconfig, "--sign-in", *listen, "--config", config, *files,
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
            {"name": "configuration", "mountPath": _CONFIGURATION, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
            *proof,
        ],
    }  # fmt: skip
