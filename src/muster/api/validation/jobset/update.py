"""The rules of changes of a JobSet: upstream's webhook's, except for the number of Jobs and their time limit."""

from msgspec.structs import replace

from muster.api.batch import INDEXED
from muster.api.conditions import is_true
from muster.api.jobset import JobSet, ReplicatedJob, names
from muster.api.status import INVALID, FieldError
from muster.api.validation.fields import IMMUTABLE, Errors, forbidden, invalid, validate_immutable

_ENDED = "when JobSet is in a terminal state (Completed or Failed)"


def validate_changes(new: JobSet, old: JobSet) -> Errors:
    """Yield the errors in a change of the spec."""
    stored = {role.name: role for role in old.spec.replicated_jobs}
    ended = is_true(old.status.conditions, names.COMPLETED) or is_true(old.status.conditions, names.FAILED)
    for i, role in enumerate(new.spec.replicated_jobs):
        if role.name in stored:
            yield from _validate_scaling(f"spec.replicatedJobs[{i}]", role, stored[role.name], ended=ended)
    suspended = bool(old.spec.suspend or new.spec.suspend)
    allowed = [
        _as_before(role, stored[role.name], suspended=suspended) if role.name in stored else role
        for role in new.spec.replicated_jobs
    ]
    yield from _validate_same_items("spec.replicatedJobs", allowed, old.spec.replicated_jobs)
    yield from validate_immutable("spec.managedBy", new.spec.managed_by, old.spec.managed_by)


def _validate_scaling(path: str, new: ReplicatedJob, old: ReplicatedJob, *, ended: bool) -> Errors:
    """Yield the errors in a change of the number of Jobs, of their pods, or of their time limit.

    ended: whether the JobSet has completed or failed. Then none of them may change.
    """
    if ended and new.replicas != old.replicas:
        yield forbidden(path, f"Cannot mutate replicas {_ENDED}")
    job, before = new.template.spec, old.template.spec
    pods, pods_before = job.parallelism, before.parallelism
    done, done_before = job.completions, before.completions
    if ended and job.active_deadline_seconds != before.active_deadline_seconds:
        yield forbidden(f"{path}.template.spec.activeDeadlineSeconds", f"Cannot mutate the time limit {_ENDED}")
    if job.completion_mode != INDEXED or (pods, done) == (pods_before, done_before):
        return
    path = f"{path}.template.spec"
    if ended:
        yield forbidden(path, f"Cannot mutate parallelism or completions {_ENDED}")
        return
    if pods != pods_before and pods is not None and pods < 1:
        yield invalid(f"{path}.parallelism", pods, "parallelism must be >= 1")
    if done != done_before and done is not None and done < 1:
        yield invalid(f"{path}.completions", done, "completions must be >= 1")
    if pods is not None and done is not None and pods != done:
        sentence = "completions must be equal to parallelism for Elastic Indexed Jobs"
        yield invalid(f"{path}.completions", done, sentence)


def _as_before(new: ReplicatedJob, old: ReplicatedJob, *, suspended: bool) -> ReplicatedJob:
    """Return the replicated job with the old values of all changeable fields."""
    job, before = new.template.spec, old.template.spec
    job = replace(job, active_deadline_seconds=before.active_deadline_seconds)
    if job.completion_mode == INDEXED:
        job = replace(job, parallelism=before.parallelism, completions=before.completions)
    if suspended:
        pods, pods_before = job.template, before.template
        meta = replace(pods.metadata, labels=pods_before.metadata.labels, annotations=pods_before.metadata.annotations)
        spec = replace(
            pods.spec,
            node_selector=pods_before.spec.node_selector,
            tolerations=pods_before.spec.tolerations,
            scheduling_gates=pods_before.spec.scheduling_gates,
        )
        job = replace(job, template=replace(pods, metadata=meta, spec=spec))
    return replace(new, replicas=old.replicas, template=replace(new.template, spec=job))


def _validate_same_items(path: str, new: list[ReplicatedJob], old: tuple[ReplicatedJob, ...]) -> Errors:
    """Check that the replicated jobs are unchanged. The errors show only the names of the changed ones."""
    if tuple(new) == old:
        return
    stored = {role.name: role for role in old}
    differ = [role.name for role in new if role != stored.get(role.name)]
    differ += sorted(stored.keys() - {role.name for role in new})
    yield FieldError(path, INVALID, differ or [role.name for role in new], IMMUTABLE)
