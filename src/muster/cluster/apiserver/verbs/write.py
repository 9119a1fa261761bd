"""The verbs create, update, patch and apply.

The pure functions of `metadata`, views, defaults, preparation, validation and `deletion` decide what becomes of an
object. The `Writer` calls them in order on the newest state, runs admission between them, and writes the result.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from muster.api.patch import json as json_patch
from muster.api.patch import merge
from muster.api.status import (
    ApiError,
    FieldError,
    OfWebhook,
    already_exists,
    bad_request,
    conflict,
    denied,
    invalid,
    not_found,
    unsupported_media_type,
)
from muster.cluster.apiserver import fields
from muster.cluster.apiserver.admission.chain import Admission
from muster.cluster.apiserver.decode import (
    MAX_OBJECT_BYTES,
    ROOM_FOR_STATUS,
    Document,
    ReadAhead,
    decode,
    decode_any,
    media_type,
)
from muster.cluster.apiserver.identity.users import Access, Authorizer
from muster.cluster.apiserver.objects import metadata
from muster.cluster.apiserver.objects.documents import Documents, decode_entry
from muster.cluster.apiserver.objects.loading import loaded_entry, saved_document, written_body
from muster.cluster.apiserver.patch import strategic
from muster.cluster.apiserver.registry.resources import View
from muster.cluster.apiserver.request.body import check_patched, faults_of_patch, read_object, require_kind
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import WriteOptions, write_options
from muster.cluster.apiserver.verbs.deletion import is_over
from muster.cluster.store import Entry, Key
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

NAME_ATTEMPTS = 8  # generated names that are tried until one is free
CHANGE_ATTEMPTS = 5  # as in kube-apiserver; another writer may come first while webhooks answer


class Writer:
    """The writer of new and changed objects."""

    def __init__(
        self, documents: Documents, clock: Clock, ids: Ids, admission: Admission, authorize: Authorizer
    ) -> None:
        self._authorize = authorize
        self._documents = documents
        self._clock = clock
        self._ids = ids
        self._admission = admission
        self._thread = ThreadPoolExecutor(1, "validation")

    async def create(self, call: Call) -> bytes:
        """Create the object in the body, and return it as stored. Raises `ApiError`."""
        options = write_options(call.request.query, "CreateOptions")
        document = read_object(call.request, call.view, options, call.warnings)
        metadata.set_namespace(metadata.meta_of(document), call.namespace)
        metadata.check_unversioned(document)
        return await self._create(call, _taken({}, document, call.view, new=True), options)

    async def update(self, call: Call) -> tuple[bytes, bool]:
        """Replace an object by the one in the body; return it, and whether it was created. Raises `ApiError`."""
        options = write_options(call.request.query, "UpdateOptions")
        document = _read_replacement(call, options)
        unused = [document]

        def replaced(old: Document) -> Document:
            # Webhooks may have changed the first document in place. So another attempt reads the body again.
            return _replaced(call, old, unused.pop() if unused else _read_replacement(call, options))

        if self._documents.latest(call.key) is not None:
            return await self._change(call, options, replaced), False
        if call.subresource or not call.resource.rules.create_on_update:
            await self._documents.settled(call.key)
            raise not_found(call.resource.name, call.name)
        if uid := metadata.meta_of(document).get("uid"):
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise conflict(call.resource.name, call.name, message)
        self._authorize(_creation(call))
        return await self._create(call, _taken({}, document, call.view, new=True), options), True

    async def patch(self, call: Call) -> bytes:
        """Apply the patch in the body to an object, and return it as stored. Raises `ApiError`."""
        options = write_options(call.request.query, "PatchOptions")
        patch, faults = _read_patch(call, options)

        def patched(old: Document) -> Document:
            shown = old if call.view.show is None else call.view.show(old)
            stored = old if shown is old else None
            document = check_patched(_apply(call, shown, patch), call.view, options, call.warnings, faults, stored)
            metadata.check_name(document, call.name, call.namespace)
            metadata.check_uid(document, old, call.resource.kind)
            return _replaced(call, old, document)

        return await self._change(call, options, patched)

    async def apply(self, call: Call) -> tuple[bytes, bool]:
        """Apply the configuration in the body (server-side apply); return the object, and whether it was created.

        Afterwards the field manager owns the fields of the configuration, and no others. Raises `ApiError`: 409 for
        fields that other managers have set to other values.
        """
        options = write_options(call.request.query, "PatchOptions", applies=True)
        config, faults = _read_configuration(call)

        def applied(old: Document) -> Document:
            return self._applied(call, old, config, faults, options)

        if self._documents.latest(call.key) is None and not call.subresource:
            _require_no_identity(call, config)
            self._authorize(_creation(call))
            return await self._create(call, applied({}), options, applied=True), True
        return await self._change(call, options, applied, applied=True), False

    def _applied(
        self, call: Call, old: Document, config: Document, faults: list[str], options: WriteOptions
    ) -> Document:
        """Return the object to store, with its field managers, from the stored object (or {}) and a configuration."""
        view, resource = call.view, call.resource
        if old:
            metadata.check_uid(config, old, resource.kind)
            metadata.check_version(config, old, resource.name, unconditional=True)
        merged = fields.apply(
            old or None,
            _configuration(call, old, config),
            self._who(call, options),
            metadata.timestamp(self._clock.now()),
            resource.field_schema,
            force=options.force,
            ignored=_untouched(call),
        )
        shown = merged if view.show is None else view.show(merged)
        document = _taken(old, check_patched(shown, view, options, call.warnings, faults), view, new=not old)
        if document is shown:
            document = dict(shown)
        if managers := merged["metadata"].get("managedFields"):
            document["metadata"] = document["metadata"] | {"managedFields": managers}
        return document

    def _who(self, call: Call, options: WriteOptions) -> fields.Writer:
        """Return the field manager of a write."""
        manager = options.field_manager or fields.default_manager(call.request.user_agent)
        return fields.Writer(manager, call.resource.written_version, call.subresource)

    def _note(
        self,
        call: Call,
        old: Document | None,
        document: Document,
        options: WriteOptions,
        managers: Any,
        *,
        applied: bool,
    ) -> None:
        """Set the document's `managedFields`, in place.

        An apply has computed them already (`managers`). For any other write, they follow from the change.
        """
        if applied:
            document["metadata"].pop("managedFields", None)  # stays away if no manager owns any field
            document["metadata"] |= {"managedFields": managers} if managers else {}
            return
        now = metadata.timestamp(self._clock.now())
        writer, schema = self._who(call, options), call.resource.field_schema
        fields.note_update(old, document, writer, now, schema, managers, _untouched(call))

    async def _create(self, call: Call, document: Document, options: WriteOptions, *, applied: bool = False) -> bytes:
        rules, namespace, store = call.resource.rules, call.namespace, self._documents.store
        meta = metadata.meta_of(document)
        name, managers = meta.get("name"), meta.get("managedFields")
        name = name or self._generated_name(call, meta.get("generateName", ""))
        metadata.begin(document, name=name, uid=self._ids.uid(), now=self._clock.now(), generation=rules.has_generation)
        rules.default(document)
        self._note(call, None, document, options, managers, applied=applied)
        attempt = call.attempt("CREATE", document, None, options, name=name)
        begun = document["metadata"]
        if await self._admission.change(attempt, store, call.warnings):
            _complete_again(call, document, {}, begun)
            self._admission.complete(attempt, store)
        rules.prepare_create(document)
        await self._require_valid(call, name, call.view.validate_create, _typed(call, document))
        await self._admission.judge(attempt, store, call.warnings)
        saved = await saved_document(call.resource, document)
        key = Key(call.resource.key, namespace, name)
        if self._documents.latest(key) is not None:
            await self._documents.settled(key)
            raise already_exists(call.resource.name, name)
        self._admission.settle(attempt, store)
        if rules.warning:
            call.warnings.append(rules.warning)
        body = await self._documents.put(key, saved, dry_run=options.dry_run, limit=MAX_OBJECT_BYTES)
        return written_body(document, saved, body)

    def _generated_name(self, call: Call, prefix: str) -> str:
        """Return a free name with a prefix, or "" without a prefix. Raises `ApiError` (409) if no name is free."""
        if not prefix:
            return ""
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = prefix[: metadata.MAX_PREFIX_LENGTH] + self._ids.suffix(metadata.SUFFIX_LENGTH)
            if self._documents.latest(Key(call.resource.key, call.namespace, name)) is None:
                return name
        raise already_exists(call.resource.name, name)

    async def _change(
        self, call: Call, options: WriteOptions, change: Callable[[Document], Document], *, applied: bool = False
    ) -> bytes:
        """Store the result of `change` on the newest state of the object, and return it. Raises `ApiError`.

        applied: whether `change` is an apply, which has set the field managers.
        """
        for _ in range(CHANGE_ATTEMPTS):
            entry = self._documents.latest(call.key)
            if entry is None:
                await self._documents.settled(call.key)
                raise not_found(call.resource.name, call.name)
            loaded = await loaded_entry(call.resource, entry)
            old = decode_entry(loaded)
            # A patched document shares parts with the one it was made from, and defaults change it in place. So `old`
            # needs a copy of its own.
            is_patched = not call.subresource and call.verb == "patch"
            document = change(decode_entry(loaded) if is_patched else old)
            body = await self._replace(call, entry, old, document, options, as_stored=loaded is entry, applied=applied)
            if body is not None:
                return body
        raise conflict(call.resource.name, call.name)

    async def _replace(
        self,
        call: Call,
        entry: Entry,
        old: Document,
        document: Document,
        options: WriteOptions,
        *,
        as_stored: bool,
        applied: bool,
    ) -> bytes | None:
        """Write the changed object and return it, or None if another writer has changed it meanwhile.

        entry: the stored object.
        old: the stored object in the resource's own version.
        document: the changed object. It may share parts with `old` that a write of its kind never changes.
        as_stored: whether the object is stored in the resource's own version.
        applied: whether the write is an apply.
        """
        resource, rules, store = call.resource, call.resource.rules, self._documents.store
        managers = metadata.meta_of(document).get("managedFields")
        metadata.carry_over(document, old)
        rules.default(document)
        if not call.subresource:
            rules.prepare_update(document, old)
        self._note(call, old, document, options, managers, applied=applied)
        attempt = call.attempt("UPDATE", document, old, options)
        if await self._admission.change(attempt, store, call.warnings):
            _complete_again(call, document, old, old["metadata"])
            self._admission.complete(attempt, store)
        if rules.has_generation and document.get("spec") != old.get("spec"):
            document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if as_stored and fields.same_but_times(old, document):
            self._admission.remark(attempt, call.warnings)
            await self._documents.settled(call.key)
            return entry.body
        await self._require_valid(call, call.name, call.view.validate_update, _typed(call, document), _typed(call, old))
        await self._admission.judge(attempt, store, call.warnings)
        saved = await saved_document(resource, document)
        if self._documents.latest(call.key) is not entry:
            return None  # another writer came first while webhooks answered
        self._admission.settle(attempt, store)
        if is_over(document):
            body = await self._documents.remove(call.key, saved, dry_run=options.dry_run)
        else:
            # An object over the limit may be written if it does not grow: else no client could remove its finalizers.
            own = MAX_OBJECT_BYTES + (ROOM_FOR_STATUS if call.subresource == "status" else 0)
            limit = max(own, len(entry.body))
            body = await self._documents.put(call.key, saved, dry_run=options.dry_run, limit=limit)
        return written_body(document, saved, body)

    async def _require_valid(
        self, call: Call, name: str, validate: Callable[..., Sequence[FieldError]], *objects: Any
    ) -> None:
        """Raise `ApiError` (422, 403) if an object breaks the rules of its kind. A thread checks a big object."""
        if isinstance(call.request.body, ReadAhead):
            errors = await asyncio.get_running_loop().run_in_executor(self._thread, validate, *objects)
        else:
            errors = validate(*objects)
        if isinstance(errors, OfWebhook) and errors:
            raise denied(call.resource.kind.kind, errors)
        if errors:
            raise invalid(call.resource.kind.kind, call.resource.kind.group, name, errors)


def _creation(call: Call) -> Access:
    """Return the access that a write needs when it creates the object because there is none to change."""
    kind = call.resource.kind
    return Access(call.user, "create", kind.group, kind.plural, call.namespace, call.name)


_STATUS: fields.FieldSet = {"f:status": {}}
_SPEC: fields.FieldSet = {"f:spec": {}}


def _untouched(call: Call) -> fields.FieldSet:
    """Return the fields that a write through the call's view never manages, whatever the client sends."""
    if call.subresource:
        return _SPEC if call.subresource == "status" else {}
    return _STATUS if call.resource.subresource("status") is not None else {}


def _require_no_identity(call: Call, config: Document) -> None:
    """Raise `ApiError` (400, 409) if a configuration for a missing object has a UID or a resource version."""
    if uid := metadata.meta_of(config).get("uid"):
        message = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(call.resource.name, call.name, message)
    metadata.check_unversioned(config)


def _configuration(call: Call, old: Document, config: Document) -> Document:
    """Return a configuration in the stored form, without fields that a write through the view does not change."""
    if call.view.applied is not None:
        return call.view.applied(old, config)
    taken = call.view.take({"metadata": {}}, config)
    version = {"apiVersion": call.resource.written_version, "kind": call.resource.kind.kind}
    return {**taken, **version, "metadata": config["metadata"]}


def _read_configuration(call: Call) -> tuple[Document, list[str]]:
    """Return the configuration in the body of an apply (JSON or YAML), and the faults that strict decoding finds.

    Raises `ApiError` (400, 413).
    """
    request, kind = call.request, call.view.kind
    try:
        decoded = decode(request.body, JSON, kind.kind)
    except ApiError as error:
        if error.code == 413:
            raise
        decoded = decode(request.body, "application/yaml", kind.kind)
    config = decoded.document
    if not config.get("apiVersion") or not config.get("kind"):
        raise bad_request("apiVersion and kind must be set in a configuration that is applied")
    require_kind(config, kind)
    if not metadata.meta_of(config).get("name"):
        metadata.meta_of(config)["name"] = call.name
    metadata.check_name(config, call.name, call.namespace)
    return config, faults_of_patch(config, decoded.duplicates, operations=False)


def _read_replacement(call: Call, options: WriteOptions) -> Document:
    document = read_object(call.request, call.view, options, call.warnings)
    metadata.check_name(document, call.name, call.namespace)
    return document


def _taken(stored: Document, shown: Document, view: View, *, new: bool = False) -> Document:
    """Return the object to store for an object as the view shows it."""
    return shown if new and view.show is None else view.take(stored, shown)


def _replaced(call: Call, old: Document, written: Document) -> Document:
    """Return the object to store for a full replacement of the stored one. Raises `ApiError` (409, 422)."""
    resource = call.resource
    unconditional = resource.rules.unconditional_update or call.subresource == "scale"  # a scale needs no version
    metadata.check_version(written, old, resource.name, unconditional=unconditional)
    return _taken(old, written, call.view)


def _complete_again(call: Call, document: Document, old: Document, meta: Document) -> None:
    """Check and complete a document, in place, after a webhook has changed it.

    The document must keep to the schema and to its identity (`meta`), as the document of any writer must.
    """
    shown = document if call.view.show is None else call.view.show(document)
    checked = check_patched(shown, call.view, WriteOptions(field_validation="Ignore"), call.warnings)
    taken = _taken(old, checked, call.view, new=not old)
    if taken is not document:
        document.clear()
        document.update(taken)
    metadata.carry_over(document, {"metadata": meta})
    call.resource.rules.default(document)


def _typed(call: Call, document: Document) -> Any:
    """Return the typed object for validation: stored or shown, as the view has it. Raises `ApiError` (400)."""
    view, kind = call.view, call.resource.stored
    if view.validates_shown and view.show is not None:
        document, kind = view.show(document), view.kind
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(message) from None


_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
_CUSTOM_PATCHES = (JSON_PATCH, MERGE_PATCH)  # no schema says how to merge the lists of custom resources


def _read_patch(call: Call, options: WriteOptions) -> tuple[Any, list[str]]:
    """Return the patch in the body, and the faults that strict decoding finds. Raises `ApiError` (400, 413, 415)."""
    type_ = media_type(call.request.content_type)
    patches = _PATCHES if call.resource.storage is None else _CUSTOM_PATCHES
    if type_ not in patches:
        message = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(message + ", ".join([*patches, APPLY_PATCH]))
    strict = options.field_validation != "Ignore"
    value, repeated = decode_any(call.request.body, "application/json", call.view.kind.kind, strict=strict)
    return value, faults_of_patch(value, repeated, operations=type_ == JSON_PATCH) if strict else []


def _apply(call: Call, document: Document, change: Any) -> Document:
    match media_type(call.request.content_type):
        case patch_type if patch_type == JSON_PATCH:
            return json_patch.apply(document, change)
        case patch_type if patch_type == MERGE_PATCH:
            return merge.apply(document, change)
        case _:
            return strategic.apply(document, change, call.view.patch_schema)
