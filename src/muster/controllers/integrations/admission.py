"""Decide the defaults of a job of an integrated kind when it is created or updated, and the errors. Pure.

The API server, or a webhook, provides the inputs (`Surroundings`) and applies the result.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from muster.api.batch import Job
from muster.api.conditions import is_true
from muster.api.core import Pod
from muster.api.jobset import JobSet
from muster.api.jobset.names import REPLICATED_JOB_NAME
from muster.api.kinds import Kind
from muster.api.kueue import Workload
from muster.api.kueue.names import ADMITTED, ELASTIC_JOB, POD_SET_LABEL, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.managed.jobs import (
    find_forbidden_changes,
    list_arrival_changes,
    prebuilt_name,
    validate_queueing_metadata,
)
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import ObjectMeta, controller_of
from muster.api.ours.elastic import is_elastic
from muster.api.patch import json as json_patch
from muster.api.patch import merge
from muster.api.status import FieldError
from muster.controllers.integrations.framework import Integration
from muster.jobs.job.quota import must_wait
from muster.jobs.job.terms import JobTerms
from muster.jobs.jobset.quota import by_role
from muster.jobs.jobset.quota import must_wait as must_wait_of_role
from muster.queueing.elastic.growth import count_granted_pods
from muster.queueing.jobframework.names import workload_name
from muster.runtime.objects import meta_of

T = TypeVar("T")

# Returns the Workload of that name in the namespace of the written object, or None if there is none.
FindWorkload = Callable[[str], Workload | None]


def read_or_none(document: Mapping[str, Any], kind: Kind[T]) -> T | None:
    """Return the typed object, or None if it does not match its schema."""
    try:
        return kind.typed(document)
    except msgspec.ValidationError:
        return None


def complete_new_job(
    integration: Integration[T],
    document: dict[str, Any],
    job: T,
    namespace: str,
    around: Surroundings,
    settings: Settings,
) -> dict[str, Any]:
    """Return the document of a new job with all defaults for queueing. Raises `NestingTooDeepError`.

    job: the typed form of the document.
    """
    for patch in list_default_patches(integration, job, namespace, around, settings):
        document = merge.apply(document, patch)
    return document


def complete_changed_job(
    integration: Integration[T], document: dict[str, Any], new: T, old: T, find_workload: FindWorkload
) -> dict[str, Any]:
    """Return the document of an updated job, with the values that the engine had set or injected and the update omits.

    new, old: the job after and before the update.
    """
    if left_out := make_keeping_patch(meta_of(new), meta_of(old)):
        document = merge.apply(document, left_out)
    if integration.lacks_injection(old) or not integration.lacks_injection(new):
        return document
    workload = find_workload(name_of_workload(integration.kind, meta_of(old)))
    edits = integration.keeping(new, old, workload.spec.pod_sets) if workload is not None else ()
    return json_patch.apply(document, msgspec.json.decode(msgspec.json.encode(edits))) if edits else document


def name_of_workload(kind: Kind[Any], meta: ObjectMeta) -> str:
    """Return the name of a job's Workload: the prebuilt Workload that the job names, else Kueue's name for the job."""
    return prebuilt_name(meta) or workload_name(kind.kind, kind.group, meta.name, meta.uid)


def list_default_patches(
    integration: Integration[T], job: T, namespace: str, around: Surroundings, settings: Settings
) -> list[dict[str, Any]]:
    """Return the defaults of a new job, as JSON merge patches in order. Raises `NestingTooDeepError`.

    The patches set the labels of the queue and the priority class, suspend the job, and add the defaults of its kind.
    There are no patches for a job that the engine may not start.
    """
    if not integration.is_managed(job):
        return []
    handed_over = integration.hand_over(job)
    meta = replace(meta_of(job), namespace=namespace)
    gets = list_arrival_changes(meta, around, settings, dispatchable=bool(handed_over))
    labels = {QUEUE_NAME_LABEL: gets.queue, PRIORITY_CLASS_LABEL: gets.priority_class}
    patches: list[dict[str, Any]] = [{"metadata": {"labels": {label: name}}} for label, name in labels.items() if name]
    if gets.suspend:
        patches += (step.patch for step in integration.stop(job) if not step.subresource)
        patches.append(handed_over if gets.elsewhere else integration.defaults(job))
    return [patch for patch in patches if patch]


def warn_of_unread_queue(kind: str, queue: object, before: object) -> str:
    """Return the warning that a queue name has no effect, because no integration for the kind is enabled.

    Return "" if the name is empty or unchanged. The caller has checked the integrations.
    queue, before: the queue name now and before the update.
    """
    if not queue or queue == before:
        return ""
    return f"{QUEUE_NAME_LABEL}: no integration for {kind} is enabled, it does not wait in a queue"


def make_keeping_patch(new: ObjectMeta, old: ObjectMeta) -> dict[str, Any]:
    """Return a merge patch of metadata that restores the values that the engine set and an update omits.

    So a user can apply the original manifest again.
    """
    left_out = old.annotations.get(ELASTIC_JOB) == "true" and ELASTIC_JOB not in new.annotations
    return {"metadata": {"annotations": {ELASTIC_JOB: "true"}}} if left_out else {}


def find_errors(integration: Integration[T], job: T, old: T | None, around: Surroundings) -> list[FieldError]:
    """Return the errors in a job to be stored: a new one, or an update of `old`."""
    all_errors = chain(
        validate_queueing_metadata(meta_of(job), meta_of(old) if old is not None else None), integration.rules(job, old)
    )
    if old is None:
        return list(all_errors)
    suspended, was_suspended = integration.is_suspended(job), integration.is_suspended(old)
    common = find_forbidden_changes(
        meta_of(job), meta_of(old), around, suspended=suspended, was_suspended=was_suspended
    )
    return list(chain(all_errors, common, integration.changes(job, old)))


# Pods of jobs.


def waits_for_quota(pod: Pod, job: Job, workload: Workload | None) -> bool:
    """Return whether a new pod of a queued Job is gated until the Job is admitted and its fields are injected.

    Only a Job that the engine started gives its pods the label of their podset. An elastic Job runs as many pods as
    were granted.
    """
    has_label = POD_SET_LABEL in pod.metadata.labels
    if workload is not None and not (has_label and is_true(workload.status.conditions, ADMITTED)):
        return True
    size = sum(count_granted_pods(workload).values()) if workload is not None else 0
    return has_label and is_elastic(job.metadata.annotations) and must_wait(pod, JobTerms.of(job), size)


def role_waits_for_quota(labels: Mapping[str, str], jobset: JobSet, workload: Workload | None) -> bool:
    """Return whether a new pod with these labels, of a queued JobSet, is gated because its role exceeds its grant.

    That is so while a grown JobSet waits for more quota, if another program resumed a JobSet that is not admitted, and
    after the Workload of a JobSet that was started with quota was deleted.
    """
    role = str(labels.get(REPLICATED_JOB_NAME, ""))
    if workload is None and (POD_SET_LABEL not in labels or controller_of(jobset.metadata) is not None):
        return False  # the job runs without quota: its namespace is not managed, or its owner queues
    size = by_role(jobset, workload, count_granted_pods(workload)).get(role, 0) if workload is not None else 0
    return must_wait_of_role(jobset, role, size)
