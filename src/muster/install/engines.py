"""Find the installations of Muster's and Kueue's engine in a cluster, by the names of their Deployments."""

from collections.abc import Sequence
from typing import Final

from muster.api.config.types import NAMESPACE
from muster.api.core import CONFIG_MAP, POD
from muster.api.groups.apps import DEPLOYMENT
from muster.api.meta import Object
from muster.api.pods import is_finished
from muster.install import deployment
from muster.install.options import NAME, SELECTED
from muster.runtime.client import Client

KUEUE: Final = "kueue-controller-manager"
# By the engine's Deployment: the ConfigMap of its Configuration, and the key in it.
ENGINES: Final = {
    NAME: (deployment.CONFIG_MAP, deployment.SETTINGS_FILE),
    KUEUE: ("kueue-manager-config", "controller_manager_config.yaml"),
}


class SeveralError(Exception):
    """An engine's Deployment that exists in several namespaces. The message names them."""


async def read_engine_configuration(
    client: Client, namespace: str = "", engines: Sequence[str] = tuple(ENGINES)
) -> str | None:
    """Return the text of an engine's Configuration in a cluster; None if there is none.

    namespace: where the engine is; "" searches all namespaces.
    engines: the names of the engines' Deployments. The first engine with a Configuration decides; by default, Muster
    comes before Kueue.

    Raises `ApiError`, `SeveralError`.
    """
    for engine in engines:
        name, key = ENGINES[engine]
        config_map = await client.find(CONFIG_MAP, name, namespace or await _find_namespace(client, engine))
        if config_map is not None and key in config_map.data:
            text: str = config_map.data[key]
            return text
    return None


async def list_running_engines(client: Client, namespace: str) -> Sequence[str]:
    """Return the names of the pods of Muster's engine in the namespace that have not finished. Raises `ApiError`."""
    labels = ",".join(f"{key}={value}" for key, value in SELECTED.items())
    return [
        pod.metadata.name for pod in (await client.list(POD, namespace, labels=labels)).items if not is_finished(pod)
    ]


async def _find_namespace(client: Client, engine: str) -> str:
    """Return the namespace of the Deployment of that name; the default namespace if there is none.

    Raises `SeveralError` if several namespaces have one.
    """
    listed = await client.list(DEPLOYMENT.seen_as(Object), fields=f"metadata.name={engine}")
    namespaces = sorted(one.metadata.namespace for one in listed.items)
    if len(namespaces) > 1:
        raise SeveralError(f"{engine} is in several namespaces: {', '.join(namespaces)}")
    return namespaces[0] if namespaces else NAMESPACE
