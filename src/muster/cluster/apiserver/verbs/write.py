"""The verbs create, update, patch and apply.

The pure functions of `changes`, `metadata`, views, defaults, preparation, validation and `deletion` decide the new
state of an object. The `Writer` calls them in order on the newest state, runs admission between them, and writes the
result.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from muster.api.server.apiextensions import CUSTOM_RESOURCE_DEFINITION
from muster.api.status import (
    FieldError,
    OfWebhook,
    already_exists,
    conflict,
    denied,
    invalid,
    not_found,
)
from muster.cluster.apiserver import fields
from muster.cluster.apiserver.admission.chain import AdmissionChain
from muster.cluster.apiserver.decode import (
    MAX_OBJECT_BYTES,
    ROOM_FOR_STATUS,
    Document,
    ReadAhead,
)
from muster.cluster.apiserver.identity.users import Access, Authorizer
from muster.cluster.apiserver.objects import metadata
from muster.cluster.apiserver.objects.documents import Documents, Typed, decode_entry
from muster.cluster.apiserver.objects.loading import load_entry, make_saved_document, make_written_body
from muster.cluster.apiserver.request.body import check_patched, read_object
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import WriteOptions, write_options
from muster.cluster.apiserver.verbs.changes import (
    apply_patch,
    complete_again,
    configuration_to_store,
    object_to_store,
    read_configuration,
    read_patch,
    read_replacement,
    replacement_to_store,
    require_no_identity,
    typed_object,
    unmanaged_fields,
    validates_stored,
)
from muster.cluster.apiserver.verbs.deletion import is_over
from muster.cluster.store import Entry, Key
from muster.runtime.clock import Clock
from muster.runtime.ids import Ids
from muster.runtime.tasks import finish_thread

NAME_ATTEMPTS = 8  # the most random names that the server tries for a new object
CHANGE_ATTEMPTS = 5  # as in kube-apiserver; another writer may come first while webhooks answer


class Writer:
    """The part that creates and changes objects for requests."""

    def __init__(
        self, documents: Documents, clock: Clock, ids: Ids, admission: AdmissionChain, authorize: Authorizer
    ) -> None:
        self._authorize = authorize
        self._documents = documents
        self._clock = clock
        self._ids = ids
        self._admission = admission
        self._validation = asyncio.Lock()

    async def create(self, call: Call) -> bytes:
        """Create the object in the body, and return its JSON in the form that `View.show` takes. Raises `ApiError`."""
        options = write_options(call.request.query, "CreateOptions")
        document = read_object(call.request, call.view, options, call.warnings)
        metadata.set_namespace(metadata.meta_of(document), call.namespace)
        metadata.check_unversioned(document)
        return await self._create(call, object_to_store({}, document, call.view, new=True), options)

    async def update(self, call: Call) -> tuple[bytes, bool]:
        """Replace an object by the object in the body; return its JSON as `create` does, and whether it was created.

        Raises `ApiError`. A missing object is created only if the rules of its kind allow that.
        """
        options = write_options(call.request.query, "UpdateOptions")
        document = read_replacement(call, options)
        unused = [document]

        def replace(old: Document) -> Document:
            # Webhooks may have changed the first document in place. So another attempt reads the body again.
            return replacement_to_store(call, old, unused.pop() if unused else read_replacement(call, options))

        if self._documents.latest(call.key) is not None:
            return await self._change_object(call, options, replace), False
        if call.subresource or not call.resource.rules.create_on_update:
            await self._documents.wait_until_durable(call.key)
            raise not_found(call.resource.name, call.name)
        if uid := metadata.meta_of(document).get("uid"):
            message = f"Precondition failed: UID in precondition: {uid}, UID in object meta: "
            raise conflict(call.resource.name, call.name, message)
        self._authorize(_make_creation_access(call))
        return await self._create(call, object_to_store({}, document, call.view, new=True), options), True

    async def patch(self, call: Call) -> bytes:
        """Apply the patch in the body to an object, and return its JSON as `create` does. Raises `ApiError`."""
        options = write_options(call.request.query, "PatchOptions")
        patch, faults = read_patch(call, options)

        def apply_to(old: Document) -> Document:
            shown = old if call.view.show is None else call.view.show(old)
            stored = old if shown is old else None
            document = check_patched(apply_patch(call, shown, patch), call.view, options, call.warnings, faults, stored)
            metadata.check_name(document, call.name, call.namespace)
            metadata.check_uid(document, old, call.resource.kind)
            return replacement_to_store(call, old, document)

        return await self._change_object(call, options, apply_to)

    async def apply(self, call: Call) -> tuple[bytes, bool]:
        """Apply the configuration in the body (server-side apply).

        Return the object's JSON as `create` does, and whether the object was created. Afterwards the field manager's
        Apply entry lists exactly the fields of the configuration. Raises `ApiError`: without force, 409 for fields that
        other managers have set to other values.
        """
        options = write_options(call.request.query, "PatchOptions", applies=True)
        config, faults = read_configuration(call)

        def apply_to(old: Document) -> Document:
            return self._apply_config(call, old, config, faults, options)

        if self._documents.latest(call.key) is None and not call.subresource:
            require_no_identity(call, config)
            self._authorize(_make_creation_access(call))
            return await self._create(call, apply_to({}), options, applied=True), True
        return await self._change_object(call, options, apply_to, applied=True), False

    def _apply_config(
        self, call: Call, old: Document, config: Document, faults: list[str], options: WriteOptions
    ) -> Document:
        """Return the object to store, with its field managers, from the stored object (or {}) and a configuration."""
        view, resource = call.view, call.resource
        if old:
            metadata.check_uid(config, old, resource.kind)
            metadata.check_version(config, old, resource.name, unconditional=True)
        merged = fields.apply(
            old or None,
            configuration_to_store(call, old, config),
            self._make_writer(call, options),
            metadata.format_timestamp(self._clock.now()),
            resource.field_schema,
            force=options.force,
            ignored=unmanaged_fields(call),
        )
        shown = merged if view.show is None else view.show(merged)
        document = object_to_store(old, check_patched(shown, view, options, call.warnings, faults), view, new=not old)
        if document is shown:
            document = dict(shown)
        if managers := merged["metadata"].get("managedFields"):
            document["metadata"] = document["metadata"] | {"managedFields": managers}
        return document

    def _make_writer(self, call: Call, options: WriteOptions) -> fields.Writer:
        """Return the field manager of a write: the one that the request names, else one from its user agent."""
        manager = options.field_manager or fields.default_manager(call.request.user_agent)
        return fields.Writer(manager, call.resource.written_version, call.subresource)

    def _set_managed_fields(
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

        managers: for an apply, the new `managedFields`; for any other write, the ones that the client sent.
        applied: whether the write is an apply. For any other write, the fields follow from the change.
        """
        if applied:
            document["metadata"].pop("managedFields", None)  # stays away if no manager owns any field
            document["metadata"] |= {"managedFields": managers} if managers else {}
            return
        now = metadata.format_timestamp(self._clock.now())
        writer, schema = self._make_writer(call, options), call.resource.field_schema
        fields.update_managers(old, document, writer, now, schema, managers, unmanaged_fields(call))

    async def _create(self, call: Call, document: Document, options: WriteOptions, *, applied: bool = False) -> bytes:
        """Create an object after defaults, admission and validation, in this order; return its JSON. Raises `ApiError`.

        document: the object in its stored form, with the metadata that the client sent.
        applied: whether the write is an apply, which has set the field managers.
        """
        rules, namespace, store = call.resource.rules, call.namespace, self._documents.store
        meta = metadata.meta_of(document)
        name, managers = meta.get("name"), meta.get("managedFields")
        name = name or self._generate_name(call, meta.get("generateName", ""))
        metadata.reset_metadata(
            document, name=name, uid=self._ids.uid(), now=self._clock.now(), generation=rules.has_generation
        )
        rules.default(document)
        self._set_managed_fields(call, None, document, options, managers, applied=applied)
        attempt = call.make_attempt("CREATE", document, None, options, name=name)
        fresh_metadata = document["metadata"]
        if await self._admission.change(attempt, store, call.warnings):
            complete_again(call, document, {}, fresh_metadata)
            self._admission.complete(attempt, store)
        rules.prepare_create(document)
        typed = typed_object(call, document)
        await self._require_valid(call, name, call.view.validate_create, typed)
        await self._admission.judge(attempt, store, call.warnings)
        saved = await make_saved_document(call.resource, document)
        key = Key(call.resource.key, namespace, name)
        if self._documents.latest(key) is not None:
            await self._documents.wait_until_durable(key)
            raise already_exists(call.resource.name, name)
        self._admission.settle(attempt, store)
        if rules.warning:
            call.warnings.append(rules.warning)
        body = await self._documents.put(
            key,
            saved,
            dry_run=options.dry_run,
            limit=MAX_OBJECT_BYTES,
            typed=_pick_typed_to_share(call, document, saved, typed),
        )
        return make_written_body(document, saved, body)

    def _generate_name(self, call: Call, prefix: str) -> str:
        """Return a free random name with a prefix; "" if the prefix is "".

        Raises `ApiError` (409) if `NAME_ATTEMPTS` names are all in use.
        """
        if not prefix:
            return ""
        name = ""
        for _ in range(NAME_ATTEMPTS):
            name = prefix[: metadata.MAX_PREFIX_LENGTH] + self._ids.suffix(metadata.SUFFIX_LENGTH)
            if self._documents.latest(Key(call.resource.key, call.namespace, name)) is None:
                return name
        raise already_exists(call.resource.name, name)

    async def _change_object(
        self, call: Call, options: WriteOptions, change: Callable[[Document], Document], *, applied: bool = False
    ) -> bytes:
        """Store the result of `change` on the newest state of the object; return its JSON as `create` does.

        Call `change` again if another writer came first. Raises `ApiError`: 404, or 409 after `CHANGE_ATTEMPTS`.

        applied: whether `change` is an apply, which has set the field managers.
        """
        for _ in range(CHANGE_ATTEMPTS):
            entry = self._documents.latest(call.key)
            if entry is None:
                await self._documents.wait_until_durable(call.key)
                raise not_found(call.resource.name, call.name)
            loaded = await load_entry(call.resource, entry)
            old = decode_entry(loaded)
            # A patched document shares parts with the document it was made from, and defaults change it in place. So
            # `old` needs a copy of its own.
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
        """Write the changed object unless it equals the stored one, and return its JSON as `create` does.

        Remove the object instead if it is being deleted and nothing holds it any more. Return None if another writer
        has changed the object meanwhile. Raises `ApiError`.

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
        self._set_managed_fields(call, old, document, options, managers, applied=applied)
        attempt = call.make_attempt("UPDATE", document, old, options)
        if await self._admission.change(attempt, store, call.warnings):
            complete_again(call, document, old, old["metadata"])
            self._admission.complete(attempt, store)
        if rules.has_generation and document.get("spec") != old.get("spec"):
            document["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if as_stored and fields.is_same_but_times(old, document):
            self._admission.remark(attempt, call.warnings)
            await self._documents.wait_until_durable(call.key)
            return entry.body
        typed = typed_object(call, document)
        before = self._documents.typed(resource.stored, entry) if as_stored and validates_stored(call.view) else None
        if before is None:
            before = typed_object(call, old)
        await self._require_valid(call, call.name, call.view.validate_update, typed, before)
        await self._admission.judge(attempt, store, call.warnings)
        saved = await make_saved_document(resource, document)
        if self._documents.latest(call.key) is not entry:
            return None  # another writer came first while webhooks answered
        self._admission.settle(attempt, store)
        if is_over(document):
            body = await self._documents.remove(
                call.key, saved, dry_run=options.dry_run, typed=_pick_typed_to_share(call, document, saved, typed)
            )
        else:
            # An object over the limit may be written if it does not grow; otherwise no client could remove its
            # finalizers.
            own = MAX_OBJECT_BYTES + (ROOM_FOR_STATUS if call.subresource == "status" else 0)
            limit = max(own, entry.size)
            body = await self._documents.put(
                call.key,
                saved,
                dry_run=options.dry_run,
                limit=limit,
                typed=_pick_typed_to_share(call, document, saved, typed),
            )
        return make_written_body(document, saved, body)

    async def _require_valid(
        self, call: Call, name: str, validate: Callable[..., Sequence[FieldError]], *objects: Any
    ) -> None:
        """Raise `ApiError` (422, 403) if an object breaks the rules of its kind. A thread checks a big object.

        objects: the arguments of `validate`: the new object, and for a change the old one.
        """
        if isinstance(call.request.body, ReadAhead):
            # Only one validation runs, because it competes with the loop for Python's lock. A cancelled request also
            # waits for the end of its thread.
            async with self._validation:
                errors = await finish_thread(validate, *objects)
        else:
            errors = validate(*objects)
        if isinstance(errors, OfWebhook) and errors:
            raise denied(call.resource.kind.kind, errors)
        if errors:
            raise invalid(call.resource.kind.kind, call.resource.kind.group, name, errors)


def _pick_typed_to_share(call: Call, document: Document, saved: Document, typed: Any) -> Typed | None:
    """Return the kind and the typed object to share with readers of the stored body.

    Return None if validation saw another form of the object.

    document: the object in the form of the resource.
    saved: the object in the stored form; the same object if it needs no conversion.
    typed: the object that validation saw.
    """
    # The names of a definition are accepted after its validation, right before the write.
    is_definition = call.resource.key == CUSTOM_RESOURCE_DEFINITION.resource
    return (
        (call.resource.stored, typed)
        if saved is document and validates_stored(call.view) and not is_definition
        else None
    )


def _make_creation_access(call: Call) -> Access:
    """Return the access that a write needs when it creates the object, because the object does not exist."""
    kind = call.resource.kind
    return Access(call.user, "create", kind.group, kind.plural, call.namespace, call.name)
