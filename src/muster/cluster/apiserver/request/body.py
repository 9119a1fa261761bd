"""The object in the body of a write: decoded, of the right kind, and checked against its schema.

Unknown fields are always dropped, and the last value of a repeated field counts. The request's `fieldValidation`
decides whether they also cause a refusal (Strict), a warning (Warn) or nothing (Ignore). Validation checks rules beyond
the schema.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.api.status import INVALID, ApiError, FieldError, bad_request, invalid
from muster.cluster.apiserver.answers import MAX_WARNINGS
from muster.cluster.apiserver.decode import Document, decode, in_order
from muster.cluster.apiserver.registry.resources import View
from muster.cluster.apiserver.request.requestinfo import WriteOptions
from muster.cluster.apiserver.schema import Checked, DecodeError, sound_parts
from muster.runtime.transport import Request

_SHOWN_PATCH = 500  # characters of a patched object in a refusal


def read_object(request: Request, view: View, options: WriteOptions, warnings: list[str]) -> Document:
    """Return the object in the body of a create or update, without the fields that its schema does not declare.

    By the request's field validation, such fields cause nothing, warnings (added to `warnings`), or a refusal. The
    object always has its apiVersion and kind. Raises `ApiError` (400, 413, 415, 422).
    """
    kind = view.kind
    decoded = decode(request.body, request.content_type, kind.kind, strict=options.field_validation != "Ignore")
    document = decoded.document
    require_kind(document, kind)
    try:
        checked = view.checker(document)
    except DecodeError as error:
        raise bad_request(_explain_refusal(document, kind, str(error))) from None
    # For kinds with a type, the checker finds unknown fields in the order of the document, as upstream reports them.
    unknown = _describe_unknown_fields(tuple(sorted(checked.unknown)) if kind.type is dict else checked.unknown)
    faults = [*decoded.duplicates[:MAX_WARNINGS], *unknown]
    if decoded.duplicates and unknown and kind.type is not dict:
        faults = in_order(request.body, faults)
    if faults and options.field_validation == "Strict":
        raise bad_request(_explain_refusal(document, kind, f"strict decoding error: {_join_sentences(faults)}"))
    if options.field_validation == "Warn":
        warnings += faults
    _require_sound(document, checked, kind)
    return _convert_document(checked.value, kind)


def check_patched(
    document: Document,
    view: View,
    options: WriteOptions,
    warnings: list[str],
    faults: Sequence[str] = (),
    stored: Document | None = None,
) -> Document:
    """Return a patched object without unknown fields, and add warnings about them. Raises `ApiError` (400, 422).

    warnings: the list to which the function adds, if the request's field validation is Warn.
    faults: messages about the unknown and repeated fields of the patch itself.
    stored: the object before the patch. Parts that the patched object shares with it are not checked again.
    """
    kind = view.kind
    require_kind(document, kind)
    try:
        checked = view.checker(document, sound_parts(stored) if stored is not None else frozenset())
    except DecodeError as error:
        raise _make_patch_error(document, str(error)) from None
    all_faults = [*faults, *_describe_unknown_fields(checked.unknown)]
    if all_faults and options.field_validation == "Strict":
        raise _make_patch_error(document, f"strict decoding error: {_join_sentences(all_faults)}")
    if options.field_validation == "Warn":
        warnings += all_faults
    _require_sound(document, checked, kind)
    return _convert_document(checked.value, kind)


def faults_of_patch(patch: Any, repeated: tuple[str, ...], *, operations: bool) -> list[str]:
    """Return the messages about the repeated members of a patch, then about unknown members of its operations.

    repeated: the messages about repeated members.
    operations: whether the patch is a JSON patch. Only its operations are searched for unknown members.
    """
    faults = list(repeated[:MAX_WARNINGS])
    if not operations:
        return faults
    if isinstance(patch, list):
        members = [(i, name) for i, each in enumerate(patch) if isinstance(each, dict) for name in each]
        unknown = [f"[{i}].{name}" for i, name in members if name not in _OPERATION]
        faults += _describe_unknown_fields(tuple(unknown))
    return [f"json patch {sentence}" for sentence in faults]


# The members of an operation of a JSON patch.
_OPERATION = frozenset({"op", "path", "from", "value"})


def _require_sound(document: Document, checked: Checked, kind: Kind[object]) -> None:
    """Raise `ApiError` (422) if the check of a document against its schema found errors."""
    if checked.errors:
        name = str((document.get("metadata") or {}).get("name", ""))
        raise invalid(kind.kind, kind.group, name, checked.errors)


def _make_patch_error(document: Document, why: str) -> ApiError:
    text = msgspec.json.encode(document).decode()
    shown = text if len(text) <= _SHOWN_PATCH else text[:_SHOWN_PATCH] + "..."
    return invalid("", "", "", [FieldError("patch", INVALID, shown, why)])


def require_kind(document: Document, kind: Kind[object]) -> None:
    """Raise `ApiError` (400) unless the document is of this kind. Only a custom resource must name kind and version."""
    custom = kind.type is dict
    if custom and not document.get("kind"):
        message = f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        raise bad_request(message)
    version = document.get("apiVersion") or ("" if custom else kind.api_version)
    if version != kind.api_version:
        message = (
            f"the API version in the data ({_format_value(version)}) does not match the expected API version "
            f"({kind.api_version})"
        )
        raise bad_request(message)
    name = document.get("kind") or kind.kind
    if name != kind.kind:
        why = f"converting ({version.rpartition('/')[2]}.{_format_value(name)}) to {kind.kind}: unknown conversion"
        raise bad_request(_explain_refusal(document, kind, why))


def _convert_document(document: Document, kind: Kind[object]) -> Document:
    if document.get("apiVersion") and document.get("kind"):
        return document
    return {"apiVersion": kind.api_version, "kind": kind.kind} | {
        name: value for name, value in document.items() if name not in ("apiVersion", "kind")
    }


def _explain_refusal(document: Document, kind: Kind[object], why: str) -> str:
    name = _format_value(document.get("kind") or kind.kind)
    return f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def _describe_unknown_fields(paths: tuple[str, ...]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths[:MAX_WARNINGS]]


def _join_sentences(faults: Sequence[str]) -> str:
    """Return all messages as one. Messages of the YAML parser, which name lines, come first as one block."""
    lines = [f"  {fault}" for fault in faults if fault.startswith("line ")]
    others = [fault for fault in faults if not fault.startswith("line ")]
    return ", ".join(["\n".join(["yaml: unmarshal errors:", *lines]), *others] if lines else others)


def _format_value(value: object) -> str:
    return str(value)[:100]
