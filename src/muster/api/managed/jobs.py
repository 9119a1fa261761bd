"""The decisions about a new job of any kind (its queue, priority and suspension), and the rules of its changes.

The order and the messages follow Kueue's webhooks (jobframework/defaults.go, validation.go). Three rules differ
from upstream:

- A job in a namespace that is not managed runs as it is. Upstream suspends it if it names a queue, and never starts it.
- A job that another controller owns gets no queue that it does not name. In upstream this holds for known owners only.
- If JobSets queue, a Job of a JobSet never queues by itself, whatever its template says. The JobSet starts and stops
  it.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from muster.api.batch import CRON_JOB
from muster.api.jobset import JOB_SET
from muster.api.kueue.names import (
    DEFAULT_QUEUE,
    ELASTIC_JOB,
    JOB_COMPLETIONS_EQUAL_PARALLELISM,
    MAX_EXEC_TIME_SECONDS_LABEL,
    PREBUILT_WORKLOAD_NAME_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.ancestry import managed_ancestor
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import ObjectMeta, OwnerReference, controller_of
from muster.api.ours.deferral import AFTER_ANNOTATION, BEGIN_ANNOTATION, parse_dependencies, parse_moment
from muster.api.ours.elastic import ELASTIC_ANNOTATION, GANG_ANNOTATION, is_elastic
from muster.api.ours.notify import NOTIFY_ANNOTATION, NOTIFY_ON_ANNOTATION, parse_events, parse_targets
from muster.api.status import FieldError
from muster.api.validation import names
from muster.api.validation.fields import IMMUTABLE, Errors, invalid, make_errors, validate_immutable
from muster.api.validation.kueue.gates import validate_gates, validate_removed_gates
from muster.api.validation.kueue.rules import annotation_path, validate_readiness
from muster.api.values.booleans import parse_boolean

# The priority class of jobs that name none, if an object of this name exists.
DEFAULT_PRIORITY_CLASS = "default"

# By annotation: the parser of its text, which raises `ValueError`.
_PARSERS: Mapping[str, Callable[[str], object]] = {
    BEGIN_ANNOTATION: parse_moment,
    AFTER_ANNOTATION: parse_dependencies,
    NOTIFY_ANNOTATION: parse_targets,
    NOTIFY_ON_ANNOTATION: parse_events,
}

# The limit of the fields of Workloads.
_MAX_INT32 = 2**31 - 1


class NewJobChanges(Struct, frozen=True):
    """The changes of a new job. An empty or False field leaves the job as it is."""

    queue: str = ""
    priority_class: str = ""
    suspend: bool = False
    elsewhere: bool = False  # whether MultiKueue runs the job in another cluster


def list_arrival_changes(
    meta: ObjectMeta, around: Surroundings, settings: Settings, *, dispatchable: bool
) -> NewJobChanges:
    """Return what admission changes in a new job of any kind: its queue, priority and suspension.

    Nothing changes if the job is not managed, or if one of its owners queues in its place.

    dispatchable: whether the job may run in another cluster.

    Raises:
        NestingTooDeepError: the chain of the job's owners is too long or circular.
    """
    if not settings.selects.matches(around.namespace_labels(meta.namespace)):
        return NewJobChanges()
    if (above := part_of(meta)) is not None and around.owner(meta.namespace, above) is not None:
        return NewJobChanges()
    named = meta.labels.get(QUEUE_NAME_LABEL, "")
    local = around.local_queue(meta.namespace, named or DEFAULT_QUEUE)
    if not named and not settings.without_queue and (local is None or _is_run_by_another(meta)):
        return NewJobChanges()
    if managed_ancestor(meta, around.owner, without_queue=settings.without_queue) is not None:
        return NewJobChanges()
    has_class = bool(meta.labels.get(PRIORITY_CLASS_LABEL))
    default_class = settings.default_priority and not has_class and around.has_priority_class(DEFAULT_PRIORITY_CLASS)
    elsewhere = dispatchable and local is not None and around.goes_elsewhere(local.spec.cluster_queue)
    return NewJobChanges(
        queue=DEFAULT_QUEUE if not named and local is not None else "",
        priority_class=DEFAULT_PRIORITY_CLASS if default_class else "",
        suspend=True,
        elsewhere=elsewhere,
    )


def _is_run_by_another(meta: ObjectMeta) -> bool:
    """Return whether the job's owner starts and stops it, and would undo Muster's changes.

    A CronJob only creates its Jobs.
    """
    owner = controller_of(meta)
    return owner is not None and not CRON_JOB.is_of(owner)


def part_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the reference to the JobSet that a job is part of; None if it is part of none.

    A JobSet queues as a whole, and a queue in its templates has no meaning.
    """
    owner = controller_of(meta)
    return owner if owner is not None and JOB_SET.is_of(owner) else None


def prebuilt_name(meta: ObjectMeta) -> str:
    """Return the name of the Workload that another program creates for the job; "" if the engine creates it."""
    name = PREBUILT_WORKLOAD_NAME_LABEL
    return meta.annotations.get(name, "") or meta.labels.get(name, "")


# Rules.


def validate_queueing_metadata(meta: ObjectMeta, old: ObjectMeta | None) -> Errors:
    """Yield the errors in a job's queueing labels and annotations, for a new job and for a changed one.

    old: the previous metadata; None for a new job.
    """
    yield from _name_of(meta, QUEUE_NAME_LABEL)
    prebuilt = meta.annotations.get(PREBUILT_WORKLOAD_NAME_LABEL)
    if prebuilt:
        yield from make_errors(annotation_path(PREBUILT_WORKLOAD_NAME_LABEL), prebuilt, names.dns_subdomain(prebuilt))
    else:
        yield from _name_of(meta, PREBUILT_WORKLOAD_NAME_LABEL)
    yield from _validate_longest_run(meta)
    yield from validate_gates(meta)
    yield from _validate_parsed(meta)
    yield from validate_readiness(meta)
    if part_of(meta) is None:  # the rules of JobSets check the queue of a JobSet
        yield from validate_gang(meta, old)


def _validate_parsed(meta: ObjectMeta) -> Errors:
    """Check Muster's annotations about a later start and about notifications."""
    for annotation, parse in _PARSERS.items():
        text = meta.annotations.get(annotation)
        try:
            if text is not None:
                parse(text)
        except ValueError as error:
            yield invalid(annotation_path(annotation), text, str(error))


def validate_gang(meta: ObjectMeta, old: ObjectMeta | None, path: str = "") -> Errors:
    """Check Muster's annotation about pods that start together. An old invalid value may stay.

    path: the path of the object with the metadata, with its last dot.
    """
    text = meta.annotations.get(GANG_ANNOTATION)
    kept = old is not None and old.annotations.get(GANG_ANNOTATION) == text
    if text not in (None, "true", "false") and not kept:
        yield invalid(path + annotation_path(GANG_ANNOTATION), text, 'must be "true" or "false"')


def find_forbidden_changes(
    new: ObjectMeta, old: ObjectMeta, around: Surroundings, *, suspended: bool, was_suspended: bool
) -> Errors:
    """Yield the forbidden changes of a job's queueing metadata, most of which may change only while it is suspended."""
    yield from _validate_queue_change(new, old, around, suspended=suspended)
    if not suspended and not is_elastic(old.annotations):
        yield from validate_immutable(_find_prebuilt_path(new), prebuilt_name(new), prebuilt_name(old))
    if not (suspended and was_suspended):
        path, label = _describe_label(MAX_EXEC_TIME_SECONDS_LABEL), MAX_EXEC_TIME_SECONDS_LABEL
        yield from validate_immutable(path, new.labels.get(label, ""), old.labels.get(label, ""))
    yield from _validate_priority_change(new, old, suspended=suspended)
    if _asks_for_size(new) != _asks_for_size(old):
        yield invalid(annotation_path(ELASTIC_JOB), _asks_for_size(new), IMMUTABLE)
    is_marked = ELASTIC_ANNOTATION in new.annotations
    runs_from_queue = not suspended and QUEUE_NAME_LABEL in old.labels
    if runs_from_queue and is_marked != (ELASTIC_ANNOTATION in old.annotations):
        yield invalid(annotation_path(ELASTIC_ANNOTATION), is_marked, IMMUTABLE)
    yield from validate_removed_gates(new, old)


def _validate_queue_change(new: ObjectMeta, old: ObjectMeta, around: Surroundings, *, suspended: bool) -> Errors:
    now, before = new.labels.get(QUEUE_NAME_LABEL, ""), old.labels.get(QUEUE_NAME_LABEL, "")
    if not suspended:
        yield from validate_immutable(_describe_label(QUEUE_NAME_LABEL), now, before)
    if before and not now and around.local_queue(old.namespace, DEFAULT_QUEUE) is not None:
        yield invalid(
            _describe_label(QUEUE_NAME_LABEL), "", "queue-name must not be empty in namespace with default queue"
        )


def _validate_priority_change(new: ObjectMeta, old: ObjectMeta, *, suspended: bool) -> Errors:
    now, before = new.labels.get(PRIORITY_CLASS_LABEL, ""), old.labels.get(PRIORITY_CLASS_LABEL, "")
    path = _describe_label(PRIORITY_CLASS_LABEL)
    if now and not before and not suspended:
        yield invalid(path, now, "WorkloadPriorityClass cannot be added to a non-suspended workload")
    if before and not now:
        yield invalid(path, now, "WorkloadPriorityClass cannot be removed from a workload")


def _validate_longest_run(meta: ObjectMeta) -> Errors:
    text = meta.labels.get(MAX_EXEC_TIME_SECONDS_LABEL)
    if text is None:
        return
    seconds = parse_integer(text)
    if seconds is None:
        yield invalid(_describe_label(MAX_EXEC_TIME_SECONDS_LABEL), text, describe_non_number(text))
    elif seconds <= 0:
        yield invalid(_describe_label(MAX_EXEC_TIME_SECONDS_LABEL), seconds, "should be greater than 0")
    elif seconds > _MAX_INT32:  # Kueue accepts the value and truncates it
        yield invalid(_describe_label(MAX_EXEC_TIME_SECONDS_LABEL), text, _make_range_message(text))


# Words.


def _describe_label(name: str) -> str:
    return f"metadata.labels[{name}]"


def _name_of(meta: ObjectMeta, label: str) -> Iterator[FieldError]:
    if (value := meta.labels.get(label)) is not None:
        yield from make_errors(_describe_label(label), value, names.dns_subdomain(value))


def _find_prebuilt_path(meta: ObjectMeta) -> str:
    name = PREBUILT_WORKLOAD_NAME_LABEL
    return annotation_path(name) if meta.annotations.get(name) else _describe_label(name)


def _asks_for_size(meta: ObjectMeta) -> bool:
    return meta.annotations.get(ELASTIC_JOB) == "true"


def ties_completions(annotations: Mapping[str, str]) -> bool:
    """Return whether partial admission changes a Job's completions when it changes its parallelism."""
    return parse_boolean(annotations.get(JOB_COMPLETIONS_EQUAL_PARALLELISM, "")) is True


def parse_integer(text: str) -> int | None:
    """Parse an integer as Go does, up to a bounded length; return None for any other text."""
    digits = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


def _make_range_message(text: str) -> str:
    """Return Go's error message for a number that is too large."""
    return f'strconv.Atoi: parsing "{text}": value out of range'


def describe_non_number(text: str) -> str:
    """Return Go's error message for a text that is no number."""
    return f'strconv.Atoi: parsing "{text}": invalid syntax'
