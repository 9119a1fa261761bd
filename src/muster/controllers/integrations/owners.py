"""Find the Workloads of a job, and the jobs that own it."""

from collections.abc import Iterable, Sequence
from typing import Any

from muster.api.conditions import is_true
from muster.api.kinds import Kind
from muster.api.kueue import WORKLOAD, Workload
from muster.api.kueue.names import ADMITTED, FINISHED
from muster.api.managed.ancestry import managed_ancestor
from muster.api.managed.jobs import part_of
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.controllers.integrations.framework import Integration
from muster.runtime.control.manager import Manager
from muster.runtime.objects import ignores_status, meta_of

_BY_OWNER = "owner"


class UnseenOwnerError(Exception):
    """An owner that the cache does not contain, because it is too new, or was deleted before its dependents."""

    def __init__(self, kind: Kind[Any], namespace: str, reference: OwnerReference) -> None:
        super().__init__(f"{kind.resource} {namespace}/{reference.name} is not seen")
        self.kind, self.namespace, self.reference = kind, namespace, reference


class Owners:
    """A lookup between Workloads and jobs: the Workloads of a job, and the topmost job that owns an object.

    The reconcilers of jobs share it. The lookup reads the caches of Workloads and of each integration's jobs.
    """

    def __init__(self, manager: Manager, integrations: Sequence[Integration[Any]], *, without_queue: bool) -> None:
        """Watch jobs of the kinds that queue.

        without_queue: whether to include jobs that name no queue.
        """
        self._client = manager.client
        self.workloads = manager.informer(WORKLOAD, indexes={_BY_OWNER: _index_by_owner})
        self._jobs = {
            (one.kind.api_version, one.kind.kind): (one, manager.informer(one.kind, optional=one.optional))
            for one in integrations
        }
        self._without_queue = without_queue

    def workloads_of(self, kind: Kind[Any], namespace: str, name: str) -> list[Workload]:
        """Return the Workloads whose owner is the job of this kind and name, the oldest first.

        The job may be deleted.
        """
        workloads = self.workloads.by(_BY_OWNER, _make_tie(kind.api_version, kind.kind, namespace, name))
        return sorted(workloads, key=lambda workload: (workload.metadata.creation_timestamp, workload.metadata.name))

    def ancestor(self, meta: ObjectMeta) -> tuple[OwnerReference, ObjectMeta] | None:
        """Return the topmost job that owns the object and queues: its reference and metadata; None if there is none.

        Raises `NestingTooDeepError`, `UnseenOwnerError`.
        """
        return managed_ancestor(meta, self._find_owner, without_queue=self._without_queue)

    async def is_there(self, unseen: UnseenOwnerError) -> bool:
        """Return whether the server has an owner that the cache does not contain."""
        owner = await self._client.find(unseen.kind, unseen.reference.name, unseen.namespace)
        return owner is not None and meta_of(owner).uid == unseen.reference.uid

    def is_part(self, meta: ObjectMeta) -> bool:
        """Return whether the object is part of a job that queues as a whole; such an object never queues by itself."""
        above = part_of(meta)
        return above is not None and (above.api_version, above.kind) in self._jobs

    def may_run(self, ancestor: OwnerReference, namespace: str) -> bool:
        """Return whether the Workload of a job is admitted and not finished.

        ancestor: the reference to the job, from the method `ancestor`.
        """
        tie = _make_tie(ancestor.api_version, ancestor.kind, namespace, ancestor.name)
        return any(
            is_true(workload.status.conditions, ADMITTED) and not is_true(workload.status.conditions, FINISHED)
            for workload in self.workloads.by(_BY_OWNER, tie)
            if (owner := controller_of(workload.metadata)) is not None and owner.uid == ancestor.uid
        )

    def _find_owner(self, namespace: str, reference: OwnerReference) -> ObjectMeta | None:
        known = self._jobs.get((reference.api_version, reference.kind))
        if known is None:
            return None
        integration, informer = known
        owner = informer.get(f"{namespace}/{reference.name}")
        if owner is None:
            raise UnseenOwnerError(integration.kind, namespace, reference)
        return meta_of(owner) if integration.is_managed(owner) else None


@ignores_status
def _index_by_owner(workload: Workload) -> Iterable[str]:
    owner = controller_of(workload.metadata)
    return () if owner is None else (_make_tie(owner.api_version, owner.kind, workload.metadata.namespace, owner.name),)


def _make_tie(api_version: str, kind: str, namespace: str, name: str) -> str:
    """Return a key that identifies an object in every version of its API.

    The key contains the API group, because several groups have a kind Job.
    """
    return f"{api_version.rpartition('/')[0]}/{kind}/{namespace}/{name}"
