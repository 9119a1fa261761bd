"""Build the connection that a ClusterProfile describes, like cluster-inventory-api. Pure.

The profile names the cluster's server. The administrator's Configuration names the program that prints a credential for
it, so that the author of a profile cannot run programs. The credential is sent to the server that the profile names.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from muster.api.config.types import AccessProvider, ExecCredentials
from muster.api.groups.clusterinventory import ClusterProfile
from muster.multicluster.links.kubeconfigs import require_trusted

if TYPE_CHECKING:  # the module that reads kubeconfigs loads slowly, and most clusters have no worker
    from muster.runtime.kube.kubeconfig import ConnectionConfig


class ProfileError(ValueError):
    """A ClusterProfile without a usable connection."""


def find_connection(profile: ClusterProfile, configured: Sequence[AccessProvider]) -> "ConnectionConfig":
    """Return the connection by the first provider in the Configuration that the profile also lists.

    Raises `ProfileError`, and `UntrustedKubeconfigError` for a profile that contains more than a connection.
    """
    from muster.runtime.kube.kubeconfig import KubeconfigError
    from muster.runtime.kube.kubeconfig_parse import from_dict

    name, status = profile.metadata.name, profile.status
    offered = {one.name: one.cluster for one in (*status.credential_providers, *status.access_providers)}
    provider = next((one for one in configured if one.name in offered), None)
    if provider is None:
        raise ProfileError(f'no matching cluster accessor found for cluster profile "{name}"')
    document = {
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": offered[provider.name]}],
        "users": [{"name": name, "user": {"exec": _make_plugin_config(provider.exec_config)}}],
    }
    try:
        config = from_dict(document, f"ClusterProfile {name}").connection()
    except KubeconfigError as error:
        raise ProfileError(str(error)) from None
    require_trusted(config, plugin=True)
    return config


def _make_plugin_config(credentials: ExecCredentials) -> dict[str, Any]:
    """Return the plugin in kubeconfig form, without terminal input."""
    return {
        "apiVersion": credentials.api_version,
        "command": credentials.command,
        "args": list(credentials.args),
        "env": [{"name": variable.name, "value": variable.value} for variable in credentials.env],
        "installHint": credentials.install_hint,
        "provideClusterInfo": credentials.provide_cluster_info,
        "interactiveMode": "Never",
    }
