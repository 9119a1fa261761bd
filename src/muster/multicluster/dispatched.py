"""Relate a workload that MultiKueue dispatches to its job in the manager and to the copies of the job. Pure."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from muster.api.core import POD
from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.kueue.names import (
    IS_GROUP_WORKLOAD,
    MULTI_KUEUE_CONTROLLER,
    MULTI_KUEUE_ORIGIN_UID,
    POD_GROUP_NAME_LABEL,
)
from muster.api.managed.jobs import prebuilt_name
from muster.api.meta import ObjectMeta, OwnerReference
from muster.jobs.podgroup.reference import GroupReference
from muster.multicluster.companions import list_pod_groups
from muster.multicluster.dispatch.views import RemoteJob
from muster.multicluster.mirrors.framework import Mirror
from muster.runtime.objects import key_of, meta_of


class Dispatched(Struct, frozen=True):
    """A workload and its job in the manager's cluster.

    owners: the job that the workload names, or the pods of a group.
    mirror: None for a kind that cannot be dispatched.
    jobs: the owners that exist in the cache.
    document: the workload with all its fields, if this reconcile has just written it; otherwise None.
    """

    workload: Workload
    owners: tuple[OwnerReference, ...]
    mirror: Mirror[Any] | None
    jobs: tuple[Any, ...]
    document: dict[Any, Any] | None = None

    @property
    def key(self) -> str:
        """The key of the workload in the manager, `namespace/name`."""
        return key_of(self.workload)

    @property
    def job_names(self) -> tuple[str, ...]:
        """The names of the jobs, which are the same in the manager and the workers."""
        return tuple(owner.name for owner in self.owners)

    @property
    def namespace(self) -> str:
        """The namespace, which is the same in the manager and the workers."""
        return self.workload.metadata.namespace

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue whose quota the workload has; "" if it has none."""
        admission = self.workload.status.admission
        return admission.cluster_queue if admission is not None else ""

    @property
    def objection(self) -> str:
        """Why the job cannot be dispatched at all, in upstream's words; "" if it can."""
        if not self.owners:
            return "The workload has no owner that could be dispatched"
        if self.mirror is None:
            owner = self.owners[0]
            kind = f"{owner.api_version if '/' in owner.api_version else '/v1'}, Kind={owner.kind}"
            return f"No multikueue adapter found for owner kind {kind}"
        if not all(map(self.mirror.is_handed_over, self.jobs)):
            return f'The owner is not managed by Kueue: Expecting spec.managedBy to be "{MULTI_KUEUE_CONTROLLER}"'
        if self.mirror.kind == POD and self.owners[0].controller and self.groups(self.jobs):
            return f'A pod of a PodGroup goes nowhere without the others: label all of them "{POD_GROUP_NAME_LABEL}"'
        return ""

    def groups(self, jobs: Iterable[Any]) -> list[GroupReference]:
        """Return the PodGroups that the pods of these jobs name."""
        podsets = self.workload.spec.pod_sets
        return list_pod_groups(pod for job in jobs if self.mirror is not None for pod in self.mirror.pods(job, podsets))

    def split(self, jobs: Iterable[tuple[Kind[Any], Any]]) -> "Copies":
        """Return this manager's jobs in one worker, divided into the copies of this workload's jobs and all others."""
        own: dict[str, Any] = {}
        strays: list[tuple[Kind[Any], Any]] = []
        for kind, job in jobs:
            if self._is_own(kind, job):
                own[meta_of(job).name] = job
            else:
                strays.append((kind, job))
        return Copies(own, strays)

    def _is_own(self, kind: Kind[Any], job: Any) -> bool:
        """Return whether a copy was made for exactly the manager's job. A user of the worker can label any job."""
        meta = meta_of(job)
        if self.mirror is None or kind != self.mirror.kind or prebuilt_name(meta) != self.workload.metadata.name:
            return False
        uid = meta.annotations.get(MULTI_KUEUE_ORIGIN_UID, "")
        return any(owner.name == meta.name and uid in ("", owner.uid) for owner in self.owners)

    def _is_going(self, copy: Any) -> bool:
        """Return whether a copy is being deleted, and has not finished with all its pods."""
        assert self.mirror is not None
        unfinished = self.mirror.is_active(copy) or not self.mirror.has_ended(copy)
        return meta_of(copy).deletion_timestamp is not None and unfinished

    def summarize(self, copies: "Copies") -> RemoteJob | None:
        """Return the combined state of the jobs in one cluster; None if there are none."""
        own = copies.own.values()
        if not own or self.mirror is None:
            return RemoteJob("", active=True) if copies.strays else None
        return RemoteJob(
            self.workload.metadata.name,
            started=any(map(self.mirror.has_started, own)),
            ended=all(map(self.mirror.has_ended, own)),
            active=bool(copies.strays) or any(map(self.mirror.is_active, own)),
            is_going=any(map(self._is_going, own)),
        )


class Copies(Struct, frozen=True):
    """The jobs with this manager's label in one cluster that concern one workload.

    own: the copies of its jobs, by name.
    strays: jobs that were made, or claim to be made, for other jobs; their state is ignored.
    """

    own: dict[str, Any]
    strays: list[tuple[Kind[Any], Any]]


def owners_of(meta: ObjectMeta) -> tuple[OwnerReference, ...]:
    """Return the owners of a workload: the job that it was created for, or all pods of a group."""
    controllers = tuple(owner for owner in meta.owner_references if owner.controller)
    return controllers or (meta.owner_references if is_group(meta) else ())


def is_group(meta: ObjectMeta) -> bool:
    """Return whether a workload was created for a group of pods, to which pods may be added or removed."""
    return meta.annotations.get(IS_GROUP_WORKLOAD) == "true"
