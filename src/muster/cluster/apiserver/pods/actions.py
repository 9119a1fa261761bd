"""Bind pods to nodes and evict them, for POST requests to `pods/binding` and `pods/eviction`."""

from typing import Any

import msgspec

from muster.api.core import POD, Binding, Pod
from muster.api.groups.policy import POD_DISRUPTION_BUDGET
from muster.api.pods import is_finished
from muster.api.status import ApiError, bad_request, conflict, invalid, not_found
from muster.api.validation.pods.pod import validate_binding
from muster.cluster.apiserver.admission.chain import Webhooks
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.objects.conditions import set_condition
from muster.cluster.apiserver.objects.documents import Documents, decode_entry, make_put, make_typed_document
from muster.cluster.apiserver.objects.metadata import format_timestamp, meta_of, set_namespace
from muster.cluster.apiserver.pods.budgets import charge_eviction, document_of
from muster.cluster.apiserver.pods.selection import Budgets
from muster.cluster.apiserver.request.body import check_patched, read_object
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import WriteOptions, write_options
from muster.cluster.apiserver.verbs.deletion import check_options
from muster.cluster.apiserver.verbs.remove import Remover, parse_options
from muster.cluster.store import Key, Put
from muster.runtime.clock import Clock


class PodActions:
    """The actions that bind and evict pods."""

    def __init__(self, documents: Documents, remover: Remover, clock: Clock, webhooks: Webhooks) -> None:
        self._documents = documents
        self._remover = remover
        self._clock = clock
        self._webhooks = webhooks
        self._budgets = Budgets(documents.store)

    async def bind(self, call: Call) -> None:
        """Bind a pod to the node that the Binding in the body names. Raises `ApiError`."""
        options = write_options(call.request.query, "CreateOptions")
        written = read_object(call.request, call.view, options, call.warnings)
        meta = meta_of(written)
        set_namespace(meta, call.namespace)
        if meta.get("name") not in (None, "", call.name):
            raise bad_request(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({call.name})"
            )
        if await self._call_webhooks(call, written, options):
            written = check_patched(written, call.view, options, call.warnings)
        binding = msgspec.convert(written, Binding)
        if errors := validate_binding(binding):
            raise invalid("Binding", "", call.name, errors)
        entry = self._documents.latest(call.key)
        if entry is None:
            raise not_found("pods", call.name)
        pod = decode_entry(entry)
        _check_bindable(pod, meta)
        _assign_node(pod, binding, format_timestamp(self._clock.now()))
        await self._documents.put(call.key, pod, dry_run=options.dry_run, typed=make_typed_document(POD, pod))

    async def evict(self, call: Call) -> None:
        """Delete a pod gracefully, and mark it as evicted. Raises `ApiError`: 429 if a disruption budget refuses.

        The store commits the mark, the deletion and the charged budget together or not at all.
        """
        query_options = write_options(call.request.query, "CreateOptions")
        written = read_object(call.request, call.view, query_options, call.warnings)
        if meta_of(written).get("name") != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        if await self._call_webhooks(call, written, query_options):
            written = check_patched(written, call.view, query_options, call.warnings)
        options = parse_options(written.get("deleteOptions") or {})
        if query_options.dry_run:
            options = msgspec.structs.replace(options, dry_run=("All",))
        check_options(options)
        await self._remover.delete_with(call, options, self._charge_budget)

    async def _call_webhooks(self, call: Call, written: Document, options: WriteOptions) -> bool:
        """Call the webhooks about the posted object; return whether they changed it, in place. Raises `ApiError`."""
        attempt = call.make_attempt("CREATE", written, None, options)
        changed = await self._webhooks.change(attempt, call.warnings)
        await self._webhooks.judge(attempt, call.warnings)
        return changed

    def _charge_budget(self, pod: Document) -> tuple[Put, ...]:
        """Mark a pod as evicted in place, and return the write that charges its budget, if any. Raises `ApiError`.

        A finished pod is not marked. kube-apiserver marks it, but its Job controller counts the failure all the same.
        """
        now, typed_pod = self._clock.now(), msgspec.convert(pod, Pod)
        budget = charge_eviction(typed_pod, self._budgets.list_selecting(pod["metadata"]), now)
        if not is_finished(typed_pod):
            reason, message = "EvictionByEvictionAPI", "Eviction API: evicting"
            status = pod.setdefault("status", {})
            set_condition(status, "DisruptionTarget", "True", format_timestamp(now), reason=reason, message=message)
        if budget is None:
            return ()
        key = Key(POD_DISRUPTION_BUDGET.resource, budget.metadata.namespace, budget.metadata.name)
        entry = self._documents.latest(key)
        assert entry is not None, "it was there just now"
        return (make_put(key, decode_entry(entry) | {"status": document_of(budget.status)}),)


def _check_bindable(pod: Document, preconditions: dict[str, Any]) -> None:
    """Raise `ApiError` (409) if the pod has a node, is gated or being deleted, or does not meet the preconditions.

    preconditions: the metadata of the Binding. A UID or resource version in it must be the pod's.
    """
    meta, spec = pod["metadata"], pod["spec"]
    name = meta["name"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if (expected := preconditions.get(field)) and expected != meta[field]:
            raise _make_unbindable_error(
                name,
                f"Precondition failed: {label} in precondition: {expected}, {label} in object meta: {meta[field]}",
            )
    if meta.get("deletionTimestamp"):
        raise _make_unbindable_error(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _make_unbindable_error(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _make_unbindable_error(name, f"pod {name} has non-empty .spec.schedulingGates")


def _make_unbindable_error(name: str, why: str) -> ApiError:
    return conflict("pods/binding", name, why)


def _assign_node(pod: Document, binding: Binding, now: str) -> None:
    pod["spec"]["nodeName"] = binding.target.name
    if binding.metadata.annotations:
        pod["metadata"]["annotations"] = pod["metadata"].get("annotations", {}) | binding.metadata.annotations
    set_condition(pod.setdefault("status", {}), "PodScheduled", "True", now)
