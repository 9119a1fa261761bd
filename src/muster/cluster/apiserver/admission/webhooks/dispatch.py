"""Call the webhooks that match a write, and apply their decisions.

Mutating webhooks are called one after the other, in the order of the names of their configurations. Validating webhooks
are called concurrently. The configurations in the store are decoded again only when one of them has changed.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.patch import json as json_patch
from muster.api.server.admissionregistration import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
from muster.api.status import ApiError, bad_request, internal_error
from muster.api.values.selectors import SelectorError
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.admission.webhooks import review
from muster.cluster.apiserver.admission.webhooks.calls import CallError, Calls
from muster.cluster.apiserver.admission.webhooks.matching import Concern, Hook, find_concerned, is_selected
from muster.cluster.apiserver.admission.webhooks.review import ReviewError, WebhookDecision
from muster.cluster.apiserver.cel import ConditionError, all_hold
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.registry.resources import Registry, Resource, View
from muster.cluster.apiserver.schema import DecodeError
from muster.cluster.store import Entry, Key, Store
from muster.runtime.ids import Ids

log = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()
_DEFAULT_SECONDS = 10
VARIABLES = ("object", "oldObject", "request")  # the variables of match conditions
_WITHOUT_EFFECT = ("None", "NoneOnDryRun")


class _Hooks(Struct):
    """The webhooks in all configurations of one kind, and a cache of which webhooks match which writes."""

    kind: Kind[MutatingWebhookConfiguration] | Kind[ValidatingWebhookConfiguration]
    entries: Sequence[Entry] = ()
    generation: int = -1
    hooks: Sequence[Hook] = ()
    concerns: dict[tuple[Resource, str, str], list[Concern]] = field(default_factory=dict)

    def list_concerned(self, attempt: WriteAttempt, store: Store, registry: Registry) -> list[Concern]:
        """Return the webhooks whose rules match the resource and operation of a write."""
        entries = store.list(self.kind.resource).entries
        if entries != self.entries or registry.generation != self.generation:
            self.entries, self.generation = entries, registry.generation
            self.hooks = [hook for entry in entries for hook in _decode_hooks(self.kind, entry)]
            self.concerns = {}
        if not self.hooks:
            return []
        key = (attempt.resource, attempt.subresource, attempt.operation)
        concerns = self.concerns.get(key)
        if concerns is None:
            concerns = self.concerns[key] = find_concerned(self.hooks, *key, registry)
        return concerns


def _decode_hooks(kind: Kind[Any], entry: Entry) -> list[Hook]:
    hooks = []
    for webhook in kind.decode(entry.body).webhooks:
        try:
            hooks.append(Hook.of(webhook))
        except SelectorError as error:  # validation refuses such selectors, but older rules may have stored one
            log.warning("webhook left out", extra={"webhook": webhook.name, "why": str(error)})
    return hooks


class _CannotAskError(Exception):
    """A webhook that could not be called, or whose response cannot be used."""


class WebhookDispatcher:
    """A `chain.Webhooks` for the webhook configurations in the store."""

    def __init__(self, store: Store, registry: Registry, ids: Ids, calls: Calls) -> None:
        self._store = store
        self._registry = registry
        self._ids = ids
        self._calls = calls
        self._mutating = _Hooks(MUTATING_WEBHOOK_CONFIGURATION)
        self._validating = _Hooks(VALIDATING_WEBHOOK_CONFIGURATION)

    async def change(self, attempt: WriteAttempt, warnings: list[str]) -> bool:
        """Let the mutating webhooks change the document in place; return whether any changed it.

        After a change, call the earlier webhooks again whose reinvocation policy is IfNeeded. Raises `ApiError`.
        """
        concerns = self._mutating.list_concerned(attempt, self._store, self._registry)
        if not concerns:
            return False
        ever = False
        asked: list[Concern] = []  # webhooks to call again if the object changes after their call
        again: list[Concern] = []
        for concern in concerns:
            verdict = await self._ask(concern, attempt, warnings, may_change=True)
            if verdict is not None and await self._carry_out(concern, attempt, verdict):
                ever = True
                again = list(asked)
            webhook = concern.hook.webhook
            if isinstance(webhook, MutatingWebhook) and webhook.reinvocation_policy == "IfNeeded":
                asked.append(concern)
        for concern in again:
            verdict = await self._ask(concern, attempt, warnings, may_change=True)
            if verdict is not None:
                await self._carry_out(concern, attempt, verdict)
        return ever

    async def judge(self, attempt: WriteAttempt, warnings: list[str]) -> None:
        """Call the validating webhooks. If some refuse the write, raise the `ApiError` of the first in their order."""
        concerns = self._validating.list_concerned(attempt, self._store, self._registry)
        if not concerns:
            return
        questions = (self._ask(concern, attempt, warnings, may_change=False) for concern in concerns)
        results = await asyncio.gather(*questions, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _ask(
        self, concern: Concern, attempt: WriteAttempt, warnings: list[str], *, may_change: bool
    ) -> WebhookDecision | None:
        """Return the decision of a webhook.

        Return None if its selectors or match conditions do not match, or if it failed and its policy is to ignore
        failures. Raises `ApiError` if the webhook refuses the write, or failed with another policy.
        """
        hook, webhook = concern.hook, concern.hook.webhook
        objects = attempt.objects
        if not is_selected(
            hook,
            attempt.resource,
            attempt.subresource,
            attempt.operation,
            *objects,
            self._find_namespace_labels(attempt),
        ):
            return None
        try:
            verdict = await self._answer(concern, attempt, objects, may_change=may_change)
        except _CannotAskError as error:
            if webhook.failure_policy == "Ignore":
                log.warning("webhook failed, and is ignored", extra={"webhook": webhook.name, "why": str(error)[:500]})
                return None
            raise internal_error(f'failed calling webhook "{webhook.name}": {error}') from None
        if verdict is None:
            return None
        warnings += verdict.warnings
        attempt.annotations.update((f"{webhook.name}/{key}", value) for key, value in verdict.annotations)
        if not verdict.allowed:
            raise review.make_denial(webhook.name, verdict.status)
        return verdict

    async def _answer(
        self,
        concern: Concern,
        attempt: WriteAttempt,
        objects: tuple[Document | None, Document | None],
        *,
        may_change: bool,
    ) -> WebhookDecision | None:
        """Call a webhook and return its decision.

        Return None if its match conditions do not hold, or if they fail and the webhook's policy ignores failures.
        Raises `_CannotAskError`, and `ApiError`: 400 for a dry run that the webhook does not support, 403 for match
        conditions that fail.
        """
        webhook, uid = concern.hook.webhook, self._ids.uid()
        try:
            version = review.version_for(webhook.admission_review_versions)
            view = self._choose_view(concern, attempt)
            new, old = objects
            shown = await self._convert_out(concern, attempt, new), await self._convert_out(concern, attempt, old)
            question = review.make_review(attempt, concern.resource, view, *shown, uid, version)
            request = question["request"]
            given = {"object": request["object"], "oldObject": request["oldObject"], "request": request}
            if not all_hold((each.expression for each in webhook.match_conditions), VARIABLES, given):
                return None
            if review.is_dry_run(attempt) and webhook.side_effects not in _WITHOUT_EFFECT:
                raise bad_request(f'admission webhook "{webhook.name}" does not support dry run')
            seconds = webhook.timeout_seconds or _DEFAULT_SECONDS
            body = await self._calls.post(webhook.client_config, _encoder.encode(question), seconds)
            return review.read_answer(body, uid, version, may_change=may_change)
        except ConditionError as error:
            if webhook.failure_policy == "Ignore":
                return None
            raise attempt.make_refusal(str(error)) from None
        except (CallError, ReviewError) as error:
            raise _CannotAskError(str(error)) from None

    def _choose_view(self, concern: Concern, attempt: WriteAttempt) -> View:
        if concern.resource is attempt.resource:
            return attempt.view
        return concern.view(attempt.subresource, attempt.view)

    def _find_namespace_labels(self, attempt: WriteAttempt) -> dict[str, str] | None:
        if not attempt.namespace:
            return None
        entry = self._store.latest(Key(NAMESPACE.resource, "", attempt.namespace))
        return entry.header.labels if entry is not None else {}

    async def _carry_out(self, concern: Concern, attempt: WriteAttempt, verdict: WebhookDecision) -> bool:
        """Apply a webhook's patch to the document; return whether that changed it. Raises `ApiError` (500)."""
        if not verdict.operations:
            return False
        name = concern.hook.webhook.name
        document = attempt.document
        if attempt.operation not in ("CREATE", "UPDATE"):
            sentence = "attempted to modify the object, which is not supported for this operation"
            raise internal_error(f'admission webhook "{name}" {sentence}')
        shown = await self._convert_out(concern, attempt, document)
        assert shown is not None
        try:
            # The next stage relies on the form of the object, which the checker ensures.
            patched = self._choose_view(concern, attempt).checker(json_patch.apply(shown, verdict.operations)).value
        except (ApiError, DecodeError) as error:
            raise internal_error(f'applying the patch of admission webhook "{name}": {error}') from None
        if patched == shown:
            return False
        taken = await self._convert_back(concern, attempt, patched)
        document.clear()
        document.update(taken)
        return True

    async def _convert_out(self, concern: Concern, attempt: WriteAttempt, document: Document | None) -> Document | None:
        """Return an object in the form for a webhook: in its version, and as the subresource if one is written.

        The empty resourceVersion of a new object is left out.
        """
        if document is None:
            return None
        view, storage = self._choose_view(concern, attempt), concern.resource.storage
        shown = document if view.show is None else view.show(document)
        if storage is not None and concern.resource is not attempt.resource:
            shown = await storage.convert(shown)
        meta: Any = shown.get("metadata")
        if attempt.operation == "CREATE" and isinstance(meta, dict) and meta.get("resourceVersion") == "":
            members = {name: value for name, value in meta.items() if name != "resourceVersion"}
            return shown | {"metadata": members}
        return shown

    async def _convert_back(self, concern: Concern, attempt: WriteAttempt, document: Document) -> Document:
        """Return the object to store, from the form in which a webhook got it and has changed it."""
        view, storage = self._choose_view(concern, attempt), attempt.resource.storage
        if storage is not None and concern.resource is not attempt.resource:
            document = await storage.convert(document)
        if view.show is None and attempt.old is None:
            return document
        return view.take(attempt.old or {}, document)
