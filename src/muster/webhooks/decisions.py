"""Decide admission reviews: defaults, refusals and warnings. Pure: a `Find` provides the other objects that it reads.

This module only chooses the function for the reviewed resource. The functions are those of `api` and
`controllers.integrations`, which the embedded server calls, too.
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
from muster.api.managed.protection import HELD_KINDS, hold_while_used
from muster.api.meta import controller_of
from muster.api.patch.difference import compute_difference
from muster.api.status import FieldError, join_errors
from muster.api.validation import jobset as jobset_rules
from muster.api.validation.kueue import VALIDATIONS, Validation
from muster.controllers.integrations import admission
from muster.controllers.integrations.external.documents import text_at
from muster.controllers.integrations.framework import Integration
from muster.controllers.integrations.serving import admission as serving
from muster.controllers.integrations.serving.kinds import by_resource, kinds_of, select_serving
from muster.controllers.integrations.serving.pods import join_and_read
from muster.controllers.integrations.surroundings import Find, FoundSurroundings, kinds_above, settings_of
from muster.controllers.integrations.table import INTEGRATIONS, kinds_without_effect, list_enabled
from muster.jobs.job.quota import add_gate
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
_QUEUE = ("metadata", "labels", QUEUE_NAME_LABEL)
_HELD = frozenset(kind.resource for kind in HELD_KINDS)


class _UnreadableError(Exception):
    """A reviewed object that cannot be decoded as its kind. The message says why."""


class ReviewDecisions:
    """The decider of admission reviews under one Configuration. It allows objects of unknown resources."""

    def __init__(self, configuration: Configuration, integrations: Sequence[Integration[Any]] = INTEGRATIONS) -> None:
        ours = list_enabled(integrations, configuration)
        self._settings = settings_of(configuration)
        self._integrations = {one.kind.resource: one for one in ours}
        serve = select_serving(configuration)
        self._serving = by_resource(serve)
        self._above = kinds_above([*(one.kind for one in ours), *kinds_of(serve)])
        self._idle = {kind.resource: kind.kind for kind in kinds_without_effect(configuration)}
        self._pods_queue = "pod" in configuration.integrations.frameworks

    def mutate(self, request: Request, find: Find) -> bytes:
        """Return the encoded response to a mutating review: a patch that completes the object, or a refusal.

        The patch sets the object's defaults and the fields that it needs to queue. An object that cannot be decoded is
        allowed unchanged.
        """
        if request.object is None:
            return reviews.make_allowing_answer(request)
        given = without_nulls(request.object)  # the server prunes not all nulls before it calls webhooks
        try:
            document = self._complete(request, deepcopy(given), find)
        except NestingTooDeepError as error:
            return reviews.make_refusing_answer(request, str(error))
        except _UnreadableError:
            return reviews.make_allowing_answer(request)  # the server or `validate` refuses it
        return reviews.make_allowing_answer(request, compute_difference(given, document))

    def validate(self, request: Request, find: Find) -> bytes:
        """Return the encoded response to a validating review: allow the object, with warnings, or refuse it."""
        if request.object is None:
            return reviews.make_allowing_answer(request)
        try:
            errors = self._find_errors(request, request.object, find)
        except _UnreadableError as error:
            return reviews.make_refusing_answer(request, str(error))
        if errors:
            return reviews.make_refusing_answer(request, join_errors(errors))
        return reviews.make_allowing_answer(request, warnings=self._find_warnings(request, request.object))

    def _find_warnings(self, request: Request, document: Json) -> tuple[str, ...]:
        kind = self._idle.get(request.key)
        if kind is None or request.sub_resource:
            return ()
        queue, before = (text_at(one, *_QUEUE) for one in (document, request.old_object))
        warning = admission.warn_of_unread_queue(kind, queue, before)
        return (warning,) if warning else ()

    def _complete(self, request: Request, document: Json, find: Find) -> Json:
        is_new = request.operation == "CREATE"
        if request.sub_resource:
            return document
        if is_new and request.key in _HELD:
            hold_while_used(document)
        if request.key == JOB_SET.resource:  # applying a list again replaces it whole, without its defaults
            _convert_document(JOB_SET, document)  # the defaults rely on a valid form
            DEFAULTS[JOB_SET.resource](document)
        if is_new and request.key == POD.resource:
            self._complete_pod(request, document, find)
        if (one := self._serving.get(request.key)) is not None:
            new, around = _convert_document(one.kind, document), FoundSurroundings(self._above, find)
            old = None if is_new else _read_stored(request, one.kind)
            return serving.complete_templates(one, document, new, old, request.namespace, around, self._settings)
        integration = self._integrations.get(request.key)
        return self._complete_job(integration, request, document, find) if integration is not None else document

    def _complete_job(self, integration: Integration[Any], request: Request, document: Json, find: Find) -> Json:
        kind, namespace = integration.kind, request.namespace
        new = _convert_document(kind, document)
        if request.operation == "CREATE":
            around = FoundSurroundings(self._above, find)
            return admission.complete_new_job(integration, document, new, namespace, around, self._settings)
        old = _read_stored(request, kind)
        return admission.complete_changed_job(
            integration, document, new, old, lambda name: find(WORKLOAD, namespace, name)
        )

    def _complete_pod(self, request: Request, document: Json, find: Find) -> None:
        pod = _convert_document(POD, document)
        document.setdefault("spec", {})
        if self._pods_queue and (self._settings.without_queue or pods.controls_queueing(document["metadata"])):
            around = FoundSurroundings(self._above, find)
            pod = join_and_read(document, pod, request.namespace, find, self._settings)
            pods.complete(document, pod, request.namespace, around, self._settings)
        if self._waits_with_its_job(pod, request.namespace, find):
            add_gate(document["spec"])

    def _waits_with_its_job(self, pod: Pod, namespace: str, find: Find) -> bool:
        owner, labels = controller_of(pod.metadata), pod.metadata.labels
        if POD_SET_LABEL not in labels or owner is None:
            return False  # the engine suspends a Job that was resumed too early
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

    def _find_errors(self, request: Request, document: Json, find: Find) -> Sequence[FieldError]:
        errors = _find_broken_rules(request, document)
        if errors or request.sub_resource:
            return errors
        around = FoundSurroundings(self._above, find)
        if (one := self._serving.get(request.key)) is not None:
            before = None if request.operation == "CREATE" else _read_stored(request, one.kind)
            return serving.find_errors(one, _convert_document(one.kind, document), before, request.namespace, around)
        integration = self._integrations.get(request.key)
        kind = integration.kind if integration is not None else POD
        if integration is None and request.key != POD.resource:
            return []
        new = _convert_document(kind, document)
        old = None if request.operation == "CREATE" else _read_stored(request, kind)
        if integration is not None:
            return admission.find_errors(integration, new, old, around)
        if not self._pods_queue or not (self._settings.without_queue or pods.controls_queueing(document["metadata"])):
            return []
        return pods.validate_create(new) if old is None else pods.validate_update(new, old, around)


def _find_broken_rules(request: Request, document: Json) -> Sequence[FieldError]:
    """Return the errors in an object by the validation of its kind, which also applies to objects without a queue."""
    if request.key not in _RULES:
        return ()
    kind, rules = _RULES[request.key]
    new = _convert_document(kind, document)
    if request.operation == "CREATE":
        return rules.create(new)
    old = _read_stored(request, kind)
    return rules.status(new, old) if request.sub_resource == "status" else rules.update(new, old)


def _read_stored(request: Request, kind: Kind[Any]) -> Any:
    """Return the stored object. A JobSet may have been stored without its defaults, so these are added."""
    document = request.old_object or {}
    if request.key == JOB_SET.resource and not request.sub_resource:
        document = deepcopy(document)
        DEFAULTS[JOB_SET.resource](document)
    return _convert_document(kind, document)


def _convert_document(kind: Kind[Any], document: Json) -> Any:
    try:
        return kind.typed(document)
    except msgspec.ValidationError as error:
        said = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise _UnreadableError(said) from None
