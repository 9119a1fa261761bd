"""Let a manager send jobs to this cluster.

The module creates the objects of an `Invitation`, and makes the kubeconfig for it.
"""

from dataclasses import replace
from ipaddress import ip_address
from typing import Any, Protocol
from urllib.parse import urlsplit

import click
from msgspec import structs

from muster.actions.waiting import wait_for_result
from muster.api.core import CONFIG_MAP, NAMESPACE, SECRET
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE
from muster.api.meta import Object
from muster.api.server.rbac import CLUSTER_ROLE_BINDING, ROLE_BINDING
from muster.cli.actions.clusters.invitation import Invitation, Manifest, choose_namespaces
from muster.cluster.controllers.endpoints import clusterinfo
from muster.runtime.client import Client
from muster.runtime.kube.kubeconfig import ClusterConfig, ConnectionConfig, UserConfig
from muster.runtime.kube.kubeconfig_parse import parse
from muster.runtime.realclock import Clock
from muster.runtime.refusals import ignoring
from muster.runtime.transport import APPLY_PATCH

TOKEN_SECONDS = 15.0


class Grant(Protocol):
    """A set of rights, and the service account that has them."""

    @property
    def name(self) -> str:
        """The name of the service account."""

    @property
    def home(self) -> str:
        """The namespace of the service account."""

    @property
    def label(self) -> str:
        """The label that all objects of the grant have; its value is the name of the grant."""

    @property
    def secret(self) -> str:
        """The name of the Secret with the service account's token."""

    def manifests(self) -> list[Manifest]:
        """Return all manifests in the order in which to create them."""


async def confine_invitation(client: Client, invitation: Invitation) -> Invitation:
    """Return the invitation with its namespaces set to the namespaces that have LocalQueues.

    Raises `ApiError`, and `click.ClickException` if no namespace has one.
    """
    namespaces = choose_namespaces((await client.list(LOCAL_QUEUE)).items, invitation.home)
    if not namespaces:
        raise click.ClickException(
            "no namespace has a LocalQueue, so no job of a manager could run here: "
            "make one with muster queue create, or say where with --namespace or --all-namespaces"
        )
    return replace(invitation, namespaces=namespaces)


async def put_account(client: Client, invitation: Grant, clock: Clock) -> tuple[str, bytes]:
    """Create or update the objects of a service account, delete its former bindings, and wait for its token.

    Return the token, and the certificate of the cluster's authority. Raises `ApiError`, and `click.ClickException` if
    the cluster issues no token.
    """
    for kind, document in invitation.manifests():
        await _put(client, kind, document)
    await _delete_other_bindings(client, invitation)

    async def look() -> tuple[str, bytes] | None:
        secret = await client.get(SECRET, invitation.secret, invitation.home)
        token = secret.data.get("token")
        return (token.decode(), secret.data.get("ca.crt", b"")) if token else None

    credentials = await wait_for_result(look, clock, TOKEN_SECONDS)
    if credentials is None:
        where = f"Secret {invitation.home}/{invitation.secret}"
        raise click.ClickException(f"the cluster has put no token into {where} within {TOKEN_SECONDS:g} s")
    return credentials


async def _put(client: Client, kind: Kind[Any], document: dict[str, Any]) -> None:
    meta = document["metadata"]
    full = {"apiVersion": kind.api_version, "kind": kind.kind, **document}
    if kind is NAMESPACE:
        with ignoring("AlreadyExists"):
            await client.create(kind.seen_as(dict), full)
        return
    await client.patch(kind.seen_as(dict), meta["name"], full, meta.get("namespace", ""), type=APPLY_PATCH, force=True)


async def _delete_other_bindings(client: Client, invitation: Grant) -> None:
    """Delete the bindings that an earlier grant of the same name had and this grant does not have."""
    current = {(kind.kind, _identify(document["metadata"])) for kind, document in invitation.manifests()}
    kinds: tuple[Kind[Any], ...] = (ROLE_BINDING, CLUSTER_ROLE_BINDING)
    for kind in kinds:
        for binding in (await client.list(kind.seen_as(Object), labels=f"{invitation.label}={invitation.name}")).items:
            meta = binding.metadata
            if (kind.kind, (meta.namespace, meta.name)) not in current:
                with ignoring("NotFound"):
                    await client.delete(kind, meta.name, meta.namespace)


def _identify(meta: dict[str, Any]) -> tuple[str, str]:
    return meta.get("namespace", ""), meta["name"]


async def find_public_address(client: Client, own: ConnectionConfig, server: str = "") -> ClusterConfig:
    """Return the address and the certificate authority with which a manager elsewhere can reach this cluster.

    The address is `server`, or else the one that the cluster publishes, or else the one that this command uses. Raises
    `ApiError`, `KubeconfigError`, and `OSError` if a file of authorities cannot be read.
    """
    published = await _read_published(client)
    cluster = published or ClusterConfig(
        server=own.cluster.server,
        certificate_authority=authority_of(own.cluster),
        tls_server_name=own.cluster.tls_server_name,
    )
    return structs.replace(cluster, server=server.rstrip("/"), tls_server_name="") if server else cluster


async def _read_published(client: Client) -> ClusterConfig | None:
    with ignoring("Forbidden", "NotFound"):
        info = await client.get(CONFIG_MAP, clusterinfo.NAME, clusterinfo.NAMESPACE)
        source = f"ConfigMap {clusterinfo.NAMESPACE}/{clusterinfo.NAME}"
        return parse(info.data.get(clusterinfo.KUBECONFIG, "").encode(), source).only_cluster()
    return None


def authority_of(cluster: ClusterConfig) -> bytes | None:
    """Return the certificates that verify the server's certificate; None for the system's authorities.

    Raises `OSError`.
    """
    if cluster.certificate_authority is None and cluster.certificate_authority_file is not None:
        return cluster.certificate_authority_file.read_bytes()
    return cluster.certificate_authority


def make_connection(
    invitation: Grant, cluster: ClusterConfig, token: str, authority: bytes, namespace: str = "default"
) -> ConnectionConfig:
    """Return the settings with which a manager connects as this account, for a kubeconfig.

    token: the token of the account.
    authority: the certificates that the manager trusts, if `cluster` names none.
    """
    trusted = structs.replace(cluster, certificate_authority=cluster.certificate_authority or authority or None)
    user = UserConfig(token=token)
    return ConnectionConfig(trusted, user, namespace, source="the invitation", context=invitation.name)


def list_remarks(invitation: Invitation, server: str, *, embedded: bool) -> list[str]:
    """Return remarks for the user who gets the kubeconfig.

    embedded: whether the cluster was started by `muster up`.
    """
    names = ", ".join(invitation.namespaces)
    where = f"in namespace {names}" if names else "in every namespace, the system's own too"
    lines = [
        f"With this kubeconfig jobs can be run in this cluster, {where}: keep it as you would keep a key.",
        f"It does not end. To withdraw it: kubectl delete serviceaccount -n {invitation.home} {invitation.name}",
    ]
    return lines + list_address_remarks(server, embedded=embedded)


def list_address_remarks(server: str, *, embedded: bool) -> list[str]:
    """Return a remark if the server's address works on this machine only; otherwise an empty list.

    embedded: whether the cluster was started by `muster up`.
    """
    if not _is_local(server):
        return []
    how = "start with muster up --listen ADDRESS" if embedded else "say by --server URL how they reach this cluster"
    return [f"{server} is reached from this machine only: for others, {how}"]


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
