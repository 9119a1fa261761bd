"""Write the common parts of the queues' controllers: a changed status, and the finalizer of objects in use.

Each write is made only if the object has the version that was read; on a conflict the controller retries. Writes to a
deleted object are ignored.
"""

from typing import Any, TypeVar

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue.names import RESOURCE_IN_USE_FINALIZER
from muster.runtime.client import Client
from muster.runtime.control.queue import WorkQueue
from muster.runtime.objects import merge_patch, meta_of
from muster.runtime.refusals import ignoring

T = TypeVar("T")

# One write covers all changes of an object within this time. It grows with the number of changing objects, so that the
# statuses of a thousand busy queues do not slow the writes for waiting workloads.
GATHER_SECONDS = 0.5
GATHER_SECONDS_PER_OBJECT = 0.01


def queue_after_burst(queue: WorkQueue, key: str) -> None:
    """Queue an object for reconciliation after the current burst of changes."""
    queue.add_after(key, GATHER_SECONDS + queue.delayed * GATHER_SECONDS_PER_OBJECT)


async def set_status(client: Client, kind: Kind[T], obj: T, old: msgspec.Struct, new: msgspec.Struct) -> None:
    """Write the object's new status if it differs from the old one."""
    if new != old:
        await _patch(client, kind, obj, {"status": merge_patch(new, old)}, subresource="status")


async def maintain_finalizer(client: Client, kind: Kind[T], obj: T, *, in_use: bool) -> bool:
    """Add the in-use finalizer, or remove it when the object is deleted and unused; return whether it wrote."""
    meta = meta_of(obj)
    needs_hold = meta.deletion_timestamp is None or (in_use and _is_held(obj))
    if _is_held(obj) == needs_hold:
        return False
    others = [name for name in meta.finalizers if name != RESOURCE_IN_USE_FINALIZER]
    finalizers = [*others, RESOURCE_IN_USE_FINALIZER] if needs_hold else others
    await _patch(client, kind, obj, {"metadata": {"finalizers": finalizers}})
    return True


def _is_held(obj: Any) -> bool:
    """Return whether the finalizer keeps the object from being deleted."""
    return RESOURCE_IN_USE_FINALIZER in meta_of(obj).finalizers


async def _patch(client: Client, kind: Kind[T], obj: T, patch: dict[str, Any], subresource: str = "") -> None:
    with ignoring("NotFound"):
        await client.patch_object(kind, obj, patch, subresource=subresource)
