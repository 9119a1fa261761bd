"""Create, update and patch.

What becomes of an object is decided by pure functions on documents (metadata, views, defaults, preparation,
validation, deletion); here they are called in order, on the newest state, and the result is written.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from muster.api.status import (
    FieldError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    not_found,
    unsupported_media_type,
)
from muster.cluster.apiserver import metadata
from muster.cluster.apiserver.admission import Admission, Attempt
from muster.cluster.apiserver.body import check_patched, read_object
from muster.cluster.apiserver.call import Call
from muster.cluster.apiserver.decode import Document, decode_any, media_type
from muster.cluster.apiserver.deletion import is_over
from muster.cluster.apiserver.documents import Documents, decode_entry
from muster.cluster.apiserver.patch import json as json_patch
from muster.cluster.apiserver.patch import merge, strategic
from muster.cluster.apiserver.registry import View
from muster.cluster.apiserver.request import WriteOptions, write_options
from muster.cluster.store import Entry, Key
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

NAME_ATTEMPTS = 8  # how often a generated name may be taken
CHANGE_ATTEMPTS = 5  # how often others may write first, while webhooks have their say (as kube-apiserver)


class Writer:
    """Creates and changes objects."""

    def __init__(self, documents: Documents, clock: Clock, ids: Ids, admission: Admission) -> None:
        self._documents = documents
        self._clock = clock
        self._ids = ids
        self._admission = admission

    async def create(self, call: Call) -> bytes:
        """Store the new object in the body. Raises `ApiError`."""
        options = write_options(call.request.query, "CreateOptions")
        document = read_object(call.request, call.view, options, call.warnings)
        metadata.set_namespace(metadata.meta_of(document), call.namespace)
        metadata.check_unversioned(document)
        return await self._create(call, _taken({}, document, call.view, new=True), options)

    async def update(self, call: Call) -> tuple[bytes, bool]:
        """Replace an object by the one in the body; also whether it was created. Raises `ApiError`."""
        options = write_options(call.request.query, "UpdateOptions")
        document = _read_replacement(call, options)
        unused = [document]

        def replaced(old: Document) -> Document:
            # A second time only after webhooks had their hands on it: then it is read anew.
            return _replaced(call, old, unused.pop() if unused else _read_replacement(call, options))

        if self._documents.latest(call.key) is not None:
            return await self._change(call, options, replaced), False
        if call.subresource or not call.resource.rules.create_on_update:
            raise not_found(call.resource.name, call.name)
        if uid := metadata.meta_of(document).get("uid"):
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise conflict(call.resource.name, call.name, message)
        return await self._create(call, _taken({}, document, call.view, new=True), options), True

    async def patch(self, call: Call) -> bytes:
        """Change an object as the body says. Raises `ApiError`."""
        options = write_options(call.request.query, "PatchOptions")
        patch = _read_patch(call)

        def patched(old: Document) -> Document:
            shown = old if call.view.show is None else call.view.show(old)
            document = check_patched(_apply(call, shown, patch), call.view, options, call.warnings)
            metadata.check_name(document, call.name, call.namespace)
            return _replaced(call, old, document)

        return await self._change(call, options, patched)

    async def _create(self, call: Call, document: Document, options: WriteOptions) -> bytes:
        rules, namespace, store = call.resource.rules, call.namespace, self._documents.store
        meta = metadata.meta_of(document)
        name = meta.get("name") or self._generated_name(call, meta.get("generateName", ""))
        metadata.begin(document, name=name, uid=self._ids.uid(), now=self._clock.now(), generation=rules.has_generation)
        rules.default(document)
        attempt = Attempt(
            call.resource, "CREATE", namespace, name, call.user, document, call.view, None, call.subresource, options
        )
        begun = document["metadata"]
        if await self._admission.change(attempt, store, call.warnings):
            _complete_again(call, document, {}, begun)
        rules.prepare_create(document)
        _require_valid(call, name, call.view.validate_create(_typed(call, document)))
        await self._admission.judge(attempt, store, call.warnings)
        key = Key(call.resource.key, namespace, name)
        if self._documents.latest(key) is not None:
            raise already_exists(call.resource.name, name)
        self._admission.settle(attempt, store)
        return await self._documents.put(key, document, dry_run=options.dry_run)

    def _generated_name(self, call: Call, prefix: str) -> str:
        """A free name, or "" if there is nothing to make one from."""
        if not prefix:
            return ""
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = prefix[: metadata.MAX_PREFIX_LENGTH] + self._ids.suffix(metadata.SUFFIX_LENGTH)
            if self._documents.latest(Key(call.resource.key, call.namespace, name)) is None:
                return name
        raise already_exists(call.resource.name, name)

    async def _change(self, call: Call, options: WriteOptions, change: Callable[[Document], Document]) -> bytes:
        """Store what `change` makes of the stored object, as it is when it is written. Raises `ApiError`."""
        for _ in range(CHANGE_ATTEMPTS):
            entry = self._documents.latest(call.key)
            if entry is None:
                raise not_found(call.resource.name, call.name)
            body = await self._replace(call, entry, change(decode_entry(entry)), options)
            if body is not None:
                return body
        raise conflict(call.resource.name, call.name)

    async def _replace(self, call: Call, entry: Entry, document: Document, options: WriteOptions) -> bytes | None:
        """Write the changed object; None if somebody else has changed it meanwhile."""
        resource, rules, store = call.resource, call.resource.rules, self._documents.store
        old = decode_entry(entry)
        metadata.carry_over(document, old)
        rules.default(document)
        if not call.subresource:
            rules.prepare_update(document, old)
        attempt = Attempt(
            resource,
            "UPDATE",
            call.namespace,
            call.name,
            call.user,
            document,
            call.view,
            old,
            call.subresource,
            options,
        )
        if await self._admission.change(attempt, store, call.warnings):
            _complete_again(call, document, old, old["metadata"])
        if rules.has_generation and document.get("spec") != old.get("spec"):
            document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if document == old:
            return entry.body
        _require_valid(call, call.name, call.view.validate_update(_typed(call, document), _typed(call, old)))
        await self._admission.judge(attempt, store, call.warnings)
        if self._documents.latest(call.key) is not entry:
            return None  # while webhooks had their say
        self._admission.settle(attempt, store)
        if is_over(document):
            return await self._documents.remove(call.key, document, dry_run=options.dry_run)
        return await self._documents.put(call.key, document, dry_run=options.dry_run)


def _read_replacement(call: Call, options: WriteOptions) -> Document:
    document = read_object(call.request, call.view, options, call.warnings)
    metadata.check_name(document, call.name, call.namespace)
    return document


def _taken(stored: Document, shown: Document, view: View, *, new: bool = False) -> Document:
    """The object to store, from one as the view shows it."""
    return shown if new and view.show is None else view.take(stored, shown)


def _replaced(call: Call, old: Document, written: Document) -> Document:
    """The object to store, from the stored one and a whole one in its place. Raises `ApiError` (409, 422)."""
    resource = call.resource
    metadata.check_version(written, old, resource.name, unconditional=resource.rules.unconditional_update)
    return _taken(old, written, call.view)


def _complete_again(call: Call, document: Document, old: Document, meta: Document) -> None:
    """A webhook has changed the document, in place: it keeps to the form and to its identity as any writer does."""
    shown = document if call.view.show is None else call.view.show(document)
    checked = check_patched(shown, call.view, WriteOptions(field_validation="Ignore"), call.warnings)
    taken = _taken(old, checked, call.view, new=not old)
    if taken is not document:
        document.clear()
        document.update(taken)
    metadata.carry_over(document, {"metadata": meta})
    call.resource.rules.default(document)


def _typed(call: Call, document: Document) -> Any:
    """The object for validation."""
    view, kind = call.view, call.resource.stored
    if view.validates_shown and view.show is not None:
        document, kind = view.show(document), view.kind
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(message) from None


def _require_valid(call: Call, name: str, errors: Sequence[FieldError]) -> None:
    if errors:
        raise invalid(call.resource.kind.kind, call.resource.kind.group, name, errors)


_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)


def _read_patch(call: Call) -> Any:
    """The patch in the body. Raises `ApiError` (400, 413, 415)."""
    type_ = media_type(call.request.content_type)
    if type_ == APPLY_PATCH:
        raise unsupported_media_type(
            "server-side apply (application/apply-patch+yaml) is not served; use client-side apply, or a patch of type "
            + ", ".join(_PATCHES)
        )
    if type_ not in _PATCHES:
        message = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(message + ", ".join(_PATCHES))
    value, _ = decode_any(call.request.body, "application/json", call.view.kind.kind, strict=False)
    return value


def _apply(call: Call, document: Document, change: Any) -> Document:
    match media_type(call.request.content_type):
        case patch_type if patch_type == JSON_PATCH:
            return json_patch.apply(document, change)
        case patch_type if patch_type == MERGE_PATCH:
            return merge.apply(document, change)
        case _:
            return strategic.apply(document, change, call.view.patch_schema)
