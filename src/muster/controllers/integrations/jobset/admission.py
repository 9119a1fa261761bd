"""What a JobSet may say about how it queues, and change; sentences are those of Kueue's jobset_webhook.go. Pure."""

from collections.abc import Sequence

from muster.api.elastic import ELASTIC_ANNOTATION
from muster.api.jobset import JobSet
from muster.api.kueue import MOST_POD_SETS, PodSet
from muster.api.kueue.names import ELASTIC_JOB, QUEUE_NAME_LABEL
from muster.api.managed.topology import grouping, problems
from muster.api.validation import names
from muster.api.validation.fields import Errors, each, forbidden, too_many
from muster.api.validation.kueue.rules import annotation_path
from muster.jobs.jobset.size import pods_of_role

_ROLES = "spec.replicatedJobs"
_FIXED = "a JobSet that queues keeps its size while it runs"


def rules(jobset: JobSet, old: JobSet | None, podsets: Sequence[PodSet]) -> Errors:
    """What holds for every version of a JobSet; `old` is the one before, if there is one."""
    if _queues(jobset) and (old is None or not _queues(old)):
        yield from _one_workload(jobset)
    paths = [f"{_ROLES}[{number}].template.spec.template.metadata.annotations" for number in range(len(podsets))]
    for path, podset in zip(paths, podsets, strict=True):
        yield from problems(path, podset.template.metadata.annotations, podset.count)
    yield from grouping(list(zip(paths, podsets, strict=True)))


def changes(new: JobSet, old: JobSet) -> Errors:
    """What of a JobSet may change while it runs: it holds quota for the size that it was admitted with."""
    if new.spec.suspend or old.spec.suspend or not _queues(old):
        return
    before = {role.name: pods_of_role(role) for role in old.spec.replicated_jobs}
    for number, role in enumerate(new.spec.replicated_jobs):
        if pods_of_role(role) != before.get(role.name, pods_of_role(role)):
            yield forbidden(f"{_ROLES}[{number}]", f"the number of pods cannot change: {_FIXED}; suspend it first")


def _queues(jobset: JobSet) -> bool:
    return bool(jobset.metadata.labels.get(QUEUE_NAME_LABEL))


def _one_workload(jobset: JobSet) -> Errors:
    """What its Workload could not say."""
    roles = jobset.spec.replicated_jobs
    if len(roles) > MOST_POD_SETS:
        yield too_many(_ROLES, len(roles), MOST_POD_SETS)
    for number, role in enumerate(roles):
        yield from each(f"{_ROLES}[{number}].name", role.name, names.dns_label(role.name))
    for annotation in (ELASTIC_ANNOTATION, ELASTIC_JOB):
        if annotation in jobset.metadata.annotations:
            yield forbidden(annotation_path(annotation), _FIXED)
