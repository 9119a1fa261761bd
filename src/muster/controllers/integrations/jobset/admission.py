"""Validate the queueing fields of a JobSet, new or updated, with the messages of Kueue's jobset_webhook.go. Pure."""

from collections.abc import Sequence

from muster.api.jobset import JobSet
from muster.api.jobset.names import CONTROLLER_NAME
from muster.api.kueue import MOST_POD_SETS, PodSet
from muster.api.kueue.names import ELASTIC_JOB, QUEUE_NAME_LABEL, TOPOLOGY_ANNOTATIONS
from muster.api.managed.jobs import prebuilt_name, validate_gang
from muster.api.managed.topology import validate_annotations, validate_grouping
from muster.api.ours.elastic import ELASTIC_ANNOTATION, is_elastic
from muster.api.validation import names
from muster.api.validation.fields import Errors, forbidden, make_errors, too_many
from muster.api.validation.kueue.rules import annotation_path
from muster.jobs.jobset.size import pods_of_role
from muster.jobs.jobset.terms import managed_by

_ROLES = "spec.replicatedJobs"
_SIZES = "the bounds between which a Job is moved mean nothing for a JobSet"
_FIXED = f"the number of pods cannot change while the JobSet runs with quota, unless it is {ELASTIC_JOB}"


def counts_follow(jobset: JobSet) -> bool:
    """Return whether a new JobSet that queues may be scaled without a new Workload.

    Such a JobSet scales like a JobSet without a queue. A JobSet is excluded if it has the annotation ELASTIC_JOB, if
    its pods must be close together in a topology, or if another program creates its Workload or runs it.
    """
    templates = (role.template.spec.template for role in jobset.spec.replicated_jobs)
    anywhere = all(TOPOLOGY_ANNOTATIONS.isdisjoint(template.metadata.annotations) for template in templates)
    ours = managed_by(jobset) == CONTROLLER_NAME and not prebuilt_name(jobset.metadata)
    return ours and anywhere and ELASTIC_JOB not in jobset.metadata.annotations


def validate_jobset(jobset: JobSet, old: JobSet | None, podsets: Sequence[PodSet]) -> Errors:
    """Yield the errors in a JobSet, new or updated.

    old: the JobSet before the update; None for a new JobSet.
    """
    if _is_queued(jobset) and (old is None or not _is_queued(old)):
        yield from _check_fits_one_workload(jobset)
    paths = [f"{_ROLES}[{number}].template.spec.template.metadata.annotations" for number in range(len(podsets))]
    for path, podset in zip(paths, podsets, strict=True):
        yield from validate_annotations(path, podset.template.metadata.annotations, podset.count)
    yield from validate_grouping(list(zip(paths, podsets, strict=True)))
    before = {role.name: role.template.metadata for role in old.spec.replicated_jobs} if old is not None else {}
    for number, role in enumerate(jobset.spec.replicated_jobs):
        yield from validate_gang(role.template.metadata, before.get(role.name), f"{_ROLES}[{number}].template.")


def validate_changes(new: JobSet, old: JobSet) -> Errors:
    """Yield the errors for forbidden changes of a running JobSet, which holds quota for its admitted size."""
    if new.spec.suspend or old.spec.suspend or not _is_queued(old) or is_elastic(old.metadata.annotations):
        return
    before = {role.name: pods_of_role(role) for role in old.spec.replicated_jobs}
    for number, role in enumerate(new.spec.replicated_jobs):
        if pods_of_role(role) != before.get(role.name, pods_of_role(role)):
            yield forbidden(f"{_ROLES}[{number}]", _FIXED)


def _is_queued(jobset: JobSet) -> bool:
    return bool(jobset.metadata.labels.get(QUEUE_NAME_LABEL))


def _check_fits_one_workload(jobset: JobSet) -> Errors:
    """Yield an error for each reason why one Workload cannot contain the JobSet.

    Reasons are too many roles, a role's name that no podset may have, and the annotation for elastic Jobs.
    """
    roles = jobset.spec.replicated_jobs
    if len(roles) > MOST_POD_SETS:
        yield too_many(_ROLES, len(roles), MOST_POD_SETS)
    for number, role in enumerate(roles):
        yield from make_errors(f"{_ROLES}[{number}].name", role.name, names.dns_label(role.name))
    if ELASTIC_ANNOTATION in jobset.metadata.annotations:
        yield forbidden(annotation_path(ELASTIC_ANNOTATION), _SIZES)
