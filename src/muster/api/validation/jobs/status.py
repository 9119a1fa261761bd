"""The rules of a Job's status.

The controller of a Job, Muster's or another one, must satisfy these rules, so that clients can rely on the status. A
rule applies only if its fields changed, for two reasons: a controller can repair an invalid status, and the status may
lag behind a changed spec.
"""

from collections.abc import Iterator

from muster.api.batch import INDEXED, Job, JobStatus, UncountedTerminatedPods
from muster.api.conditions import is_true
from muster.api.status import NO_VALUE, FieldError
from muster.api.validation import indexes
from muster.api.validation.fields import IMMUTABLE, Errors, duplicate, invalid, required, validate_not_negative

_CONDITIONS = "status.conditions"


def is_finished(status: JobStatus) -> bool:
    """Return whether the Job has succeeded or failed."""
    return is_true(status.conditions, "Complete") or is_true(status.conditions, "Failed")


def is_ending(status: JobStatus) -> bool:
    """Return whether the end of the Job is decided, although pods may still run."""
    return (
        is_finished(status)
        or is_true(status.conditions, "SuccessCriteriaMet")
        or is_true(status.conditions, "FailureTarget")
    )


def validate_change(new: Job, old: Job) -> Errors:
    """Yield the errors in the change of a status."""
    status, before = new.status, old.status
    yield from _validate_counts(status)
    yield from _validate_uncounted_pods(status.uncounted_terminated_pods)
    yield from _validate_conditions(status, before)
    yield from _validate_times(status, before)
    yield from _validate_end(status, before)
    yield from _validate_indexes(new, before)
    yield from _validate_ready_count(status, before)
    yield from _validate_success(new)
    yield from _validate_history(new, old)


def _make_condition_error(sentence: str) -> FieldError:
    return invalid(_CONDITIONS, NO_VALUE, sentence)


def _validate_counts(status: JobStatus) -> Errors:
    for field, value in (
        ("active", status.active),
        ("succeeded", status.succeeded),
        ("failed", status.failed),
        ("ready", status.ready),
        ("terminating", status.terminating),
    ):
        yield from validate_not_negative(f"status.{field}", value)


def _validate_uncounted_pods(pods: UncountedTerminatedPods | None) -> Errors:
    seen: set[str] = set()
    for path, uid in _list_uncounted_uids(pods):
        if not uid:
            yield invalid(path, uid, "must not be empty")
        elif uid in seen:
            yield duplicate(path, uid)
        seen.add(uid)


def _list_uncounted_uids(pods: UncountedTerminatedPods | None) -> Iterator[tuple[str, str]]:
    if pods is None:
        return
    for field, uids in (("succeeded", pods.succeeded), ("failed", pods.failed)):
        for i, uid in enumerate(uids):
            yield f"status.uncountedTerminatedPods.{field}[{i}]", uid


def _has_changed(status: JobStatus, before: JobStatus, *types: str) -> bool:
    return any(is_true(status.conditions, type) != is_true(before.conditions, type) for type in types)


def _validate_conditions(status: JobStatus, before: JobStatus) -> Errors:
    complete, failed = is_true(status.conditions, "Complete"), is_true(status.conditions, "Failed")
    target = is_true(status.conditions, "FailureTarget")
    if complete and failed and _has_changed(status, before, "Complete", "Failed"):
        yield _make_condition_error("cannot set Complete=True and Failed=true conditions")
    if complete and target and _has_changed(status, before, "Complete", "FailureTarget"):
        yield _make_condition_error("cannot set Complete=True and FailureTarget=true conditions")


def _validate_times(status: JobStatus, before: JobStatus) -> Errors:
    start, end = status.start_time, status.completion_time
    complete = is_true(status.conditions, "Complete")
    path = "status.completionTime"
    if _has_changed(status, before, "Complete") or end != before.completion_time:
        if end is not None and not complete:
            yield invalid(path, end, "cannot set completionTime when there is no Complete=True condition")
        if end is None and complete:
            yield required(path, "completionTime is required for Complete jobs")
    moved = start != before.start_time or end != before.completion_time
    if moved and start is not None and end is not None and end < start:
        yield invalid(path, end, "must be equal to or after `startTime`")


def _validate_end(status: JobStatus, before: JobStatus) -> Errors:
    failed, complete = is_true(status.conditions, "Failed"), is_true(status.conditions, "Complete")
    looked_at = _has_changed(status, before, "Failed") or status.failed_indexes != before.failed_indexes
    if failed and looked_at and not is_true(status.conditions, "FailureTarget"):
        yield _make_condition_error("cannot set Failed=True condition without the FailureTarget=true condition")
    looked_at = _has_changed(status, before, "Complete", "SuccessCriteriaMet")
    if complete and looked_at and not is_true(status.conditions, "SuccessCriteriaMet"):
        yield _make_condition_error("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if not (failed or complete):
        return
    ended = not is_finished(before)
    if status.active > 0 and (ended or status.active != before.active):
        yield invalid("status.active", status.active, "active>0 is invalid for finished job")
    if status.start_time is None and (ended or before.start_time is not None):
        yield required("status.startTime", "startTime is required for finished job")
    uncounted = status.uncounted_terminated_pods
    looked_at = ended or uncounted != before.uncounted_terminated_pods
    if looked_at and uncounted is not None and (uncounted.succeeded or uncounted.failed):
        yield invalid("status.uncountedTerminatedPods", uncounted, "must be empty for finished job")
    if status.terminating and (ended or status.terminating != before.terminating):
        yield invalid("status.terminating", status.terminating, "terminating>0 is invalid for finished job")


def _validate_indexes(job: Job, before: JobStatus) -> Errors:
    status, completions = job.status, job.spec.completions
    completed_changed = status.completed_indexes != before.completed_indexes
    failed_changed = status.failed_indexes != before.failed_indexes
    if completed_changed and completions is not None:
        yield from _validate_format("completedIndexes", status.completed_indexes, completions)
    per_index = job.spec.backoff_limit_per_index is not None
    if failed_changed and completions is not None and per_index and status.failed_indexes is not None:
        yield from _validate_format("failedIndexes", status.failed_indexes, completions)
    if completed_changed and status.completed_indexes and job.spec.completion_mode != INDEXED:
        sentence = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid("status.completedIndexes", status.completed_indexes, sentence)
    if failed_changed and not per_index and status.failed_indexes is not None:
        sentence = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid("status.failedIndexes", status.failed_indexes, sentence)
    if (completed_changed or failed_changed) and completions is not None and status.failed_indexes is not None:
        overlap = indexes.first_overlap(status.completed_indexes, status.failed_indexes, completions)
        if overlap is not None:
            sentence = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            yield invalid("status.failedIndexes", status.failed_indexes, sentence)


def _validate_format(field: str, text: str, completions: int) -> Errors:
    try:
        indexes.count(text, completions)
    except indexes.IndexesError as error:
        yield invalid(f"status.{field}", text, f"error parsing {field}: {error}")


def _validate_ready_count(status: JobStatus, before: JobStatus) -> Errors:
    changed = status.ready != before.ready or status.active != before.active
    if changed and status.ready is not None and status.ready > status.active:
        yield invalid("status.ready", status.ready, "cannot set more ready pods than active")


def _validate_success(job: Job) -> Errors:
    status = job.status
    met = is_true(status.conditions, "SuccessCriteriaMet")
    if met and is_true(status.conditions, "Failed"):
        yield _make_condition_error("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and is_true(status.conditions, "FailureTarget"):
        yield _make_condition_error("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if job.spec.success_policy is not None and not met and is_true(status.conditions, "Complete"):
        sentence = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _make_condition_error(sentence)


def _validate_history(new: Job, old: Job) -> Errors:
    """Check what never goes back: conditions that stay True, counters that only grow, and times that stay."""
    status, before = new.status, old.status
    for type_ in ("Failed", "Complete", "FailureTarget"):
        if is_true(before.conditions, type_) and not is_true(status.conditions, type_):
            yield _make_condition_error(f"cannot disable the terminal {type_}=True condition")
    if status.failed < before.failed:
        yield invalid("status.failed", status.failed, "cannot decrease the failed counter")
    # An Indexed Job may have been scaled down before its parallelism changed. Upstream requires that completions and
    # parallelism are still equal, and so refuses a controller that reads the Job only now.
    if status.succeeded < before.succeeded and new.spec.completion_mode != INDEXED:
        yield invalid("status.succeeded", status.succeeded, "cannot decrease the succeeded counter")
    ended, ended_before = status.completion_time, before.completion_time
    if ended is not None and ended_before is not None and ended != ended_before:
        yield invalid("status.completionTime", ended, IMMUTABLE)
    if before.start_time not in (None, status.start_time) and not new.spec.suspend:
        yield required("status.startTime", "startTime cannot be removed for unsuspended job")
    met, met_before = is_true(status.conditions, "SuccessCriteriaMet"), is_true(before.conditions, "SuccessCriteriaMet")
    if met_before and not met:
        yield _make_condition_error("cannot disable the SuccessCriteriaMet=True condition")
    if is_true(before.conditions, "Complete") and not met_before and met:
        sentence = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _make_condition_error(sentence)
