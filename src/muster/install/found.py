"""Finds what is installed in a cluster: where an engine is, by the name of its Deployment, and whether its pods run."""

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

# By the names of their Deployments: where each keeps its Configuration, a ConfigMap and a key of it.
ENGINES: Final = {
    NAME: (deployment.CONFIG_MAP, deployment.SETTINGS_FILE),
    "kueue-controller-manager": ("kueue-manager-config", "controller_manager_config.yaml"),
}


class SeveralError(Exception):
    """Engines are in several namespaces; names them."""


async def configuration_text(client: Client, namespace: str = "") -> str | None:
    """The Configuration of the engine in a cluster, Muster's before Kueue's; None if there is none.

    namespace: where it is; else it is looked for. Raises `ApiError`, `SeveralError`.
    """
    for engine, (name, key) in ENGINES.items():
        found = await client.find(CONFIG_MAP, name, namespace or await _namespace_of(client, engine))
        if found is not None and key in found.data:
            text: str = found.data[key]
            return text
    return None


async def running(client: Client, namespace: str) -> Sequence[str]:
    """The pods of Muster's engine there that have not ended. Raises `ApiError`."""
    labels = ",".join(f"{key}={value}" for key, value in SELECTED.items())
    return [
        pod.metadata.name for pod in (await client.list(POD, namespace, labels=labels)).items if not is_finished(pod)
    ]


async def _namespace_of(client: Client, engine: str) -> str:
    """That of the Deployment of that name, or the one that is usual."""
    listed = await client.list(DEPLOYMENT.seen_as(Object), fields=f"metadata.name={engine}")
    found = sorted(one.metadata.namespace for one in listed.items)
    if len(found) > 1:
        raise SeveralError(f"{engine} is in several namespaces: {', '.join(found)}")
    return found[0] if found else NAMESPACE
