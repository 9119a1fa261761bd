"""Decide the desired state of existing Jobs: their size, their time limit, their suspension, and later changes.

While a JobSet is suspended, its pod placement may change. A Job gets that change when it is resumed. Its template then
equals that of a new Job, without any earlier change.
"""

from collections.abc import Collection, Iterator

from msgspec.structs import replace

from muster.api.batch import (
    CONTROLLER_UID_LABEL,
    JOB_NAME_LABEL,
    LEGACY_CONTROLLER_UID_LABEL,
    LEGACY_JOB_NAME_LABEL,
    Job,
    JobSpec,
    JobTemplateSpec,
)
from muster.api.conditions import is_true
from muster.api.core import PodTemplateSpec
from muster.api.jobset import JobSet
from muster.api.meta import ObjectMeta
from muster.jobs.job.conditions import SUSPENDED
from muster.jobs.jobset.census import Member
from muster.jobs.jobset.children import Children
from muster.jobs.jobset.elastic import adjust_spec
from muster.jobs.jobset.plan import JobChange, JobSetPlan
from muster.jobs.jobset.start.group import is_of_earlier_start
from muster.jobs.jobset.terms import is_suspended

# Pod labels that the server sets, and that the Job's selector matches.
_SERVERS = (CONTROLLER_UID_LABEL, JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, LEGACY_JOB_NAME_LABEL)


def list_suspension_changes(
    jobset: JobSet, children: Children, active: Collection[Member], may_run: Collection[str]
) -> Iterator[JobChange]:
    """Yield the changes that suspend, resume or resize Jobs that have not ended.

    may_run: the names of the roles that may run.
    """
    roles = {role.name: role for role in jobset.spec.replicated_jobs}
    for member in active:
        if member.deleting:
            continue
        job, role = member.job, roles[member.role]
        metadata, spec = job.metadata, adjust_spec(job.spec, role.template.spec)
        if is_suspended(jobset) or (not spec.suspend and is_of_earlier_start(jobset, member.role, job)):
            spec = spec if spec.suspend else replace(spec, suspend=True)
        elif spec.suspend and member.role in may_run:
            metadata, spec = _resume_job(job, spec, children.template(role, member.index))
        if spec != job.spec:
            yield JobChange(job, replace(job, metadata=metadata, spec=spec))


def without_suspension(plan: JobSetPlan, jobset: JobSet) -> JobSetPlan:
    """Return the plan after a Job could not be suspended: the status does not say yet that the JobSet is suspended."""
    return replace(plan, status=replace(plan.status, conditions=jobset.status.conditions), notes=())


def _resume_job(job: Job, spec: JobSpec, made: JobTemplateSpec) -> tuple[ObjectMeta, JobSpec]:
    """Return a resumed Job's metadata and spec.

    A template can change once the last pods are gone, so the Job waits for that.
    """
    before, template = job.metadata, _overwrite_template(spec.template, made.spec.template)
    if template != spec.template and not _has_no_pods(job):
        return before, spec
    labels, annotations = before.labels | made.metadata.labels, before.annotations | made.metadata.annotations
    metadata = replace(before, labels=labels, annotations=annotations)
    return metadata, replace(spec, suspend=False, template=template)


def _overwrite_template(old: PodTemplateSpec, desired: PodTemplateSpec) -> PodTemplateSpec:
    """Return the old template with all mutable fields of the desired one; labels that the server set stay."""
    servers = {name: old.metadata.labels[name] for name in _SERVERS if name in old.metadata.labels}
    return replace(
        old,
        metadata=replace(
            old.metadata, labels=desired.metadata.labels | servers, annotations=desired.metadata.annotations
        ),
        spec=replace(
            old.spec,
            node_selector=desired.spec.node_selector,
            tolerations=desired.spec.tolerations,
            scheduling_gates=desired.spec.scheduling_gates,
        ),
    )


def _has_no_pods(job: Job) -> bool:
    """Return whether the Job has no pods and is not about to create any.

    The condition Suspended proves it, because a Job says that it is resumed before it creates pods. A missing start
    time proves less: it is also cleared while the last pods could not be deleted yet.
    """
    return is_true(job.status.conditions, SUSPENDED) and job.status.active == 0
