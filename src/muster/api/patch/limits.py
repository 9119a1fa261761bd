"""The limits of the cost of a patch, and the errors of patches.

The limits of operations and copied bytes are kube-apiserver's. The limit of depth keeps recursion over a document
within the interpreter's stack.
"""

from collections.abc import Collection
from typing import Any

from muster.api.status import ApiError, Status, StatusDetails, bad_request

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
# Deeper than any real manifest (a Pod has some 12 levels, a CRD with nested schemas some 60).
MAX_DEPTH = 200

# The types with a depth. A tuple, because the check runs for every value, and a union takes three times as long.
_CONTAINERS = (dict, list)

# A hostile path or key may be as long as the request, so messages show only its beginning.
_SHOWN_CHARACTERS = 200


def unprocessable(message: str) -> ApiError:
    """Return the error 422 of a well-formed patch that cannot be applied to the document.

    The message begins with kube-apiserver's sentence, and adds the cause.
    """
    text = f"the server rejected our request due to an error in our request: {message}"
    return ApiError(Status(status="Failure", code=422, reason="Invalid", message=text, details=StatusDetails()))


def require_object(value: Any) -> dict[str, Any]:
    """Return the patched document if it is still a JSON object; otherwise raise `ApiError` (422)."""
    if not isinstance(value, dict):
        raise unprocessable(f"the patched document is {kind_of(value)}, not an object")
    return value


def require_shallow(value: Any, what: str) -> None:
    """Require that a value nests at most `MAX_DEPTH` levels, without recursion.

    Raises:
        ApiError: 400, because it nests deeper.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        below = []
        for item in level:
            below += [child for child in _list_children(item) if isinstance(child, _CONTAINERS)]
        if not below:
            return
        level = below
    raise bad_request(f"the {what} nests deeper than {MAX_DEPTH} levels")


def size_of(value: Any) -> int:
    """Estimate how many bytes the value takes as JSON, without recursion."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        total += 2
        if isinstance(item, dict):
            total += sum(len(key) + 4 for key in item)
        elif isinstance(item, str):
            total += len(item)
        pending.extend(_list_children(item))
    return total


def kind_of(value: Any) -> str:
    """Return the name of a value's JSON type, for messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"


def shorten_text(text: str) -> str:
    """Return a text for an error message, shortened if it is too long."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _list_children(item: Any) -> Collection[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()
