"""The object in a request's body: of the right kind, of the right form, with the unknown said.

How strict that is, the request says (`fieldValidation`): unknown and repeated fields are dropped always, and refused,
warned of or passed over.
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
    """The object that is to be written. Raises `ApiError`: 400, 413, 415."""
    kind = view.kind
    decoded = decode(request.body, request.content_type, kind.kind, strict=options.field_validation != "Ignore")
    document = decoded.document
    require_kind(document, kind)
    try:
        checked = view.checker(document)
    except DecodeError as error:
        raise bad_request(_cannot(document, kind, str(error))) from None
    # Of kinds that have a type, decoding comes upon all of it in the order of the document.
    unknown = _unknown(tuple(sorted(checked.unknown)) if kind.type is dict else checked.unknown)
    found = [*decoded.duplicates[:MAX_WARNINGS], *unknown]
    if decoded.duplicates and unknown and kind.type is not dict:
        found = in_order(request.body, found)
    if found and options.field_validation == "Strict":
        raise bad_request(_cannot(document, kind, f"strict decoding error: {_together(found)}"))
    if options.field_validation == "Warn":
        warnings += found
    _require_sound(document, checked, kind)
    return _typed(checked.value, kind)


def check_patched(
    document: Document,
    view: View,
    options: WriteOptions,
    warnings: list[str],
    faults: Sequence[str] = (),
    stored: Document | None = None,
) -> Document:
    """An object that a patch has made, with what it may not have taken out. Raises `ApiError` (400, 422).

    faults: those of the patch itself. stored: what was patched; parts that are its very own have been checked before.
    """
    kind = view.kind
    require_kind(document, kind)
    try:
        checked = view.checker(document, sound_parts(stored) if stored is not None else frozenset())
    except DecodeError as error:
        raise _bad_patch(document, str(error)) from None
    found = [*faults, *_unknown(checked.unknown)]
    if found and options.field_validation == "Strict":
        raise _bad_patch(document, f"strict decoding error: {_together(found)}")
    if options.field_validation == "Warn":
        warnings += found
    _require_sound(document, checked, kind)
    return _typed(checked.value, kind)


def faults_of_patch(patch: Any, repeated: tuple[str, ...], *, operations: bool) -> list[str]:
    """What strict decoding finds in a patch: members that are there twice (`repeated` says so), and of operations
    unknown ones.
    """
    found = list(repeated[:MAX_WARNINGS])
    if not operations:
        return found
    if isinstance(patch, list):
        members = [(i, name) for i, each in enumerate(patch) if isinstance(each, dict) for name in each]
        unknown = [f"[{i}].{name}" for i, name in members if name not in _OPERATION]
        found += _unknown(tuple(unknown))
    return [f"json patch {sentence}" for sentence in found]


# The members of an operation of a JSON patch.
_OPERATION = frozenset({"op", "path", "from", "value"})


def _require_sound(document: Document, checked: Checked, kind: Kind[object]) -> None:
    """Raise `ApiError` (422) if the document breaks rules of its schema."""
    if checked.errors:
        name = str((document.get("metadata") or {}).get("name", ""))
        raise invalid(kind.kind, kind.group, name, checked.errors)


def _bad_patch(document: Document, why: str) -> ApiError:
    text = msgspec.json.encode(document).decode()
    shown = text if len(text) <= _SHOWN_PATCH else text[:_SHOWN_PATCH] + "..."
    return invalid("", "", "", [FieldError("patch", INVALID, shown, why)])


def require_kind(document: Document, kind: Kind[object]) -> None:
    """Raise `ApiError` (400) unless the object says that it is of this kind; of one with a type, it may say nothing."""
    custom = kind.type is dict
    if custom and not document.get("kind"):
        message = f"the object provided is unrecognized (must be of type {kind.kind}): Object 'Kind' is missing"
        raise bad_request(message)
    version = document.get("apiVersion") or ("" if custom else kind.api_version)
    if version != kind.api_version:
        message = (
            f"the API version in the data ({_shown(version)}) does not match the expected API version "
            f"({kind.api_version})"
        )
        raise bad_request(message)
    name = document.get("kind") or kind.kind
    if name != kind.kind:
        why = f"converting ({version.rpartition('/')[2]}.{_shown(name)}) to {kind.kind}: unknown conversion"
        raise bad_request(_cannot(document, kind, why))


def _typed(document: Document, kind: Kind[object]) -> Document:
    if document.get("apiVersion") and document.get("kind"):
        return document
    return {"apiVersion": kind.api_version, "kind": kind.kind} | {
        name: value for name, value in document.items() if name not in ("apiVersion", "kind")
    }


def _cannot(document: Document, kind: Kind[object], why: str) -> str:
    name = _shown(document.get("kind") or kind.kind)
    return f'{name} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def _unknown(paths: tuple[str, ...]) -> list[str]:
    return [f'unknown field "{path}"' for path in paths[:MAX_WARNINGS]]


def _together(faults: Sequence[str]) -> str:
    """The sentences as one; those that name lines are what the YAML parser says, all together."""
    lines = [f"  {fault}" for fault in faults if fault.startswith("line ")]
    others = [fault for fault in faults if not fault.startswith("line ")]
    return ", ".join(["\n".join(["yaml: unmarshal errors:", *lines]), *others] if lines else others)


def _shown(value: object) -> str:
    return str(value)[:100]
