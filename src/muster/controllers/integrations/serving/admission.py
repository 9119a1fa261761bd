"""Decide the defaults of a serving object (such as a StatefulSet) when it is written, and the errors. Pure.

The messages are Kueue's.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec.structs import replace

from muster.api.core.pod import PodSpec
from muster.api.kinds import without_nulls
from muster.api.kueue.names import (
    MANAGED_LABEL,
    POD_GROUP_SERVING,
    POD_INDEX_OFFSET,
    POD_SET_GROUP_NAME,
    POD_SUSPENDING_PARENT,
    PRIORITY_CLASS_LABEL,
    QUEUE_NAME_LABEL,
)
from muster.api.managed.jobs import (
    NewJobChanges,
    find_forbidden_changes,
    list_arrival_changes,
    validate_queueing_metadata,
)
from muster.api.managed.pods import role_hash
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.managed.topology import validate_annotations
from muster.api.members import mapping_at, value_at
from muster.api.patch import merge
from muster.api.status import NO_VALUE, FieldError
from muster.api.validation.fields import Errors, forbidden, invalid, validate_immutable
from muster.api.values.quantity import QuantityError
from muster.controllers.integrations.external.documents import (
    ExternalJob,
    Json,
    Path,
    number_at,
    patch_at,
    text_of_path,
)
from muster.controllers.integrations.serving.kinds import LEADER_WORKER_SET, Serving

_QUEUE = f"metadata.labels[{QUEUE_NAME_LABEL}]"


def complete_templates(
    serving: Serving,
    document: Json,
    new: ExternalJob,
    old: ExternalJob | None,
    namespace: str,
    around: Surroundings,
    settings: Settings,
) -> Json:
    """Return the document of an object whose pod templates have the metadata that pods need to queue.

    Raises `NestingTooDeepError`.

    new, old: the object after and before the write; `old` is None for a new object.
    """
    gets = _find_queue(serving, new, namespace, around, settings, is_new=old is None)
    if not gets.suspend:
        return document
    for patch in _list_patches(serving, new, gets):
        document = merge.apply(document, patch)
    return document


def _find_queue(
    serving: Serving, new: ExternalJob, namespace: str, around: Surroundings, settings: Settings, *, is_new: bool
) -> NewJobChanges:
    """Return the queue of the object. An update does not put a running object into the LocalQueue `default`."""
    queued = new.metadata.labels.get(QUEUE_NAME_LABEL) or settings.without_queue
    if serving.parent(new) not in ("", serving.name) or not (is_new or queued):
        return NewJobChanges()  # an object of another kind owns it and queues its pods
    return list_arrival_changes(replace(new.metadata, namespace=namespace), around, settings, dispatchable=False)


def _list_patches(serving: Serving, new: ExternalJob, gets: NewJobChanges) -> Iterator[Json]:
    labels = {QUEUE_NAME_LABEL: gets.queue, PRIORITY_CLASS_LABEL: gets.priority_class}
    labels_to_set = {label: name for label, name in labels.items() if name}
    if labels_to_set:
        yield {"metadata": {"labels": labels_to_set}}
    copied = {label: text for label in labels if (text := {**new.metadata.labels, **labels_to_set}.get(label))}
    annotations = {POD_SUSPENDING_PARENT: serving.name}
    if serving.marks_pods:
        copied[MANAGED_LABEL] = "true"
    elif serving is LEADER_WORKER_SET:
        annotations[POD_GROUP_SERVING] = "true"
    else:
        copied = {}  # each pod gets the priority class with its group
    templates = {path: mapping_at({"spec": new.spec}, *path) for path in serving.templates}
    for path, template in templates.items():
        # Workers are numbered after their leader, unless both are placed as one group of podsets.
        counted = serving is LEADER_WORKER_SET and path == serving.templates[-1] and all(templates.values())
        grouped = POD_SET_GROUP_NAME in mapping_at(template, "metadata", "annotations")
        more = {POD_INDEX_OFFSET: "1"} if counted and not grouped else {}
        if template:
            metadata = {"annotations": annotations | more} | ({"labels": copied} if copied else {})
            yield patch_at(path, {"metadata": metadata})


# Rules.


def find_errors(
    serving: Serving, new: ExternalJob, old: ExternalJob | None, namespace: str, around: Surroundings
) -> list[FieldError]:
    """Return the errors in an object to be stored: a new object, or an update of `old`."""
    all_errors = chain(
        validate_queueing_metadata(new.metadata, old.metadata if old is not None else None),
        _validate_topology(serving, new),
    )
    if old is None:
        return list(all_errors)
    idle = number_at(old.status, serving.busy) == 0
    now, before = (replace(one.metadata, namespace=namespace) for one in (new, old))
    common = find_forbidden_changes(now, before, around, suspended=idle, was_suspended=idle)
    return list(chain(all_errors, common, _validate_changes(serving, new, old)))


def _validate_topology(serving: Serving, new: ExternalJob) -> Errors:
    if not new.metadata.labels.get(QUEUE_NAME_LABEL):
        return
    for path in serving.templates:
        annotations = mapping_at({"spec": new.spec}, *path, "metadata", "annotations")
        texts = {key: text for key, text in annotations.items() if isinstance(text, str)}
        yield from validate_annotations(f"{text_of_path(path)}.metadata.annotations", texts)


def _validate_changes(serving: Serving, new: ExternalJob, old: ExternalJob) -> Errors:
    """Yield the errors for changes that are forbidden while pods queue, because quota is for the group's size."""
    if old.metadata.labels.get(QUEUE_NAME_LABEL) and not new.metadata.labels.get(QUEUE_NAME_LABEL):
        yield invalid(_QUEUE, "", "field is immutable")
    if not new.metadata.labels.get(QUEUE_NAME_LABEL) or serving.marks_pods:
        return
    now, before = {"spec": new.spec}, {"spec": old.spec}
    for path in serving.templates:
        if _select_fixed_part(now, path) != _select_fixed_part(before, path):
            yield invalid(f"{text_of_path(path)}.spec", NO_VALUE, "field is immutable")
    if serving.group_size:
        yield from validate_immutable(
            text_of_path(serving.group_size), *(_count(one, serving.group_size) for one in (now, before))
        )
    if serving.size:
        size, was = (_count(one, serving.size) for one in (now, before))
        if size and was:
            yield from validate_immutable(text_of_path(serving.size), size, was)
        elif size and not was and number_at(new.status, "replicas"):
            yield forbidden(text_of_path(serving.size), "scaling down is still in progress")


def _count(document: Json, path: Path) -> int:
    value = value_at(document, path)
    return value if isinstance(value, int) else 1


def _select_fixed_part(document: Json, path: Path) -> Any:
    """Return a hash of the part of a pod template that must not change while pods queue; None if it is unreadable."""
    spec = value_at(document, (*path, "spec"))
    try:
        return role_hash(msgspec.convert(without_nulls(spec), PodSpec)) if isinstance(spec, dict) else None
    except (msgspec.ValidationError, QuantityError):
        return None
