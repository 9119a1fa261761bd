"""The first objects of every cluster: namespaces, priority classes, roles, and definitions of Muster's kinds.

Each start of the server creates the missing objects, adds missing rules to ClusterRoles, and updates definitions of an
older version. All writes go through a `Client`, so admission and validation apply to them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from typing import Any

import msgspec

from muster.api.core import NAMESPACE
from muster.api.groups.scheduling import PRIORITY_CLASS
from muster.api.kinds import Kind
from muster.api.meta import Object
from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.server.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ClusterRole, ClusterRoleBinding
from muster.api.status import ApiError
from muster.cluster.apiserver.access.roles import AUTO_UPDATE, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLES
from muster.cluster.apiserver.access.rules import TooManyRightsError, compact_rights, find_uncovered
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring

log = logging.getLogger(__name__)

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


async def create_first_objects(client: Client, *, roles: bool = True) -> None:
    """Create the missing namespaces and priority classes, and create or update the roles.

    A user's webhook, policy or quota may refuse an object. The server then logs the refusal, starts without the object,
    and retries at its next start. Raises `ApiError` if the stored roles cannot be listed.

    roles: whether to write roles and their bindings.
    """
    for name in NAMESPACES:
        await _attempt_creation(create_missing(client, NAMESPACE, {"metadata": {"name": name}}))
    for name, (value, description) in _CRITICAL.items():
        document = {"metadata": {"name": name}, "value": value, "description": description}
        await _attempt_creation(create_missing(client, PRIORITY_CLASS, document))
    if roles:
        await _create_roles(client)


async def _create_roles(client: Client) -> None:
    """Create the missing roles and bindings, and add the missing rules to ClusterRoles of an older version.

    A ClusterRole without the annotation for automatic updates stays as it is.
    """
    roles = {role.metadata.name: role for role in (await client.list(CLUSTER_ROLE)).items}
    bindings = {obj.metadata.name for obj in (await client.list(CLUSTER_ROLE_BINDING.seen_as(Object))).items}
    # Concurrent writes share one commit of the store.
    await asyncio.gather(
        *(_attempt_creation(_put_role(client, roles.get(role.metadata.name), role)) for role in CLUSTER_ROLES),
        *(
            _attempt_creation(client.create(CLUSTER_ROLE_BINDING, new))
            for new in CLUSTER_ROLE_BINDINGS
            if _get_name(new) not in bindings
        ),
        *(
            _attempt_creation(create_missing(client, ROLE, msgspec.to_builtins(role), namespace))
            for namespace, role in ROLES
        ),
    )


async def _attempt_creation(write: Awaitable[Any]) -> None:
    """Wait for a write; log its refusal instead of raising it."""
    try:
        await write
    except ApiError as error:
        log.warning("an initial object of the cluster could not be written: %s", error)


def _get_name(binding: ClusterRoleBinding) -> str:
    return binding.metadata.name


async def _put_role(client: Client, stored: ClusterRole | None, role: ClusterRole) -> None:
    """Create a ClusterRole if `stored` is None, else add the rules that it lacks. Raises `ApiError`."""
    if stored is None:
        await client.create(CLUSTER_ROLE, role)
        return
    if role.aggregation_rule is not None or stored.metadata.annotations.get(AUTO_UPDATE) != "true":
        return
    try:
        missing = find_uncovered(stored.rules, role.rules)
    except TooManyRightsError:
        return  # a user gave the role too many rules to compare
    if missing:
        rules = msgspec.to_builtins((*stored.rules, *compact_rights(missing)))
        await client.patch(CLUSTER_ROLE, role.metadata.name, {"rules": rules})


async def put_definitions(client: Client, own: Mapping[str, dict[str, Any]]) -> None:
    """Create the missing CustomResourceDefinitions of built-in kinds, and replace specs of an older version.

    The server logs a refused write and continues. Raises `ApiError` if the stored definitions cannot be listed.

    own: the definitions by name.
    """
    if not own:
        return
    kind = CUSTOM_RESOURCE_DEFINITION.seen_as(dict)
    stored = {each["metadata"]["name"]: each["spec"] for each in (await client.list(kind)).items}
    # Concurrent writes share one commit of the store.
    await asyncio.gather(
        *(
            _attempt_creation(
                client.patch(kind, name, {"spec": definition["spec"]})
                if name in stored
                else client.create(kind, {"metadata": definition["metadata"], "spec": {}})  # the server adds its spec
            )
            for name, definition in own.items()
            if stored.get(name) != definition["spec"]
        )
    )


async def create_missing(client: Client, kind: Kind[Any], document: dict[str, Any], namespace: str = "") -> None:
    """Create an object unless one with its name exists. Raises `ApiError` if the server refuses it.

    namespace: "" for a cluster-scoped kind.
    """
    # A lookup comes first, because every POST calls the webhooks, whose servers may not run yet.
    if await client.find(kind.seen_as(dict), document["metadata"]["name"], namespace):
        return
    with ignoring("AlreadyExists"):
        await client.create(kind.seen_as(dict), document, namespace)
