"""What happens to a job on its way in: a queue, a priority, being suspended until it is admitted; and what may change.

Order and sentences are those of Kueue's webhooks (jobframework/defaults.go, validation.go, job_webhook.go). Unlike
upstream, a job in a namespace that is not managed runs as it is: there, upstream suspends a job with a queue's name,
and no controller ever starts it. And a job that another controller owns does not get a queue that it does not name:
upstream knows the owners that are integrated, and takes the jobs of all others one by one.
"""

from collections.abc import Iterator

from msgspec import Struct

from muster.api.batch import CRON_JOB, INDEXED, JOB_CONTROLLER_NAME, Job, JobSpec
from muster.api.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, is_elastic
from muster.api.kueue.names import (
    ELASTIC_JOB,
    JOB_COMPLETIONS_EQUAL_PARALLELISM,
    JOB_MIN_PARALLELISM,
    MAX_EXEC_TIME_SECONDS_LABEL,
    MULTI_KUEUE_CONTROLLER,
    PREBUILT_WORKLOAD_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.ancestry import managed_ancestor
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import ObjectMeta
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import IMMUTABLE, Errors, each, forbidden, immutable, invalid
from muster.api.validation.kueue.gates import fewer_gates, gates
from muster.api.validation.kueue.rules import annotation_path, readiness

# What jobs get that name none, where there is one of that name.
DEFAULT_QUEUE = "default"
DEFAULT_PRIORITY_CLASS = "default"

# As Go's strconv.ParseBool understands them.
_BOOLEANS = dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True) | dict.fromkeys(
    ("0", "f", "F", "FALSE", "false", "False"), False
)


class Arrival(Struct, frozen=True):
    """What a new job gets. Empty and False leave it as it is."""

    queue: str = ""
    priority_class: str = ""
    suspend: bool = False
    managed_by: str = ""


def arrival(meta: ObjectMeta, managed_by: str | None, around: Surroundings, settings: Settings) -> Arrival:
    """What a new job of any kind gets. Raises `NestingTooDeepError`."""
    if not settings.selects.matches(around.namespace_labels(meta.namespace)):
        return Arrival()
    named = meta.labels.get(QUEUE_NAME_LABEL, "")
    local = around.local_queue(meta.namespace, named or DEFAULT_QUEUE)
    if not named and not settings.without_queue and (local is None or _is_run_by_another(meta)):
        return Arrival()
    if managed_ancestor(meta, around.owner, without_queue=settings.without_queue) is not None:
        return Arrival()
    has_class = bool(meta.labels.get(PRIORITY_CLASS_LABEL))
    default_class = settings.default_priority and not has_class and around.has_priority_class(DEFAULT_PRIORITY_CLASS)
    ours = managed_by in (None, "", JOB_CONTROLLER_NAME)
    elsewhere = ours and local is not None and around.goes_elsewhere(local.spec.cluster_queue)
    return Arrival(
        queue=DEFAULT_QUEUE if not named and local is not None else "",
        priority_class=DEFAULT_PRIORITY_CLASS if default_class else "",
        suspend=True,
        managed_by=MULTI_KUEUE_CONTROLLER if elsewhere else "",
    )


def _is_run_by_another(meta: ObjectMeta) -> bool:
    """Whether its owner starts and stops the job, and would undo what we do; a CronJob only makes its Jobs."""
    owner = next((owner for owner in meta.owner_references if owner.controller), None)
    return owner is not None and not CRON_JOB.is_of(owner)


def counts_follow(job: Job) -> bool:
    """Whether a new Job that queues is to keep its Workload, and its pods, when it is scaled.

    So it is without a queue (KEP-3715). It is left alone if it says anything about how it may change size, if its pods
    need not run together, or if another program makes its Workload or runs it.
    """
    meta, spec = job.metadata, job.spec
    said = {ELASTIC_ANNOTATION, ELASTIC_JOB, JOB_MIN_PARALLELISM} & meta.annotations.keys()
    ours = spec.managed_by in (None, "", JOB_CONTROLLER_NAME) and not prebuilt_name(meta)
    one_each = spec.completion_mode == INDEXED and spec.completions == spec.parallelism
    return ours and one_each and not said and meta.annotations.get(GANG_ANNOTATION) != "false"


def prebuilt_name(meta: ObjectMeta) -> str:
    """The name of the Workload that another program makes for the job; "" if the engine makes it."""
    name = PREBUILT_WORKLOAD_NAME_LABEL
    return meta.annotations.get(name, "") or meta.labels.get(name, "")


# Rules for jobs of any kind.


def new_rules(meta: ObjectMeta) -> Errors:
    """What holds for every version of a job."""
    yield from _name_of(meta, QUEUE_NAME_LABEL)
    prebuilt = meta.annotations.get(PREBUILT_WORKLOAD_NAME_LABEL)
    if prebuilt:
        yield from each(annotation_path(PREBUILT_WORKLOAD_NAME_LABEL), prebuilt, names.dns_subdomain(prebuilt))
    else:
        yield from _name_of(meta, PREBUILT_WORKLOAD_NAME_LABEL)
    yield from _longest(meta)
    yield from gates(meta)
    yield from readiness(meta)


def changes(new: ObjectMeta, old: ObjectMeta, around: Surroundings, *, suspended: bool, was_suspended: bool) -> Errors:
    """What may change: where and how a job queues, only while it does not run."""
    yield from _queue_change(new, old, around, suspended=suspended)
    if not suspended and not is_elastic(old.annotations):
        yield from immutable(_prebuilt_path(new), prebuilt_name(new), prebuilt_name(old))
    if not (suspended and was_suspended):
        path, label = _label(MAX_EXEC_TIME_SECONDS_LABEL), MAX_EXEC_TIME_SECONDS_LABEL
        yield from immutable(path, new.labels.get(label, ""), old.labels.get(label, ""))
    yield from _priority_change(new, old, suspended=suspended)
    if _asks_for_size(new) != _asks_for_size(old):
        yield invalid(annotation_path(ELASTIC_JOB), _asks_for_size(new), IMMUTABLE)
    is_marked = ELASTIC_ANNOTATION in new.annotations
    runs_from_queue = not suspended and QUEUE_NAME_LABEL in old.labels
    if runs_from_queue and is_marked != (ELASTIC_ANNOTATION in old.annotations):
        yield invalid(annotation_path(ELASTIC_ANNOTATION), is_marked, IMMUTABLE)
    yield from fewer_gates(new, old)


def _queue_change(new: ObjectMeta, old: ObjectMeta, around: Surroundings, *, suspended: bool) -> Errors:
    now, before = new.labels.get(QUEUE_NAME_LABEL, ""), old.labels.get(QUEUE_NAME_LABEL, "")
    if not suspended:
        yield from immutable(_label(QUEUE_NAME_LABEL), now, before)
    if before and not now and around.local_queue(old.namespace, DEFAULT_QUEUE) is not None:
        yield invalid(_label(QUEUE_NAME_LABEL), "", "queue-name must not be empty in namespace with default queue")


def _priority_change(new: ObjectMeta, old: ObjectMeta, *, suspended: bool) -> Errors:
    now, before = new.labels.get(PRIORITY_CLASS_LABEL, ""), old.labels.get(PRIORITY_CLASS_LABEL, "")
    path = _label(PRIORITY_CLASS_LABEL)
    if now and not before and not suspended:
        yield invalid(path, now, "WorkloadPriorityClass cannot be added to a non-suspended workload")
    if before and not now:
        yield invalid(path, now, "WorkloadPriorityClass cannot be removed from a workload")


def _longest(meta: ObjectMeta) -> Errors:
    text = meta.labels.get(MAX_EXEC_TIME_SECONDS_LABEL)
    if text is None:
        return
    seconds = _integer(text)
    if seconds is None:
        yield invalid(_label(MAX_EXEC_TIME_SECONDS_LABEL), text, _not_a_number(text))
    elif seconds <= 0:
        yield invalid(_label(MAX_EXEC_TIME_SECONDS_LABEL), seconds, "should be greater than 0")


# Rules for Jobs.


def validate_create(job: Job) -> list[FieldError]:
    """A new Job with its defaults."""
    return [*new_rules(job.metadata), *_partial(job), *_together(job)]


def validate_update(new: Job, old: Job, around: Surroundings) -> list[FieldError]:
    """A change of a Job's metadata or spec."""
    return list(_update(new, old, around))


def _update(new: Job, old: Job, around: Surroundings) -> Errors:
    suspended, was_suspended = bool(new.spec.suspend), bool(old.spec.suspend)
    before, now = old.metadata.annotations, new.metadata.annotations
    yield from new_rules(new.metadata)
    if now.get(JOB_MIN_PARALLELISM) != before.get(JOB_MIN_PARALLELISM):
        yield from _partial(new)
    yield from _together(new)
    yield from changes(new.metadata, old.metadata, around, suspended=suspended, was_suspended=was_suspended)
    if JOB_MIN_PARALLELISM in before and not was_suspended and new.spec.parallelism != old.spec.parallelism:
        detail = "cannot change when partial admission is enabled and the job is not suspended"
        yield forbidden("spec.parallelism", detail)
    if not suspended and not was_suspended and is_together(new) != is_together(old):
        path = annotation_path(JOB_COMPLETIONS_EQUAL_PARALLELISM)
        yield forbidden(path, f"{IMMUTABLE} while the job is not suspended")


def _partial(job: Job) -> Errors:
    text = job.metadata.annotations.get(JOB_MIN_PARALLELISM)
    if text is None:
        return
    path, least, most = annotation_path(JOB_MIN_PARALLELISM), _integer(text), _size(job.spec)
    if least is None:
        yield invalid(path, text, _not_a_number(text))
    elif not 0 < least < most:
        yield invalid(path, least, f"should be between 0 and {most - 1}")
    if is_elastic(job.metadata.annotations):
        yield invalid(path, text, "partial admission and elastic job cannot be used together")


def _together(job: Job) -> Errors:
    text = job.metadata.annotations.get(JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text is None:
        return
    path = annotation_path(JOB_COMPLETIONS_EQUAL_PARALLELISM)
    if text not in _BOOLEANS:
        yield invalid(path, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')
    if not is_together(job):
        return
    if job.spec.completion_mode != INDEXED:
        yield invalid(path, text, "should not be enabled for NonIndexed jobs")
    if (job.spec.parallelism or 1) != (job.spec.completions or 1):
        detail = f"should be equal to parallelism when {JOB_COMPLETIONS_EQUAL_PARALLELISM} annotation is true"
        yield invalid("spec.completions", job.spec.completions, detail)


def is_together(job: Job) -> bool:
    """Whether its completions follow its parallelism when it is admitted in part."""
    return _BOOLEANS.get(job.metadata.annotations.get(JOB_COMPLETIONS_EQUAL_PARALLELISM, ""), False)


def _size(spec: JobSpec) -> int:
    size = 1 if spec.parallelism is None else spec.parallelism
    return size if spec.completions is None else min(size, spec.completions)


# Words.


def _label(name: str) -> str:
    return f"metadata.labels[{name}]"


def _name_of(meta: ObjectMeta, label: str) -> Iterator[FieldError]:
    if (value := meta.labels.get(label)) is not None:
        yield from each(_label(label), value, names.dns_subdomain(value))


def _prebuilt_path(meta: ObjectMeta) -> str:
    name = PREBUILT_WORKLOAD_NAME_LABEL
    return annotation_path(name) if meta.annotations.get(name) else _label(name)


def _asks_for_size(meta: ObjectMeta) -> bool:
    return meta.annotations.get(ELASTIC_JOB) == "true"


def _integer(text: str) -> int | None:
    """As Go reads it, within reason."""
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _not_a_number(text: str) -> str:
    return f'strconv.Atoi: parsing "{text}": invalid syntax'
