"""Mirror JobSets whose `spec.managedBy` names MultiKueue. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from muster.api.jobset import JOB_SET, JobSet, JobSetStatus
from muster.api.kueue import PodSet
from muster.api.kueue.names import MULTI_KUEUE_CONTROLLER
from muster.api.ours.elastic import is_elastic
from muster.jobs.jobset.conditions import StatusRecord
from muster.jobs.jobset.size import pods_of_role
from muster.jobs.jobset.terms import finish, is_suspended, managed_by
from muster.multicluster.links.sanitizing import sanitize_conditions
from muster.multicluster.mirrors.framework import Mirror, restore
from muster.multicluster.mirrors.job import make_resize_operations
from muster.runtime.objects import merge_patch


class JobSetMirror(Mirror[JobSet]):
    """The rules by which MultiKueue runs a JobSet in a worker cluster (`Mirror`).

    Each replicated job has a pod template; the podsets have the same order.
    """

    kind = JOB_SET

    def is_handed_over(self, job: JobSet) -> bool:
        """Return whether `spec.managedBy` names MultiKueue."""
        return managed_by(job) == MULTI_KUEUE_CONTROLLER

    def status(self, local: JobSet, remote: JobSet) -> dict[str, Any] | None:
        """Return the merge patch that gives the local JobSet the copy's status; {} if the local JobSet has finished.

        Return None while the local JobSet is suspended and the copy runs.
        """
        if self.has_ended(local):
            return {}
        if is_suspended(local) and not is_suspended(remote) and finish(remote) is None:
            return None
        return merge_patch(_fit_status(local, remote.status), local.status)

    def make_stop_patch(self, local: JobSet, now: datetime) -> dict[str, Any]:
        """Return the merge patch that gives the local JobSet a suspended JobSet's status; {} if it has finished."""
        if self.has_ended(local):
            return {}
        status = StatusRecord(local.status, now.replace(microsecond=0)).mark_suspended().status
        roles = tuple(replace(role, active=0, ready=0) for role in status.replicated_jobs_status)
        return merge_patch(replace(status, replicated_jobs_status=roles), local.status)

    def has_ended(self, local: JobSet) -> bool:
        """Return whether the JobSet is Completed or Failed."""
        return finish(local) is not None

    def has_started(self, remote: JobSet) -> bool:
        """Return whether the copy is not suspended or counts pods."""
        return not is_suspended(remote) or self.is_active(remote)

    def is_active(self, remote: JobSet) -> bool:
        """Return whether the copy counts pods that have not finished."""
        return any(role.active for role in remote.status.replicated_jobs_status)

    def make_resize_patch(self, local: JobSet, remote: JobSet, podsets: Sequence[PodSet]) -> list[dict[str, Any]]:
        """Return the JSON patch that gives each role of the copy its local size.

        A role that exceeds its quota keeps its size. Return [] if the JobSet is not elastic or the roles differ.
        """
        here, there = local.spec.replicated_jobs, remote.spec.replicated_jobs
        if not is_elastic(local.metadata.annotations) or [one.name for one in here] != [one.name for one in there]:
            return []
        edits: list[dict[str, Any]] = []
        for place, (mine, its) in enumerate(zip(here, there, strict=True)):
            if len(podsets) == len(here) and pods_of_role(mine) > podsets[place].count:
                continue
            path = f"/spec/replicatedJobs/{place}"
            if mine.replicas != its.replicas:
                edits.append({"op": "add", "path": f"{path}/replicas", "value": mine.replicas})
            edits += make_resize_operations(f"{path}/template/spec", mine.template.spec, its.template.spec)
        return edits

    def _prepare(self, document: dict[str, Any], podsets: Sequence[PodSet]) -> None:
        spec = document["spec"]
        spec["suspend"] = True
        roles = spec.get("replicatedJobs") or []
        if len(podsets) == len(roles):
            for role, podset in zip(roles, podsets, strict=True):
                restore(role["template"]["spec"]["template"], podset.template)


def _fit_status(local: JobSet, remote: JobSetStatus) -> JobSetStatus:
    """Return the status with the first entry of each existing role, and the first condition of each type."""
    by_name = {one.name: one for one in reversed(remote.replicated_jobs_status)}
    roles = (by_name.get(role.name) for role in local.spec.replicated_jobs)
    return replace(
        remote,
        conditions=sanitize_conditions(remote.conditions),
        replicated_jobs_status=tuple(role for role in roles if role is not None),
    )
