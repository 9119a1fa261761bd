"""Write a `ConnectionConfig` as the text of a kubeconfig: one cluster, one user, one context, all inline. Pure.

A kubeconfig for another user is written from scratch: other contexts, and files that it names, are left out.
"""

import base64
from typing import Any

import yaml

from muster.api.members import drop_empty
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, UserConfig, require_inline


def write_kubeconfig(config: ConnectionConfig, name: str) -> str:
    """Return the text of the kubeconfig. Raises `InsecureKubeconfigError`.

    name: the name of its cluster, user and context.
    """
    require_inline(config)
    context = {"cluster": name, "user": name, "namespace": config.namespace}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": _render_cluster(config.cluster)}],
        "users": [{"name": name, "user": _render_user(config.user)}],
        "contexts": [{"name": name, "context": context}],
        "current-context": name,
    }
    return str(yaml.safe_dump(document, sort_keys=False))


def _render_cluster(cluster: ClusterConfig) -> dict[str, Any]:
    members = {
        "server": cluster.server,
        "certificate-authority-data": _encode_data(cluster.certificate_authority),
        "tls-server-name": cluster.tls_server_name,
        "disable-compression": cluster.disable_compression,
    }
    return drop_empty(members)


def _render_user(user: UserConfig) -> dict[str, Any]:
    members: dict[str, Any] = {
        "token": user.token,
        "client-certificate-data": _encode_data(user.client_certificate),
        "client-key-data": _encode_data(user.client_key),
    }
    if (other := user.impersonation) is not None:
        members |= {
            "as": other.user,
            "as-uid": other.uid,
            "as-groups": list(other.groups),
            "as-user-extra": {key: list(values) for key, values in other.extra},
        }
    return drop_empty(members)


def _encode_data(pem: bytes | None) -> str:
    return base64.b64encode(pem).decode() if pem else ""
