"""Build the `AdmissionReview` for a webhook, and read the webhook's response. Pure.

A webhook is not trusted, so every response is checked. The messages about invalid responses are kube-apiserver's
(k8s.io/apiserver, admission/plugin/webhook/request).
"""

from typing import Any

import msgspec

from muster.api.core import NAMESPACE
from muster.api.kinds import Kind
from muster.api.markers import Base64
from muster.api.meta import DeleteOptions, Struct
from muster.api.status import ApiError, Status
from muster.cluster.apiserver.admission.chain import WriteAttempt
from muster.cluster.apiserver.decode import Document
from muster.cluster.apiserver.identity.users import user_info
from muster.cluster.apiserver.registry.resources import Resource, View
from muster.cluster.apiserver.request.requestinfo import WriteOptions

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")


class ReviewError(ValueError):
    """A webhook's response that cannot be used. The message is kube-apiserver's."""


class _Response(Struct):
    uid: str = ""
    allowed: bool = False
    status: Status | None = None
    patch: Base64 = b""
    patch_type: str | None = None
    audit_annotations: dict[str, str] = {}  # noqa: RUF012  (msgspec gives every object its own)
    warnings: tuple[str, ...] = ()


class _Review(Struct):
    api_version: str = ""
    kind: str = ""
    response: _Response | None = None


class WebhookDecision(msgspec.Struct, frozen=True):
    """The decision in a webhook's response, with its JSON patch, warnings and audit annotations."""

    allowed: bool
    status: Status | None = None
    operations: list[Any] | None = None  # a JSON patch
    warnings: tuple[str, ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()  # for the audit log


def make_review(
    attempt: WriteAttempt,
    seen: Resource,
    view: View,
    new: Document | None,
    old: Document | None,
    uid: str,
    version: str,
) -> Document:
    """Return the review to send to a webhook.

    seen, view: the resource and view in which the webhook gets the objects.
    new, old: the objects in that view; None if an object does not exist.
    """
    asked = attempt.resource.kind
    request: Document = {
        "uid": uid,
        "kind": view.kind.names,
        "resource": _make_resource(seen.kind),
        "requestKind": attempt.view.kind.names,
        "requestResource": _make_resource(asked),
        "operation": attempt.operation,
        "userInfo": user_info(attempt.user),
        "object": new,
        "oldObject": old,
        "dryRun": is_dry_run(attempt),
        "options": options_of(attempt),
    }
    if attempt.subresource:
        request |= {"subResource": attempt.subresource, "requestSubResource": attempt.subresource}
    if attempt.name:
        request["name"] = attempt.name
    # As upstream, the namespace of a Namespace is the Namespace itself.
    namespace = attempt.name if attempt.resource.key == NAMESPACE.resource else attempt.namespace
    if namespace:
        request["namespace"] = namespace
    return {"kind": "AdmissionReview", "apiVersion": f"{GROUP}/{version}", "request": request}


def is_dry_run(attempt: WriteAttempt) -> bool:
    """Return whether the request is a dry run."""
    return bool(attempt.options.dry_run)


_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


def options_of(attempt: WriteAttempt) -> Document | None:
    """Return the options of the request as an object; None for a CONNECT."""
    kind = _OPTIONS.get(attempt.operation)
    if kind is None:
        return None
    head = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    options = attempt.options
    if isinstance(options, DeleteOptions):
        return head | msgspec.to_builtins(options)  # type: ignore[no-any-return]
    return head | _write_options(options)


def _write_options(options: WriteOptions) -> Document:
    members: Document = {"dryRun": ["All"]} if options.dry_run else {}
    if options.field_manager:
        members["fieldManager"] = options.field_manager
    return members | {"fieldValidation": options.field_validation}


def _make_resource(kind: Kind[Any]) -> Document:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def version_for(understood: tuple[str, ...]) -> str:
    """Return the first version of AdmissionReview in the webhook's list that the server knows. Raises `ReviewError`."""
    for version in understood:
        if version in VERSIONS:
            return version
    raise ReviewError(f"webhook does not accept known AdmissionReview versions ({', '.join(VERSIONS)})")


def read_answer(body: bytes, uid: str, version: str, *, may_change: bool) -> WebhookDecision:
    """Return the decision in the body of a webhook's response.

    Raises `ReviewError` for a malformed response, or a response to another review.

    may_change: whether the webhook may patch the object.
    """
    try:
        review = Kind(GROUP, version, "AdmissionReview", "", _Review).decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReviewError(f"received invalid webhook response: {error}") from None
    expected, got = (f"{GROUP}/{version}", "AdmissionReview"), (review.api_version, review.kind)
    if got != expected and (version == "v1" or got != ("", "")):
        raise ReviewError(
            f"received invalid webhook response: expected webhook response of {_make_gvk(expected)}, "
            f"got {_make_gvk(got)}"
        )
    response = review.response
    if response is None:
        raise ReviewError("received invalid webhook response: webhook response was absent")
    if version == "v1":
        _require_v1(response, uid, may_change=may_change)
    return WebhookDecision(
        response.allowed,
        response.status,
        _read_operations(response) if may_change and response.allowed else None,
        response.warnings,
        tuple(sorted(response.audit_annotations.items())),
    )


def _make_gvk(names: tuple[str, str]) -> str:
    return f"{names[0]}, Kind={names[1]}"


def _require_v1(response: _Response, uid: str, *, may_change: bool) -> None:
    problem = ""
    if response.uid != uid:
        problem = f'expected response.uid="{uid}", got "{response.uid[:100]}"'
    elif not may_change:
        if response.patch:
            problem = "validating webhook may not return response.patch"
        elif response.patch_type is not None:
            problem = "validating webhook may not return response.patchType"
    elif response.patch and response.patch_type is None:
        problem = "webhook returned response.patch but not response.patchType"
    elif response.patch_type is not None and not response.patch:
        problem = "webhook returned response.patchType but not response.patch"
    elif response.patch_type == "":
        problem = 'webhook returned invalid response.patchType of ""'
    if problem:
        raise ReviewError(f"received invalid webhook response: {problem}")


def _read_operations(response: _Response) -> list[Any] | None:
    if not response.patch:
        return None
    if response.patch_type not in (None, "JSONPatch"):
        raise ReviewError(f'unsupported patch type "{response.patch_type}"')
    try:
        operations = msgspec.json.decode(response.patch)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ReviewError(f"received invalid webhook response: the patch cannot be read: {error}") from None
    if not isinstance(operations, list):
        raise ReviewError("received invalid webhook response: the patch is no list of operations")
    return operations or None


def make_denial(name: str, status: Status | None) -> ApiError:
    """Return the error by which a webhook refuses a write. If the webhook's status is a success, correct it."""
    requested = status or Status()
    denied = f'admission webhook "{name}" denied the request'
    why = requested.message or requested.reason
    return ApiError(
        msgspec.structs.replace(
            requested,
            code=requested.code if 400 <= requested.code < 600 else 400,
            status="Failure" if requested.status in ("", "Success") else requested.status,
            message=f"{denied}: {why}" if why else f"{denied} without explanation",
        )
    )
