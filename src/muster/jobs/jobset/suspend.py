"""The Jobs that there are, as they are to be now: of the right size, suspended or not, and with what was changed since.

While a JobSet is suspended, where its pods run may change. A Job gets that when it is resumed: it then has what it
would have if it were made now, and nothing of what it was given before.
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
from muster.jobs.jobset.elastic import resized
from muster.jobs.jobset.plan import Change
from muster.jobs.jobset.start.group import is_of_earlier_start
from muster.jobs.jobset.terms import is_suspended

# Labels of the pods that the server has set, so that the Job's selector finds them.
_SERVERS = (CONTROLLER_UID_LABEL, JOB_NAME_LABEL, LEGACY_CONTROLLER_UID_LABEL, LEGACY_JOB_NAME_LABEL)


def changes(
    jobset: JobSet, children: Children, active: Collection[Member], may_run: Collection[str]
) -> Iterator[Change]:
    """What changes in the Jobs that have not ended. may_run: the roles that may."""
    roles = {role.name: role for role in jobset.spec.replicated_jobs}
    for member in active:
        if member.deleting:
            continue
        job, role = member.job, roles[member.role]
        metadata, spec = job.metadata, resized(job.spec, role.template.spec)
        if is_suspended(jobset) or (not spec.suspend and is_of_earlier_start(jobset, member.role, job)):
            spec = spec if spec.suspend else replace(spec, suspend=True)
        elif spec.suspend and member.role in may_run:
            metadata, spec = _resumed(job, spec, children.template(role, member.index))
        if spec != job.spec:
            yield Change(job, replace(job, metadata=metadata, spec=spec))


def _resumed(job: Job, spec: JobSpec, made: JobTemplateSpec) -> tuple[ObjectMeta, JobSpec]:
    """Runs again, as it is wanted now. A template can change once the last pods are gone: that is waited for."""
    before, template = job.metadata, _overwritten(spec.template, made.spec.template)
    if template != spec.template and not _has_no_pods(job):
        return before, spec
    labels, annotations = before.labels | made.metadata.labels, before.annotations | made.metadata.annotations
    metadata = replace(before, labels=labels, annotations=annotations)
    return metadata, replace(spec, suspend=False, template=template)


def _overwritten(old: PodTemplateSpec, wanted: PodTemplateSpec) -> PodTemplateSpec:
    """The template with all that may change in it as it is wanted."""
    servers = {name: old.metadata.labels[name] for name in _SERVERS if name in old.metadata.labels}
    return replace(
        old,
        metadata=replace(
            old.metadata, labels=wanted.metadata.labels | servers, annotations=wanted.metadata.annotations
        ),
        spec=replace(
            old.spec,
            node_selector=wanted.spec.node_selector,
            tolerations=wanted.spec.tolerations,
            scheduling_gates=wanted.spec.scheduling_gates,
        ),
    )


def _has_no_pods(job: Job) -> bool:
    """Whether none is left, and none comes: the Job says that it is resumed before it gets any.

    That it has no start time says less: it is taken from a Job whose last pods could not be deleted yet.
    """
    return is_true(job.status.conditions, SUSPENDED) and job.status.active == 0
