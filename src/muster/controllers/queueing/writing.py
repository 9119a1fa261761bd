"""What the controllers of queues write: a status if it is another one, and the finalizer of what is in use.

Each write holds only for the object as it was seen; a conflict is for the controller to try again. An object that is
gone needs nothing.
"""

from typing import Any, TypeVar

import msgspec

from muster.api.kinds import Kind
from muster.api.kueue.names import RESOURCE_IN_USE_FINALIZER
from muster.runtime.client import Client
from muster.runtime.objects import merge_patch, meta_of
from muster.runtime.queue import WorkQueue
from muster.runtime.refusals import ignoring

T = TypeVar("T")

# At most one write about an object in this time: everything that happens meanwhile goes into it. The more objects
# change, the longer: the statuses of a thousand busy queues must not take the server from those who wait in them.
GATHER_SECONDS = 0.5
GATHER_SECONDS_PER_OBJECT = 0.01


def look_soon(queue: WorkQueue, key: str) -> None:
    """Look at an object once everything that happens now has happened."""
    queue.add_after(key, GATHER_SECONDS + queue.delayed * GATHER_SECONDS_PER_OBJECT)


async def set_status(client: Client, kind: Kind[T], obj: T, old: msgspec.Struct, new: msgspec.Struct) -> None:
    """Store the object's new status in place of the old one, if they differ."""
    if new != old:
        await _patch(client, kind, obj, {"status": merge_patch(new, old)}, subresource="status")


async def keep_held(client: Client, kind: Kind[T], obj: T, *, in_use: bool) -> bool:
    """Hold the object while it is in use or not deleted. Returns whether that was to be written."""
    meta = meta_of(obj)
    wanted = meta.deletion_timestamp is None or (in_use and _is_held(obj))
    if _is_held(obj) == wanted:
        return False
    others = [name for name in meta.finalizers if name != RESOURCE_IN_USE_FINALIZER]
    finalizers = [*others, RESOURCE_IN_USE_FINALIZER] if wanted else others
    await _patch(client, kind, obj, {"metadata": {"finalizers": finalizers}})
    return True


def _is_held(obj: Any) -> bool:
    """Whether the object cannot go because it may be in use."""
    return RESOURCE_IN_USE_FINALIZER in meta_of(obj).finalizers


async def _patch(client: Client, kind: Kind[T], obj: T, patch: dict[str, Any], subresource: str = "") -> None:
    with ignoring("NotFound"):
        await client.patch_object(kind, obj, patch, subresource=subresource)
