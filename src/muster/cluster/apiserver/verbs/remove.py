"""The verbs delete and deletecollection: they read objects, call `deletion`, and write its decisions to the store."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import msgspec

from muster.api.batch import JOB
from muster.api.kinds import Kind
from muster.api.meta import DeleteOptions, ListMeta
from muster.api.status import StatusDetails, bad_request, not_found
from muster.cluster.apiserver.admission.chain import AdmissionChain, WriteAttempt
from muster.cluster.apiserver.decode import Document, decode, make_unrecognized_error
from muster.cluster.apiserver.objects.documents import Documents, decode_entry, make_typed_document
from muster.cluster.apiserver.objects.loading import load_entry, make_saved_document, make_written_body
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import list_options, parse_boolean, parse_integer
from muster.cluster.apiserver.schema import Checker, DecodeError, compile_builtin
from muster.cluster.apiserver.verbs.deletion import Removed, check_options, check_preconditions, delete
from muster.cluster.apiserver.verbs.read import Reader
from muster.cluster.store import Entry, Key, Put
from muster.runtime.clock import Clock
from muster.runtime.refusals import is_refusal
from muster.runtime.transport import Request

DELETE_OPTIONS = Kind("", "v1", "DeleteOptions", "deleteoptions", DeleteOptions)

_ORPHANED = (
    "child pods are preserved by default when jobs are deleted; "
    "set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
)
# A big collection is deleted in pieces, so that other requests get a turn in between.
_PIECE = 100


# Changes an object before its deletion, in place. The writes that it returns are committed together with the deletion.
Note: TypeAlias = Callable[[Document], Sequence[Put]]


def _change_nothing(document: Document) -> Sequence[Put]:  # noqa: ARG001  (one of many of this shape)
    """Change nothing: the default of `note`."""
    return ()


class Remover:
    """The part that deletes objects for requests."""

    def __init__(self, documents: Documents, reader: Reader, clock: Clock, admission: AdmissionChain) -> None:
        self._documents = documents
        self._reader = reader
        self._clock = clock
        self._admission = admission

    async def delete(self, call: Call) -> bytes | StatusDetails:
        """Delete one object. Raises `ApiError`.

        Return the object if it stays for now or if its kind returns deleted objects, else the details for a Status.
        """
        options = _read_options(call.request)
        return await self.delete_with(call, options)

    async def delete_with(
        self, call: Call, options: DeleteOptions, note: Note = _change_nothing
    ) -> bytes | StatusDetails:
        """Delete one object as `delete` does, with these options. Raises `ApiError`.

        note: changes the object before its deletion, and returns writes to commit with the deletion.
        """
        _warn_of_orphans(call, options)
        return await self._delete(call, options, note)

    async def delete_collection(self, call: Call) -> tuple[Sequence[Entry], ListMeta]:
        """Delete the objects of a list or page; return their entries before the deletion, and the list's metadata.

        Raises `ApiError` for the first object that cannot be deleted. Other objects may be deleted then.
        """
        chosen = list_options(call.request.query)
        options = _read_options(call.request)
        _warn_of_orphans(call, options)
        entries, meta = self._reader.page(call.resource, call.namespace, chosen)
        for first in range(0, len(entries), _PIECE):
            piece = entries[first : first + _PIECE]
            results = await asyncio.gather(
                *(self._delete_listed(call, entry.key, options) for entry in piece), return_exceptions=True
            )
            for result in results:
                # Another client may have deleted the object already.
                if isinstance(result, BaseException) and not is_refusal(result, "NotFound"):
                    raise result
        return entries, meta

    async def _delete_listed(self, call: Call, key: Key, options: DeleteOptions) -> None:
        one = Call(
            request=call.request,
            user=call.user,
            verb=call.verb,
            resource=call.resource,
            view=call.view,
            namespace=key.namespace,
            name=key.name,
            warnings=call.warnings,
            annotations=call.annotations,
        )
        await self._delete(one, options, _change_nothing)

    async def _delete(self, call: Call, options: DeleteOptions, note: Note) -> bytes | StatusDetails:
        """Delete one object; return its body, or details of the deletion, as the kind requires. Raises `ApiError`.

        If the object changes while webhooks decide, all steps are repeated with the new object.

        note: may change the object first, and returns further writes for the same commit.
        """
        rules, dry_run, now = call.resource.rules, bool(options.dry_run), self._clock.now()
        while True:
            entry = self._documents.latest(call.key)
            if entry is None:
                await self._documents.wait_until_durable(call.key)
                raise not_found(call.resource.name, call.name)
            loaded = await load_entry(call.resource, entry)
            document = decode_entry(loaded)
            check_preconditions(document, options, call.resource.kind)
            attempt = _make_attempt(call, document, options)
            await self._admission.change(attempt, self._documents.store, call.warnings)
            await self._admission.judge(attempt, self._documents.store, call.warnings)
            beside = note(document)
            outcome = delete(document, options, rules, now)
            saved = await make_saved_document(call.resource, outcome.document)
            if self._documents.latest(call.key) is entry:
                break  # another writer may have changed the object while webhooks answered: then begin again
        self._admission.settle(attempt, self._documents.store)
        if not isinstance(outcome, Removed) and not outcome.changed:
            await self._documents.wait_until_durable(call.key)
            return loaded.body
        write = self._documents.remove if isinstance(outcome, Removed) else self._documents.put
        typed = make_typed_document(call.resource.stored, saved) if saved is outcome.document else None
        stored_body = await write(call.key, saved, dry_run=dry_run, beside=beside, typed=typed)
        body = make_written_body(outcome.document, saved, stored_body)
        if rules.returns_deleted or not isinstance(outcome, Removed):
            return body
        kind = call.resource.kind
        return StatusDetails(name=call.name, group=kind.group, kind=kind.plural, uid=entry.header.uid)


def _warn_of_orphans(call: Call, options: DeleteOptions) -> None:
    """Warn the client if it deletes Jobs without saying what becomes of their pods, which then stay."""
    says = options.propagation_policy is not None or options.orphan_dependents is not None
    if call.resource.key == JOB.resource and not says:
        call.warnings.append(_ORPHANED)


def _make_attempt(call: Call, document: Document, options: DeleteOptions) -> WriteAttempt:
    return WriteAttempt(
        call.resource,
        "DELETE",
        call.namespace,
        call.name,
        call.user,
        document,
        call.view,
        document,
        options=options,
        annotations=call.annotations,
    )


@cache
def _make_checker() -> Checker:
    return compile_builtin(DELETE_OPTIONS)


def _read_options(request: Request) -> DeleteOptions:
    """Return the options in the body, or in the query if there is no body. Raises `ApiError` (400, 422)."""
    if not request.body:
        options = _parse_options(request.query)
    else:
        document = decode(request.body, request.content_type, DELETE_OPTIONS.kind, strict=False).document
        if document.get("kind", DELETE_OPTIONS.kind) != DELETE_OPTIONS.kind:
            raise make_unrecognized_error(DELETE_OPTIONS.kind, "it is of another kind", request.body)
        options = parse_options(document)
        if request.query.get("dryRun") and not options.dry_run:
            options = msgspec.structs.replace(options, dry_run=(request.query["dryRun"],))
    check_options(options)
    return options


def parse_options(document: dict[str, object]) -> DeleteOptions:
    """Return the options in a JSON document. Raises `ApiError` (400)."""
    try:
        return msgspec.convert(_make_checker()(document).value, DeleteOptions)
    except (DecodeError, msgspec.ValidationError) as error:
        raise bad_request(f'DeleteOptions in version "v1" cannot be handled as a DeleteOptions: {error}') from None


def _parse_options(query: Mapping[str, str]) -> DeleteOptions:
    if not query:
        return DeleteOptions()
    return DeleteOptions(
        grace_period_seconds=parse_integer(query, "gracePeriodSeconds"),
        orphan_dependents=parse_boolean(query, "orphanDependents"),
        propagation_policy=query.get("propagationPolicy") or None,
        dry_run=(query["dryRun"],) if query.get("dryRun") else (),
    )
