"""Read queues from any cluster. A cluster may lack queues or the visibility API.

A user may be allowed to see only a part of the objects. The results then omit the rest and never guess it.
"""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from muster.api.core import NODE
from muster.api.groups.coordination import LEASE, Lease
from muster.api.kinds import Kind
from muster.api.kueue import LOCAL_QUEUE, WORKLOAD, Workload
from muster.api.kueue.names import JOB_UID_LABEL
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
from muster.insight.reader.listviews import make_sharer
from muster.runtime.client import Client
from muster.runtime.refusals import Reason, ignoring
from muster.runtime.transport import Request, UnreadableAnswerError

T = TypeVar("T")

# The reasons of errors about objects that are forbidden, not served, or served by a server that does not answer.
UNSEEN: tuple[Reason, ...] = ("Forbidden", "NotFound", "ServiceUnavailable")

NOT_LED = "no engine answers, so nothing that waits starts: does muster controllers, or the manager of Kueue, run?"
# The states that a job leaves only if an engine runs.
_FOR_ENGINE = frozenset(("Queued", "Checking", "Evicting"))


async def list_or_none(
    client: Client, kind: Kind[T], namespace: str = "", *, labels: str = "", fields: str = ""
) -> list[T] | None:
    """Return the objects of a kind, or None if the cluster has no such kind or the user may not list it."""
    with ignoring(*UNSEEN):
        return (await client.list(kind, namespace, labels=labels, fields=fields, transform=make_sharer(kind))).items
    return None


async def get_or_none(client: Client, kind: Kind[T], name: str, namespace: str = "") -> T | None:
    """Return an object, or None if it does not exist or the user may not see it."""
    with ignoring(*UNSEEN):
        return await client.get(kind, name, namespace)
    return None


async def list_or_say(
    client: Client, kind: Kind[T], namespace: str, say: Callable[[str], None], what: str
) -> list[T] | None:
    """Return the objects of a kind as `list_or_none` does.

    say: receives a sentence that `what` is not shown, if the user may not list the objects.
    """
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
    """Return the Workloads of a namespace, or of all namespaces for "", without variants of other Workloads.

    say: receives a sentence if the user may not list Workloads.
    kind: the view of the Workloads to read.
    """
    workloads = await list_or_say(client, kind, namespace, say, "queues") or []
    return [one for one in workloads if not is_variant(one)]


def labels_of(job_uid: str) -> str:
    """Return the label selector for the Workloads of a job."""
    return f"{JOB_UID_LABEL}={job_uid}"


async def is_embedded(client: Client) -> bool:
    """Return whether the cluster is an embedded cluster of Muster."""
    version: Any = msgspec.json.decode((await client.raw(Request("GET", "/version"))).body)
    return SERVER_MARK in str(version.get("gitVersion"))


async def is_led(client: Client, now: datetime) -> bool:
    """Return whether an engine runs in the cluster, as far as this user can see.

    The result is False if the engine does not answer the visibility API and no engine renews the Lease. The Lease
    counts because an engine outside the cluster never answers that API.
    """
    path = f"/apis/{VISIBILITY_GROUP}/{VISIBILITY_VERSIONS[0]}"
    if (await client.transport.request(Request("GET", path))).status != 503:
        return True
    from muster.api.config.types import NAMESPACE, LeaderElection  # imported late because it loads slowly

    lease = await get_or_none(client, LEASE, LeaderElection().resource_name, NAMESPACE)
    return lease is not None and _is_held(lease, now)


def _is_held(lease: Lease, now: datetime) -> bool:
    spec = lease.spec
    lasts = timedelta(seconds=spec.lease_duration_seconds or 0)
    return bool(spec.holder_identity and spec.renew_time and now < spec.renew_time + lasts)


async def say_if_not_led(client: Client, states: Iterable[str], now: datetime, say: Callable[[str], None]) -> None:
    """Warn that no engine answers, if none does and a job is in a state that only an engine can end."""
    if not _FOR_ENGINE.isdisjoint(states) and not await is_led(client, now):
        say(NOT_LED)


async def is_simulated(client: Client) -> bool:
    """Return whether all nodes are simulated. The result is False if the user may not see nodes."""

    async def any_node(labels: str) -> bool:
        return bool((await client.page(NODE, labels=labels, limit=1)).items)

    with ignoring(*UNSEEN):
        return not await any_node(f"{NODE_KIND_LABEL}!={SIMULATED}") and await any_node(
            f"{NODE_KIND_LABEL}={SIMULATED}"
        )
    return False


class Visibility(msgspec.Struct):
    """The visibility API of a cluster. The first request finds the version that the cluster serves."""

    client: Client
    _versions: list[str] = msgspec.field(default_factory=lambda: list(VISIBILITY_VERSIONS))

    async def local(
        self, namespace: str, queue: str, limit: int = MAX_PENDING_LIMIT, offset: int = 0
    ) -> list[PendingWorkload] | None:
        """Return the pending workloads of a LocalQueue in order, or None if the server does not serve them."""
        return await self._ask(f"namespaces/{namespace}/{LOCAL_QUEUE.plural}/{queue}", limit, offset)

    async def cluster(
        self, queue: str, limit: int = MAX_PENDING_LIMIT, offset: int = 0
    ) -> list[PendingWorkload] | None:
        """Return the pending workloads of a ClusterQueue in order, or None if the server does not serve them."""
        return await self._ask(f"clusterqueues/{queue}", limit, offset)

    async def positions(self, queues: set[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the positions, from 1, of all workloads that wait in LocalQueues, by their namespace and name.

        queues: the namespace and name of each LocalQueue.
        """
        position_by_key = {}
        for namespace, queue in sorted(queues):
            for one in await self.local(namespace, queue) or ():
                position_by_key[namespace, one.metadata.name] = one.position_in_cluster_queue + 1
        return position_by_key

    async def _ask(self, path: str, limit: int, offset: int) -> list[PendingWorkload] | None:
        query = {"limit": str(limit)} | ({"offset": str(offset)} if offset else {})
        for version in tuple(self._versions):
            url = f"/apis/{VISIBILITY_GROUP}/{version}/{path}/pendingworkloads"
            with ignoring(*UNSEEN):
                answer = await self.client.raw(Request("GET", url, query))
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
