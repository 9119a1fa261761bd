"""Read one queue: the workloads that wait in it, in order, and the workloads that hold its quota."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from muster.api.kueue import ClusterQueue, Workload
from muster.api.kueue.visibility import PendingWorkload
from muster.api.meta import ObjectMeta
from muster.api.values.quantity import parse_amount
from muster.gang.arrays import is_numpy_installed
from muster.insight.history.build import owner_of
from muster.insight.quota.queues import explain_closed
from muster.insight.quota.state import QuotaState, display_name, find_quota_state
from muster.insight.reader.forecasts.waiting import ADMITTED_BY, snapshot_of
from muster.insight.reader.listing.lists import Lists
from muster.insight.reader.visibility import Visibility
from muster.queueing.scheduling.estimate import Certainty, StartEstimate
from muster.runtime.client import Client
from muster.runtime.objects import key_of

# A forecast for more workloads than this is made in a thread, so that the event loop continues.
_MOST_ON_EVENT_LOOP = 300

Name = tuple[str, str]
"""A namespace and a name."""


class QueueName(Struct, frozen=True):
    """The name of a LocalQueue, or, if the namespace is "", of a ClusterQueue."""

    namespace: str
    name: str

    def holds(self, workload: Workload) -> bool:
        """Return whether a workload holds quota that it got through this queue."""
        admission = workload.status.admission
        if not self.namespace:
            return admission is not None and admission.cluster_queue == self.name
        return (workload.metadata.namespace, workload.spec.queue_name) == (self.namespace, self.name)


class PendingRow(Struct, frozen=True):
    """A workload that waits.

    position: its position, from 1, among all workloads that wait for the ClusterQueue; None if the server does not
    serve positions.
    workload: the name of the Workload; `name` is the name of its job.
    reason: why it waits, by the queue's message.
    """

    namespace: str
    name: str
    workload: str
    uid: str
    queue: str
    position: int | None
    priority: int
    owner: str
    since: datetime | None
    reason: str

    @property
    def key(self) -> str:
        """The key of the row's Workload, `namespace/name`."""
        return f"{self.namespace}/{self.workload}"


class HolderRow(Struct, frozen=True):
    """A workload that holds quota.

    state: its state, as `muster ps` shows it.
    usage: the amounts by resource, in units of `parse_amount`.
    """

    namespace: str
    name: str
    uid: str
    queue: str
    priority: int
    owner: str
    since: datetime | None
    state: str
    usage: Mapping[str, int]


async def read_pending(
    client: Client, queue: QueueName, behind: ClusterQueue | None, workloads: Sequence[Workload], first: int, most: int
) -> tuple[list[PendingRow], bool]:
    """Return some of the workloads that wait in a queue, in order, and whether the server serves that order.

    If it does not, the workloads are ordered by priority and age.

    behind: the ClusterQueue of a LocalQueue, or the queue itself; None if the user may not see it.
    workloads: the Workloads that the user may see.
    first: how many to skip.
    most: the maximum number to return.
    """
    served = Visibility(client)
    if queue.namespace:
        pending = await served.list_of_local_queue(queue.namespace, queue.name, most, first)
    else:
        pending = await served.list_of_cluster_queue(queue.name, most, first)
    queues = {behind.metadata.name: behind} if behind is not None else {}
    if pending is None:
        return _order_pending(queue, queues, workloads)[first : first + most], False
    by_name = {(one.metadata.namespace, one.metadata.name): one for one in workloads}
    return [_make_pending(one, by_name, queues) for one in pending], True


def _make_pending(
    pending: PendingWorkload, by_name: Mapping[Name, Workload], queues: Mapping[str, ClusterQueue]
) -> PendingRow:
    meta, position = pending.metadata, pending.position_in_cluster_queue + 1
    workload = by_name.get((meta.namespace, meta.name))
    if workload is None:  # the user may not see it, or it is too new
        since = meta.creation_timestamp
        return _make_row(meta, pending.local_queue_name, position, pending.priority, "", since, "")
    state = find_quota_state(workload, position)
    return _make_pending_of(workload, state, queues)


def _make_pending_of(workload: Workload, state: QuotaState, queues: Mapping[str, ClusterQueue]) -> PendingRow:
    owner, reason = owner_of(workload.metadata), explain_closed(state.reason, queues)
    return _make_row(workload.metadata, state.queue, state.position, state.priority, owner, state.since, reason)


def _make_row(
    meta: ObjectMeta, queue: str, position: int | None, priority: int, owner: str, since: datetime | None, reason: str
) -> PendingRow:
    name = display_name(meta, meta.namespace)
    return PendingRow(meta.namespace, name, meta.name, meta.uid, queue, position, priority, owner, since, reason)


def _order_pending(
    queue: QueueName, queues: Mapping[str, ClusterQueue], workloads: Iterable[Workload]
) -> list[PendingRow]:
    """Return the workloads that wait in a LocalQueue, by priority and age.

    Return none for a ClusterQueue, because a user may not see all workloads that wait for it.
    """
    waiting = [
        (one, state)
        for one in workloads
        if queue.namespace and queue.holds(one) and (state := find_quota_state(one)).waits
    ]
    waiting.sort(key=lambda item: (-item[1].priority, str(item[0].metadata.creation_timestamp), item[0].metadata.name))
    return [_make_pending_of(one, state, queues) for one, state in waiting]


def list_holders(queue: QueueName, workloads: Iterable[Workload]) -> list[HolderRow]:
    """Return a row for each unfinished workload that holds quota of a queue, the newest first.

    Raises `QuantityError` for an invalid amount.
    """
    rows = []
    for workload in workloads:
        admission = workload.status.admission
        if admission is None or not queue.holds(workload) or (state := find_quota_state(workload)).finished:
            continue
        usage: dict[str, int] = {}
        for podset in admission.pod_set_assignments:
            for resource, used in podset.resource_usage.items():
                usage[resource] = usage.get(resource, 0) + parse_amount(resource, used)
        meta = workload.metadata
        rows.append(
            HolderRow(
                meta.namespace,
                display_name(meta, meta.namespace),
                meta.uid,
                state.queue,
                state.priority,
                owner_of(meta),
                state.since,
                state.word,
                usage,
            )
        )
    return sorted(rows, key=lambda row: (str(row.since), row.namespace, row.name), reverse=True)


async def forecast_starts(
    client: Client, cluster_queue: str, namespace: str, keys: Sequence[str], now: datetime
) -> dict[str, StartEstimate]:
    """Return, by key, when workloads that wait for a ClusterQueue will start, or why no estimate is possible.

    Workloads that do not exist are left out. The result is {} without the ClusterQueue, or if a forecast in a topology
    needs numpy, which is not installed.

    namespace: where to read LimitRanges if the user may not list them in all namespaces.
    """
    from muster.insight.forecasts.forecast import Outlook  # importing it is slow

    lists = Lists(client)
    added_requests = await lists.completion(namespace)
    snapshot = await snapshot_of(lists, added_requests)
    if snapshot is None:
        return dict.fromkeys(keys, StartEstimate(None, Certainty.NONE, lists.describe_lacking(*ADMITTED_BY)))
    if snapshot.topologies and not is_numpy_installed():
        return {}

    def estimate() -> dict[str, StartEstimate]:
        outlook = Outlook(snapshot, cluster_queue, namespace, now)
        known = {key_of(one) for one in snapshot.workloads}
        return outlook.estimate_all([key for key in keys if key in known]) if outlook.exists else {}

    if len(list(snapshot.workloads)) > _MOST_ON_EVENT_LOOP:
        return await asyncio.to_thread(estimate)
    return estimate()
