"""Read the properties of a gang from its job's manifest: end, restarts, sizes and PodGroup. Pure."""

from collections.abc import Mapping
from typing import Any

from muster.api.batch import Job
from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.ours.elastic import ELASTIC_ANNOTATION, Bounds
from muster.controllers.elastic.placement import elastic_bounds
from muster.controllers.podgroup.gang import find_topology
from muster.gang.order.ends import EndTime, end_of
from muster.gang.topology import TopologyConstraint
from muster.insight.record.build import record_of
from muster.jobs.job.terms import JobTerms
from muster.jobs.jobset.children import Children
from muster.jobs.podgroup.record import KINDS, PodGroup


class GangTermsError(ValueError):
    """A manifest with a setting that a simulation does not support.

    path: the path of the field in the manifest.
    """

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def find_end(job: Any) -> EndTime | None:
    """Return when a job ends by its own limits or its user's expectation, in seconds from its start.

    Returns None if the job has neither.
    """
    deadline = record_of(job).deadline if isinstance(job, Job | JobSet) else None
    if isinstance(job, Pod):
        deadline = job.spec.active_deadline_seconds
    return end_of(job.metadata, deadline, started=0.0)


def restarts_whole(job: Any) -> bool:
    """Return whether all pods of a job restart when one is interrupted.

    This is never so for a Job, and always for kinds other than Job and JobSet. A JobSet's roles decide: one is enough.
    """
    if isinstance(job, JobSet):
        children = Children(job)
        return any(JobTerms.of(children.job(role, 0)).restarts_whole for role in job.spec.replicated_jobs)
    return not isinstance(job, Job)


def find_bounds(job: Any) -> Bounds | None:
    """Return the sizes between which the engine resizes a job; None if it is not an elastic Job.

    Raises `GangTermsError` if the engine would ignore the annotation because it is invalid.
    """
    if not isinstance(job, Job):
        return None
    try:
        return elastic_bounds(job)
    except ValueError as error:
        raise GangTermsError("metadata.annotations", f"{ELASTIC_ANNOTATION} would be ignored: {error}") from None


def complete_group(document: Mapping[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """Return the manifest of a PodGroup with this name and namespace.

    Raises `GangTermsError` if the document is not a PodGroup, or its metadata is not a map.
    """
    if not any(document.get("kind") == kind.kind and document.get("apiVersion") == kind.api_version for kind in KINDS):
        raise GangTermsError("kind", f"must be a PodGroup, of {', '.join(kind.api_version for kind in KINDS)}")
    meta = document.get("metadata") or {}
    if not isinstance(meta, dict):
        raise GangTermsError("metadata", "must be a map")
    return dict(document) | {"metadata": meta | {"name": name, "namespace": namespace}}


def find_constraint(record: PodGroup, pods: int) -> TopologyConstraint | None:
    """Return the topology constraint of a PodGroup; None if it has none.

    pods: the number of pods of its job, which all start together.

    Raises `GangTermsError` if the group requires fewer pods, or if its annotations are invalid.
    """
    if record.min_members not in (0, pods):
        why = f"its minimum is {record.min_members}, but a job of a simulation starts with all of its pods"
        raise GangTermsError("spec", f"{why}: {pods}")
    near = find_topology(record)
    if near is not None and near.problem:
        raise GangTermsError("metadata.annotations", near.problem)
    return near
