"""JSON merge patch (RFC 7386): a present member replaces, `null` removes, and objects merge."""

from typing import Any

from muster.api.status import bad_request


def apply(document: dict[str, Any], patch: Any) -> dict[str, Any]:
    """Return the document with the patch merged into it.

    patch: a patch that nests no deeper than `decode` allows for bodies.

    Raises:
        ApiError: 400, because the patch is no object.
    """
    if not isinstance(patch, dict):
        raise bad_request("Invalid JSON Patch")
    return _merge_object(document, patch)


def _merge_object(target: Any, patch: dict[str, Any]) -> dict[str, Any]:
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merge_object(result.get(key), value)
        else:
            result[key] = value
    return result
