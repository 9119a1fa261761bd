"""Decide which object a write stores, from the body of the request, the stored object and the view.

The functions are pure. The writer calls them with the newest stored object, and again if another writer came first.
"""

from typing import Any

import msgspec

from muster.api.patch import json as json_patch
from muster.api.patch import merge
from muster.api.status import ApiError, bad_request, conflict, unsupported_media_type
from muster.cluster.apiserver import fields
from muster.cluster.apiserver.decode import Document, decode, decode_any, media_type
from muster.cluster.apiserver.objects import metadata
from muster.cluster.apiserver.patch import strategic
from muster.cluster.apiserver.registry.resources import View
from muster.cluster.apiserver.request.body import check_patched, faults_of_patch, read_object, require_kind
from muster.cluster.apiserver.request.call import Call
from muster.cluster.apiserver.request.requestinfo import WriteOptions
from muster.runtime.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH

_PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH)
_CUSTOM_PATCHES = (JSON_PATCH, MERGE_PATCH)  # no schema says how to merge the lists of custom resources

_STATUS: fields.FieldSet = {"f:status": {}}
_SPEC: fields.FieldSet = {"f:spec": {}}


def read_patch(call: Call, options: WriteOptions) -> tuple[Any, list[str]]:
    """Return the patch in the body, and messages about its repeated members and about unknown ones in a JSON patch.

    There are no messages if the request ignores such members. Raises `ApiError` (400, 413, 415).
    """
    type_ = media_type(call.request.content_type)
    patches = _PATCHES if call.resource.storage is None else _CUSTOM_PATCHES
    if type_ not in patches:
        message = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(message + ", ".join([*patches, APPLY_PATCH]))
    strict = options.field_validation != "Ignore"
    value, repeated = decode_any(call.request.body, "application/json", call.view.kind.kind, strict=strict)
    return value, faults_of_patch(value, repeated, operations=type_ == JSON_PATCH) if strict else []


def apply_patch(call: Call, document: Document, change: Any) -> Document:
    """Return the document with the patch of the request applied to it. Raises `ApiError`.

    change: the decoded patch.
    """
    match media_type(call.request.content_type):
        case patch_type if patch_type == JSON_PATCH:
            return json_patch.apply(document, change)
        case patch_type if patch_type == MERGE_PATCH:
            return merge.apply(document, change)
        case _:
            return strategic.apply(document, change, call.view.patch_schema)


def read_configuration(call: Call) -> tuple[Document, list[str]]:
    """Return the configuration in the body of an apply (JSON or YAML), and messages about repeated members in it.

    The configuration gets the name and namespace of the URL if it names none. Raises `ApiError` (400, 413).
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


def require_no_identity(call: Call, config: Document) -> None:
    """Raise `ApiError` (400, 409) if a configuration for a missing object has a UID or a resource version."""
    if uid := metadata.meta_of(config).get("uid"):
        message = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(call.resource.name, call.name, message)
    metadata.check_unversioned(config)


def configuration_to_store(call: Call, old: Document, config: Document) -> Document:
    """Return a configuration in the stored form, without fields that a write through the view does not change.

    old: the stored object; {} if there is none.
    """
    if call.view.take_config is not None:
        return call.view.take_config(old, config)
    taken = call.view.take({"metadata": {}}, config)
    version = {"apiVersion": call.resource.written_version, "kind": call.resource.kind.kind}
    return {**taken, **version, "metadata": config["metadata"]}


def read_replacement(call: Call, options: WriteOptions) -> Document:
    """Return the object in the body of an update, which has the name and namespace of the URL. Raises `ApiError`."""
    document = read_object(call.request, call.view, options, call.warnings)
    metadata.check_name(document, call.name, call.namespace)
    return document


def replacement_to_store(call: Call, old: Document, written: Document) -> Document:
    """Return the object to store for a full replacement of the stored one. Raises `ApiError` (409, 422)."""
    resource = call.resource
    unconditional = resource.rules.unconditional_update or call.subresource == "scale"  # a scale needs no version
    metadata.check_version(written, old, resource.name, unconditional=unconditional)
    return object_to_store(old, written, call.view)


def object_to_store(stored: Document, written: Document, view: View, *, new: bool = False) -> Document:
    """Return the object to store for an object that a client wrote in the form of the view.

    stored: the stored object; {} if there is none.
    new: whether the object does not exist yet.
    """
    return written if new and view.show is None else view.take(stored, written)


def complete_again(call: Call, document: Document, old: Document, meta: Document) -> None:
    """Check and complete a document, in place, after a webhook has changed it. Raises `ApiError` (400, 422).

    The document must conform to the schema, as for any writer. Metadata that no client may change is restored.

    old: the stored object; {} for a new one.
    meta: the metadata to restore from.
    """
    shown = document if call.view.show is None else call.view.show(document)
    checked = check_patched(shown, call.view, WriteOptions(field_validation="Ignore"), call.warnings)
    taken = object_to_store(old, checked, call.view, new=not old)
    if taken is not document:
        document.clear()
        document.update(taken)
    metadata.carry_over(document, {"metadata": meta})
    call.resource.rules.default(document)


def typed_object(call: Call, document: Document) -> Any:
    """Return the typed object for validation, in its stored or shown form as the view requires.

    Raises `ApiError` (400) if a member has a wrong type.

    document: the object in its stored form.
    """
    view, kind = call.view, call.resource.stored
    if not validates_stored(view):
        assert view.show is not None
        document, kind = view.show(document), view.kind
    try:
        return msgspec.convert(document, kind.type)
    except msgspec.ValidationError as error:
        message = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {error}'
        raise bad_request(message) from None


def validates_stored(view: View) -> bool:
    """Return whether validation takes objects in their stored form, and not in the form of the view."""
    return view.show is None or not view.validates_shown


def unmanaged_fields(call: Call) -> fields.FieldSet:
    """Return the fields that get no manager in a write through the call's view, even if the client sends them."""
    if call.subresource:
        return _SPEC if call.subresource == "status" else {}
    return _STATUS if call.resource.subresource("status") is not None else {}
