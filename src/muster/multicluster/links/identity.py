"""Identify a worker cluster, so that a manager notices when another cluster responds under its name.

A cluster is identified by the UID of its namespace `kube-system`. If the manager may not read that, the cluster is
identified by its address and trusted authority. The identity is stored with the MultiKueueCluster before the worker is
used. While workloads have their home in a worker, another cluster under its name is refused, because the absence of
jobs there proves nothing. The workloads leave their home as they leave any lost cluster.
"""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from muster.api.core import NAMESPACE
from muster.api.kueue import MULTI_KUEUE_CLUSTER, WORKLOAD
from muster.api.managed.dispatch import home_of
from muster.api.meta import Object
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.objects import key_of

if TYPE_CHECKING:  # the module that reads kubeconfigs loads slowly, and most clusters have no worker
    from muster.runtime.kube.kubeconfig import ClusterConfig

IDENTITY_ANNOTATION: Final = "muster.dev/multikueue-identity"
# This namespace exists in every cluster and cannot be recreated.
NAMED_BY: Final = "kube-system"
# The maximum length of a UID; a UID has 36 characters, but a worker may send anything.
_MOST_CHARACTERS = 64


class Identity(Struct, frozen=True):
    """The identity of a cluster.

    uid: "" if the cluster does not show its UID.
    endpoint: the digest of its address.
    """

    uid: str
    endpoint: str

    @property
    def text(self) -> str:
        """The identity in its stored form."""
        return f"{self.uid}@{self.endpoint}"

    def is_same(self, other: "Identity") -> bool | None:
        """Return whether both identify one cluster; None if that cannot be known."""
        if self.uid and other.uid:
            return self.uid == other.uid
        return True if self.endpoint == other.endpoint else None


def identity_in(text: str) -> Identity | None:
    """Return a stored identity; None if the text is invalid."""
    uid, _, endpoint = text.rpartition("@")
    return Identity(uid, endpoint) if endpoint else None


def endpoint_of(cluster: "ClusterConfig") -> str:
    """Return a digest that is equal if the address and its trusted authority are equal."""
    fields = (cluster.server.encode(), cluster.tls_server_name.encode(), cluster.certificate_authority or b"")
    return hashlib.sha256(b"\0".join(fields)).hexdigest()[:16]


async def uid_of(client: Client) -> str:
    """Return the UID of the cluster; "" if the cluster does not show it. Raises `ApiError`, `TransportError`."""
    try:
        namespace = await client.get(NAMESPACE.seen_as(Object), NAMED_BY)
    except ApiError as error:
        if error.code in (403, 404):
            return ""
        raise
    return "".join(c for c in namespace.metadata.uid[:_MOST_CHARACTERS] if c.isascii() and (c.isalnum() or c == "-"))


class Register:
    """The stored identities of a manager's workers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def admit(self, name: str, identity: Identity, has_job_of: Callable[[str], bool]) -> str:
        """Store the identity of a worker and return ""; if the worker cannot be used now, return why.

        has_job_of: returns whether the worker has a job of a workload, by key; only the workload's home creates its
        job.

        Raises `ApiError`, `TransportError`.
        """
        cluster = await self._client.get(MULTI_KUEUE_CLUSTER.seen_as(Object), name)
        text = cluster.metadata.annotations.get(IDENTITY_ANNOTATION, "")
        before = identity_in(text)
        same = before.is_same(identity) if before is not None else None
        if not same and (homes := await self._list_workloads_at_home(name)):
            if same is False or not any(map(has_job_of, homes)):
                return _describe_replacement(before, identity, len(homes))
            same = True
        if same and before is not None:
            identity = replace(identity, uid=identity.uid or before.uid)
        if identity.text != text:
            patch = {"metadata": {"annotations": {IDENTITY_ANNOTATION: identity.text}}}
            await self._client.patch_object(MULTI_KUEUE_CLUSTER.seen_as(Object), cluster, patch, lock=False)
        return ""

    async def _list_workloads_at_home(self, name: str) -> list[str]:
        """Return the keys of the workloads whose home is this cluster.

        Ask the manager's server, because the cache may be stale.
        """
        workloads = (await self._client.list(WORKLOAD.seen_as(Object))).items
        return [key_of(workload) for workload in workloads if home_of(workload.metadata) == name]


def _describe_replacement(before: Identity | None, identity: Identity, homes: int) -> str:
    if before is None:
        what = "perhaps another cluster had this name before"
    elif before.uid and identity.uid:
        what = f"another cluster answers, or its store was wiped ({NAMED_BY} is {identity.uid}, and was {before.uid})"
    else:
        what = f"perhaps another cluster answers (nothing is known by its namespace {NAMED_BY})"
    count = f"{homes} workload{'s' if homes != 1 else ''}"
    return f"{what}: {count} sent to the one before it count as lost, and go elsewhere after workerLostTimeout"
