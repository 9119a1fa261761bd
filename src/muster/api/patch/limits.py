"""Limits the cost of a patch, and words its refusals.

The limits of operations and copied bytes are kube-apiserver's; the limit of depth keeps recursion over a document
within the interpreter's stack.
"""

from collections.abc import Collection
from typing import Any

from muster.api.status import ApiError, Status, StatusDetails, bad_request

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
# Deeper than any real manifest (a Pod has some 12 levels, a CRD with nested schemas some 60).
MAX_DEPTH = 200

# What has a depth. A tuple: this is asked of every value in a document, and a union takes three times as long.
_CONTAINERS = (dict, list)

# A hostile path or key may be as long as the request: messages show its head.
_SHOWN_CHARACTERS = 200


def unprocessable(message: str) -> ApiError:
    """Return a 422: the patch is well-formed and cannot be applied to this document.

    kube-apiserver answers the first clause alone; the cause after it is what the user needs to know.
    """
    text = f"the server rejected our request due to an error in our request: {message}"
    return ApiError(Status(status="Failure", code=422, reason="Invalid", message=text, details=StatusDetails()))


def require_object(value: Any) -> dict[str, Any]:
    """Return the patched document, if it still is a JSON object."""
    if not isinstance(value, dict):
        raise unprocessable(f"the patched document is {kind_of(value)}, not an object")
    return value


def require_shallow(value: Any, what: str) -> None:
    """Raise 400 unless the value nests at most `MAX_DEPTH` levels; does not recurse."""
    level = [value]
    for _ in range(MAX_DEPTH):
        below = []
        for item in level:
            below += [child for child in _children(item) if isinstance(child, _CONTAINERS)]
        if not below:
            return
        level = below
    raise bad_request(f"the {what} nests deeper than {MAX_DEPTH} levels")


def size_of(value: Any) -> int:
    """Estimate how many bytes the value takes as JSON; does not recurse."""
    total = 0
    pending = [value]
    while pending:
        item = pending.pop()
        total += 2
        if isinstance(item, dict):
            total += sum(len(key) + 4 for key in item)
        elif isinstance(item, str):
            total += len(item)
        pending.extend(_children(item))
    return total


def kind_of(value: Any) -> str:
    """Return the JSON type of a value, for messages."""
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


def shown(text: str) -> str:
    """Return the text as an error message may carry it."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def _children(item: Any) -> Collection[Any]:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()
