"""Send the requests to a worker cluster, and to the manager's server, for one workload. Stateless.

Safety does not depend on caches: before a job is created, and before a home is given up, the servers themselves are
read. Each step may be interrupted or repeated. Objects without the manager's origin label are never changed.
"""

import asyncio
from collections.abc import Awaitable
from itertools import chain
from typing import Any

from msgspec import Struct

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import (
    DEACTIVATION_TARGET,
    EVICTED,
    EVICTED_ON_MANAGER_CLUSTER,
    FINISHED,
    MULTI_KUEUE_ORIGIN_LABEL,
    PREBUILT_WORKLOAD_NAME_LABEL,
    QUOTA_RESERVED,
)
from muster.api.managed.dispatch import home_of
from muster.api.managed.jobs import prebuilt_name
from muster.api.status import ApiError
from muster.api.validation import names
from muster.jobs.podgroup.reference import GroupReference
from muster.multicluster import companions
from muster.multicluster.dispatch.clone import is_ours, make_clone, make_priority_patch, make_resize_patch
from muster.multicluster.dispatch.views import Remote
from muster.multicluster.dispatched import Copies, Dispatched, is_group
from muster.multicluster.links.connection import RemoteCluster
from muster.multicluster.links.sanitizing import add_time_zone
from muster.multicluster.removal import remove
from muster.queueing.conditions import put
from muster.queueing.elastic.growth import list_granted_podsets
from muster.runtime.client import Client
from muster.runtime.clock import Clock
from muster.runtime.objects import meta_of
from muster.runtime.refusals import is_refusal


class BarredError(Exception):
    """A foreign object with the name of the Workload, job or PodGroup that this manager would create."""


class Worker(Struct, frozen=True):
    """The sender of requests to one worker cluster.

    there: the connection to the worker cluster, with its client and its cache.
    here: the client of the manager's own server.
    origin: the name of the manager, as its label on the clones has it.
    """

    there: RemoteCluster
    here: Client
    clock: Clock
    origin: str

    async def create(self, dispatched: Dispatched) -> bool:
        """Create a clone, which may compete for quota. Return whether this call created it. Raises `BarredError`."""
        meta, kind = dispatched.workload.metadata, WORKLOAD.seen_as(dict)
        stored = (
            await self.here.get(kind, meta.name, meta.namespace) if dispatched.document is None else dispatched.document
        )
        try:
            await self.there.client.create(kind, make_clone(stored, self.origin), meta.namespace)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            if await self._read_clone(dispatched) is None:
                raise BarredError from None
            return False
        return True

    async def promote(self, workload: Workload, clone: Workload) -> Workload:
        """Give the clone the workload's priority; return the clone as now stored."""
        edits = make_priority_patch(workload.spec, clone.spec)
        return await self.there.client.edit_object(WORKLOAD, clone, edits) if edits else clone

    async def resize(self, workload: Workload, clone: Workload, *, dry_run: bool = False) -> None:
        """Give the clone the size for which the workload has quota. dry_run: the server only checks the change."""
        if edits := make_resize_patch(workload, clone):
            await self.there.client.edit_object(WORKLOAD, clone, edits, dry_run=dry_run)

    async def evict(self, clone: Workload) -> None:
        """Make the worker's Kueue evict the clone: set its `DeactivationTarget` condition, as Kueue's manager would."""
        reason, message = EVICTED_ON_MANAGER_CLUSTER, "Evicted on manager cluster"
        conditions = put(clone.status.conditions, DEACTIVATION_TARGET, True, reason, message, self.clock.now())
        patch = {"status": {"conditions": conditions}}
        await self.there.client.patch_object(WORKLOAD, clone, patch, subresource="status")

    def list_copies(self, dispatched: Dispatched) -> Copies:
        """Return the workload's jobs in the worker, from the cache."""
        job_by_kind_and_name = {(kind, meta_of(job).name): job for kind, job in self.there.jobs_of(dispatched.key)}
        if dispatched.mirror is not None:
            kind = dispatched.mirror.kind
            named = ((name, self.there.job(kind, f"{dispatched.namespace}/{name}")) for name in dispatched.job_names)
            job_by_kind_and_name |= {(kind, name): job for name, job in named if job is not None}
        return dispatched.split((kind, job) for (kind, _), job in job_by_kind_and_name.items())

    async def remove(self, dispatched: Dispatched) -> bool:
        """Remove the workload's cached objects from the worker; return whether all are deleted.

        The cache may be behind. So a caller that gives up the workload's home cluster first reads that cluster's server
        (`read_remote`).
        """
        copies = self.list_copies(dispatched)
        own = [(dispatched.mirror.kind, job) for job in copies.own.values()] if dispatched.mirror is not None else []
        return await remove(self.there.client, [*own, *copies.strays], self.there.workload(dispatched.key))

    async def read_remote(self, dispatched: Dispatched) -> Remote:
        """Return the workload's state in this cluster, read from the cluster's server instead of the cache."""
        return Remote(
            self.there.name,
            workload=await self._read_clone(dispatched),
            job=dispatched.summarize(await self._read_jobs(dispatched)),
        )

    async def accompany(self, dispatched: Dispatched, group: GroupReference) -> None:
        """Create the PodGroup that the pods name, before the pods.

        Raises `BarredError`, and `ApiError` if none exists in the manager's cluster.
        """
        clone = await self._read_clone(dispatched)
        if clone is None:
            return  # no pod starts there
        meta = clone.metadata
        owner = WORKLOAD.refer_to_owner(meta)
        try:
            await companions.bring_pod_group(
                self.here, self.there.client, group, dispatched.namespace, self.origin, owner
            )
        except companions.StrangerError:
            raise BarredError from None

    async def start(self, dispatched: Dispatched, job: Any) -> bool:
        """Create the job in the worker, if the manager's server confirms that the worker is its home.

        Return whether this call created it. Raises `BarredError`.
        """
        mirror, meta, name = dispatched.mirror, dispatched.workload.metadata, meta_of(job).name
        assert mirror is not None
        now = await self.here.get(WORKLOAD, meta.name, meta.namespace)
        if now.metadata.uid != meta.uid or not _may_start(now, self.there.name):
            return False
        kind = mirror.kind.seen_as(dict)
        document = await self.here.get(kind, name, dispatched.namespace)
        if meta_of(document).uid != meta_of(job).uid:
            return False
        copy = mirror.copy(document, meta.name, self.origin, list_granted_podsets(now))
        try:
            await self.there.client.create(kind, copy, dispatched.namespace)
        except ApiError as error:
            if not is_refusal(error, "AlreadyExists"):
                raise
            if await self.find_copy(dispatched, name) is None:
                raise BarredError from None
            return False
        return True

    async def is_barred(self, dispatched: Dispatched) -> bool:
        """Return whether a foreign object has the name that an object of this manager would have."""
        finds: list[Awaitable[Any]] = [
            self.there.client.find(WORKLOAD, dispatched.workload.metadata.name, dispatched.namespace)
        ]
        if dispatched.mirror is not None:
            finds += (
                self.there.client.find(dispatched.mirror.kind, name, dispatched.namespace)
                for name in dispatched.job_names
            )
        if any(existing is not None and not self._is_ours(existing) for existing in await asyncio.gather(*finds)):
            return True
        groups = dispatched.groups(dispatched.jobs)
        looks = (companions.is_barred(self.there.client, group, dispatched.namespace, self.origin) for group in groups)
        return any(await asyncio.gather(*looks))

    async def _read_clone(self, dispatched: Dispatched) -> Workload | None:
        clone = await self.there.client.find(WORKLOAD, dispatched.workload.metadata.name, dispatched.namespace)
        return add_time_zone(clone) if clone is not None and self._is_ours(clone) else None

    async def _read_jobs(self, dispatched: Dispatched) -> Copies:
        """Read the workload's jobs by name. If the set of jobs may change, also read them by the workload's name."""
        existing_jobs = await asyncio.gather(*(self.find_copy(dispatched, name) for name in dispatched.job_names))
        jobs = (
            [(dispatched.mirror.kind, job) for job in existing_jobs if job is not None]
            if dispatched.mirror is not None
            else []
        )
        if dispatched.mirror is None or is_group(dispatched.workload.metadata):
            kinds = (
                [dispatched.mirror.kind]
                if dispatched.mirror is not None
                else sorted(self.there.served, key=lambda kind: kind.kind)
            )
            lists = await asyncio.gather(*(self._list_jobs_of_workload(dispatched, kind) for kind in kinds))
            named = {meta_of(job).name for _, job in jobs}
            jobs += [(kind, job) for kind, job in chain.from_iterable(lists) if meta_of(job).name not in named]
        return dispatched.split(jobs)

    async def _list_jobs_of_workload(self, dispatched: Dispatched, kind: Kind[Any]) -> list[tuple[Kind[Any], Any]]:
        name, labels = dispatched.workload.metadata.name, f"{MULTI_KUEUE_ORIGIN_LABEL}={self.origin}"
        if not names.label_value(name):  # then the name is also a label of each of its jobs
            labels += f",{PREBUILT_WORKLOAD_NAME_LABEL}={name}"
        jobs = (await self.there.client.list(kind, dispatched.namespace, labels=labels)).items
        ours = (job for job in jobs if self._is_ours(job) and prebuilt_name(meta_of(job)) == name)
        return [(kind, add_time_zone(job)) for job in ours]

    async def find_copy(self, dispatched: Dispatched, name: str) -> Any:
        """Return the copy of a job, read from the worker's server; None if there is none."""
        if dispatched.mirror is None:
            return None
        job = await self.there.client.find(dispatched.mirror.kind, name, dispatched.namespace)
        return add_time_zone(job) if job is not None and self._is_ours(job) else None

    def _is_ours(self, obj: Any) -> bool:
        return is_ours(meta_of(obj), self.origin)


def _may_start(workload: Workload, home: str) -> bool:
    conditions = workload.status.conditions
    return (
        home_of(workload.metadata) == home
        and is_true(conditions, QUOTA_RESERVED)
        and not is_true(conditions, EVICTED)
        and not is_true(conditions, FINISHED)
    )
