"""Makes the patch that turns an object into its manifest, for `muster apply`. Pure."""

import json
from typing import Any

# kubectl's own annotation, so that kubectl and Muster can apply the same manifests in turn.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def annotated(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest with a copy of itself in an annotation.

    The next apply reads the copy to find the fields to remove.
    """
    metadata = manifest["metadata"]
    own = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    plain = manifest | {"metadata": metadata | ({"annotations": own} if own else {})}
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True) + "\n"
    return manifest | {"metadata": metadata | {"annotations": own | {LAST_APPLIED: text}}}


def change(current: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the merge patch from the current object to the manifest.

    Fields that only the last manifest has are removed; fields that others set stay.
    """
    text = (current.get("metadata", {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else {}
    except ValueError:  # the text of another program does not say which fields to remove
        last = {}
    patch: dict[str, Any] = _make_patch(last if isinstance(last, dict) else {}, current, annotated(manifest))
    for identity in ("apiVersion", "kind", "status"):
        patch.pop(identity, None)
    return patch


def _make_patch(last: dict[str, Any], current: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in last if key not in wanted and key in current}
    for key, value in wanted.items():
        there = current.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            before = last.get(key)
            inner = _make_patch(before if isinstance(before, dict) else {}, there, value)
            if inner:
                patch[key] = inner
        elif value != there and not (value == last.get(key) and _matches(there, value)):
            patch[key] = value
    return patch


def _matches(there: Any, wanted: Any) -> bool:
    """Return whether the current value has all that is wanted, possibly with the server's additions inside a list."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        return all(key in there and _matches(there[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(there, list) and any(isinstance(item, dict) for item in wanted):
        return len(wanted) == len(there) and all(map(_matches, there, wanted))
    return bool(wanted == there)
