"""Read how much quota the waiting jobs of a list lack now."""

from collections.abc import Mapping, Sequence
from typing import Any

from muster.api.kueue import CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, RESOURCE_FLAVOR
from muster.insight.quota.lack import has_lack
from muster.insight.quota.missing import QuotaRoom
from muster.insight.quota.state import index_by_owner, is_owned_by
from muster.insight.reader.listing.access import list_or_none
from muster.insight.reader.listing.memo import Memo
from muster.insight.reader.listing.views import NODE_LINES, WORKLOAD_LINES
from muster.queueing.quota.division import is_member
from muster.runtime.client import Client

Row = Mapping[str, Any]


async def read_quota_room(client: Client, memo: Memo) -> QuotaRoom | None:
    """Return the quota that ClusterQueues can still use; None if the user may not see the ClusterQueues.

    memo: results of earlier calls about the cluster.
    """
    queues = await list_or_none(client, CLUSTER_QUEUE)
    if queues is None:
        return None
    cohorts = await list_or_none(client, COHORT) or []
    flavors, nodes = [], None
    if any(map(is_member, queues)):  # the quota of one follows the nodes, or is a part of such a quota
        flavors, nodes = await list_or_none(client, RESOURCE_FLAVOR) or [], await list_or_none(client, NODE_LINES)
    inputs = nodes is None, *queues, *cohorts, *flavors, *(nodes or ())
    return memo.recall("quota room", "", inputs, lambda: QuotaRoom(queues, cohorts, flavors, nodes))


async def update_missing(client: Client, rows: Sequence[Row], namespace: str, memo: Memo) -> list[Row]:
    """Return rows of `job_rows` with the amounts of quota that are missing now.

    If the user may not see the ClusterQueues, the rows have the amounts at the time when the queue last considered each
    job.

    namespace: the namespace whose Workloads are read; "" for all.
    memo: results of earlier calls about the cluster.
    """
    lacking = {row["uid"] for row in rows if has_lack(row["reason"])}
    room = await read_quota_room(client, memo) if lacking else None
    if room is None:
        return [*rows]
    local_queues = await list_or_none(client, LOCAL_QUEUE, namespace) or ()
    targets = {(one.metadata.namespace, one.metadata.name): one.spec.cluster_queue for one in local_queues}
    listed = await list_or_none(client, WORKLOAD_LINES, namespace) or ()
    workloads = [one for one in listed if one.metadata.uid in lacking or is_owned_by(one, lacking)]
    by_uid = {one.metadata.uid: one for one in workloads} | index_by_owner(workloads)

    def update(row: Row) -> Row:
        workload = by_uid.get(row["uid"]) if row["uid"] in lacking else None
        if workload is None:
            return row
        queue = targets.get((workload.metadata.namespace, workload.spec.queue_name), "")
        return {**row, "reason": room.update(row["reason"], workload, queue)}

    return [update(row) for row in rows]
