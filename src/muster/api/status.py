"""Words the API server's refusals: `Status` objects, in its own wording.

`ApiError` carries one. The server raises it and encodes it; the client decodes it and raises it: one type on both
sides of the wire. Code tells errors apart by `reason` (the machine word), people read `message`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.meta import ListMeta, Struct


class StatusCause(Struct):
    """One field that was wrong, and how."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    """What the status is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct):
    """The body of every answer that is not an object."""

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(Exception):
    """A request was refused; `status` says why in the API server's words."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The machine word: NotFound, AlreadyExists, Conflict, Invalid, Expired, ..."""
        return self.status.reason

    @property
    def namespace_goes(self) -> bool:
        """Whether nothing new may be created because the namespace is being deleted."""
        causes = self.status.details.causes if self.status.details is not None else ()
        return any(cause.reason == "NamespaceTerminating" for cause in causes)


# For errors about a value that is too big, or too secret, to be repeated.
NO_VALUE: Final = ("<no value>",)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One rule that a field of a manifest breaks. `str()` is the API server's own sentence."""

    path: str  # spec.template.spec.containers[0].name
    type: str  # one of the words below
    value: Any = None
    detail: str = ""
    place: str = field(default="", compare=False)  # where that is, if the path does not say it

    def __str__(self) -> str:
        return f"{self.path}: {self.body}" if self.path else self.body

    @property
    def body(self) -> str:
        """The sentence without the path."""
        head = self.type
        if self.type in _TYPES_WITH_VALUE and self.value is not NO_VALUE:
            head += f": {_show(self.value)}"
        return f"{head}: {self.detail}" if self.detail else head


# The words of k8s.io/apimachinery/pkg/util/validation/field, with the reason that goes into a StatusCause.
REQUIRED = "Required value"
DUPLICATE = "Duplicate value"
INVALID = "Invalid value"
NOT_SUPPORTED = "Unsupported value"
FORBIDDEN = "Forbidden"
TOO_LONG = "Too long"
TOO_MANY = "Too many"
NOT_FOUND = "Not found"
INTERNAL = "Internal error"

CAUSE_REASONS = {
    REQUIRED: "FieldValueRequired",
    DUPLICATE: "FieldValueDuplicate",
    INVALID: "FieldValueInvalid",
    NOT_SUPPORTED: "FieldValueNotSupported",
    FORBIDDEN: "FieldValueForbidden",
    TOO_LONG: "FieldValueTooLong",
    TOO_MANY: "FieldValueTooMany",
    NOT_FOUND: "FieldValueNotFound",
    INTERNAL: "InternalError",
}
_TYPES_WITH_VALUE = {DUPLICATE, INVALID, NOT_SUPPORTED, NOT_FOUND, TOO_MANY}


def _show(value: Any) -> str:

    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _failure(code: int, reason: str, message: str, details: StatusDetails | None = None) -> ApiError:
    return ApiError(Status(status="Failure", code=code, reason=reason, message=message, details=details))


def bad_request(message: str) -> ApiError:
    """Return a 400: the request itself makes no sense."""
    return _failure(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Return a 401: no credential, or an unknown one."""
    return _failure(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, *, resource: str = "", name: str = "") -> ApiError:
    """Return a 403: the user is known, but not allowed."""
    plural, _, group = resource.partition(".")
    return _failure(403, "Forbidden", message, StatusDetails(name=name, group=group, kind=plural))


def not_found(resource: str, name: str) -> ApiError:
    """Return a 404 for an object. `resource` is `pods` or `jobs.batch`."""
    plural, _, group = resource.partition(".")
    return _failure(
        404, "NotFound", f'{resource} "{name}" not found', StatusDetails(name=name, group=group, kind=plural)
    )


def path_not_found() -> ApiError:
    """Return a 404 for a path that no resource answers."""
    # Clients look into the details without asking whether there are any (kubectl debug).
    return _failure(404, "NotFound", "the server could not find the requested resource", StatusDetails())


_NO_METHOD = "the server does not allow this method on the requested resource"


def method_not_allowed() -> ApiError:
    """Return a 405: the resource has no such verb."""
    return _failure(405, "MethodNotAllowed", _NO_METHOD, StatusDetails())


def already_exists(resource: str, name: str) -> ApiError:
    """Return a 409 on create."""
    plural, _, group = resource.partition(".")
    details = StatusDetails(name=name, group=group, kind=plural)
    return _failure(409, "AlreadyExists", f'{resource} "{name}" already exists', details)


OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, name: str, message: str = OPTIMISTIC_LOCK) -> ApiError:
    """Return a 409 on update: the object has changed since the client read it."""
    plural, _, group = resource.partition(".")
    details = StatusDetails(name=name, group=group, kind=plural)
    return _failure(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {message}', details)


def expired(message: str) -> ApiError:
    """Return a 410: the requested revision is no longer kept."""
    return _failure(410, "Expired", message)


def unsupported_media_type(message: str) -> ApiError:
    """Return a 415: the type of the body or patch is none that we read."""
    return _failure(415, "UnsupportedMediaType", message)


def not_acceptable(message: str) -> ApiError:
    """Return a 406: none of the types that the client accepts is one that we write."""
    return _failure(406, "NotAcceptable", message)


def too_large(message: str) -> ApiError:
    """Return a 413: the body is over the limit."""
    return _failure(413, "RequestEntityTooLarge", message)


class OfWebhook(list[FieldError]):
    """What rules say that upstream has in a webhook of Kueue's: the answer is that of the webhook."""


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return a 422: the manifest breaks rules; every one is a cause. `kind` is `Job`, `group` is `batch`."""
    causes = tuple(StatusCause(reason=CAUSE_REASONS[e.type], message=e.body, field=e.path) for e in errors)
    full = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind, causes=causes)
    return _failure(422, "Invalid", f'{full} "{name}" is invalid: {together(errors)}', details)


def denied(kind: str, errors: Sequence[FieldError]) -> ApiError:
    """Return a 403, as Kueue's validating webhook of a kind (`Job`) words it."""
    text = f'admission webhook "v{kind.lower()}.kb.io" denied the request: {together(errors)}'
    return _failure(403, "Forbidden", text)


def together(errors: Sequence[FieldError]) -> str:
    """Return all errors in one sentence, as upstream aggregates them."""
    sentences = list(dict.fromkeys(str(e) for e in errors))
    return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


def too_many_requests(message: str, retry_after_seconds: int) -> ApiError:
    """Return a 429: come back later."""
    return _failure(429, "TooManyRequests", message, StatusDetails(retry_after_seconds=retry_after_seconds))


def internal_error(message: str) -> ApiError:
    """Return a 500: our fault."""
    return _failure(500, "InternalError", f"Internal error occurred: {message}")


def unavailable(message: str) -> ApiError:
    """Return a 503: not now."""
    return _failure(503, "ServiceUnavailable", message)
