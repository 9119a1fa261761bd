"""Check the queueing fields of a Job, new or updated, as Kueue's job_webhook.go does, with its messages. Pure."""

from muster.api.batch import INDEXED, JOB_CONTROLLER_NAME, Job, pods_at_once
from muster.api.kueue.names import (
    ELASTIC_JOB,
    JOB_COMPLETIONS_EQUAL_PARALLELISM,
    JOB_MIN_PARALLELISM,
    TOPOLOGY_ANNOTATIONS,
)
from muster.api.managed.jobs import (
    describe_non_number,
    parse_integer,
    prebuilt_name,
    ties_completions,
)
from muster.api.managed.topology import validate_annotations
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, is_elastic
from muster.api.validation.fields import IMMUTABLE, Errors, forbidden, invalid
from muster.api.validation.kueue.rules import annotation_path
from muster.api.values.booleans import parse_boolean


def is_run_here(job: Job) -> bool:
    """Return whether this cluster's Job controller creates the Job's pods."""
    return job.spec.managed_by in (None, "", JOB_CONTROLLER_NAME)


def counts_follow(job: Job) -> bool:
    """Return whether a new Job that queues may be scaled without a new Workload.

    Such a Job scales like a Job without a queue (kubernetes KEP-3715). A Job is excluded if it has settings of its own
    for resizing, if its pods need not run together or must be close together in a topology, or if another program
    creates its Workload or runs it.
    """
    meta, spec, template = job.metadata, job.spec, job.spec.template.metadata
    annotations = {ELASTIC_ANNOTATION, ELASTIC_JOB, JOB_MIN_PARALLELISM} & meta.annotations.keys()
    ours = is_run_here(job) and not prebuilt_name(meta) and TOPOLOGY_ANNOTATIONS.isdisjoint(template.annotations)
    one_each = spec.completion_mode == INDEXED and spec.completions == spec.parallelism
    return ours and one_each and not annotations and meta.annotations.get(GANG_ANNOTATION) != "false"


def validate_job(job: Job, old: Job | None) -> Errors:
    """Yield the errors in a Job, new or updated.

    old: the Job before the update; None for a new Job.
    """
    before = old.metadata.annotations.get(JOB_MIN_PARALLELISM) if old is not None else None
    if old is None or job.metadata.annotations.get(JOB_MIN_PARALLELISM) != before:
        yield from _validate_partial_admission(job)
    yield from _validate_group_start(job)
    yield from validate_annotations(
        "spec.template.metadata.annotations", job.spec.template.metadata.annotations, pods_at_once(job.spec)
    )


def validate_changes(new: Job, old: Job) -> Errors:
    """Yield the errors for changes of a running Job that are forbidden."""
    suspended, was_suspended = bool(new.spec.suspend), bool(old.spec.suspend)
    is_partial = JOB_MIN_PARALLELISM in old.metadata.annotations
    if is_partial and not was_suspended and new.spec.parallelism != old.spec.parallelism:
        detail = "cannot change when partial admission is enabled and the job is not suspended"
        yield forbidden("spec.parallelism", detail)
    if (
        not suspended
        and not was_suspended
        and ties_completions(new.metadata.annotations) != ties_completions(old.metadata.annotations)
    ):
        path = annotation_path(JOB_COMPLETIONS_EQUAL_PARALLELISM)
        yield forbidden(path, f"{IMMUTABLE} while the job is not suspended")


def _validate_partial_admission(job: Job) -> Errors:
    text = job.metadata.annotations.get(JOB_MIN_PARALLELISM)
    if text is None:
        return
    path, least, most = annotation_path(JOB_MIN_PARALLELISM), parse_integer(text), pods_at_once(job.spec)
    if least is None:
        yield invalid(path, text, describe_non_number(text))
    elif not 0 < least < most:
        yield invalid(path, least, f"should be between 0 and {most - 1}")
    if is_elastic(job.metadata.annotations):
        yield invalid(path, text, "partial admission and elastic job cannot be used together")


def _validate_group_start(job: Job) -> Errors:
    text = job.metadata.annotations.get(JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return
    path = annotation_path(JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if parse_boolean(text) is None:
        yield invalid(path, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')
    if not ties_completions(job.metadata.annotations):
        return
    if job.spec.completion_mode != INDEXED:
        yield invalid(path, text, "should not be enabled for NonIndexed jobs")
    if (job.spec.parallelism or 1) != (job.spec.completions or 1):
        detail = f"should be equal to parallelism when {JOB_COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        yield invalid("spec.completions", job.spec.completions, detail)
