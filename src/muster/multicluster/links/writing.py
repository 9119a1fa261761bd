"""Write the condition Active of worker clusters and checks."""

from datetime import datetime
from typing import TypeVar

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue import AdmissionCheck, MultiKueueCluster
from muster.api.kueue.names import ACTIVE
from muster.queueing.conditions import put, stamp_generation
from muster.queueing.pending.activity import Activity
from muster.runtime.client import Client
from muster.runtime.refusals import ignoring

T = TypeVar("T", AdmissionCheck, MultiKueueCluster)


async def write_active(client: Client, kind: Kind[T], obj: T, activity: Activity, now: datetime) -> None:
    """Write the condition `Active` if it differs; ignore a deleted object. Raises `ApiError` (Conflict)."""
    before = obj.status.conditions
    after = put(before, ACTIVE, activity.active, activity.reason, activity.message, now)
    if after == before:
        return
    conditions = msgspec.to_builtins(stamp_generation(before, after, obj.metadata.generation))
    with ignoring("NotFound"):
        await client.patch_object(kind, obj, {"status": {"conditions": conditions}}, subresource="status")
