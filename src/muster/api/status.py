"""The errors of the API server: `Status` objects in its own words.

`ApiError` has a `Status`. The server raises the error and encodes the status; the client decodes the status and raises
the same type. Code distinguishes errors by `reason`, and people read `message`.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from muster.api.meta import ListMeta, Struct


class StatusCause(Struct):
    """One invalid field, with the reason."""

    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    """The object that a Status is about, and the causes of the error."""

    name: str = ""
    group: str = ""
    kind: str = ""
    uid: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct):
    """The body of an error response, or of a successful response that returns no object."""

    metadata: ListMeta = ListMeta()
    status: str = ""
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None
    code: int = 0


class ApiError(Exception):
    """A request that the API server refuses. `status` has the reason in the API server's words."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status

    @property
    def code(self) -> int:
        """The HTTP status code."""
        return self.status.code

    @property
    def reason(self) -> str:
        """The reason for programs: NotFound, AlreadyExists, Conflict, Invalid, Expired, ..."""
        return self.status.reason

    @property
    def is_namespace_terminating(self) -> bool:
        """Whether the server refused to create the object because its namespace is being deleted."""
        causes = self.status.details.causes if self.status.details is not None else ()
        return any(cause.reason == "NamespaceTerminating" for cause in causes)


# The value of errors that must not repeat it, because it is too large or secret.
NO_VALUE: Final = ("<no value>",)


class FieldError(msgspec.Struct, frozen=True):
    """An invalid field of a manifest: its path, reason and message. `str()` is the API server's sentence."""

    path: str  # spec.template.spec.containers[0].name
    type: str  # one of the constants below
    value: Any = None
    detail: str = ""
    place: str = ""  # the place in the object, if the path is no path

    def __str__(self) -> str:
        return f"{self.path}: {self.body}" if self.path else self.body

    @property
    def body(self) -> str:
        """The message without the path."""
        head = self.type
        if self.type in _TYPES_WITH_VALUE and self.value is not NO_VALUE:
            head += f": {_show(self.value)}"
        return f"{head}: {self.detail}" if self.detail else head


# The types of errors of k8s.io/apimachinery/pkg/util/validation/field, with the reason in a StatusCause.
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
    import json  # few commands say what is wrong with a field

    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _make_failure(code: int, reason: str, message: str, details: StatusDetails | None = None) -> ApiError:
    return ApiError(Status(status="Failure", code=code, reason=reason, message=message, details=details))


def bad_request(message: str) -> ApiError:
    """Return the error 400 of an invalid request."""
    return _make_failure(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """Return the error 401 of a missing or unknown credential."""
    return _make_failure(401, "Unauthorized", "Unauthorized")


def forbidden(message: str, *, resource: str = "", name: str = "") -> ApiError:
    """Return the error 403 of a user without the right."""
    plural, _, group = resource.partition(".")
    return _make_failure(403, "Forbidden", message, StatusDetails(name=name, group=group, kind=plural))


def not_found(resource: str, name: str) -> ApiError:
    """Return the error 404 of a missing object.

    resource: the resource, such as `pods` or `jobs.batch`.
    """
    plural, _, group = resource.partition(".")
    return _make_failure(
        404, "NotFound", f'{resource} "{name}" not found', StatusDetails(name=name, group=group, kind=plural)
    )


def path_not_found() -> ApiError:
    """Return the error 404 of a path without a resource."""
    # Some clients read the details without checking that there are any (kubectl debug).
    return _make_failure(404, "NotFound", "the server could not find the requested resource", StatusDetails())


_NO_METHOD = "the server does not allow this method on the requested resource"


def method_not_allowed() -> ApiError:
    """Return the error 405 of a resource that has no such verb."""
    return _make_failure(405, "MethodNotAllowed", _NO_METHOD, StatusDetails())


def already_exists(resource: str, name: str) -> ApiError:
    """Return the error 409 of a request to create an object that exists already."""
    plural, _, group = resource.partition(".")
    details = StatusDetails(name=name, group=group, kind=plural)
    return _make_failure(409, "AlreadyExists", f'{resource} "{name}" already exists', details)


OPTIMISTIC_LOCK = "the object has been modified; please apply your changes to the latest version and try again"

ANOTHER_OBJECT = "another object has the name now"


def conflict(resource: str, name: str, message: str = OPTIMISTIC_LOCK) -> ApiError:
    """Return the error 409 of an update whose object changed since the client read it."""
    plural, _, group = resource.partition(".")
    details = StatusDetails(name=name, group=group, kind=plural)
    return _make_failure(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {message}', details)


def require_uid(resource: str, name: str, uid: str, expected_uid: str) -> None:
    """Raise `ApiError` (409) unless the object of this name has the UID that the caller means.

    uid: the UID of the object.
    expected_uid: the UID that the caller means; "" for any.
    """
    if expected_uid not in ("", uid):
        raise conflict(resource, name, ANOTHER_OBJECT)


def expired(message: str) -> ApiError:
    """Return the error 410 of a request for a revision that is no longer available."""
    return _make_failure(410, "Expired", message)


def unsupported_media_type(message: str) -> ApiError:
    """Return the error 415 of a body or patch of an unsupported media type."""
    return _make_failure(415, "UnsupportedMediaType", message)


def not_acceptable() -> ApiError:
    """Return the error 406 of a client that accepts no supported media type."""
    return _make_failure(406, "NotAcceptable", "only the following media types are accepted: application/json")


def too_large(message: str) -> ApiError:
    """Return the error 413 of a body that exceeds the limit."""
    return _make_failure(413, "RequestEntityTooLarge", message)


class OfWebhook(list[FieldError]):
    """The errors that upstream finds in a webhook of Kueue, so that the response must have the form of a webhook's."""


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """Return the error 422 of a manifest that breaks rules. Each rule is a cause.

    kind, group: the kind of the object, such as `Job` and `batch`.
    """
    causes = tuple(StatusCause(reason=CAUSE_REASONS[e.type], message=e.body, field=e.path) for e in errors)
    full = f"{kind}.{group}" if group else kind
    details = StatusDetails(name=name, group=group, kind=kind, causes=causes)
    return _make_failure(422, "Invalid", f'{full} "{name}" is invalid: {join_errors(errors)}', details)


def denied(kind: str, errors: Sequence[FieldError]) -> ApiError:
    """Return the error 403 in the words of Kueue's validating webhook of a kind (`Job`)."""
    text = f'admission webhook "v{kind.lower()}.kb.io" denied the request: {join_errors(errors)}'
    return _make_failure(403, "Forbidden", text)


def join_errors(errors: Sequence[FieldError]) -> str:
    """Return one sentence with all errors, as upstream aggregates them."""
    sentences = list(dict.fromkeys(str(e) for e in errors))
    return sentences[0] if len(sentences) == 1 else f"[{', '.join(sentences)}]"


def too_many_requests(message: str, retry_after_seconds: int) -> ApiError:
    """Return the error 429 of a client that must retry later."""
    return _make_failure(429, "TooManyRequests", message, StatusDetails(retry_after_seconds=retry_after_seconds))


def internal_error(message: str) -> ApiError:
    """Return the error 500 of a fault of the server."""
    return _make_failure(500, "InternalError", f"Internal error occurred: {message}")


def unavailable(message: str) -> ApiError:
    """Return the error 503 of a server that is unavailable now."""
    return _make_failure(503, "ServiceUnavailable", message)
