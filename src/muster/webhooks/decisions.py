"""What becomes of what is written, as a review asks. Pure: what else has to be known is found by what is given.

The decisions are those of `api` and `controllers.integrations`, by which the embedded server lives too; here they are
only chosen, by the resource.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec

from muster.api.batch import JOB
from muster.api.config import Configuration
from muster.api.core import POD, Pod
from muster.api.defaults import DEFAULTS
from muster.api.jobset import JOB_SET
from muster.api.jobset.names import JOBSET_NAME, JOBSET_UID
from muster.api.kinds import Kind, without_nulls
from muster.api.kueue import KUEUE_KINDS, WORKLOAD
from muster.api.kueue.names import POD_SET_LABEL, QUEUE_NAME_LABEL
from muster.api.managed import pods
from muster.api.managed.ancestry import NestingTooDeepError
from muster.api.managed.held import HELD_KINDS, hold_while_used
from muster.api.meta import controller_of
from muster.api.patch.difference import difference
from muster.api.status import FieldError, together
from muster.api.validation import jobset as jobset_rules
from muster.api.validation.kueue import VALIDATIONS, Validation
from muster.controllers.integrations import admission
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.surroundings import Find, FoundSurroundings, kinds_above, settings_of
from muster.controllers.integrations.table import INTEGRATIONS, chosen
from muster.jobs.job.quota import GATE
from muster.webhooks import reviews
from muster.webhooks.reviews import Request

Json = dict[str, Any]

_RULES: dict[str, tuple[Kind[Any], Validation]] = {
    **{kind.resource: (kind, VALIDATIONS[kind.resource]) for kind in KUEUE_KINDS},
    JOB_SET.resource: (
        JOB_SET,
        Validation(jobset_rules.validate_create, jobset_rules.validate_update, jobset_rules.validate_status_update),
    ),
}
_HELD = frozenset(kind.resource for kind in HELD_KINDS)


class _UnreadableError(Exception):
    """An object is not what its kind says; says why."""


class Decisions:
    """By the Configuration. What nothing here is known of may be written as it is."""

    def __init__(self, configuration: Configuration, integrations: Sequence[Integration[Any]] = INTEGRATIONS) -> None:
        ours = chosen(integrations, configuration)
        self._settings = settings_of(configuration)
        self._integrations = {one.kind.resource: one for one in ours}
        self._above = kinds_above(ours)
        self._pods_queue = "pod" in configuration.integrations.frameworks

    def mutate(self, request: Request, find: Find) -> bytes:
        """The answer to who asks what an object gets."""
        if request.object is None:
            return reviews.allowed(request)
        given = without_nulls(request.object)  # definitions do not prune all of them before webhooks are asked
        try:
            document = self._completed(request, deepcopy(given), find)
        except NestingTooDeepError as error:
            return reviews.refused(request, str(error))
        except _UnreadableError:
            return reviews.allowed(request)  # the server refuses it, or else `validate`
        return reviews.allowed(request, difference(given, document))

    def validate(self, request: Request, find: Find) -> bytes:
        """The answer to who asks whether an object may be stored."""
        if request.object is None:
            return reviews.allowed(request)
        try:
            errors = self._errors(request, request.object, find)
        except _UnreadableError as error:
            return reviews.refused(request, str(error))
        return reviews.refused(request, together(errors)) if errors else reviews.allowed(request)

    def _completed(self, request: Request, document: Json, find: Find) -> Json:
        is_new = request.operation == "CREATE"
        if request.sub_resource:
            return document
        if is_new and request.key in _HELD:
            hold_while_used(document)
        if request.key == JOB_SET.resource:  # a user who applies a list again sends it whole, without its defaults
            _typed(JOB_SET, document)  # they rely on the form
            DEFAULTS[JOB_SET.resource](document)
        if is_new and request.key == POD.resource:
            self._complete_pod(request, document, find)
        integration = self._integrations.get(request.key)
        return self._completed_job(integration, request, document, find) if integration is not None else document

    def _completed_job(self, integration: Integration[Any], request: Request, document: Json, find: Find) -> Json:
        kind, namespace = integration.kind, request.namespace
        new = _typed(kind, document)
        if request.operation == "CREATE":
            around = FoundSurroundings(self._above, find)
            return admission.arrived(integration, document, new, namespace, around, self._settings)
        old = _before(request, kind)
        return admission.changed(integration, document, new, old, lambda name: find(WORKLOAD, namespace, name))

    def _complete_pod(self, request: Request, document: Json, find: Find) -> None:
        pod = _typed(POD, document)
        document.setdefault("spec", {})
        if self._pods_queue and (self._settings.without_queue or pods.says_something(document["metadata"])):
            around = FoundSurroundings(self._above, find)
            pods.complete(document, pod, request.namespace, around, self._settings)
        if self._waits_with_its_job(pod, request.namespace, find):
            document["spec"].setdefault("schedulingGates", []).append({"name": GATE})

    def _waits_with_its_job(self, pod: Pod, namespace: str, find: Find) -> bool:
        owner, labels = controller_of(pod.metadata), pod.metadata.labels
        if POD_SET_LABEL not in labels or owner is None:
            return False  # a Job that was resumed before its time is suspended again
        if name := labels.get(JOBSET_NAME, ""):
            jobset = find(JOB_SET, namespace, name) if JOB_SET.resource in self._integrations else None
            queues = jobset is not None and QUEUE_NAME_LABEL in jobset.metadata.labels
            if jobset is None or not queues or jobset.metadata.uid != labels.get(JOBSET_UID):
                return False
            own = admission.name_of_workload(JOB_SET, jobset.metadata)
            return admission.role_waits_for_quota(labels, jobset, find(WORKLOAD, namespace, own))
        job = find(JOB, namespace, owner.name) if JOB.is_of(owner) and JOB.resource in self._integrations else None
        if job is None or job.metadata.uid != owner.uid:
            return False
        own = admission.name_of_workload(JOB, job.metadata)
        return admission.waits_for_quota(pod, job, find(WORKLOAD, namespace, own))

    def _errors(self, request: Request, document: Json, find: Find) -> Sequence[FieldError]:
        errors = _broken_rules(request, document)
        if errors or request.sub_resource:
            return errors
        around = FoundSurroundings(self._above, find)
        integration = self._integrations.get(request.key)
        kind = integration.kind if integration is not None else POD
        if integration is None and request.key != POD.resource:
            return []
        new = _typed(kind, document)
        old = None if request.operation == "CREATE" else _before(request, kind)
        if integration is not None:
            return admission.errors(integration, new, old, around)
        if not self._pods_queue or not (self._settings.without_queue or pods.says_something(document["metadata"])):
            return []
        return pods.validate_create(new) if old is None else pods.validate_update(new, old, around)


def _broken_rules(request: Request, document: Json) -> Sequence[FieldError]:
    """The rules that all objects of a kind keep, whatever queues."""
    if request.key not in _RULES:
        return ()
    kind, rules = _RULES[request.key]
    new = _typed(kind, document)
    if request.operation == "CREATE":
        return rules.create(new)
    old = _before(request, kind)
    return rules.status(new, old) if request.sub_resource == "status" else rules.update(new, old)


def _before(request: Request, kind: Kind[Any]) -> Any:
    """The object as it is stored. A JobSet that came while no webhook answered has what its defaults mean."""
    document = request.old_object or {}
    if request.key == JOB_SET.resource and not request.sub_resource:
        document = deepcopy(document)
        DEFAULTS[JOB_SET.resource](document)
    return _typed(kind, document)


def _typed(kind: Kind[Any], document: Json) -> Any:
    try:
        return kind.typed(document)
    except msgspec.ValidationError as error:
        said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise _UnreadableError(said) from None
