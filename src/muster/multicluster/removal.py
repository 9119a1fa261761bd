"""Remove a workload's objects from a worker cluster.

The caller passes only objects with the manager's origin label. Objects that are not in the cache yet are removed later.
"""

from collections.abc import Sequence
from typing import Any

from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.multicluster.errands import await_all_steps
from muster.multicluster.mirrors.table import mirror_of
from muster.runtime.client import Client
from muster.runtime.objects import meta_of
from muster.runtime.refusals import ignoring


async def remove(client: Client, jobs: Sequence[tuple[Kind[Any], Any]], clone: Workload | None) -> bool:
    """Delete the copies of a workload's jobs in a worker. If no copy is left, delete the clone and return True.

    The clone holds the quota until the pods of the copies have finished. Raises `ApiError`, `TransportError`.
    """
    remaining = [(kind, job) for kind, job in jobs if not _is_spent(kind, job)]
    await await_all_steps(remove_job(client, kind, job) for kind, job in remaining)
    if not remaining and clone is not None:
        await remove_clone(client, clone)
    return not remaining


async def remove_job(client: Client, kind: Kind[Any], job: Any) -> None:
    """Delete exactly this job (by UID), its pods first."""
    meta = meta_of(job)
    if meta.deletion_timestamp is None:
        with ignoring("NotFound", "Conflict"):
            await client.delete(kind, meta.name, meta.namespace, propagation="Foreground", uid=meta.uid)


async def remove_clone(client: Client, clone: Workload) -> None:
    """Delete a clone and its finalizer. Kueue sets the finalizer, and may no longer be installed to remove it."""
    with ignoring("NotFound"):
        if clone.metadata.finalizers:
            clone = await client.patch_object(WORKLOAD, clone, {"metadata": {"finalizers": None}}, lock=False)
        await client.delete_object(WORKLOAD, clone)


def _is_spent(kind: Kind[Any], job: Any) -> bool:
    mirror = mirror_of(kind.api_version, kind.kind)
    return mirror is not None and mirror.is_spent(job)
