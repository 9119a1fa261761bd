"""The objects that every cluster begins with, made at each start if they are not there."""

from typing import Any

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.scheduling import PRIORITY_CLASS
from muster.api.status import ApiError
from muster.runtime.client import Client

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_CRITICAL = {
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
}


async def create_first_objects(client: Client) -> None:
    """Create what is missing of them. Raises `ApiError`."""
    for name in NAMESPACES:
        await _create(client, NAMESPACE, {"metadata": {"name": name}})
    for name, (value, description) in _CRITICAL.items():
        document = {"metadata": {"name": name}, "value": value, "description": description}
        await _create(client, PRIORITY_CLASS, document)


async def _create(client: Client, kind: Kind[Any], document: dict[str, Any]) -> None:
    try:
        await client.create(kind.seen_as(dict), document)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
