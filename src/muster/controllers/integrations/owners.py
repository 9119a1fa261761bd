"""Who belongs to whom: Workloads to jobs, jobs to jobs above them."""

from collections.abc import Iterable, Sequence
from typing import Any

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import ADMITTED, FINISHED
from muster.api.managed.ancestry import managed_ancestor
from muster.api.managed.jobs import part_of
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.api.status import not_found
from muster.controllers.integrations.framework import Integration
from muster.runtime.manager import Manager
from muster.runtime.objects import meta_of

_BY_OWNER = "owner"


class Owners:
    """Follows Workloads, and the jobs of some kinds."""

    def __init__(self, manager: Manager, integrations: Sequence[Integration[Any]], *, without_queue: bool) -> None:
        """Of the kinds that queue; `without_queue`: also where they name no queue."""
        self.workloads = manager.informer(WORKLOAD, indexes={_BY_OWNER: _owner})
        kinds = ((one, one.kind) for one in integrations)
        self._jobs = {(kind.api_version, kind.kind): (one, manager.informer(kind)) for one, kind in kinds}
        self._without_queue = without_queue

    def workloads_of(self, kind: Kind[Any], namespace: str, name: str) -> list[Workload]:
        """Those that say that they belong to such a job, the oldest first; it may be one that is gone."""
        found = self.workloads.by(_BY_OWNER, _tie(kind.api_version, kind.kind, namespace, name))
        return sorted(found, key=lambda workload: (workload.metadata.creation_timestamp, workload.metadata.name))

    def ancestor(self, meta: ObjectMeta) -> tuple[OwnerReference, ObjectMeta] | None:
        """The topmost job above that queues. Raises `NestingTooDeepError`, and `ApiError` (404) for an unseen owner."""
        return managed_ancestor(meta, self._owner_of, without_queue=self._without_queue)

    def is_part(self, meta: ObjectMeta) -> bool:
        """Whether it is of a job that queues whole or not at all, and never queues by itself."""
        above = part_of(meta)
        return above is not None and (above.api_version, above.kind) in self._jobs

    def may_run(self, ancestor: OwnerReference, namespace: str) -> bool:
        """Whether the Workload of the topmost job is admitted."""
        tie = _tie(ancestor.api_version, ancestor.kind, namespace, ancestor.name)
        return any(
            is_true(workload.status.conditions, ADMITTED) and not is_true(workload.status.conditions, FINISHED)
            for workload in self.workloads.by(_BY_OWNER, tie)
            if (owner := controller_of(workload.metadata)) is not None and owner.uid == ancestor.uid
        )

    def _owner_of(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        known = self._jobs.get((reference.api_version, reference.kind))
        if known is None:
            return None
        integration, informer = known
        owner = informer.get(f"{namespace}/{reference.name}")
        if owner is None:  # it is there, for the collector would have taken its dependents: it is not seen yet
            raise not_found(integration.kind.resource, reference.name)
        return meta_of(owner) if integration.is_managed(owner) else None


def _owner(workload: Workload) -> Iterable[str]:
    owner = controller_of(workload.metadata)
    return () if owner is None else (_tie(owner.api_version, owner.kind, workload.metadata.namespace, owner.name),)


def _tie(api_version: str, kind: str, namespace: str, name: str) -> str:
    """Which object, in whatever version of its API. There are Jobs in several groups."""
    return f"{api_version.rpartition('/')[0]}/{kind}/{namespace}/{name}"
