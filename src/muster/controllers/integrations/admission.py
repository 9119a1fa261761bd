"""What a job of an integrated kind gets on its way in, and what is refused. Pure.

The server, or a webhook beside one, looks at what this needs to know (`Surroundings`) and does what it says.
"""

from itertools import chain
from typing import Any, TypeVar

from msgspec.structs import replace

from muster.api.kueue.names import ELASTIC_JOB, PRIORITY_CLASS_LABEL, QUEUE_NAME_LABEL
from muster.api.managed.jobs import arrival, changes, new_rules
from muster.api.managed.surroundings import Settings, Surroundings
from muster.api.meta import ObjectMeta
from muster.api.status import FieldError
from muster.controllers.integrations.framework import Integration
from muster.runtime.objects import meta_of

T = TypeVar("T")


def completing(
    integration: Integration[T], job: T, namespace: str, around: Surroundings, settings: Settings
) -> list[dict[str, Any]]:
    """What a new job gets, as JSON merge patches in their order. Raises `NestingTooDeepError`."""
    if not integration.is_managed(job):
        return []
    handed_over = integration.hand_over(job)
    meta = replace(meta_of(job), namespace=namespace)
    gets = arrival(meta, around, settings, dispatchable=bool(handed_over))
    labels = {QUEUE_NAME_LABEL: gets.queue, PRIORITY_CLASS_LABEL: gets.priority_class}
    patches: list[dict[str, Any]] = [{"metadata": {"labels": {label: name}}} for label, name in labels.items() if name]
    if gets.suspend:
        patches += (step.patch for step in integration.stop(job) if not step.subresource)
        patches.append(handed_over if gets.elsewhere else integration.defaults(job))
    return [patch for patch in patches if patch]


def keeping(new: ObjectMeta, old: ObjectMeta) -> dict[str, Any]:
    """What a change leaves out that was set here, as a merge patch: a manifest can be put again as it was."""
    left_out = old.annotations.get(ELASTIC_JOB) == "true" and ELASTIC_JOB not in new.annotations
    return {"metadata": {"annotations": {ELASTIC_JOB: "true"}}} if left_out else {}


def errors(integration: Integration[T], job: T, old: T | None, around: Surroundings) -> list[FieldError]:
    """What is wrong with a job as it is to be stored: a new one, or a change of `old`."""
    found = chain(new_rules(meta_of(job)), integration.rules(job, old))
    if old is None:
        return list(found)
    suspended, was_suspended = integration.is_suspended(job), integration.is_suspended(old)
    common = changes(meta_of(job), meta_of(old), around, suspended=suspended, was_suspended=was_suspended)
    return list(chain(found, common, integration.changes(job, old)))
