"""Reads what there is to know of queues from any cluster: one without queues, or without the visibility API, has none.

Users may be allowed to see less than all; what they may not see is left out, never made up.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from muster.api.core import NODE
from muster.api.groups.coordination import LEASE, Lease
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.kueue.visibility import (
    MAX_PENDING_LIMIT,
    VISIBILITY_GROUP,
    VISIBILITY_VERSIONS,
    PendingWorkload,
    PendingWorkloadsSummary,
)
from muster.api.managed.variants import is_variant
from muster.api.ours.embedded import NODE_KIND_LABEL, SERVER_MARK, SIMULATED
from muster.api.status import ApiError
from muster.runtime.client import Client
from muster.runtime.refusals import Reason, ignoring
from muster.runtime.transport import Request, UnreadableAnswerError

T = TypeVar("T")

# Forbidden, not served, and served by a server that is away.
UNSEEN: tuple[Reason, ...] = ("Forbidden", "NotFound", "ServiceUnavailable")

NOT_LED = "no engine answers, so nothing that waits starts: does muster controllers, or the manager of Kueue, run?"
# What a job does not leave without one.
_FOR_ENGINE = frozenset(("Queued", "Checking", "Evicting"))


async def list_or_none(
    client: Client, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = ""
) -> list[T] | None:
    """The objects; None if the cluster has no such kind, or the user may not list it."""
    with ignoring(*UNSEEN):
        return (await client.list(kind, namespace, labels=labels, fields=fields)).items
    return None


async def get_or_none(client: Client, kind: Kind[T], name: str, namespace: str = "") -> T | None:
    """The object; None if there is none, or the user may not see it."""
    with ignoring(*UNSEEN):
        return await client.get(kind, name, namespace)
    return None


async def list_or_say(
    client: Client, kind: Kind[T], namespace: str, say: Callable[[str], None], what: str
) -> list[T] | None:
    """As `list_or_none`; that the user may not list them is said, and `what` is not shown for that."""
    try:
        return (await client.list(kind, namespace)).items
    except ApiError as error:
        if error.code == 403:
            say(f"{what} are not shown: {error}")
        elif error.reason not in UNSEEN:
            raise
        return None


async def workloads_of(
    client: Client, namespace: str, say: Callable[[str], None], kind: Kind[Workload] = WORKLOAD
) -> list[Workload]:
    """The Workloads of a namespace, "" for all, without variants of others; what may not be seen is said.

    kind: how they are seen.
    """
    found = await list_or_say(client, kind, namespace, say, "queues") or []
    return [one for one in found if not is_variant(one)]


async def is_embedded(client: Client) -> bool:
    """Whether the cluster is one of ours, on one machine."""
    version: Any = msgspec.json.decode((await client.raw(Request("GET", "/version"))).body)
    return SERVER_MARK in str(version.get("gitVersion"))


async def is_led(client: Client, now: datetime) -> bool:
    """Whether an engine keeps the queues, as far as this user can see.

    False where the cluster is told to ask one who waits, none answers, and none is seen to renew the Lease: what runs
    outside the cluster answers nobody.
    """
    path = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSIONS[0]}"
    if (await client.transport.request(Request("GET", path))).status != 503:
        return True
    from muster.api.config.types import NAMESPACE, LeaderElection  # they take a while to load

    lease = await get_or_none(client, LEASE, LeaderElection().resource_name, NAMESPACE)
    return lease is not None and _is_held(lease, now)


def _is_held(lease: Lease, now: datetime) -> bool:
    spec = lease.spec
    lasts = timedelta(seconds=spec.lease_duration_seconds or 0)
    return bool(spec.holder_identity and spec.renew_time and now < spec.renew_time + lasts)


async def say_if_not_led(client: Client, states: Iterable[str], now: datetime, say: Callable[[str], None]) -> None:
    """Say that no engine answers if so it is, and one of these states of jobs is for an engine to end."""
    if not _FOR_ENGINE.isdisjoint(states) and not await is_led(client, now):
        say(NOT_LED)


async def is_simulated(client: Client) -> bool:
    """Whether all nodes only play that they run pods; False where nodes may not be seen."""

    async def any_node(labels: str) -> bool:
        return bool((await client.page(NODE, labels=labels, limit=1)).items)

    with ignoring(*UNSEEN):
        return not await any_node(f"{NODE_KIND_LABEL}!={SIMULATED}") and await any_node(
            f"{NODE_KIND_LABEL}={SIMULATED}"
        )
    return False


@dataclass(slots=True)
class Visibility:
    """The visibility API of a cluster. Which version it serves is found out by the first question."""

    client: Client
    _versions: list[str] = field(default_factory=lambda: list(VISIBILITY_VERSIONS))

    async def local(self, namespace: str, queue: str, limit: int = MAX_PENDING_LIMIT) -> list[PendingWorkload] | None:
        """Who waits in a LocalQueue, in order; None if the server does not tell."""
        return await self._ask(f"namespaces/{namespace}/{LOCAL_QUEUE.plural}/{queue}", limit)

    async def cluster(self, queue: str, limit: int = MAX_PENDING_LIMIT) -> list[PendingWorkload] | None:
        """Who waits in a ClusterQueue, in order; None if the server does not tell."""
        return await self._ask(f"clusterqueues/{queue}", limit)

    async def positions(self, queues: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """From 1, by namespace and name of the Workload, for those who wait in LocalQueues (namespace and name)."""
        found = {}
        for namespace, queue in sorted(queues):
            for one in await self.local(namespace, queue) or ():
                found[namespace, one.metadata.name] = one.position_in_cluster_queue + 1
        return found

    async def _ask(self, path: str, limit: int) -> list[PendingWorkload] | None:
        for version in tuple(self._versions):
            url = f"/apis/{VISIBILITY_GROUP}/{version}/{path}/pendingworkloads"
            with ignoring(*UNSEEN):
                answer = await self.client.raw(Request("GET", url, {"limit": str(limit)}))
                self._versions = [version]
                return list(_decode(answer.body).items)
        return None


def _decode(body: bytes) -> PendingWorkloadsSummary:
    try:
        document: dict[str, Any] = msgspec.json.decode(body)
        items = document.get("items") or []  # Go writes an empty list as null
        return msgspec.convert({"items": items}, PendingWorkloadsSummary)
    except (msgspec.DecodeError, AttributeError) as error:
        raise UnreadableAnswerError(f"the list of pending workloads is not as we know it: {error}") from error
